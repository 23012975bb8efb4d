// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/sim/spottrace"
)

func poolPath(i int) *field.Path { return field.NewPath("nodePools").Index(i) }

func (v *validator) pools() {
	list := field.NewPath("nodePools")
	switch n := len(v.s.NodePools); {
	case n == 0:
		v.report(field.Required(list, "want at least one node pool"))
	case n > MaxPools:
		v.report(field.TooMany(list, n, MaxPools))
		return
	}
	names, nodes := map[string]bool{}, 0
	for i := range v.s.NodePools {
		p, path := &v.s.NodePools[i], poolPath(i)
		v.pool(path, p)
		if p.Name != "" && names[p.Name] {
			v.report(field.Duplicate(path.Child("name"), short(p.Name)))
		}
		names[p.Name] = true
		before := nodes
		if nodes += int(max(p.Nodes, 0)); nodes > MaxNodes && before <= MaxNodes {
			v.report(field.Invalid(path.Child("nodes"), p.Nodes, fmt.Sprintf("with this pool, there are more than %d nodes", MaxNodes)))
		}
	}
}

func (v *validator) pool(path *field.Path, p *NodePool) {
	v.name(path.Child("name"), p.Name)
	if kind := path.Child("capacityType"); v.required(kind, "want spot or on-demand") && !slices.Contains(capacityTypes, p.CapacityType) {
		v.report(field.NotSupported(kind, short(p.CapacityType), capacityTypes))
	}
	v.text(path.Child("instanceType"), p.InstanceType, validation.IsValidLabelValue)
	v.text(path.Child("zone"), p.Zone, validation.IsValidLabelValue)
	v.size(path, p)
	v.number(path.Child("pods"), p.Pods, 1, MaxPodsPerNode)
	v.number(path.Child("nodes"), p.Nodes, 0, MaxNodes)
	if p.Max != nil {
		v.number(path.Child("max"), *p.Max, min(max(p.Nodes, 0), MaxNodes), MaxNodes)
		if p.Fixed {
			v.report(field.Forbidden(path.Child("max"), "a pool of a fixed size has as many nodes as nodes has"))
		}
	}
	v.number(path.Child("launchSeconds"), p.LaunchSeconds, 0, maxSeconds)
	v.number(path.Child("noticeSeconds"), p.NoticeSeconds, 0, maxSeconds)
	if d := p.DollarsPerHour; d != nil && !(*d >= 0 && *d < maxDollars) {
		v.report(field.Invalid(path.Child("dollarsPerHour"), *d, fmt.Sprintf("must be at least 0 and below %d", maxDollars)))
	}
	v.interruptions(path, p)
}

// size reports a node without CPU or memory.
func (v *validator) size(path *field.Path, p *NodePool) {
	for name, q := range map[string]resource.Quantity{"cpu": p.CPU, "memory": p.Memory} {
		at, most := path.Child(name), MaxCPU
		if name == "memory" {
			most = MaxMemory
		}
		if v.required(at, "want what a node has for pods") && (q.Sign() <= 0 || q.Cmp(most) > 0) {
			v.report(field.Invalid(at, q.String(), "must be more than 0 and at most "+most.String()))
		}
	}
}

// interruptions validates the fields that only spot pools have.
func (v *validator) interruptions(path *field.Path, p *NodePool) {
	a, at := p.Availability, path.Child("availability")
	if !p.Spot() {
		for _, name := range []string{"noticeSeconds", "availability"} {
			if v.d.set(path.Child(name)) {
				v.report(field.Forbidden(path.Child(name), "only spot nodes are interrupted"))
			}
		}
		return
	}
	if a != nil {
		v.availability(at, a)
	}
}

func (v *validator) availability(at *field.Path, a *Availability) {
	percent := a.MonthlyInterruptionPercent
	switch {
	case a.Trace == "" && percent == nil:
		v.report(field.Required(at, "want a trace or monthlyInterruptionPercent"))
	case a.Trace != "" && percent != nil:
		v.report(field.Forbidden(at.Child("monthlyInterruptionPercent"), "the trace has the interruptions"))
	case percent != nil && !(*percent >= 0 && *percent < 100):
		v.report(field.Invalid(at.Child("monthlyInterruptionPercent"), *percent, "must be at least 0 and below 100"))
	}
	if a.Trace == "" && v.d.set(at.Child("times")) {
		v.report(field.Forbidden(at.Child("times"), "it multiplies the numbers of a trace, and there is none"))
	}
	v.number(at.Child("times"), a.Times, 1, MaxNodes)
}

// traces reads the traces of the pools, each file once.
func (v *validator) traces(load LoadTrace) {
	if len(v.s.NodePools) > MaxPools {
		return
	}
	type result struct {
		trace *spottrace.Trace
		err   error
	}
	read := map[string]result{}
	for i := range v.s.NodePools {
		p, path := &v.s.NodePools[i], poolPath(i)
		a := p.Availability
		if a == nil || a.Trace == "" {
			continue
		}
		r, done := read[a.Trace]
		if !done {
			r.trace, r.err = load(a.Trace)
			read[a.Trace] = r
		}
		if r.err != nil {
			v.report(field.Invalid(path.Child("availability", "trace"), short(a.Trace), r.err.Error()))
			continue
		}
		a.Loaded = r.trace
		v.trace(path, p)
	}
}

// trace reports a trace that is too short, or of more nodes than a scenario has.
func (v *validator) trace(pool *field.Path, p *NodePool) {
	a, path := p.Availability, pool.Child("availability", "trace")
	if end := a.Loaded.End; end < v.s.Duration.Duration {
		v.report(field.Invalid(path, short(a.Trace),
			fmt.Sprintf("its data end at %s, before the duration of %s", end, v.s.Duration.Duration)))
	}
	for _, step := range a.Loaded.Steps {
		if n := int64(step.Available) * int64(max(a.Times, 1)); n > MaxNodes {
			v.report(field.Invalid(path, short(a.Trace), fmt.Sprintf("has %d nodes at %s, more than %d", n, step.At, MaxNodes)))
			break
		}
	}
	if now := a.Available(0); p.Nodes > now && !p.Fixed {
		v.report(field.Invalid(pool.Child("nodes"), p.Nodes, "the trace has "+display.Count(int(now), "node")+" at the start"))
	}
}
