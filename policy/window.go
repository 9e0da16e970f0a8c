package policy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/leaky"
)

// errDuration is wrapped by the error of ParseWindow for text that is no
// duration at all, in contrast to one that is out of range.
var errDuration = errors.New("not a duration")

// ParseWindow reads a window: a Go duration without sign, which may also count
// days ("366d", "1d12h"). It wraps leaky.ErrWindow if the window is not between
// 1ms and 366d.
func ParseWindow(s string) (time.Duration, error) {
	var total time.Duration
	if s == "" {
		return 0, fmt.Errorf("policy: %w: %q", errDuration, s)
	}
	for rest := s; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		number := rest[:digits]
		rest = rest[digits:]
		letters := strings.IndexAny(rest, "0123456789.")
		if letters < 0 {
			letters = len(rest)
		}
		unit, times := rest[:letters], time.Duration(1)
		rest = rest[letters:]
		if unit == "d" {
			unit, times = "h", 24
		}
		part, err := time.ParseDuration(number + unit)
		if !isPart(number, unit) {
			return 0, fmt.Errorf("policy: %w: %q", errDuration, s)
		}
		// Compared before it is multiplied and added: no sum can overflow.
		if err != nil || part > leaky.MaxWindow || part*times > leaky.MaxWindow-total {
			return 0, fmt.Errorf("policy: %w: %q is longer than 366d", leaky.ErrWindow, s)
		}
		total += part * times
	}
	if total < leaky.MinWindow {
		return 0, fmt.Errorf("policy: %w: %q is shorter than 1ms", leaky.ErrWindow, s)
	}
	return total, nil
}

// isPart reports whether a number and a unit are well formed. What is well
// formed and yet refused by time.ParseDuration has overflowed.
func isPart(number, unit string) bool {
	_, err := time.ParseDuration("1" + unit)
	return err == nil && unit != "" && strings.Trim(number, ".") != "" && strings.Count(number, ".") <= 1
}
