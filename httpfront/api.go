package httpfront

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"
)

// Bounds of one connection of the API listener.
const (
	maxHeaderBytes = 16 << 10
	maxBodyBytes   = 4 << 20 // a thousand requests with every value at its longest fit
	readTimeout    = 10 * time.Second
	writeTimeout   = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	idleWorker     = 200 * time.Millisecond // of a goroutine without connection; fasthttp's reaper outlives Close by as much
)

// newAPIServer returns the fasthttp server of the API. What fasthttp would
// answer by itself is a problem like any other.
func (f *Front) newAPIServer(routes router) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:                      func(ctx *fasthttp.RequestCtx) { f.serveAPI(routes, ctx) },
		ErrorHandler:                 f.serveAPIError,
		Logger:                       quietLogger{f},
		SecureErrorLogMessage:        true,
		NoDefaultServerHeader:        true,
		NoDefaultDate:                true, // its clock would be a goroutine that never ends
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true,
		CloseOnShutdown:              true,
		ReadBufferSize:               maxHeaderBytes,
		MaxRequestBodySize:           maxBodyBytes,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxIdleWorkerDuration:        idleWorker,
		Concurrency:                  math.MaxInt32, // limitedListener bounds connections; those just closed would count here still
	}
}

func (f *Front) serveAPI(routes router, ctx *fasthttp.RequestCtx) {
	endpoint, name, p := routes.find(string(ctx.Method()), string(ctx.Path()))
	misframed := framingProblem(&ctx.Request.Header)
	if misframed != nil {
		p = misframed
	}
	var a answer
	if p != nil {
		a = p.answer()
	} else {
		a = f.handle(endpoint, &request{
			context:         context.Background(), // fasthttp does not tell of a caller who leaves
			contentType:     string(ctx.Request.Header.ContentType()),
			contentEncoding: string(ctx.Request.Header.ContentEncoding()),
			body:            ctx.Request.Body(),
			name:            name,
		})
	}
	f.metrics.answered(endpoint.path, a.status)
	f.write(ctx, a)
	if misframed != nil || f.draining.Load() {
		ctx.SetConnectionClose()
	}
}

// handle calls the endpoint's handler. A panic there, which only a fault of weir
// itself can cause, is the end of one request, not of the node.
func (f *Front) handle(e endpoint, r *request) (a answer) {
	defer func() {
		if fault := recover(); fault != nil {
			f.log.Error("a handler panicked", "endpoint", e.path, "stack", string(debug.Stack()))
			a = (&problem{status: http.StatusInternalServerError, detail: "a fault of this node"}).answer()
		}
	}()
	return e.handle(r)
}

// framingProblem returns what is wrong if a request says both ways how long its
// body is, or has an encoding that does not tell. fasthttp picks one of the two,
// or takes the body for the next request; another reader before it may not.
func framingProblem(h *fasthttp.RequestHeader) *problem {
	var length, encoding bool
	for line := range bytes.SplitSeq(h.RawHeaders(), []byte("\n")) {
		name, _, _ := bytes.Cut(line, []byte(":"))
		name = bytes.TrimSpace(name)
		length = length || bytes.EqualFold(name, []byte("Content-Length"))
		encoding = encoding || bytes.EqualFold(name, []byte("Transfer-Encoding"))
	}
	switch {
	case encoding && length:
		return &problem{status: http.StatusBadRequest, detail: "Content-Length and Transfer-Encoding contradict each other"}
	case encoding && h.ContentLength() != -1: // which stands for chunked
		return &problem{status: http.StatusBadRequest, detail: "the only Transfer-Encoding is chunked"}
	}
	return nil
}

// serveAPIError answers a request that could not be read.
func (f *Front) serveAPIError(ctx *fasthttp.RequestCtx, err error) {
	p := &problem{status: http.StatusBadRequest, detail: "the request could not be read"}
	var small *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.As(err, &small):
		p = &problem{status: http.StatusRequestHeaderFieldsTooLarge, detail: fmt.Sprintf("more than %d bytes of headers", maxHeaderBytes)}
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		p = &problem{status: http.StatusRequestEntityTooLarge, detail: fmt.Sprintf("more than %d bytes of body", maxBodyBytes)}
	case errors.As(err, &network) && network.Timeout():
		p = &problem{status: http.StatusRequestTimeout, detail: "the request did not arrive in time"}
	}
	f.metrics.answered("", p.status)
	f.write(ctx, p.answer())
	ctx.SetConnectionClose()
}

func (f *Front) write(ctx *fasthttp.RequestCtx, a answer) {
	h := &ctx.Response.Header
	f.dates.set(h, time.Now())
	h.SetContentType(a.contentType)
	for _, extra := range a.headers {
		h.Add(extra.name, extra.value)
	}
	ctx.SetStatusCode(a.status)
	ctx.SetBody(a.body)
}

// quietLogger keeps what fasthttp logs, which may hold bytes of a request, out
// of the log: its errors are counted by their answers.
type quietLogger struct{ front *Front }

func (l quietLogger) Printf(string, ...any) {
	l.front.log.Debug("an API connection ended with an error")
}
