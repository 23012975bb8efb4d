// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
)

var statuses = map[v1alpha1.EnvironmentPhase]schedulerv1.EnvironmentStatus{
	"":                           schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_PENDING,
	v1alpha1.EnvironmentPending:  schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_PENDING,
	v1alpha1.EnvironmentCreating: schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_CREATING,
	v1alpha1.EnvironmentRunning:  schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_RUNNING,
	v1alpha1.EnvironmentUpdating: schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_UPDATING,
	v1alpha1.EnvironmentStopping: schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_STOPPING,
	v1alpha1.EnvironmentStopped:  schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_STOPPED,
	v1alpha1.EnvironmentFailed:   schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_FAILED,
	v1alpha1.EnvironmentDeleting: schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_STOPPING,
}

// statusOf is the state of an environment, or, until the controller has seen its last change, where that leads: a client that stops
// an environment and then waits until it runs would otherwise find that it does.
func statusOf(e *environment) schedulerv1.EnvironmentStatus {
	phase := render.PhaseOf(e)
	if e.DeletionTimestamp == nil && e.Status.ObservedGeneration < e.Generation {
		phase = ahead(phase, e.Spec.RunPolicy)
	}
	return statuses[phase]
}

// ahead is the phase that follows when the spec has changed.
func ahead(phase v1alpha1.EnvironmentPhase, run v1alpha1.RunPolicy) v1alpha1.EnvironmentPhase {
	stopped := run == v1alpha1.RunPolicyStopped
	switch phase {
	case v1alpha1.EnvironmentStopped, v1alpha1.EnvironmentStopping:
		if !stopped {
			return v1alpha1.EnvironmentCreating
		}
	case v1alpha1.EnvironmentRunning:
		if !stopped {
			return v1alpha1.EnvironmentUpdating
		}
		return v1alpha1.EnvironmentStopping
	case v1alpha1.EnvironmentCreating, v1alpha1.EnvironmentUpdating, v1alpha1.EnvironmentFailed:
		if stopped {
			return v1alpha1.EnvironmentStopping
		}
	default:
	}
	return phase
}

// stamp returns the annotation of when a generation was made.
func stamp(generation int64, now time.Time) string {
	return fmt.Sprintf("%d/%s", generation, now.UTC().Format(time.RFC3339Nano))
}

// updatedAt is when the spec was last changed: by the service, if the last change was, else as the controller saw it.
func updatedAt(e *environment) *timestamppb.Timestamp {
	generation, text, _ := strings.Cut(e.Annotations[v1alpha1.UpdatedAtAnnotation], "/")
	if n, err := strconv.ParseInt(generation, 10, 64); err == nil && n == e.Generation {
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil && at.Year() > 0 && at.Year() < 10000 {
			return timestamppb.New(at)
		}
	}
	if e.Status.UpdatedAt != nil && e.Status.UpdatedAt.After(e.CreationTimestamp.Time) {
		return timeToWire(e.Status.UpdatedAt)
	}
	return timeToWire(&e.CreationTimestamp)
}
