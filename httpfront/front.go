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
	Log     *slog.Logger       // default: none

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

	ready    atomic.Bool // decisions may be asked
	draining atomic.Bool // every caller is asked to reconnect elsewhere

	maxConn  int
	api      *fasthttp.Server
	admin    *http.Server
	accepted *limitedListener // what api serves; nil before Serve
	serving  sync.WaitGroup
	closing  sync.Once
	closeErr error
}

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
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
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
	f.accepted = &limitedListener{Listener: api, front: f, open: make(map[*countedConn]struct{})}
	f.serving.Go(func() {
		if err := f.api.Serve(f.accepted); err != nil {
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
func (f *Front) SetReady() { f.ready.Store(true) }

// Drain makes the front unready. It goes on answering as before, and closes
// each connection behind its answer.
func (f *Front) Drain() { f.draining.Store(true) }

// Close closes both listeners, gives the requests under way a second to end, or
// until the context is done, cuts off the others, and waits until nothing of the
// front runs. Called again, it returns what it returned.
func (f *Front) Close(ctx context.Context) error {
	f.closing.Do(func() { f.closeErr = f.close(ctx) })
	return f.closeErr
}

// endTimeout bounds how long a request may hold up the end: a profile, or one of
// which a half has come and the rest never does.
const endTimeout = time.Second

func (f *Front) close(ctx context.Context) error {
	f.Drain()
	var err error
	if f.accepted != nil {
		err = f.accepted.Close() // fasthttp closes it only if it has begun to serve it
	}
	ending, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	if ended := f.api.ShutdownWithContext(ending); !errors.Is(ended, context.DeadlineExceeded) {
		err = errors.Join(err, ended)
	}
	if f.admin.Shutdown(ending) != nil {
		err = errors.Join(err, f.admin.Close())
	}
	f.serving.Wait()
	if f.accepted != nil {
		f.accepted.cutOff()
	}
	if err != nil {
		return fmt.Errorf("httpfront: close: %w", err)
	}
	return nil
}

// healthz says that the process lives.
func (f *Front) healthz(*request) answer {
	return answer{status: http.StatusOK, contentType: typeText, body: []byte("ok\n")}
}

// readyz says whether traffic may be sent here. It depends on this node alone.
func (f *Front) readyz(*request) answer {
	switch {
	case f.draining.Load():
		return (&problem{status: http.StatusServiceUnavailable, detail: "draining"}).answer()
	case !f.ready.Load():
		return (&problem{status: http.StatusServiceUnavailable, detail: "joining"}).answer()
	}
	return answer{status: http.StatusOK, contentType: typeText, body: []byte("ready\n")}
}

const typeText = "text/plain; charset=utf-8"
