// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/applyset"
)

// Reasons of the condition Degraded, in addition those that it shares with DeploymentRecords.
const (
	// ReasonInvalid: the spec cannot be run.
	ReasonInvalid = "Invalid"
	// ReasonPortTaken: a port belongs to another environment.
	ReasonPortTaken = "PortTaken"
	// ReasonNoPorts: no port is left to be allocated.
	ReasonNoPorts = "NoPorts"
	// ReasonNoSecret: a Secret that the spec names is not there.
	ReasonNoSecret = "NoSecret"
	// ReasonCleanedUp: it did not come to run, and what was made for it was removed.
	ReasonCleanedUp = "CleanedUp"
)

const maxMessage = 1024

// reasons are those of the events of phases.
var reasons = map[v1alpha1.EnvironmentPhase]string{
	v1alpha1.EnvironmentPending: v1alpha1.EventReasonEnvironmentPending, v1alpha1.EnvironmentCreating: v1alpha1.EventReasonEnvironmentCreating,
	v1alpha1.EnvironmentRunning: v1alpha1.EventReasonEnvironmentRunning, v1alpha1.EnvironmentUpdating: v1alpha1.EventReasonEnvironmentUpdating,
	v1alpha1.EnvironmentStopping: v1alpha1.EventReasonEnvironmentStopping, v1alpha1.EnvironmentStopped: v1alpha1.EventReasonEnvironmentStopped,
	v1alpha1.EnvironmentFailed: v1alpha1.EventReasonEnvironmentFailed, v1alpha1.EnvironmentDeleting: v1alpha1.EventReasonEnvironmentDeleting,
}

// report writes where an environment stands, if that is another than what was written before, and says when to evaluate again.
func (r *Reconciler) report(ctx context.Context, before *v1alpha1.Environment, l *look, refused *refusal) (reconcile.Result, error) {
	env := l.env
	late := r.time(env, before)
	l.situation.Environment, l.situation.Late = env, late
	if refused != nil {
		l.situation.Refused = refused.Error()
	}
	r.compose(l, refused)
	if equality.Semantic.DeepEqual(before.Status, env.Status) {
		return r.next(l, refused), nil
	}
	after := before.DeepCopy()
	after.Status = env.Status
	err := r.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner))
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: notYet}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(fmt.Errorf("write the status of Environment %s/%s: %w", env.Namespace, env.Name, err))
	}
	if from, to := before.Status.Phase, env.Status.Phase; from != to {
		kind := corev1.EventTypeNormal
		if to == v1alpha1.EnvironmentFailed {
			kind = corev1.EventTypeWarning
		}
		r.Recorder.Event(env, kind, reasons[to], env.Status.Message)
		phases.WithLabelValues(string(to)).Inc()
		if to == v1alpha1.EnvironmentRunning && from == v1alpha1.EnvironmentCreating && env.Status.StartedAt != nil {
			starts.Observe(r.Clock.Since(env.Status.StartedAt.Time).Seconds())
		}
	}
	return r.next(l, refused), nil
}

// next says when an environment is looked at again by itself.
func (r *Reconciler) next(l *look, refused *refusal) reconcile.Result {
	s, t := &l.env.Status, r.tuning.Load()
	switch {
	case refused != nil && l.env.DeletionTimestamp == nil:
		return reconcile.Result{RequeueAfter: again}
	case s.Phase == v1alpha1.EnvironmentCreating && s.StartedAt != nil:
		return r.in(t.StartTimeout, s.StartedAt)
	case s.Phase == v1alpha1.EnvironmentFailed && s.StartedAt != nil && t.CleanUp > 0 && !l.abandoned:
		return r.in(t.StartTimeout+t.CleanUp, s.StartedAt)
	}
	return reconcile.Result{RequeueAfter: resync}
}

// in requests a look when so much time is over since a start: nothing else happens then that would report it.
func (r *Reconciler) in(most time.Duration, start *metav1.Time) reconcile.Result {
	return reconcile.Result{RequeueAfter: max(min(most-r.Clock.Since(start.Time)+time.Second, resync), time.Second)}
}

// time notes when a start began, and reports whether it takes longer than it may.
func (r *Reconciler) time(env, before *v1alpha1.Environment) (late bool) {
	s := &env.Status
	running := env.Spec.RunPolicy != v1alpha1.RunPolicyStopped && s.OpenStages < render.Stages
	if running && (s.StartedAt == nil || before.Status.ObservedGeneration != env.Generation) {
		now := metav1.NewTime(r.Clock.Now().Truncate(time.Second))
		s.StartedAt = &now
	}
	return running && r.Clock.Since(s.StartedAt.Time) > r.tuning.Load().StartTimeout
}

// compose fills in the status.
func (r *Reconciler) compose(l *look, refused *refusal) {
	env, s := l.env, &l.env.Status
	var ready int
	s.Phase, s.Message = l.situation.Phase()
	s.Components, ready = l.situation.Statuses()
	s.Ready = fmt.Sprintf("%d/%d", ready, len(l.components))
	s.ObservedGeneration = env.Generation
	set := func(kind string, is bool, yes, no [2]string) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: yes[0], Message: yes[1], ObservedGeneration: env.Generation}
		if !is {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, no[0], no[1]
		}
		c.Message, c.LastTransitionTime = applyset.Shorten(c.Message, maxMessage), metav1.NewTime(r.Clock.Now().Truncate(time.Second))
		meta.SetStatusCondition(&s.Conditions, c)
	}
	if l.abandoned {
		s.Phase, s.Message = v1alpha1.EnvironmentFailed, "did not come to run, and what was made for it was removed: change it to have it tried again"
		refused = &refusal{ReasonCleanedUp, fmt.Errorf("%s", s.Message)}
	}
	s.Message = applyset.Shorten(s.Message, maxMessage)
	set(v1alpha1.ConditionReady, ready == len(l.components) && refused == nil, [2]string{"AllReady", "every component is ready"}, [2]string{string(s.Phase), s.Message})
	degraded, why := [2]string{"Configured", "run as configured"}, ""
	if refused != nil {
		why = refused.Error()
		degraded = [2]string{refused.reason, why}
	}
	set(v1alpha1.ConditionDegraded, refused != nil, degraded, degraded)
	ports := refused == nil || refused.reason != ReasonPortTaken && refused.reason != ReasonNoPorts
	set(v1alpha1.ConditionPortsAllocated, ports, [2]string{"Allocated", fmt.Sprintf("%d ports", len(s.Ports))}, degraded)
	asked, reason, message := render.NetworkConfigured(&env.Spec, &r.Settings)
	network := [2]string{reason, message}
	set(v1alpha1.ConditionNetworkConfigured, asked, network, network)
	if domains, asked := r.domains(l); asked {
		says := [2]string{domains.Reason, domains.Message}
		set(ConditionRoutesAccepted, domains.Accepted, says, says)
	} else {
		meta.RemoveStatusCondition(&s.Conditions, ConditionRoutesAccepted)
	}
	volumes := render.RefusedHostPaths(&env.Spec, r.Settings.HostPaths)
	set(v1alpha1.ConditionVolumesProvisioned, len(volumes) == 0, [2]string{"Configured", "every volume is what was requested"},
		[2]string{"HostPathNotAllowed", "claims take the place of directories of the node, which environments.hostPaths does not allow: " + strings.Join(volumes, ", ")})
}
