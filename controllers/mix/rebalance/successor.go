// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/replacement"
)

const (
	// holdReplacement is how long a replica is held whose replacement is unknown or refused: what refuses it, a template, a
	// right, a quota or a policy, is changed by users. It doubles with each time in a row, up to maxHoldReplacement.
	holdReplacement    = 30 * time.Second
	maxHoldReplacement = 8 * time.Minute
)

// nextPod is the pod that the owner of a replica will create in its place.
type nextPod struct {
	// created is that pod as the owner creates it, admitted as the API server would store it.
	created, admitted *corev1.Pod
	// from names the owner and the field with the template.
	from string
}

// origin is what the pod is created from, for the end of a sentence about it.
func (s *nextPod) origin() string {
	if s.from == "" {
		return ""
	}
	return ", which is created from " + s.from
}

// successor returns the pod that the owner of a replica will create in its place, or a hold: it cannot be known, it would not
// follow the mix, or the API server would not admit it.
func (p *prover) successor(ctx context.Context, w *evaluation, v rebalance.Verdict, pod *corev1.Pod) (nextPod, *rebalance.Hold) {
	if p.owners == nil {
		return nextPod{created: pod, admitted: pod}, p.api.creatable(ctx, w, v, pod, pod)
	}
	next, hold := p.created(ctx, w, v, pod)
	if hold != nil {
		return next, hold
	}
	// All replicas of a workload without identities have the same replacement: it is admitted once for an evaluation.
	if w.admitted.created != nil && sameCreated(w.admitted.created, next.created) {
		return w.admitted, nil
	}
	if hold = p.api.creatable(ctx, w, v, pod, next.created); hold != nil {
		return next, hold
	}
	if next.admitted, hold = p.admit(ctx, w, v, pod, &next); hold != nil {
		return next, hold
	}
	steered := rebalance.Steered(next.admitted, next.from, p.Profile.SchedulerNames, p.State.Classifier.Pins)
	if steered.Reason != nil {
		return next, w.unproven(v, steered.Reason, "%s", steered.Message)
	}
	w.Unproven, w.admitted = 0, next
	return next, nil
}

// created reads the owner of a replica.
func (p *prover) created(ctx context.Context, w *evaluation, v rebalance.Verdict, pod *corev1.Pod) (nextPod, *rebalance.Hold) {
	t, err := p.owners.template(ctx, pod, &w.Group)
	var unknown unknownTemplate
	switch {
	case errors.As(err, &unknown):
		return nextPod{}, w.unproven(v, rebalance.ReasonReplacementUnknown, "the replacement of pod %s is unknown: %v", v.Pod.Name, err)
	case err != nil:
		p.api.noteOutage(ctx, err)
		return nextPod{}, w.hold(v, rebalance.ReasonCapacityUnproven, holdRefused, "%v", err)
	}
	return nextPod{created: t.Replacement(pod), from: t.Field + " of " + t.Owner}, nil
}

// admit has the API server admit the replacement without storing it: quotas, policies and webhooks decide as they will for
// the owner, but for those that decide by the user. The webhooks may be those of a tenant, so a call that one of them holds up
// does not begin the grace.
func (p *prover) admit(
	ctx context.Context, w *evaluation, v rebalance.Verdict, old *corev1.Pod, next *nextPod,
) (*corev1.Pod, *rebalance.Hold) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	created, dryRun := next.created, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	admitted, err := p.Client.CoreV1().Pods(created.Namespace).Create(ctx, created, dryRun)
	switch {
	case err == nil:
		return admitted, nil
	case w.crowded != "" && forbiddenWithoutCause(err):
		// The replacement does not fit beside the replica, and the answer may be that of this quota, which is the last to decide.
		// In the place of the replica the quota allows it, as creatable has shown.
		expected := replacement.AsAdmitted(created, old)
		gate.Inherit(expected, old)
		return expected, nil
	case unanswered(err):
		return nil, w.hold(v, rebalance.ReasonCapacityUnproven, holdRefused,
			"the API server did not admit the pod that is created from %s: %v", next.from, err)
	}
	return nil, w.unproven(v, rebalance.ReasonReplacementRefused,
		"the API server refuses the pod that is created from %s: %v", next.from, err)
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

// unproven holds a replica whose replacement is not proven, for longer each time in a row.
func (w *evaluation) unproven(v rebalance.Verdict, r *rebalance.Reason, format string, args ...any) *rebalance.Hold {
	w.Unproven = w.before.Unproven + 1 // one evaluation may hold several replicas
	return w.hold(v, r, rebalance.Backoff(holdReplacement, maxHoldReplacement, w.Unproven), "%s", fmt.Sprintf(format, args...))
}

// recreated returns a hold if the owner of a replica would create another pod by now than the one that was proven: the proof
// may have taken long.
func (p *prover) recreated(ctx context.Context, w *evaluation, v rebalance.Verdict, pod *corev1.Pod) *rebalance.Hold {
	if p.owners == nil {
		return nil
	}
	next, hold := p.created(ctx, w, v, pod)
	if hold == nil && !sameCreated(next.created, w.proven.created) {
		hold = w.hold(v, rebalance.ReasonChanged, holdChanged, "%s has changed", next.from)
	}
	return hold
}

// sameCreated reports whether an owner creates the same pod.
func sameCreated(a, b *corev1.Pod) bool { return equality.Semantic.DeepEqual(a, b) }
