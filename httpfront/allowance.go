package httpfront

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"weir/cluster"
	"weir/leaky"
	"weir/policy"
)

// allowance serves POST /v1/allowances/{operation}.
func (f *Front) allowance(r *request) answer {
	if !f.ready.Load() {
		return notReady().answer()
	}
	if p := checkJSONType(r); p != nil {
		return p.answer()
	}
	start := time.Now()
	defer func() { f.metrics.duration.Observe(time.Since(start).Seconds()) }()

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
	c := &allowanceCall{front: f, context: r.context, plan: &plan, results: make([]*leaky.Result, len(plan.Steps))}
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
	degraded bool
	stray    bool // nobody who knows some step could be asked
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

// stages are steps, by their place in the plan, in the order in which they are
// decided, those of one partition together.
type stages [][]int

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
	var takes stages
	for _, buckets := range []bool{true, false} {
		for i, step := range c.plan.Steps {
			asked := c.results[i] != nil // else the policy lets it pass, and the others count
			if asked && !step.Check.LookOnly && (step.Rule.Kind == policy.BucketAllowance) == buckets {
				takes = c.addTo(takes, i)
			}
		}
	}
	if len(takes) > 0 {
		c.ask(leaky.Taking, []stages{takes})
	}
}

// addTo adds a step to the last stage if that is of its partition, else in a new
// one.
func (c *allowanceCall) addTo(s stages, step int) stages {
	if last := len(s) - 1; last >= 0 && c.partition(s[last][0]) == c.partition(step) {
		s[last] = append(s[last], step)
		return s
	}
	return append(s, []int{step})
}

func (c *allowanceCall) partition(step int) uint32 { return c.plan.Steps[step].Check.Partition }

// byPartition returns all steps as sequences of one stage, in no order but that
// of steps of the same partition.
func (c *allowanceCall) byPartition() []stages {
	var parts []stages
	for i := range c.plan.Steps {
		at := slices.IndexFunc(parts, func(s stages) bool { return c.partition(s[0][0]) == c.partition(i) })
		if at < 0 {
			parts = append(parts, stages{{i}})
			continue
		}
		parts[at][0] = append(parts[at][0], i)
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

// ask has the cluster decide steps, and notes the results.
func (c *allowanceCall) ask(mode leaky.Mode, all []stages) {
	sequences := make([]cluster.Sequence, len(all))
	for i, s := range all {
		sequences[i] = make(cluster.Sequence, len(s))
		for stage, steps := range s {
			for _, step := range steps {
				c.results[step] = nil
				sequences[i][stage] = append(sequences[i][stage], c.plan.Steps[step].Check)
			}
		}
	}
	for i, out := range c.front.cluster.Decide(c.context, sequences, c.front.options(mode)) {
		c.degraded = c.degraded || out.Degraded
		steps := slices.Concat(all[i]...)
		for j := range out.Results {
			c.results[steps[j]] = &out.Results[j]
		}
		n := len(out.Results)
		ended := mode.Takes() && n > 0 && !out.Results[n-1].Allowed
		c.stray = c.stray || n < len(steps) && !ended
	}
}

// refusal returns the step that refuses, -1 if none does: the first that
// refuses, in the order of the rules, but of imposed delays the longest. computed
// is false if the policy refuses because the step could not be asked.
func (c *allowanceCall) refusal() (at int, computed bool) {
	deny := c.front.policy.OnUnreachable == policy.UnreachableDeny
	for i, res := range c.results {
		switch {
		case res == nil && deny && c.stray:
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
// refuses for longest, and of equal ones the first.
func (c *allowanceCall) longestImposed(first int) int {
	longest := first
	for i, res := range c.results {
		if c.plan.Steps[i].Rule.Kind == policy.Imposed && res != nil && res.RetryAfter > c.results[longest].RetryAfter {
			longest = i
		}
	}
	return longest
}

// count adds the results to the decision counters.
func (c *allowanceCall) count() {
	at, _ := c.refusal()
	for i, res := range c.results {
		if res != nil && (at < 0 || i <= at) {
			c.front.metrics.allowanceDecided(c.plan.Steps[i].Rule, res.Allowed)
		}
	}
}
