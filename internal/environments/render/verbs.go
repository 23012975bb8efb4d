// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// Verb is an operation on an environment.
type Verb string

// Verbs.
const (
	VerbUpdate  Verb = "update"
	VerbStart   Verb = "start"
	VerbStop    Verb = "stop"
	VerbRestart Verb = "restart"
	VerbDelete  Verb = "delete"
)

// Allowed returns an error where a verb makes no sense in the state that an environment is in: what runs cannot be started,
// what is stopped cannot be stopped, and nothing but deletion helps what is being deleted. A start while it
// stops, and the reverse, is one: it turns around. What is still being started may be started again, and what is stopped may
// be restarted, so that a client need not wait for one call to take effect before the next.
func Allowed(phase v1alpha1.EnvironmentPhase, run v1alpha1.RunPolicy, verb Verb) error {
	stopped := run == v1alpha1.RunPolicyStopped
	var allowed bool
	switch verb {
	case VerbDelete:
		return nil
	case VerbStart:
		allowed = stopped || !started(phase)
	case VerbStop:
		allowed = !stopped
	case VerbUpdate, VerbRestart:
		allowed = true
	}
	if allowed && phase != v1alpha1.EnvironmentDeleting {
		return nil
	}
	return fmt.Errorf("cannot %s an environment that is %s", verb, cmp.Or(phase, v1alpha1.EnvironmentPending))
}

// started reports whether an environment in a phase has been started, as far as the controller has seen.
func started(phase v1alpha1.EnvironmentPhase) bool {
	return phase == v1alpha1.EnvironmentRunning || phase == v1alpha1.EnvironmentUpdating || phase == v1alpha1.EnvironmentFailed
}

// PhaseOf is the phase of an environment. A deletion counts before the controller has seen it.
func PhaseOf(e *v1alpha1.Environment) v1alpha1.EnvironmentPhase {
	if e.DeletionTimestamp != nil {
		return v1alpha1.EnvironmentDeleting
	}
	return cmp.Or(e.Status.Phase, v1alpha1.EnvironmentPending)
}

// May returns an error where a verb makes no sense as an environment is: see Allowed.
func May(e *v1alpha1.Environment, verb Verb) error {
	return Allowed(PhaseOf(e), e.Spec.RunPolicy, verb)
}

// Start has an environment run. The error is why its phase does not allow that.
func Start(e *v1alpha1.Environment) error {
	if err := May(e, VerbStart); err != nil {
		return err
	}
	e.Spec.RunPolicy, e.Spec.ForceStop = v1alpha1.RunPolicyRunning, false
	return nil
}

// Stop has an environment stop, by force without the time that containers otherwise have. The error is why its phase does not
// allow that. One that stops already can still be stopped by force.
func Stop(e *v1alpha1.Environment, force bool) error {
	phase := PhaseOf(e)
	hurry := force && !e.Spec.ForceStop && e.Spec.RunPolicy == v1alpha1.RunPolicyStopped &&
		phase != v1alpha1.EnvironmentStopped && phase != v1alpha1.EnvironmentDeleting
	if err := May(e, VerbStop); err != nil && !hurry {
		return err
	}
	e.Spec.RunPolicy, e.Spec.ForceStop = v1alpha1.RunPolicyStopped, force
	return nil
}

// Restart has an environment replace all its pods, and start if it is stopped. The error is why its phase does not allow that.
func Restart(e *v1alpha1.Environment, now time.Time) error {
	if err := May(e, VerbRestart); err != nil {
		return err
	}
	e.Spec.RunPolicy, e.Spec.ForceStop = v1alpha1.RunPolicyRunning, false
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	// The API server keeps seconds, and the second restart within one is a restart too. So is one by a clock that is late.
	if last := e.Spec.RestartedAt; last != nil && !at.After(last.Time) {
		at = metav1.NewTime(last.Add(time.Second))
	}
	e.Spec.RestartedAt = &at
	return nil
}

// Sign records for the history who changes an environment. An unknown user
// ("") clears it, since whoever changed it before does not do so now.
func Sign(e metav1.Object, who string) {
	annotations := e.GetAnnotations()
	delete(annotations, v1alpha1.ActorAnnotation)
	if who != "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[v1alpha1.ActorAnnotation] = who
	}
	e.SetAnnotations(annotations)
}
