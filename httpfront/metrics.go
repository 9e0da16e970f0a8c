package httpfront

import (
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"weir/cluster"
	"weir/policy"
	"weir/ring"
	"weir/rpc"
)

// metrics counts what the front does and collects, at scrape, what the rest of
// the node counts in plain atomics. Label values come from the policy and from
// the code, never from callers.
type metrics struct {
	front     *Front
	registry  *prometheus.Registry
	duration  prometheus.Histogram
	decisions []outcomes // by bucket index, then the global bucket, then the rules of operations
	answers   map[string]*statuses
}

// outcomes counts the decisions of one bucket.
type outcomes struct{ allowed, refused atomic.Uint64 }

// statuses counts the answers of one endpoint, by status.
type statuses [600]atomic.Uint64

// noEndpoint labels answers to requests that found no endpoint or could not be
// read.
const noEndpoint = "none"

var (
	descDecisions   = prometheus.NewDesc("weir_decisions_total", "Buckets evaluated for decisions, by declared bucket, or operation/rule of an allowance, and outcome.", []string{"bucket", "outcome"}, nil)
	descAnswers     = prometheus.NewDesc("weir_http_requests_total", "HTTP requests answered, by endpoint and status.", []string{"endpoint", "code"}, nil)
	descCalls       = prometheus.NewDesc("weir_calls_total", "Stages of decisions, by where they were asked: here (local), at another node (forwarded), and of both those that a backup answered after a failure (backup).", []string{"path"}, nil)
	descDegraded    = prometheus.NewDesc("weir_degraded_total", "Stages of decisions that a failure may show in, by reason.", []string{"reason"}, nil)
	descRPCErrors   = prometheus.NewDesc("weir_rpc_errors_total", "Calls to other nodes that failed, by kind.", []string{"kind"}, nil)
	descMembers     = prometheus.NewDesc("weir_members", "Members this node knows, itself among them, by state.", []string{"state"}, nil)
	descPartitions  = prometheus.NewDesc("weir_partitions", "Partitions of this node: those that its view gives it to decide (owner) or to copy (backup), and those that it decides without a copy elsewhere (unreplicated), whose buckets a crash of this node now would refill.", []string{"role"}, nil)
	descLiveBuckets = prometheus.NewDesc("weir_live_buckets", "Buckets held here; drained ones count until they are swept.", nil, nil)
	descLag         = prometheus.NewDesc("weir_replication_lag_seconds", "Age of the oldest change that its partition's backup does not know of.", nil, nil)
	descAdmitted    = prometheus.NewDesc("weir_unreplicated_admitted", "Units admitted that no backup knows of: what a crash of this node now would let be admitted again, of all buckets together, but for unreplicated partitions, which would start anew.", nil, nil)
	descHandoff     = prometheus.NewDesc("weir_handoff_partitions", "Partitions being copied or handed over by this node (moving), and those handed over (given) or taken over from a failed node (taken) since it started.", []string{"state"}, nil)
	descHandoffKeys = prometheus.NewDesc("weir_handoff_keys_total", "Buckets that have arrived at other nodes to build copies there, for backups and before partitions are handed over.", nil, nil)
	descCircuits    = prometheus.NewDesc("weir_circuit_open", "Members that are silent or slow, so that their calls go to their backups at once.", nil, nil)
	descMessages    = prometheus.NewDesc("weir_replication_messages_total", "Messages between nodes beside calls, by what became of them.", []string{"outcome"}, nil)
	descPolicy      = prometheus.NewDesc("weir_policy_info", "The policy in force; the value is always 1.", []string{"hash"}, nil)
)

func newMetrics(f *Front) *metrics {
	m := &metrics{
		front:    f,
		registry: prometheus.NewRegistry(),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "weir_decision_duration_seconds",
			Help:    "Time from a whole request to its answer, for each call that asks for decisions.",
			Buckets: []float64{25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3},
		}),
		decisions: make([]outcomes, len(f.policy.Buckets)+1+len(f.policy.Allowances)),
		answers:   map[string]*statuses{"": new(statuses)},
	}
	m.registry.MustRegister(m, m.duration, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// endpoint prepares the counters of an endpoint, before anything is served.
func (m *metrics) endpoint(path string) {
	m.answers[path] = new(statuses)
}

func (m *metrics) decided(b *policy.Bucket, allowed bool) { m.counted(b.Index, allowed) }

func (m *metrics) allowanceDecided(a *policy.Allowance, allowed bool) {
	m.counted(len(m.front.policy.Buckets)+1+a.Index, allowed)
}

func (m *metrics) counted(i int, allowed bool) {
	if n := &m.decisions[i]; allowed {
		n.allowed.Add(1)
	} else {
		n.refused.Add(1)
	}
}

// answered counts an answer of the endpoint with that path, or of none.
func (m *metrics) answered(path string, status int) {
	m.answers[path][status].Add(1)
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descDecisions, descAnswers, descCalls, descDegraded, descRPCErrors,
		descMembers, descPartitions, descLiveBuckets, descLag, descAdmitted, descHandoff, descHandoffKeys,
		descCircuits, descMessages, descPolicy} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	buckets := m.front.policy.Buckets
	for i := range m.decisions {
		name := policy.GlobalBucket
		switch rule := i - len(buckets) - 1; {
		case rule >= 0:
			name = m.front.policy.Allowances[rule].Label
		case rule < -1:
			name = buckets[i].Name
		case m.front.policy.Global == nil:
			continue
		}
		counter(descDecisions, m.decisions[i].allowed.Load(), name, "allowed")
		counter(descDecisions, m.decisions[i].refused.Load(), name, "refused")
	}
	for path, s := range m.answers {
		if path == "" {
			path = noEndpoint
		}
		for status := range s {
			if n := s[status].Load(); n > 0 {
				counter(descAnswers, n, path, strconv.Itoa(status))
			}
		}
	}
	stats := m.front.cluster.Stats()
	counter(descCalls, uint64(stats.Local.Load()), "local")
	counter(descCalls, uint64(stats.Forwarded.Load()), "forwarded")
	counter(descCalls, uint64(stats.Backup.Load()), "backup")
	for _, reason := range cluster.Reasons() {
		counter(descDegraded, uint64(stats.Degraded[reason].Load()), reason.String())
	}
	for _, code := range rpc.Codes() {
		counter(descRPCErrors, m.front.cluster.RPC().Errors(code), code.String())
	}
	view, self := m.front.cluster.View(), m.front.self().Name
	states := map[ring.State]int{ring.Joining: 0, ring.Active: 0, ring.Leaving: 0, ring.Failed: 0}
	for _, member := range view.Members() {
		states[member.State]++
	}
	for state, n := range states {
		gauge(descMembers, n, state.String())
	}
	gauge(descPartitions, view.Owned(self), "owner")
	gauge(descPartitions, m.front.backed(self), "backup")
	gauge(descLiveBuckets, m.front.cluster.LiveBuckets())
	m.collectReplication(ch)
	gauge(descPolicy, 1, m.front.policy.Hash())
}

// collectReplication tells how far the backups are behind, and what moves.
func (m *metrics) collectReplication(ch chan<- prometheus.Metric) {
	value := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	c := m.front.cluster
	now, stats, messages := c.Replication(), c.Stats(), c.RPC()
	value(descLag, prometheus.GaugeValue, now.Lag.Seconds())
	value(descPartitions, prometheus.GaugeValue, float64(now.Bare), "unreplicated")
	value(descAdmitted, prometheus.GaugeValue, float64(now.Admitted))
	value(descHandoff, prometheus.GaugeValue, float64(now.Building), "moving")
	value(descHandoff, prometheus.GaugeValue, float64(stats.HandedOver.Load()), "given")
	value(descHandoff, prometheus.GaugeValue, float64(stats.TakenOver.Load()), "taken")
	value(descHandoffKeys, prometheus.CounterValue, float64(stats.KeysMoved.Load()))
	open := 0
	for _, member := range c.View().Members() {
		if c.Circuit(member.Name) {
			open++
		}
	}
	value(descCircuits, prometheus.GaugeValue, float64(open))
	value(descMessages, prometheus.CounterValue, float64(messages.MessagesSent.Load()), "sent")
	value(descMessages, prometheus.CounterValue, float64(messages.MessagesReceived.Load()), "received")
	value(descMessages, prometheus.CounterValue, float64(messages.MessagesDropped.Load()), "dropped")
}
