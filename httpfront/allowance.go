package httpfront

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"weir/cluster"
	"weir/leaky"
	"weir/policy"
)

// allowance serves POST /v1/allowances/{operation}.
func (f *Front) allowance(r *request) answer {
	operation, ok := f.policy.Operation(r.name)
	if !ok {
		return (&problem{status: http.StatusNotFound, detail: fmt.Sprintf("the policy has no operation %q", r.name)}).answer()
	}
	var req policy.AllowanceRequest
	if p := decodeJSON(r.body, &req); p != nil {
		return p.answer()
	}
	plan, err := f.policy.PlanAllowance(f.keys, operation, &req)
	if err != nil {
		return badRequest(err).answer()
	}
	c := &allowanceCall{front: f, context: r.context, plan: &plan, results: make([]*leaky.Result, len(plan.Steps)), taken: make([]bool, len(plan.Steps))}
	c.run()
	if plan.Action == policy.Take {
		c.count()
	}
	body := c.appendAnswer(nil, f.texts.in(req.Locale, req.AcceptLanguage))
	return answer{status: http.StatusOK, contentType: typeJSON, body: body}
}

// allowanceCall is one call about an operation on its way to its answer.
type allowanceCall struct {
	front    *Front
	context  context.Context
	plan     *policy.AllowancePlan
	results  []*leaky.Result // of each step; nil if it was not reached, or nobody who knows could be asked
	taken    []bool          // steps whose result is that of a take of their own
	degraded bool
}

func (c *allowanceCall) run() {
	switch c.plan.Action {
	case policy.Take:
		c.take()
	case policy.Peek:
		c.ask(leaky.Looking, c.byPartition())
	case policy.Succeed, policy.Reset:
		c.ask(leaky.Lowering, c.byPartition())
	default:
		c.ask(leaky.Taking, c.byPartition())
	}
}

// take has all rules looked at, and if none refuses, takes the buckets in their
// order and then the rest, which is to be spent only if everything else was. If
// one node decides all of it, it does so in one hop and at one instant.
func (c *allowanceCall) take() {
	parts := c.byPartition()
	if len(parts) == 1 && !c.waitsTogether() {
		c.ask(leaky.TakingAll, parts)
		return
	}
	c.ask(leaky.Looking, parts)
	if at, _ := c.refusal(); at >= 0 {
		return
	}
	for _, stage := range c.stages() {
		c.ask(leaky.Taking, [][]int{stage})
		if at, _ := c.refusal(); at >= 0 {
			c.giveBack()
			return
		}
	}
}

// stages returns the steps to be taken, in their order, those in a row that are
// of one partition together.
func (c *allowanceCall) stages() (stages [][]int) {
	order := func(kind policy.AllowanceKind) int {
		switch kind {
		case policy.BucketAllowance:
			return 0
		case policy.CooldownStart:
			return 2 // it never refuses, and is not given back
		}
		return 1
	}
	for turn := range 3 {
		for i, step := range c.plan.Steps {
			unasked := c.results[i] == nil // the policy lets it pass, and the others count
			if unasked || step.Check.LookOnly || order(step.Rule.Kind) != turn {
				continue
			}
			if last := len(stages) - 1; last >= 0 && c.partition(stages[last][0]) == c.partition(i) {
				stages[last] = append(stages[last], i)
			} else {
				stages = append(stages, []int{i})
			}
		}
	}
	return stages
}

// giveBack gives back the cooldowns and quotas of an operation that lost a race
// for another of its rules.
func (c *allowanceCall) giveBack() {
	var sequences []cluster.Sequence
	for i, step := range c.plan.Steps {
		kind := step.Rule.Kind
		if c.taken[i] && c.results[i].Allowed && (kind == policy.CooldownAllowance || kind == policy.QuotaAllowance) {
			sequences = append(sequences, cluster.Sequence{{step.Check}})
		}
	}
	if len(sequences) == 0 {
		return
	}
	for _, out := range c.front.cluster.Decide(c.context, sequences, c.front.options(leaky.Lowering)) {
		c.degraded = c.degraded || out.Degraded
	}
}

func (c *allowanceCall) partition(step int) uint32 { return c.plan.Steps[step].Check.Partition }

// byPartition returns all steps, by their place in the plan, those of one
// partition together and in their order.
func (c *allowanceCall) byPartition() (parts [][]int) {
	for i := range c.plan.Steps {
		at := slices.IndexFunc(parts, func(part []int) bool { return c.partition(part[0]) == c.partition(i) })
		if at < 0 {
			parts = append(parts, []int{i})
			continue
		}
		parts[at] = append(parts[at], i)
	}
	return parts
}

// waitsTogether reports whether several imposed delays have to be compared.
func (c *allowanceCall) waitsTogether() bool {
	imposed := 0
	for _, step := range c.plan.Steps {
		if step.Rule.Kind == policy.Imposed {
			imposed++
		}
	}
	return imposed > 1
}

// ask has the cluster decide parts, each the steps of one partition, and notes
// the results. A step that is not reached keeps the result of a look before.
func (c *allowanceCall) ask(mode leaky.Mode, parts [][]int) {
	sequences := make([]cluster.Sequence, len(parts))
	for i, part := range parts {
		checks := make([]leaky.Check, len(part))
		for j, step := range part {
			checks[j] = c.plan.Steps[step].Check
		}
		sequences[i] = cluster.Sequence{checks}
	}
	for i, out := range c.front.cluster.Decide(c.context, sequences, c.front.options(mode)) {
		c.degraded = c.degraded || out.Degraded
		n := len(out.Results)
		for j := range out.Results {
			c.results[parts[i][j]] = &out.Results[j]
			c.taken[parts[i][j]] = mode == leaky.Taking
		}
		if refused := mode.Takes() && n > 0 && !out.Results[n-1].Allowed; refused || n == len(parts[i]) {
			continue
		}
		for _, step := range parts[i][n:] {
			c.results[step] = nil
		}
	}
}

// refusal returns the step that refuses, -1 if none does: the first that
// refuses, in the order of the rules, but of imposed delays the longest. computed
// is false if the policy refuses because the step could not be asked.
func (c *allowanceCall) refusal() (at int, computed bool) {
	deny := c.front.policy.OnUnreachable == policy.UnreachableDeny
	for i, res := range c.results {
		switch {
		case res == nil && deny: // what is not reached comes after a refusal
			return i, false
		case res == nil || res.Allowed:
		case c.plan.Steps[i].Rule.Kind == policy.Imposed:
			return c.longestImposed(i), true
		default:
			return i, true
		}
	}
	return -1, true
}

// longestImposed returns, of the imposed delays that refuse, the one that
// refuses for longest, and the first of those that are shown as equal: clocks of
// two nodes are not read at one instant.
func (c *allowanceCall) longestImposed(first int) int {
	longest := first
	for i, res := range c.results {
		if c.plan.Steps[i].Rule.Kind == policy.Imposed && res != nil && ceilMillis(res.RetryAfter) > ceilMillis(c.results[longest].RetryAfter) {
			longest = i
		}
	}
	return longest
}

// count adds the results to the decision counters: up to the refusal, and what
// was spent besides.
func (c *allowanceCall) count() {
	at, _ := c.refusal()
	for i, res := range c.results {
		if res != nil && (at < 0 || i <= at || c.taken[i]) {
			c.front.metrics.allowanceDecided(c.plan.Steps[i].Rule, res.Allowed)
		}
	}
}
