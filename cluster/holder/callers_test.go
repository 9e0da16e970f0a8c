package holder

import (
	"time"

	"weir/leaky"
	"weir/rpc"
)

// visit is a call at one node.
type visit struct {
	n     *node
	p     *Partition
	call  Call
	key   key
	reply func(outcome)
}

type outcome struct {
	decided, allowed, degraded bool
	to                         rpc.Node // not owner: ask this one
}

// handle asks the node.
func (n *node) handle(k key, hop uint8, failed rpc.Node, reply func(outcome)) {
	v := &visit{n: n, p: n.parts[k.partition], key: k, reply: reply}
	v.call = Call{Hop: hop, Failed: failed, Owner: v}
	n.step(func(out *Out) {
		verdict := v.p.Route(n.w.now, &v.call, out)
		out.Ready = append(out.Ready, Ready{&v.call, verdict})
	})
}

func (v *visit) goOn(verdict Verdict) {
	w := v.n.w
	switch verdict.Action {
	case Decide:
		rule, err := leaky.NewRule(leaky.Bucket, w.limits[v.key], window)
		if err != nil {
			panic(err)
		}
		if v.p.role != open {
			w.fault("%s is to decide partition %d and does not hold it", v.n.id.Name, v.p.id)
		}
		res := v.p.Take(leaky.Check{Partition: v.key.partition, Fingerprint: v.key.fingerprint, Rule: rule, Cost: 1}, w.now)
		if res.Allowed {
			w.admit(v)
		}
		v.reply(outcome{decided: true, allowed: res.Allowed, degraded: verdict.Degraded})
	case Ask:
		if v.call.Hop == 0 {
			v.reply(outcome{to: verdict.To})
			return
		}
		gap, asked := v.n.peers.Gap(w.now), w.now
		w.ask(v.n, verdict.To, v.key, v.call.Hop+1, v.call.Failed, int64(v.n.peers.Inner()), func(out outcome, ok bool) {
			if ok && out.decided {
				v.reply(out)
				return
			}
			if v.n.peers.Gap(w.now) != gap { // it stood still itself
				v.reply(outcome{})
				return
			}
			v.call.Evidence(verdict.To, asked)
			v.n.step(func(o *Out) {
				again := v.p.Route(w.now, &v.call, o)
				if again.Action == Ask && again.To == verdict.To {
					again = Verdict{Action: Fail}
				}
				o.Ready = append(o.Ready, Ready{&v.call, again})
			})
		})
	case Fail:
		v.reply(outcome{})
	}
}

// ask calls another node, and gives up after a while.
func (w *world) ask(from *node, id rpc.Node, k key, hop uint8, failed rpc.Node, timeout int64, then func(outcome, bool)) {
	done := false
	finish := func(out outcome, ok bool) {
		if !done {
			done = true
			then(out, ok)
		}
	}
	to := w.find(id)
	if to == from {
		to.handle(k, hop, failed, func(out outcome) { finish(out, true) })
		return
	}
	timeout = int64(from.peers.Patience(time.Duration(timeout)))
	w.after(timeout, func() { from.deliver(func() { finish(outcome{}, false) }) })
	if to == nil {
		return
	}
	if !to.up { // refused
		w.after(w.delay(from, to), func() {
			from.deliver(func() {
				from.peers.Lost(w.now, id)
				finish(outcome{}, false)
			})
		})
		return
	}
	if !w.reach(from, to) || w.loss > 0 && w.rand.Float64() < w.loss {
		return
	}
	w.after(w.delay(from, to), func() {
		if !w.reach(from, to) {
			return
		}
		to.deliver(func() {
			to.peers.Heard(w.now, from.id)
			to.handle(k, hop, failed, func(out outcome) {
				if !w.reach(to, from) {
					return
				}
				w.after(w.delay(to, from), func() {
					if w.reach(to, from) {
						from.deliver(func() {
							from.peers.Heard(w.now, to.id)
							finish(out, true)
						})
					}
				})
			})
		})
	})
}

// admit counts. What a holder admits beside another one is what a failure may
// admit too much; so is what nobody else knows of when a node dies.
func (w *world) admit(v *visit) {
	w.admitted[v.key]++
	if w.split && v.n.side == 1 { // the larger of the two sides is what stays
		w.allowance[v.key]++
		return
	}
	for _, n := range w.nodes {
		q := n.parts[v.key.partition]
		if n != v.n && n.up && !n.hung && q.role == open {
			if w.graceful {
				w.fault("%s and %s decide partition %d", v.n.id.Name, n.id.Name, v.key.partition)
			}
			w.allowance[v.key]++
			return
		}
	}
}

// call is one caller's question to a node.
func (w *world) call(n *node, k key) {
	w.calls++
	began := w.now
	path := n.peers.Path(k.partition)
	var try func()
	end := func(out outcome) {
		took := w.now - began
		if !n.hung && n.resumed < began {
			w.slowest = max(w.slowest, took)
		}
		if !out.decided {
			w.failed++
			w.note("call to %s for partition %d failed", n.id.Name, k.partition)
		}
		if out.degraded || !out.decided {
			w.degraded++
		}
	}
	try = func() {
		w.ask(n, path.To, k, path.Hop, path.Failed, forward, func(out outcome, ok bool) {
			switch {
			case out.decided:
				end(out)
				return
			case ok && !out.to.IsZero():
				if path.Redirect(out.to) {
					try()
					return
				}
			default:
				if path.Fail() {
					try()
					return
				}
			}
			if ok && path.Home(n.id) {
				try()
				return
			}
			end(outcome{})
		})
	}
	try()
}

// lose gives up a node for good, and allows for what nobody else knows.
func (w *world) lose(n *node) {
	for k := range w.limits {
		mine, best := w.spent(k, n.parts[k.partition].table.Get(k.fingerprint)), int64(0)
		for _, other := range w.nodes {
			if other != n && other.up && w.reach(n, other) {
				best = max(best, w.spent(k, other.parts[k.partition].table.Get(k.fingerprint)))
			}
		}
		w.allowance[k] += max(0, mine-best)
	}
}

// window is so long that nothing drains in a run.
const window = 300 * time.Hour

// spent reads a bucket's word: how many units are in it.
func (w *world) spent(k key, word leaky.Word) int64 {
	interval := int64(window) / w.limits[k]
	return (max(0, int64(word)-w.now) + interval - 1) / interval
}
