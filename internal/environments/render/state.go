// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/display"
)

// Observed is what the cluster has of a component.
type Observed struct {
	// Current is set if the workload is there as it was rendered last, and its controller has seen it.
	Current bool
	// Replicas is how many it should have, Ready how many are, Updated how many of the current revision are ready.
	Replicas, Ready, Updated int32
	// Done is set if a Job has succeeded.
	Done bool
	// Pods is how many pods there are, those that are on their way out too.
	Pods int32
	// Restarts is how often containers of its pods were started again.
	Restarts int32
	// Reason and Message are why it is not ready.
	Reason, Message string
	// RestartedAt is the restart that its pods belong to.
	RestartedAt string
}

// Ready reports whether a component is as configured.
func (o *Observed) ready(c *stack.Component) bool {
	if c.Workload == stack.OfJob {
		return o.Current && (o.Done || o.Ready >= min(c.Replicas, 1))
	}
	return o.Current && o.Updated >= c.Replicas && o.Ready >= c.Replicas
}

// Situation is what is known when the phase of an environment is decided.
type Situation struct {
	Environment *v1alpha1.Environment
	Components  []stack.Component
	Observed    map[string]Observed
	// Refused is why it cannot be run as configured, "" if it can.
	Refused string
	// Late is set if the start takes longer than it may.
	Late bool
}

// ready reports whether all components of a stage are.
func (s *Situation) ready(stage int32) bool {
	for i := range s.Components {
		c := &s.Components[i]
		if o := s.Observed[c.Name]; c.Stage == stage && !o.ready(c) {
			return false
		}
	}
	return true
}

// pods is how many pods the components from a stage on have.
func (s *Situation) pods(from int32) (n int32) {
	for _, c := range s.Components {
		if c.Stage >= from {
			n += s.Observed[c.Name].Pods
		}
	}
	return n
}

// OpenStages returns how many stages, from the first, have been ready since the start, or still run while it stops: see
// EnvironmentStatus.OpenStages. It moves as far as what is observed allows.
func (s *Situation) OpenStages() int32 {
	open := s.Environment.Status.OpenStages
	if s.Environment.Spec.RunPolicy == v1alpha1.RunPolicyStopped {
		// The stage after the open ones is on its way down: what was being started goes first.
		for open > 0 && s.pods(open+1) == 0 {
			open--
		}
		return open
	}
	for open < stack.Stages && s.ready(open+1) {
		open++
	}
	return open
}

// Runs reports whether the pods of a stage may be there.
func Runs(run v1alpha1.RunPolicy, force bool, open, stage int32) bool {
	if run == v1alpha1.RunPolicyStopped {
		return stage <= open && !force
	}
	return true
}

// Gated reports whether the pods of a stage wait for the one before.
func Gated(run v1alpha1.RunPolicy, open, stage int32) bool {
	return run != v1alpha1.RunPolicyStopped && stage > open+1
}

// Phase returns the phase of an environment, and a message.
func (s *Situation) Phase() (v1alpha1.EnvironmentPhase, string) {
	e := s.Environment
	switch {
	case e.DeletionTimestamp != nil:
		return v1alpha1.EnvironmentDeleting, "its objects are being removed"
	case s.Refused != "":
		return v1alpha1.EnvironmentFailed, s.Refused
	case e.Spec.RunPolicy == v1alpha1.RunPolicyStopped:
		if n := s.pods(0); n > 0 {
			return v1alpha1.EnvironmentStopping, display.Clause(int(n), "pod", "is", "are") + " still there"
		}
		return v1alpha1.EnvironmentStopped, "no component runs"
	}
	if waiting := s.waiting(); waiting != "" {
		return s.phaseUntilReady(waiting)
	}
	return v1alpha1.EnvironmentRunning, "every component is ready"
}

// phaseUntilReady is Phase for an environment that waits for a component.
func (s *Situation) phaseUntilReady(waiting string) (v1alpha1.EnvironmentPhase, string) {
	e := s.Environment
	started := e.Status.OpenStages >= stack.Stages
	changed := e.Status.ObservedGeneration != e.Generation
	switch before := e.Status.Phase; {
	case !started && s.Late:
		return v1alpha1.EnvironmentFailed, "did not start in time: " + waiting
	case !started || before == v1alpha1.EnvironmentCreating: // a start ends when every component is ready, even if one has just changed
		return v1alpha1.EnvironmentCreating, waiting
	case changed || before == v1alpha1.EnvironmentUpdating || before == v1alpha1.EnvironmentFailed:
		return v1alpha1.EnvironmentUpdating, waiting
	}
	// It was ready, and no one changed it: what fails comes back by itself, and the condition Ready has the reason.
	return v1alpha1.EnvironmentRunning, waiting
}

// waiting returns what the environment waits for, "" if nothing.
func (s *Situation) waiting() string {
	for stage := int32(1); stage <= stack.Stages; stage++ {
		for i := range s.Components {
			c := &s.Components[i]
			o := s.Observed[c.Name]
			if c.Stage != stage || o.ready(c) {
				continue
			}
			text := fmt.Sprintf("%s: %d of %d replicas are ready", c.Name, o.Ready, c.Replicas)
			if o.Message != "" {
				text += ": " + o.Message
			}
			return text
		}
	}
	return ""
}

// Statuses returns the state of each component, in the order in which they start, and how many are ready.
func (s *Situation) Statuses() (list []v1alpha1.EnvironmentComponentStatus, ready int) {
	e := s.Environment
	for i := range s.Components {
		c := &s.Components[i]
		o := s.Observed[c.Name]
		status := v1alpha1.EnvironmentComponentStatus{
			Name: c.Name, Stage: c.Stage, Replicas: c.Replicas, ReadyReplicas: o.Ready, Restarts: o.Restarts,
			Ready: e.Spec.RunPolicy != v1alpha1.RunPolicyStopped && o.ready(c), Reason: o.Reason, Message: o.Message,
		}
		switch {
		case status.Ready:
			status.Reason, status.Message = "", ""
			ready++
		case e.Spec.RunPolicy == v1alpha1.RunPolicyStopped:
			status.Reason, status.Message = "Stopped", ""
		case Gated(e.Spec.RunPolicy, e.Status.OpenStages, c.Stage):
			status.Reason, status.Message = "WaitsForStage", fmt.Sprintf("starts when stage %d is ready", e.Status.OpenStages+1)
		case status.Reason == "":
			status.Reason = v1alpha1.ReasonWaiting
		}
		list = append(list, status)
	}
	return list, ready
}
