// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	"berth.dev/berth/test/robustness/network"
)

// weighted is a kind of step with its weight.
type weighted struct {
	weight int
	draw   func(*draft) Step
}

// traffic is what also happens during faults.
var traffic = []weighted{
	{6, (*draft).scale},
	{6, (*draft).remix},
	{3, (*draft).rollOut},
	{1, (*draft).rollBack},
	{1, (*draft).pauseRollout},
	{3, (*draft).deletePods},
	{2, func(*draft) Step { return Step{Kind: RunJob} }},
	{1, (*draft).budget},
	{1, onNode(Cordon)},
	{1, onNode(Drain)},
	{1, onNode(Taint)},
	{1, onNode(Relabel)},
	{1, (*draft).loseNode},
	{1, (*draft).quota},
	{1, (*draft).autoscale},
	{1, onNode(Preempt)},
	{1, func(d *draft) Step { return Step{Kind: BarePods, Count: 1 + d.random.IntN(MaxReplicas)} }},
	{2, (*draft).declare},
	{1, func(d *draft) Step { return Step{Kind: Withdraw, Product: d.product()} }},
}

// steps are all kinds. A third of the steps are faults.
var steps = slices.Concat(traffic, []weighted{
	{3, (*draft).calm},
	{2, func(*draft) Step { return Step{Kind: Kill, Target: Scheduler} }},
	{2, func(*draft) Step { return Step{Kind: Kill, Target: Leader} }},
	{1, outage(APIServer, 0, 5*time.Second)},
	{1, outage(Etcd, 0, 2*time.Second)},
	{2, during(Stop, Scheduler, 0, 3*time.Second)},
	{1, during(Stop, Leader, 0, 12*time.Second)},
	{1, stopComponent(APIServer, time.Second, 12*time.Second)},
	{1, stopComponent(Etcd, time.Second, 4*time.Second)},
	{4, (*draft).disturb},
	{1, during(SlowDown, Etcd, 2*time.Second, 6*time.Second)},
	{1, during(RemoveCRD, Mixes, time.Second, 6*time.Second)},
})

// calm gives the programs time to act between two faults.
func (d *draft) calm() Step { return Step{Kind: Calm, For: d.between(2*time.Second, 8*time.Second)} }

func (d *draft) scale() Step {
	return Step{Kind: Scale, Workload: d.any(func(*Workload) bool { return true }), Replicas: d.replicas()}
}

func (d *draft) remix() Step {
	return Step{Kind: Remix, Workload: d.any(func(w *Workload) bool { return !w.NoMix }), Mix: d.mix()}
}

func (d *draft) rollOut() Step {
	w := d.any((*Workload).HasRollouts)
	version := fmt.Sprint(d.random.IntN(1e6))
	d.versions[w] = append(d.versions[w], version)
	return Step{Kind: RollOut, Workload: w, Version: version}
}

// rollBack returns to the version before the last, which is the first one, without a name, until there are two.
func (d *draft) rollBack() Step {
	w := d.any(func(w *Workload) bool { return w.Owner == Deployment })
	versions := d.versions[w]
	before := ""
	if len(versions) > 1 {
		before = versions[len(versions)-2]
	}
	d.versions[w] = append(versions, before)
	return Step{Kind: RollBack, Workload: w, Version: before}
}

func (d *draft) pauseRollout() Step {
	return Step{Kind: PauseRollout, Workload: d.any(func(w *Workload) bool { return w.Owner == Deployment })}
}

func (d *draft) deletePods() Step {
	return Step{Kind: DeletePods, Workload: d.any(func(*Workload) bool { return true }), Count: 1 + d.random.IntN(3)}
}

func (d *draft) budget() Step {
	return Step{Kind: Budget, Workload: d.any(func(w *Workload) bool { return w.Budgeted })}
}

// quota limits the pods to fewer than the workloads may request together, and to more than a few, or lifts the limit.
func (d *draft) quota() Step {
	if d.limited = !d.limited; !d.limited {
		return Step{Kind: NoQuota}
	}
	return Step{Kind: Quota, Count: 2*MaxReplicas + d.random.IntN(4*MaxReplicas)}
}

func (d *draft) autoscale() Step {
	return Step{Kind: Autoscale, Workload: d.any(func(w *Workload) bool { return w.Owner == Deployment }), Replicas: d.replicas()}
}

func onNode(k Kind) func(*draft) Step {
	return func(d *draft) Step {
		return Step{Kind: k, Node: d.node([]string{"spot", "on-demand"}[d.random.IntN(2)])}
	}
}

// loseNode takes a spot node three times of four, as a provider does.
func (d *draft) loseNode() Step {
	return Step{Kind: LoseNode, Node: d.node([]string{"spot", "spot", "spot", "on-demand"}[d.random.IntN(4)])}
}

func (d *draft) product() string { return Products[d.random.IntN(len(Products))] }

func (d *draft) declare() Step {
	return Step{
		Kind: Declare, Product: d.product(), Parts: 1 + d.random.IntN(maxParts), Replicas: int32(1 + d.random.IntN(2)),
		Version: fmt.Sprint(d.random.IntN(1e6)),
	}
}

func outage(t Target, least, most time.Duration) func(*draft) Step {
	return func(d *draft) Step { return Step{Kind: Outage, Target: t, For: d.between(least, most)} }
}

// stopComponent stops a component without which there is no traffic.
func stopComponent(t Target, least, most time.Duration) func(*draft) Step {
	return func(d *draft) Step { return Step{Kind: Stop, Target: t, For: d.between(least, most)} }
}

// during is a fault with traffic meanwhile.
func during(k Kind, t Target, least, most time.Duration) func(*draft) Step {
	return func(d *draft) Step { return Step{Kind: k, Target: t, For: d.between(least, most), During: d.during()} }
}

func (d *draft) disturb() Step {
	faults := []network.Fault{
		{Latency: 200 * time.Millisecond},
		{Refused: 30, Code: 409},
		{Refused: 30, Code: 429},
		{Refused: 30, Code: 500},
		{Lost: 30},
		{Reset: 20},
		{Frozen: true},
		{Stalled: true},
	}
	return Step{
		Kind: Disturb, Target: []Target{Scheduler, Leader}[d.random.IntN(2)], Network: faults[d.random.IntN(len(faults))],
		For: d.between(2*time.Second, 8*time.Second), During: d.during(),
	}
}

// during draws one to three steps of traffic.
func (d *draft) during() (list []Step) {
	for range 1 + d.random.IntN(3) {
		list = append(list, d.step(traffic))
	}
	return list
}
