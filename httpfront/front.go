package httpfront

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"weir/cluster"
	"weir/policy"
	"weir/ring"
)

// Config says what a front serves.
type Config struct {
	Policy  *policy.Policy
	Keys    policy.Keys
	Cluster *cluster.Cluster
	Label   string             // the cluster's name
	Self    func() ring.Member // this node, as it tells the others
	Now     func() time.Time   // wall clock of X-RateLimit-Reset; default time.Now
	Log     *slog.Logger

	MaxConnections int // of the API listener; more are told to come back; default 16384
}

// Front serves both listeners of a node. It is made by [New]; what it serves is
// refused as not ready until [Front.SetReady].
type Front struct {
	policy  *policy.Policy
	keys    policy.Keys
	cluster *cluster.Cluster
	label   string
	self    func() ring.Member
	now     func() time.Time
	log     *slog.Logger
	texts   catalogue
	metrics *metrics
	dates   dates

	state   atomic.Uint32
	maxConn int
	api     *fasthttp.Server
	admin   *http.Server
	serving sync.WaitGroup
}

// The states of a front, in their order.
const (
	stateStarting uint32 = iota
	stateReady
	stateDraining // answers still, and asks every caller to reconnect elsewhere
)

// New returns a front that serves nothing yet.
func New(config Config) (*Front, error) {
	texts, err := loadCatalogue()
	if err != nil {
		return nil, err
	}
	f := &Front{
		policy:  config.Policy,
		keys:    config.Keys,
		cluster: config.Cluster,
		label:   config.Label,
		self:    config.Self,
		now:     config.Now,
		log:     config.Log,
		texts:   texts,
		maxConn: config.MaxConnections,
	}
	if f.now == nil {
		f.now = time.Now
	}
	if f.maxConn == 0 {
		f.maxConn = 16384
	}
	table := f.tableWithMetrics()
	f.api = f.newAPIServer(newRouter(table, onAPI))
	f.admin = f.newAdminServer(newRouter(table, onAdmin))
	return f, nil
}

// tableWithMetrics returns the endpoints, with counters for each.
func (f *Front) tableWithMetrics() []endpoint {
	f.metrics = newMetrics(f)
	table := f.endpoints()
	for _, e := range table {
		f.metrics.endpoint(e.path)
	}
	return table
}

// Serve starts serving the API and the admin listener, which the front closes.
func (f *Front) Serve(api, admin net.Listener) {
	f.serving.Go(func() {
		if err := f.api.Serve(&limitedListener{Listener: api, front: f}); err != nil {
			f.log.Error("API listener failed", "error", err)
		}
	})
	f.serving.Go(func() {
		if err := f.admin.Serve(admin); err != nil && !errors.Is(err, http.ErrServerClosed) {
			f.log.Error("admin listener failed", "error", err)
		}
	})
}

// SetReady lets decisions be asked.
func (f *Front) SetReady() { f.state.CompareAndSwap(stateStarting, stateReady) }

// Drain makes the front unready. It goes on answering, and closes each
// connection behind its answer.
func (f *Front) Drain() { f.state.Store(stateDraining) }

// Close closes both listeners, lets the requests under way end until the
// context is done, and waits until nothing of the front runs.
func (f *Front) Close(ctx context.Context) error {
	f.Drain()
	err := f.api.ShutdownWithContext(ctx)
	if adminErr := f.admin.Shutdown(ctx); adminErr != nil {
		f.admin.Close()
		err = errors.Join(err, adminErr)
	}
	f.serving.Wait()
	if err != nil {
		return fmt.Errorf("httpfront: close: %w", err)
	}
	return nil
}

func (f *Front) ready() bool    { return f.state.Load() != stateStarting }
func (f *Front) draining() bool { return f.state.Load() == stateDraining }

// healthz says that the process lives.
func (f *Front) healthz(*request) answer {
	return answer{status: http.StatusOK, contentType: typeText, body: []byte("ok\n")}
}

// readyz says whether traffic may be sent here. It depends on this node alone.
func (f *Front) readyz(*request) answer {
	switch f.state.Load() {
	case stateReady:
		return answer{status: http.StatusOK, contentType: typeText, body: []byte("ready\n")}
	case stateDraining:
		return (&problem{status: http.StatusServiceUnavailable, detail: "draining"}).answer()
	}
	return (&problem{status: http.StatusServiceUnavailable, detail: "joining"}).answer()
}

const typeText = "text/plain; charset=utf-8"
