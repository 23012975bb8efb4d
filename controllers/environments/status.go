// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/applyset"
)

const maxMessage = 1024

// reasons are those of the events of phases.
var reasons = map[v1alpha1.EnvironmentPhase]string{
	v1alpha1.EnvironmentPending:  v1alpha1.EventReasonEnvironmentPending,
	v1alpha1.EnvironmentCreating: v1alpha1.EventReasonEnvironmentCreating,
	v1alpha1.EnvironmentRunning:  v1alpha1.EventReasonEnvironmentRunning,
	v1alpha1.EnvironmentUpdating: v1alpha1.EventReasonEnvironmentUpdating,
	v1alpha1.EnvironmentStopping: v1alpha1.EventReasonEnvironmentStopping,
	v1alpha1.EnvironmentStopped:  v1alpha1.EventReasonEnvironmentStopped,
	v1alpha1.EnvironmentFailed:   v1alpha1.EventReasonEnvironmentFailed,
	v1alpha1.EnvironmentDeleting: v1alpha1.EventReasonEnvironmentDeleting,
}

// report writes the status of an environment if it has changed, and returns when to reconcile it again. A status that follows from
// a stale one is not written: it could start the environment, or a stage of it, a second time.
func (c *Controller) report(
	ctx context.Context, before *v1alpha1.Environment, v *observation, refused *applyset.RefusedError,
) (reconcile.Result, error) {
	env := v.env
	v.situation.Environment, v.situation.Late = env, c.time(env, before)
	if refused != nil {
		v.situation.Refused = refused.Error()
	}
	c.compose(v, refused)
	if equality.Semantic.DeepEqual(before.Status, env.Status) {
		return c.next(v, refused), nil
	}
	version, err := applyset.Status(ctx, c.Client, environmentKind, before, &env.Status, FieldOwner, applyset.OptimisticLock)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: cacheDelay}, nil
	case err != nil:
		return reconcile.Result{}, err
	case version == "":
		return reconcile.Result{}, c.removeGone(ctx, before, v)
	}
	if from, to := before.Status.Phase, env.Status.Phase; from != to {
		kind := corev1.EventTypeNormal
		if to == v1alpha1.EnvironmentFailed {
			kind = corev1.EventTypeWarning
		}
		c.Recorder.Event(env, kind, reasons[to], env.Status.Message)
		phases.WithLabelValues(string(to)).Inc()
		if to == v1alpha1.EnvironmentRunning && from == v1alpha1.EnvironmentCreating && env.Status.StartedAt != nil {
			starts.Observe(c.Clock.Since(env.Status.StartedAt.Time).Seconds())
		}
	}
	return c.next(v, refused), nil
}

// next returns when an environment is reconciled again without an event.
func (c *Controller) next(v *observation, refused *applyset.RefusedError) reconcile.Result {
	s := &v.env.Status
	switch {
	case refused != nil && v.env.DeletionTimestamp == nil:
		return reconcile.Result{RequeueAfter: refusedInterval}
	case s.Phase == v1alpha1.EnvironmentCreating && s.StartedAt != nil:
		return c.in(c.startTimeout(v.env), s.StartedAt)
	case s.Phase == v1alpha1.EnvironmentFailed && s.StartedAt != nil && c.cleanUp(v.env) > 0 && !v.abandoned:
		return c.in(c.startTimeout(v.env)+c.cleanUp(v.env), s.StartedAt)
	}
	return reconcile.Result{RequeueAfter: resyncInterval}
}

// startTimeout returns how long the start of an environment may take.
func (c *Controller) startTimeout(env *v1alpha1.Environment) time.Duration {
	if s := env.Spec.StartTimeoutSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return c.tuning.Load().StartTimeout
}

// cleanUp returns how long after its timeout the objects of an environment that did not start are deleted, 0 for never.
func (c *Controller) cleanUp(env *v1alpha1.Environment) time.Duration {
	if s := env.Spec.CleanUpFailedSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return c.tuning.Load().CleanUp
}

// in requeues an environment when so much time is over since its start, because no event reports that.
func (c *Controller) in(most time.Duration, start *metav1.Time) reconcile.Result {
	return reconcile.Result{RequeueAfter: max(min(most-c.Clock.Since(start.Time)+time.Second, resyncInterval), time.Second)}
}

// time sets the start time of an environment, and reports whether the start takes longer than it may.
func (c *Controller) time(env, before *v1alpha1.Environment) (late bool) {
	s := &env.Status
	running := env.Spec.RunPolicy != v1alpha1.RunPolicyStopped && s.OpenStages < stack.Stages
	if running && (s.StartedAt == nil || before.Status.ObservedGeneration != env.Generation) {
		now := metav1.NewTime(c.Clock.Now().Truncate(time.Second))
		s.StartedAt = &now
	}
	return running && c.Clock.Since(s.StartedAt.Time) > c.startTimeout(env)
}

// compose sets the status.
func (c *Controller) compose(v *observation, refused *applyset.RefusedError) {
	env, s := v.env, &v.env.Status
	var ready int
	s.Phase, s.Message = v.situation.Phase()
	s.Components, ready = v.situation.Statuses()
	s.Ready = fmt.Sprintf("%d/%d", ready, len(v.components))
	s.ObservedGeneration = env.Generation
	if v.abandoned {
		s.Phase = v1alpha1.EnvironmentFailed
		s.Message = "did not run within its start timeout, and its objects were deleted: change spec to start it again"
		refused = applyset.Refuse(v1alpha1.ReasonCleanedUp, errors.New(s.Message))
	}
	s.Message = applyset.Shorten(s.Message, maxMessage)
	set := func(kind string, is bool, reason, message string) {
		condition := metav1.Condition{
			Type:               kind,
			Status:             metav1.ConditionFalse,
			Reason:             reason,
			Message:            applyset.Shorten(message, maxMessage),
			ObservedGeneration: env.Generation,
			LastTransitionTime: metav1.NewTime(c.Clock.Now().Truncate(time.Second)),
		}
		if is {
			condition.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&s.Conditions, condition)
	}
	if ready == len(v.components) && refused == nil {
		set(v1alpha1.ConditionReady, true, v1alpha1.ReasonAllReady, "every component is ready")
	} else {
		set(v1alpha1.ConditionReady, false, string(s.Phase), s.Message)
	}
	if refused == nil {
		set(v1alpha1.ConditionDegraded, false, v1alpha1.ReasonConfigured, "run as configured")
	} else {
		set(v1alpha1.ConditionDegraded, true, refused.Reason, refused.Error())
	}
	if refused != nil && (refused.Reason == v1alpha1.ReasonPortTaken || refused.Reason == v1alpha1.ReasonNoPorts) {
		set(v1alpha1.ConditionPortsAllocated, false, refused.Reason, refused.Error())
	} else {
		set(v1alpha1.ConditionPortsAllocated, true, v1alpha1.ReasonAllocated, fmt.Sprintf("%d ports", len(s.Ports)))
	}
	configured, reason, message := render.NetworkConfigured(&env.Spec, &c.Settings)
	set(v1alpha1.ConditionNetworkConfigured, configured, reason, message)
	if domains, requested := c.domains(v); requested {
		set(v1alpha1.ConditionRoutesAccepted, domains.Accepted, domains.Reason, domains.Message)
	} else {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionRoutesAccepted)
	}
	if list := childrenOf[*autoscalingv2.HorizontalPodAutoscaler](v); len(list) > 0 {
		active, reason, message := render.AutoscalingActive(list)
		set(v1alpha1.ConditionAutoscalingActive, active, reason, message)
	} else {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionAutoscalingActive)
	}
	provisioned, reason, message := render.VolumesProvisioned(&env.Spec, c.Settings.HostPaths)
	set(v1alpha1.ConditionVolumesProvisioned, provisioned, reason, message)
}
