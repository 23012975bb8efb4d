// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// decide does what is planned for a workload, one action after the other, until it rests. What came of one is part of the plan
// for the next.
func (c *Controller) decide(ctx context.Context, w *evaluation) {
	c.proof.admitted, c.neighbours = rebalance.Proof{}, nil // all replicas of a workload may have the same replacement
	c.asked.withdraw(ctx, w.Ended)
	c.out.endings(ctx, w)
	for step := rebalance.StepWait; step != rebalance.StepRest && ctx.Err() == nil; {
		for _, a := range rebalance.Plan(c.input(w)) {
			r := c.act(ctx, a)
			if r.Began != nil {
				c.journal.moveEnds(true)
			}
			w.Apply(a, r)
			c.out.record(ctx, w, a, r)
			step = a.Step
		}
	}
	c.journal.moveEnds(false)
	c.answer(w)
}

// paceKeyOf is what the moves of a workload count for, nil if they have no pace of their own.
func paceKeyOf(e *rebalance.Entry) *rebalance.PaceKey {
	if e.Settings.MaxPerHour == 0 {
		return nil
	}
	key := &rebalance.PaceKey{Namespace: e.Group.Key.Namespace, Name: governing.SourceCapacityMix + e.Mix}
	if e.Mix == "" {
		key.Name = e.Group.Key.ID
	}
	return key
}

// setPaces has a decision count the moves that began, and those that are spoken for.
func (c *Controller) setPaces(in *rebalance.Input, e *rebalance.Entry, b *workloads.Budgets) {
	in.Cluster.Pace = rebalance.Pace{Limit: c.ClusterMaxPerHour, Begun: c.journal.paces.Cluster, Held: b.Holding + b.Reserved}
	if key := paceKeyOf(e); key != nil {
		in.History.Pace = rebalance.Pace{Limit: e.Settings.MaxPerHour, Begun: c.journal.paces.Mixes[*key], Held: b.MixHolding}
	}
}

// input is all that a plan for a workload depends on. The time, the grace and the storms are those of this moment: a proof of
// capacity may take long.
func (c *Controller) input(w *evaluation) *rebalance.Input {
	b, cluster := c.Workloads.Budgets(&w.Entry), c.clusterNow()
	cluster.InFlight, cluster.Reserved = b.InFlight, b.Reserved
	cluster.Pauses = c.Pauses.Of(w.Group.Key.Namespace)
	in := w.Input(cluster, b.Mix, func(t capacity.Type, pod *clusterstate.Pod) bool { return c.mayFit(w, t, pod) })
	c.setPaces(in, &w.Entry, &b)
	return in
}

// mayFit is that of the cluster state. The types without capacity are kept with the evaluation: once they may have some, the
// workload is reconciled again.
func (c *Controller) mayFit(w *evaluation, t capacity.Type, pod *clusterstate.Pod) bool {
	version := c.State.CapacityVersion(t) // what comes after it counts
	if c.State.MayFit(t, pod) {
		return true
	}
	if w.lacks == nil {
		w.lacks = map[capacity.Type]uint64{}
	}
	if _, known := w.lacks[t]; !known {
		w.lacks[t] = version
	}
	return false
}

// act carries an action out, or finds what is in its way.
func (c *Controller) act(ctx context.Context, a rebalance.Action) (r rebalance.Result) {
	switch a.Step {
	case rebalance.StepMove, rebalance.StepReport:
		return c.prove(ctx, a)
	case rebalance.StepRelease:
		return c.release(ctx, a)
	case rebalance.StepEvict:
		return c.evict(ctx, a)
	case rebalance.StepSurvey:
		return c.survey(ctx, a)
	case rebalance.StepSurge:
		return c.surge(ctx, a)
	case rebalance.StepFlee:
		return c.flee(ctx, a)
	case rebalance.StepHold:
		if r.Err = a.Obstacle; a.Evicts() {
			r.Eviction = resultChanged
		}
	case rebalance.StepProvision:
		return c.provision(ctx, a)
	case rebalance.StepDrop:
		r.Placeholder = c.holders.end(ctx, a.Placeholder, rebalance.Dropped)
	case rebalance.StepFail:
		r.Placeholder = c.holders.end(ctx, a.Placeholder, rebalance.Expired)
	}
	return r
}

// provision requests the capacity that the replacement of a replica needs, by a placeholder pod.
func (c *Controller) provision(ctx context.Context, a rebalance.Action) (r rebalance.Result) {
	pod, admitted, err := c.proof.placeholder(ctx, a)
	r.Admitted = admitted
	if err == nil {
		if r.Created, err = c.holders.create(ctx, pod); err != nil {
			err = noPlaceholder(a.Verdict, err.Error())
		}
	}
	r.Err = err
	return r
}

// prove proves that the replacement of a replica finds capacity, in the place of its placeholder if it has one, and reads what
// the next plan decides by. A placeholder that runs where the pods that are there do not allow the replacement is deleted.
func (c *Controller) prove(ctx context.Context, a rebalance.Action) (r rebalance.Result) {
	proof, err := c.proof.prove(ctx, a)
	r.Admitted = proof.Admitted != nil
	switch {
	case err == nil && a.Step == rebalance.StepReport:
	case err == nil:
		c.read(ctx, a, &proof, &r)
	default:
		o := rebalance.ObstacleOf(err)
		if r.Err = o; a.Placeholder == nil || o.Reason != rebalance.ReasonInsufficientCapacity {
			break
		}
		if o.For = rebalance.HoldMisplaced; c.proof.misplaced(ctx, a) {
			r.Placeholder = c.holders.end(ctx, a.Placeholder, rebalance.Dropped)
		}
	}
	return r
}

// read reads what the API server has of a workload, for a decision about its eviction. The move is recorded before.
func (c *Controller) read(ctx context.Context, a rebalance.Action, proof *rebalance.Proof, r *rebalance.Result) {
	if a.Proof = proof; a.Evicts() {
		if r.Err = c.journal.recordMove(ctx, a.Record, paceKeyOf(&a.Of)); r.Err != nil {
			return
		}
	}
	if proof.Scale, r.Err = c.scales.now(ctx, a); r.Err == nil {
		proof.Live, r.Err = c.api.livePods(ctx, a)
	}
	switch {
	case r.Err == nil:
		r.Proof = proof
	case a.Evicts():
		r.Eviction = resultChanged
	}
}

// current returns an obstacle if the owner of a replica creates another replacement by now, if the mix is another one, or if moves
// were paused.
func (c *Controller) current(ctx context.Context, a rebalance.Action) error {
	if err := c.proof.recreated(ctx, a); err != nil {
		return err
	}
	if err := c.api.checkMix(ctx, &a.Of, a.Pod); err != nil {
		return err
	}
	return c.api.checkPaused(ctx, a.Pod.Namespace)
}

// release deletes the placeholder of a replica that is evicted next.
func (c *Controller) release(ctx context.Context, a rebalance.Action) (r rebalance.Result) {
	if r.Err = c.current(ctx, a); r.Err != nil {
		return r
	}
	h := a.Placeholder
	if r.Placeholder = rebalance.Used; !c.holders.release(ctx, h.Namespace, h.Name, h.UID, r.Placeholder) {
		r.Err = rebalance.ReasonCapacityUnproven.Obstacle(rebalance.HoldMisplaced, "placeholder %s could not be deleted", h.Name)
		return r
	}
	proof := *a.Proof
	proof.Released = true
	c.read(ctx, a, &proof, &r)
	return r
}

// evict evicts a replica.
func (c *Controller) evict(ctx context.Context, a rebalance.Action) (r rebalance.Result) {
	if r.Err = c.current(ctx, a); r.Err != nil {
		r.Eviction = resultChanged
		return r
	}
	if a.Move.Requested {
		return c.began(ctx, a, c.asked.request(ctx, a.Pod))
	}
	return c.began(ctx, a, c.api.evict(ctx, a.Pod, propagation(&a.Move)))
}

// began returns what has come of the eviction or the release of a replica, by the answer of the API server.
func (c *Controller) began(ctx context.Context, a rebalance.Action, err error) (r rebalance.Result) {
	m := a.Move
	if r.Eviction, r.Err = refusal(a, err); r.Err != nil {
		if r.Refused = true; unanswered(err) {
			m.DoubtUntil = c.Clock.Now().Add(rebalance.Unseen)
			r.Began = &m
		}
		return r
	}
	r.Began = &m
	c.proof.snapshot.Assume(a.Proof.Admitted, a.Proof.Node)
	for _, o := range a.Proof.Others {
		c.proof.snapshot.Assume(o.Admitted, o.Node)
	}
	switch a.Handover {
	case rebalance.AfterEviction:
		r.Placeholder = c.holders.end(ctx, a.Placeholder, rebalance.Used)
	case rebalance.OnceGone:
		m.Placeholder, r.Placeholder = a.Placeholder.UID, rebalance.Used
	}
	return r
}

// propagation has the pods of a unit end before the first of them is gone, as their operator does: the next leader would otherwise be
// created beside the old workers, and run where they do.
func propagation(m *rebalance.Move) *metav1.DeletionPropagation {
	if m.Size == 0 {
		return nil
	}
	return new(metav1.DeletePropagationForeground)
}

// refusal returns the result of an eviction or a release, and the obstacle that the API server's answer is, nil if it agreed.
func refusal(a rebalance.Action, err error) (result string, obstacle error) {
	pod, done, what := a.Verdict.Pod, resultEvicted, "eviction"
	switch {
	case a.Surge || a.Flees:
		done, what = resultReleased, "release"
	case a.Move.Requested:
		done, what = resultRequested, "request for the eviction"
	}
	refused := func(r *rebalance.Reason, format string) error {
		return r.Obstacle(rebalance.HoldRefused, format, what, pod.Name, err)
	}
	switch {
	case err == nil:
		return done, nil
	case apierrors.IsNotFound(err) && !a.Move.Requested, apierrors.IsConflict(err): // no EvictionRequest is served: that stays so
		return resultChanged, rebalance.Changed(pod)
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return resultBudget, refused(rebalance.ReasonPDB, "the %s of pod %s was refused: %v")
	case apierrors.IsInternalError(err) && a.Overlapping && !a.Surge:
		// The API server has the same answer for more than one budget and for a webhook that it cannot call.
		return resultOverlapping, refused(rebalance.ReasonOverlappingPDBs, "the %s of pod %s was refused: %v")
	case apierrors.IsInternalError(err):
		return resultError, refused(rebalance.ReasonEvictionFailed, "the API server could not carry out the %s of pod %s: %v")
	}
	return resultError, refused(rebalance.ReasonRefused, "the %s of pod %s failed: %v")
}
