package httpfront

import (
	"bufio"
	"bytes"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// dates keeps an answer's headers with nothing in them but the date, renewed
// once a second by whoever finds it old. fasthttp's own date needs a goroutine
// that never ends, and its setters ignore the header; reading one from text is
// the way in that it leaves open.
type dates struct{ current atomic.Pointer[datedHeader] }

type datedHeader struct {
	second int64
	header fasthttp.ResponseHeader
}

// set gives h the date, and drops whatever else it holds.
func (d *dates) set(h *fasthttp.ResponseHeader, now time.Time) {
	dated := d.current.Load()
	if dated == nil || dated.second != now.Unix() {
		fresh := &datedHeader{second: now.Unix()}
		h.CopyTo(&fresh.header) // for the server's settings, which it carries
		// A reason phrase would stay, whatever status is set later.
		text := now.UTC().AppendFormat([]byte("HTTP/1.1 200\r\nContent-Length: 0\r\nDate: "), http.TimeFormat)
		text = append(text, "\r\n\r\n"...)
		if err := fresh.header.Read(bufio.NewReader(bytes.NewReader(text))); err != nil {
			return // an answer without date is better than none
		}
		d.current.Store(fresh)
		dated = fresh
	}
	dated.header.CopyTo(h)
}
