package httpfront

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"
)

// newAdminServer returns the net/http server of the admin listener.
func (f *Front) newAdminServer(routes router) *http.Server {
	return &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serveAdmin(routes, w, r) }),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      2 * time.Minute, // a profile takes its time
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
	}
}

func (f *Front) serveAdmin(routes router, w http.ResponseWriter, r *http.Request) {
	if f.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	endpoint, name, p := routes.find(r.Method, r.URL.Path)
	if p == nil && endpoint.raw != nil {
		counted := &countedWriter{ResponseWriter: w, status: http.StatusOK}
		endpoint.raw.ServeHTTP(counted, r)
		f.metrics.answered(endpoint.path, counted.status)
		return
	}
	var a answer
	if p != nil {
		a = p.answer()
	} else {
		a = f.handleAdmin(endpoint, name, w, r)
	}
	f.metrics.answered(endpoint.path, a.status)
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	for _, extra := range a.headers {
		h.Add(extra.name, extra.value)
	}
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		w.Write(a.body) // a caller who left has nobody to be told
	}
}

func (f *Front) handleAdmin(e endpoint, name string, w http.ResponseWriter, r *http.Request) answer {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return (&problem{status: http.StatusRequestEntityTooLarge, detail: "the body is too large"}).answer()
	case err != nil:
		return (&problem{status: http.StatusBadRequest, detail: "the request could not be read"}).answer()
	}
	return e.handle(&request{
		context:         r.Context(),
		contentType:     r.Header.Get("Content-Type"),
		contentEncoding: r.Header.Get("Content-Encoding"),
		body:            body,
		name:            name,
	})
}

// countedWriter remembers the status that a library wrote.
type countedWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader writes the status and remembers it.
func (w *countedWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
