// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"errors"
	"fmt"
	"time"

	"berth.dev/berth/internal/mix/clusterstate"
)

// How long replicas are held back.
const (
	// HoldInsufficientCapacity is for a replica for which the filters found no capacity, HoldRefused for one whose eviction the
	// API server refused, HoldChanged for one that has changed since the watch showed it.
	HoldInsufficientCapacity = time.Minute
	HoldRefused              = 30 * time.Second
	HoldChanged              = 200 * time.Millisecond
	// HoldUnread is for a workload whose owner has a scale that was not read yet.
	HoldUnread = time.Second
	// HoldMisplaced is for a replica whose placeholder runs where the replacement does not fit: other pods on the node may go.
	HoldMisplaced = 10 * time.Second
	// HoldReplacement is for a replica whose replacement is unknown or refused: what refuses it, a template, a right, a quota or
	// a policy, is changed by users. It doubles with each time in a row, up to MaxHoldReplacement.
	HoldReplacement    = 30 * time.Second
	MaxHoldReplacement = 8 * time.Minute
)

// Obstacle is why an action was not carried out, and for how long its replica is held back. An error that is none means that
// the API server did not answer.
type Obstacle struct {
	Reason  *Reason
	Message string
	For     time.Duration
	// Until is a time before which the replica is held back as well.
	Until time.Time
	// Unproven is set where the replacement is not proven. The replica is held back for longer each time in a row.
	Unproven bool
}

// Error implements error.
func (o *Obstacle) Error() string { return o.Message }

// Obstacle returns an obstacle with the reason.
func (r *Reason) Obstacle(d time.Duration, format string, args ...any) error {
	return &Obstacle{Reason: r, For: d, Message: fmt.Sprintf(format, args...)}
}

// Unproven returns an obstacle that the replacement is not proven.
func (r *Reason) Unproven(format string, args ...any) error {
	return &Obstacle{Reason: r, Unproven: true, Message: fmt.Sprintf(format, args...)}
}

// Changed is that a replica is not what was decided about.
func Changed(pod *clusterstate.Pod) error {
	return ReasonChanged.Obstacle(HoldChanged, "pod %s has changed", pod.Name)
}

// ObstacleOf returns the obstacle that an error is.
func ObstacleOf(err error) *Obstacle {
	var o *Obstacle
	if !errors.As(err, &o) {
		o = &Obstacle{Reason: ReasonCapacityUnproven, For: HoldRefused, Message: err.Error()}
	}
	return o
}

// hold is a verdict that holds for a while.
func (w *Evaluation) hold(v Verdict, err error) *Hold {
	o := ObstacleOf(err)
	d := o.For
	if o.Unproven {
		w.Unproven = w.Before.Unproven + 1 // one evaluation may hold several replicas
		d = Backoff(HoldReplacement, MaxHoldReplacement, w.Unproven)
	}
	v.Reason, v.Message, v.RetryAt = o.Reason, o.Message, w.Now.Add(d)
	if o.Until.After(v.RetryAt) {
		v.RetryAt = o.Until
	}
	return &Hold{Verdict: v, Until: v.RetryAt}
}
