// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/placeholder"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/replacement"
	"berth.dev/berth/internal/mix/simulation"
)

// snapshotAge is how old a snapshot may be that capacity is proven by.
const snapshotAge = 5 * time.Second

// prover proves that the replacement of a replica is admitted, follows the mix, and finds capacity.
type prover struct {
	*Options
	api *calls
	// owners is nil in tests of decisions: then a replica is its own replacement.
	owners *owners
	// take takes a snapshot to prove capacity by. snapshot is the last one, of the time taken; nil if there is none.
	take     func(context.Context) (snapshot, error)
	snapshot snapshot
	taken    time.Time
	// quarantine is the interruption domains that were in quarantine as the snapshot was taken, nil for none.
	quarantine *interruptions.Quarantine
	// released is the map of holders: a snapshot may still show these placeholders.
	released map[types.UID]time.Time
	// admitted is the replacement that was admitted last for the workload that is evaluated.
	admitted rebalance.Proof
	// promised are the places of replacements that may have no node yet: a snapshot does not have them before.
	promised []promise
}

// promise is a place that was proven for a replacement, and how long it is kept from others.
type promise struct {
	pod   *corev1.Pod
	node  string
	until time.Time
}

// promise keeps the place of a replacement for a while, also in the snapshots that follow.
func (p *prover) promise(proof *rebalance.Proof) {
	p.promised = append(p.promised, promise{proof.Admitted, proof.Node, p.Clock.Now().Add(rebalance.HoldMisplaced)})
	p.snapshot.Assume(proof.Admitted, proof.Node)
}

// snapshot answers where pods fit; internal/mix/simulation has the real ones.
type snapshot interface {
	Fits(context.Context, simulation.Question) (simulation.Answer, error)
	FitAll(context.Context, []simulation.Question) ([]simulation.Answer, error)
	Assume(pod *corev1.Pod, node string)
	Domains(q simulation.Question, own simulation.Holder, others []simulation.Holder) simulation.Domains
	Close()
}

// prove runs the scheduler's own filters: does the replacement of a replica fit on a node of the type that its slot will have,
// once its placeholder is gone, too? The proof has the replacement also where it does not.
func (p *prover) prove(ctx context.Context, a rebalance.Action) (proof rebalance.Proof, err error) {
	began := p.Clock.Now()
	defer func() { replaySeconds.Observe(p.Clock.Since(began).Seconds()) }()
	v := a.Verdict
	if members := a.Members(); len(members) > 1 {
		return p.proveUnit(ctx, &a, members)
	}
	pod, proof, err := p.replacement(ctx, a)
	if err != nil {
		return proof, err
	}
	if err := p.takeSnapshot(ctx); err != nil {
		return proof, err
	}
	gone := p.evicted(&a.Of)
	if !a.Surge { // one that is released runs beside its replacement
		gone = append(gone, pod.UID)
	}
	if a.Placeholder != nil {
		gone = append(gone, a.Placeholder.UID)
	}
	answer, err := p.snapshot.Fits(ctx, p.question(&a, pod, proof.Admitted, gone))
	if unanswered(err) {
		p.api.noteOutage(ctx, err)
	}
	if err == nil && !answer.Fits {
		err = rebalance.ReasonInsufficientCapacity.Obstacle(rebalance.HoldInsufficientCapacity,
			"no %s node has free capacity for the replacement of pod %s%s: %s", v.Target, v.Pod.Name, origin(&proof), answer.Message())
	}
	proof.Node = answer.Node
	return proof, err
}

// replacement reads the replica of an action, and the pod that its owner will create in its place.
func (p *prover) replacement(ctx context.Context, a rebalance.Action) (pod *corev1.Pod, next rebalance.Proof, err error) {
	if pod, err = p.api.replica(ctx, a.Verdict.Pod); err == nil {
		next, err = p.successor(ctx, &a, pod, nil)
	}
	return pod, next, err
}

// closeSnapshot drops the snapshot, if there is one.
func (p *prover) closeSnapshot() {
	if p.snapshot != nil {
		p.snapshot.Close()
		p.snapshot = nil
	}
}

// takeSnapshot makes sure that there is a snapshot, and that it is recent.
func (p *prover) takeSnapshot(ctx context.Context) error {
	if p.snapshot != nil && p.Clock.Since(p.taken) < snapshotAge {
		return nil
	}
	p.closeSnapshot()
	p.taken = p.Clock.Now()
	snapshot, err := p.take(ctx)
	if err != nil {
		p.api.noteOutage(ctx, err)
		return fmt.Errorf("prove that there is capacity: %w", err)
	}
	p.snapshot, p.quarantine = snapshot, nil
	if p.Quarantine != nil {
		p.quarantine = p.Quarantine(ctx)
	}
	p.promised = slices.DeleteFunc(p.promised, func(m promise) bool { return !p.taken.Before(m.until) })
	for _, m := range p.promised {
		snapshot.Assume(m.pod, m.node)
	}
	return nil
}

// evicted are the pods that are gone, and that a snapshot may still show.
func (p *prover) evicted(e *rebalance.Entry) (uids []types.UID) {
	evicted := slices.DeleteFunc(slices.Clone(e.Moves), func(m rebalance.Move) bool { return m.Released })
	uids = slices.AppendSeq(uids, maps.Keys(rebalance.Moved(evicted)))
	return slices.AppendSeq(uids, maps.Keys(p.released))
}

// origin is what the pod is created from, for the end of a sentence about it.
func origin(next *rebalance.Proof) string {
	if next.From == "" {
		return ""
	}
	return ", which is created from " + next.From
}

// successor returns the pod that the owner of a replica will create in its place, or an obstacle: it cannot be known, it would
// not follow the mix, or the API server would not admit it. Bounds are those of the namespace, nil to read them.
func (p *prover) successor(
	ctx context.Context, a *rebalance.Action, pod *corev1.Pod, bounds *rebalance.Bounds,
) (next rebalance.Proof, err error) {
	if p.owners == nil {
		_, err = p.api.creatable(ctx, bounds, pod, pod)
		return rebalance.Proof{Created: pod, Admitted: pod}, err
	}
	if next, err = p.created(ctx, &a.Of.Group, pod); err != nil {
		return next, err
	}
	// All replicas of a workload without identities have the same replacement: it is admitted once for an evaluation.
	if p.admitted.Created != nil && sameCreated(p.admitted.Created, next.Created) {
		return p.admitted, nil
	}
	crowded, err := p.api.creatable(ctx, bounds, pod, next.Created)
	if err == nil && crowded != "" && a.Surge { // one that is released runs beside its replacement
		const text = "ResourceQuota %q does not allow the replacement beside pod %s"
		err = rebalance.ReasonQuota.Obstacle(rebalance.HoldRefused, text, crowded, pod.Name)
	}
	if err != nil {
		return next, err
	}
	if next.Admitted, err = p.admit(ctx, pod, &next, crowded); err != nil {
		return next, err
	}
	steered := rebalance.Steered(next.Admitted, next.From, p.Profile.SchedulerNames, p.State.Classifier.Pins)
	if steered.Reason != nil {
		return next, steered.Reason.Unproven("%s", steered.Message)
	}
	p.admitted = next
	return next, nil
}

// created reads the owner of a replica.
func (p *prover) created(ctx context.Context, g *clusterstate.Group, pod *corev1.Pod) (rebalance.Proof, error) {
	t, err := p.owners.template(ctx, pod, g)
	var unknown unknownTemplate
	switch {
	case errors.As(err, &unknown):
		return rebalance.Proof{}, rebalance.ReasonReplacementUnknown.Unproven("the replacement of pod %s is unknown: %v", pod.Name, err)
	case err != nil:
		p.api.noteOutage(ctx, err)
		return rebalance.Proof{}, err
	}
	return rebalance.Proof{Created: t.Replacement(pod, governing.IdentityOf(pod)...), From: t.Field + " of " + t.Owner}, nil
}

// admit has the API server admit the replacement without storing it: quotas, policies and webhooks decide as they will for
// the owner, but for those that decide by the user. The webhooks may be those of a tenant, so a call that one of them holds up
// does not begin the grace. Crowded is a ResourceQuota that does not allow the replacement beside the replica, "" for none.
func (p *prover) admit(ctx context.Context, old *corev1.Pod, next *rebalance.Proof, crowded string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	created, dryRun := next.Created, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	admitted, err := p.Client.CoreV1().Pods(created.Namespace).Create(ctx, created, dryRun)
	switch {
	case err == nil:
		return admitted, nil
	case crowded != "" && forbiddenWithoutCause(err):
		// The replacement does not fit beside the replica, and the answer may be that of this quota, which is the last to decide.
		// In the place of the replica the quota allows it, as creatable has shown.
		expected := replacement.AsAdmitted(created, old)
		gate.Inherit(expected, old)
		return expected, nil
	case unanswered(err):
		return nil, fmt.Errorf("the API server did not admit the pod that is created from %s: %w", next.From, err)
	}
	return nil, rebalance.ReasonReplacementRefused.Unproven("the API server refuses the pod that is created from %s: %v", next.From, err)
}

// forbiddenWithoutCause reports whether an error can be that of a quota. A policy names its causes.
func forbiddenWithoutCause(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsForbidden(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || len(details.Causes) == 0
}

// recreated returns an obstacle if the owner of a replica would create another pod by now than the one that was proven: the
// proof may have taken long.
func (p *prover) recreated(ctx context.Context, a rebalance.Action) error {
	if p.owners == nil {
		return nil
	}
	if err := p.unitRecreated(ctx, &a); err != nil {
		return err
	}
	next, err := p.created(ctx, &a.Of.Group, a.Pod)
	if err == nil && !sameCreated(next.Created, a.Proof.Created) {
		err = rebalance.ReasonChanged.Obstacle(rebalance.HoldChanged, "%s has changed", next.From)
	}
	return err
}

// sameCreated reports whether an owner creates the same pod.
func sameCreated(a, b *corev1.Pod) bool { return equality.Semantic.DeepEqual(a, b) }

// placeholder makes the pod that is to be created for a replica, or returns an obstacle. Admitted is set where the API server
// admits the replacement.
func (p *prover) placeholder(ctx context.Context, a rebalance.Action) (pod *corev1.Pod, admitted bool, err error) {
	v := a.Verdict
	if p.Profile.Label.Key == "" {
		return nil, false, noPlaceholder(v, fmt.Sprintf("there is no node label by which a pod could be limited to %s (capacityTypeLabel)",
			v.Target))
	}
	replica, next, err := p.replacement(ctx, a)
	if err != nil {
		return nil, false, err
	}
	if what := placeholder.Unable(next.Admitted); what != "" {
		return nil, true, noPlaceholder(v, fmt.Sprintf("pod %s uses %s, which a placeholder cannot hold", v.Pod.Name, what))
	}
	var volumes []*corev1.NodeSelector
	err = p.api.bounded(ctx, func(ctx context.Context) (err error) { volumes, err = p.api.volumesOf(ctx, next.Admitted); return err })
	if err != nil {
		return nil, true, err
	}
	size := p.Placeholders.SizeOf(next.Admitted)
	domains, err := p.domains(ctx, a, next.Admitted, simulation.Holder{Replica: v.Pod.UID, Labels: placeholder.Labels(v.Pod.UID, size)})
	if err == nil && domains.Unable != "" {
		err = noPlaceholder(v, domains.Unable)
	}
	if err != nil {
		return nil, true, err
	}
	return placeholder.Pod(placeholder.Assignment{
		Replica: replica, Next: next.Admitted, Type: v.Target, Label: p.Profile.Label,
		Tolerations: a.Of.Group.Governing.Tolerations[v.Target], Size: size, Volumes: volumes,
		Domains: domains.Requirements, DropAffinity: domains.Affinity, DropAntiAffinity: domains.AntiAffinity,
	}, p.Placeholders.Image), true, nil
}

// noPlaceholder is the obstacle for a replica that would need a placeholder and gets none.
func noPlaceholder(v rebalance.Verdict, why string) error {
	return rebalance.ReasonNoPlaceholder.Obstacle(rebalance.HoldInsufficientCapacity, "%s; no placeholder: %s", v.Message, why)
}

// domains returns where a replacement may run once its replica is gone, for its placeholder.
func (p *prover) domains(
	ctx context.Context, a rebalance.Action, next *corev1.Pod, own simulation.Holder,
) (domains simulation.Domains, err error) {
	if err = p.takeSnapshot(ctx); err != nil {
		return domains, err
	}
	var others []simulation.Holder
	for _, h := range a.Of.Placeholders {
		if h.UID != own.UID {
			others = append(others, simulation.Holder{UID: h.UID, Replica: h.Replica})
		}
	}
	gone := p.evicted(&a.Of)
	if !a.Surge {
		gone = append(gone, own.Replica)
	}
	return p.snapshot.Domains(p.question(&a, next, nil, gone), own, others), nil
}

// misplaced reports whether a placeholder runs where the pods that are there do not allow the replacement by now: pods came or
// went since it was created. Another placeholder then waits for another node.
func (p *prover) misplaced(ctx context.Context, a rebalance.Action) bool {
	if p.admitted.Admitted == nil { // it was not proven
		return false
	}
	h := a.Placeholder
	domains, err := p.domains(ctx, a, p.admitted.Admitted, simulation.Holder{UID: h.UID, Replica: h.Replica})
	return err == nil && domains.Outside
}
