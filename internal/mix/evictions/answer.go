// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"fmt"
	"strings"
	"time"
)

const (
	// Heartbeat is how often a request that waits is answered. After 20 minutes without an answer, another responder goes on.
	Heartbeat = 5 * time.Minute
	// Pause is the least time between two answers, but for the last one: the API requests 20 seconds.
	Pause = 30 * time.Second
	// Patience is how long a request waits, at most, for the release of its pod. After it another responder goes on.
	Patience = 10 * time.Minute
	// unseen is how long a pod may be unknown that the API server has.
	unseen = time.Minute
	// maxMessage bounds what is kept and written of a message. The API allows 4,000 characters.
	maxMessage = 1000
)

// State is what becomes of the pod of a request.
type State int

const (
	// Unknown pods were not seen yet.
	Unknown State = iota
	// Waiting pods are about to be released, or something that ends is in the way.
	Waiting
	// Refused pods are not released.
	Refused
	// Released pods run until their replacements are available.
	Released
	// Gone pods have ended, or terminate.
	Gone
)

// Fate is what becomes of the pod of a request, and why.
type Fate struct {
	State State
	Why   string
}

// Answer is what is written about a request.
type Answer struct {
	Message string
	// Completes ends the part of Berth: the next responder goes on, unless the pod is gone.
	Completes bool
}

// Answers returns the answer to a request at a time. Due is when it is to be written: at once if that is not after the time.
func Answers(r *Request, f Fate, now time.Time) (a Answer, due time.Time) {
	a = answerOf(r, f, now)
	switch {
	case a.Completes, r.Heartbeat.IsZero():
		return a, now
	case a.Message != r.Message:
		due = r.Heartbeat.Add(Pause)
	default:
		due = r.Heartbeat.Add(Heartbeat)
	}
	if until := r.Started.Add(f.patience()); f.patience() > 0 && until.Before(due) {
		due = until
	}
	return a, due
}

// patience is how long a pod may stay as it is, 0 for as long as that takes: a pod that was released ends by itself.
func (f Fate) patience() time.Duration {
	switch f.State {
	case Unknown:
		return unseen
	case Waiting:
		return Patience
	}
	return 0
}

func answerOf(r *Request, f Fate, now time.Time) (a Answer) {
	late := f.patience() > 0 && now.Sub(r.Started) >= f.patience()
	switch {
	case f.State == Gone:
		a = Answer{"The pod terminates.", true}
	case f.State == Released:
		a.Message = "The pod was released from its ReplicaSet, which creates the replacement. Once that is available, the pod is evicted. " +
			"A withdrawal does not change that."
	case f.State == Refused:
		a = Answer{"Berth does not release the pod: " + f.Why + ".", true}
	case late && f.State == Unknown:
		a = Answer{"Berth does not release the pod: it was not found.", true}
	case late:
		a = Answer{fmt.Sprintf("Berth did not release the pod within %d minutes%s.", Patience/time.Minute, because(f.Why)), true}
	default:
		a.Message = "The pod is about to be released from its ReplicaSet" + because(f.Why) + "."
	}
	a.Message = cut(a.Message)
	return a
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// cut bounds a message.
func cut(message string) string {
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
	}
	return strings.Clone(message)
}
