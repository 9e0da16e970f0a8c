package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxProblems is how many errors one run names. Who has more than that is
// better served by mending these first.
const maxProblems = 20

// Problem is one thing that is wrong, or odd, in a policy file.
type Problem struct {
	File string
	Line int    // counted from 1
	Text string // what is wrong; what would be right
}

// String returns the problem as compilers print theirs, so that editors can
// jump to it.
func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text) }

// Errors is why a policy file was refused.
type Errors struct {
	Problems []Problem // by line, at least one, at most 20
	More     int       // how many further ones are not named
}

// Error returns one line for each problem.
func (e *Errors) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\n%s: and %d more; mend these first", e.Problems[0].File, e.More)
	}
	return b.String()
}

// problems gathers what is wrong with one file, in any order.
type problems struct {
	file string
	list []Problem
}

func (p *problems) add(line int, format string, args ...any) {
	p.list = append(p.list, Problem{File: p.file, Line: line, Text: fmt.Sprintf(format, args...)})
}

// sorted returns the problems by line; those of one line as they were found.
func (p *problems) sorted() []Problem {
	slices.SortStableFunc(p.list, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return p.list
}

// shown returns the first problems, and in place of the others one that counts
// them.
func (p *problems) shown() []Problem {
	list := p.sorted()
	if len(list) <= maxProblems {
		return list
	}
	p.list = list[:maxProblems:maxProblems]
	p.add(list[maxProblems].Line, "%d more from here on", len(list)-maxProblems)
	return p.list
}

// err returns the problems as an error, nil if there are none.
func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	list := p.sorted()
	shown := min(len(list), maxProblems)
	return &Errors{Problems: list[:shown:shown], More: len(list) - shown}
}

// mostShown is how many bytes of the file a message shows at once.
const mostShown = 120

// inQuotes shows text of a file or a request in a message, on one line and not
// too long.
func inQuotes(s string) string {
	if len(s) > mostShown {
		return strconv.Quote(strings.ToValidUTF8(s[:mostShown], "")) + "…"
	}
	return strconv.Quote(s)
}

// oneLine shows a text of the YAML library in a message, which may hold pieces
// of the file.
func oneLine(s string) string {
	var b strings.Builder
	for _, c := range s {
		if b.Len() > mostShown {
			b.WriteRune('…')
			break
		}
		if unicode.IsPrint(c) {
			b.WriteRune(c)
		} else {
			escaped := strconv.QuoteRune(c)
			b.WriteString(escaped[1 : len(escaped)-1])
		}
	}
	return b.String()
}

// nearest returns the candidate that name was probably meant to be. A bucket
// written without its placeholders is nearer than one with a slip.
func nearest(name string, candidates []string) (string, bool) {
	if len(name) > maxNameBytes {
		return "", false
	}
	best, found := min(3, len(name)/3)+1, ""
	for _, c := range candidates {
		d := distance(name, c, best)
		if strings.HasPrefix(c, name+"::") {
			d = 0
		}
		if d < best {
			best, found = d, c
		}
	}
	return found, found != ""
}

// distance returns how many bytes must be put in, left out or replaced to turn
// a into b, or enough once it is at least that.
func distance(a, b string, enough int) int {
	if len(a)-len(b) >= enough || len(b)-len(a) >= enough {
		return enough
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal, least := row[0], i+1
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
			least = min(least, d)
		}
		if least >= enough {
			return enough
		}
	}
	return min(row[len(b)], enough)
}
