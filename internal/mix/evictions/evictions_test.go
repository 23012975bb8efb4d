// SPDX-License-Identifier: Apache-2.0

package evictions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/evictions"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// active is an Eviction for which Berth is the active responder since noon.
func active(changes ...func(*lifecyclev1alpha1.Eviction)) *lifecyclev1alpha1.Eviction {
	e := &lifecyclev1alpha1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pod-1-web", UID: "e"}}
	e.Spec.Target.Pod = &lifecyclev1alpha1.EvictionPodReference{Name: "web", UID: "w"}
	e.Status.ObservedGeneration = new(int64(1))
	e.Status.TargetResponders = []lifecyclev1alpha1.TargetResponder{
		{Name: "example.com/other", State: lifecyclev1alpha1.ResponderStateCompleted},
		{Name: v1alpha1.EvictionResponder, State: lifecyclev1alpha1.ResponderStateActive},
	}
	e.Status.Responders = []lifecyclev1alpha1.ResponderStatus{
		{Name: "example.com/other", Message: new(strings.Repeat("x", 4000))},
		{Name: v1alpha1.EvictionResponder, StartTime: new(metav1.NewTime(noon))},
	}
	for _, change := range changes {
		change(e)
	}
	return e
}

func TestWhichEvictionsAreRequestsForBerth(t *testing.T) {
	r, is := evictions.Of(active())
	require.True(t, is)
	assert.Equal(t, evictions.Request{Namespace: "shop", Name: "pod-1-web", UID: "e", Pod: "web", PodUID: "w", Started: noon}, r)
	for name, change := range map[string]func(*lifecyclev1alpha1.Eviction){
		"no target":                 func(e *lifecyclev1alpha1.Eviction) { e.Spec.Target.Pod = nil },
		"a target without a UID":    func(e *lifecyclev1alpha1.Eviction) { e.Spec.Target.Pod.UID = "" },
		"it is being deleted":       func(e *lifecyclev1alpha1.Eviction) { e.DeletionTimestamp = new(metav1.NewTime(noon)) },
		"no controller has seen it": func(e *lifecyclev1alpha1.Eviction) { e.Status.ObservedGeneration = nil },
		"another one is active": func(e *lifecyclev1alpha1.Eviction) {
			e.Status.TargetResponders[0].State, e.Status.TargetResponders[1].State = lifecyclev1alpha1.ResponderStateActive, lifecyclev1alpha1.ResponderStateInactive
		},
		"it was withdrawn": func(e *lifecyclev1alpha1.Eviction) {
			e.Status.TargetResponders[1].State = lifecyclev1alpha1.ResponderStateCanceled
		},
		"it was passed over": func(e *lifecyclev1alpha1.Eviction) {
			e.Status.TargetResponders[1].State = lifecyclev1alpha1.ResponderStateInterrupted
		},
		"it failed": func(e *lifecyclev1alpha1.Eviction) {
			e.Status.Conditions = []metav1.Condition{{Type: string(lifecyclev1alpha1.EvictionConditionFailed), Status: metav1.ConditionTrue}}
		},
		"the pod is gone": func(e *lifecyclev1alpha1.Eviction) {
			e.Status.Conditions = []metav1.Condition{{Type: string(lifecyclev1alpha1.EvictionConditionTargetEvicted), Status: metav1.ConditionTrue}}
		},
		"no status":        func(e *lifecyclev1alpha1.Eviction) { e.Status.Responders = nil },
		"it did not start": func(e *lifecyclev1alpha1.Eviction) { e.Status.Responders[1].StartTime = nil },
		"it is completed":  func(e *lifecyclev1alpha1.Eviction) { e.Status.Responders[1].CompletionTime = new(metav1.NewTime(noon)) },
	} {
		_, is := evictions.Of(active(change))
		assert.False(t, is, name)
		assert.Empty(t, evictions.Trimmed(active(change)).Status, name)
	}
}

func TestATrimmedEvictionIsTheSameRequest(t *testing.T) {
	e := active(func(e *lifecyclev1alpha1.Eviction) {
		s := &e.Status.Responders[1]
		s.HeartbeatTime, s.Message = new(metav1.NewTime(noon.Add(time.Minute))), new("It is about to be released.")
		e.Labels, e.ManagedFields = map[string]string{"a": "b"}, []metav1.ManagedFieldsEntry{{Manager: "m"}}
		e.ResourceVersion = "7"
	})
	want, is := evictions.Of(e)
	require.True(t, is)
	trimmed := evictions.Trimmed(e)
	got, is := evictions.Of(trimmed)
	require.True(t, is)
	assert.Equal(t, want, got)
	assert.Equal(t, "7", trimmed.ResourceVersion)
	assert.Empty(t, trimmed.Labels)
	assert.Empty(t, trimmed.ManagedFields)
	assert.Len(t, trimmed.Status.Responders, 1)
	assert.Len(t, trimmed.Status.TargetResponders, 1)
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		fate      evictions.Fate
		since     time.Duration
		completes bool
		message   string
	}{
		"it is about to be released": {evictions.Fate{State: evictions.Waiting}, 0, false, "The pod is about to be released from its ReplicaSet."},
		"a rollout":                  {evictions.Fate{State: evictions.Waiting, Why: "a rollout is in progress"}, 9 * time.Minute, false, "The pod is about to be released from its ReplicaSet: a rollout is in progress."},
		"a rollout that takes long":  {evictions.Fate{State: evictions.Waiting, Why: "a rollout is in progress"}, 10 * time.Minute, true, "Berth did not release the pod within 10 minutes: a rollout is in progress."},
		"it cannot be released":      {evictions.Fate{State: evictions.Refused, Why: "no mix governs it"}, 0, true, "Berth does not release the pod: no mix governs it."},
		"it was released":            {evictions.Fate{State: evictions.Released}, time.Hour, false, "The pod was released from its ReplicaSet, which creates the replacement. Once that is available, the pod is evicted. A withdrawal does not change that."},
		"it terminates":              {evictions.Fate{State: evictions.Gone}, time.Hour, true, "The pod terminates."},
		"it was not seen yet":        {evictions.Fate{}, time.Second, false, "The pod is about to be released from its ReplicaSet."},
		"it was never seen":          {evictions.Fate{}, time.Minute, true, "Berth does not release the pod: it was not found."},
	} {
		a, _ := evictions.Answers(&evictions.Request{Started: noon}, c.fate, noon.Add(c.since))
		assert.Equal(t, evictions.Answer{Message: c.message, Completes: c.completes}, a, name)
	}
	long, _ := evictions.Answers(&evictions.Request{Started: noon}, evictions.Fate{State: evictions.Refused, Why: strings.Repeat("ü", 4000)}, noon)
	assert.LessOrEqual(t, len(long.Message), 1000)
}

var fates = []evictions.Fate{
	{},
	{State: evictions.Waiting},
	{State: evictions.Waiting, Why: "a rollout is in progress"},
	{State: evictions.Refused, Why: "a pause"},
	{State: evictions.Released},
	{State: evictions.Gone},
}

// Whatever becomes of a pod: no other responder goes on while Berth has something to do, the API server has few writes, and a request waits
// for no more than ten minutes before the pod is released.
func TestAnswersAreSeldomAndInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := evictions.Request{Started: noon}
		last, unreleased := noon, time.Duration(0)
		fate := rapid.SampledFrom(fates).Draw(t, "fate")
		for now := noon; now.Before(noon.Add(2 * time.Hour)); {
			if rapid.IntRange(0, 9).Draw(t, "changes") == 0 {
				fate = rapid.SampledFrom(fates).Draw(t, "fate")
			}
			a, due := evictions.Answers(&r, fate, now)
			if now.Before(due) {
				step := min(due.Sub(now), time.Duration(rapid.IntRange(1, 300).Draw(t, "step"))*time.Second)
				now = now.Add(step)
				if fate.State != evictions.Released {
					unreleased += step
				}
				continue
			}
			if !r.Heartbeat.IsZero() && !a.Completes {
				require.GreaterOrEqual(t, now.Sub(last), 30*time.Second)
			}
			require.LessOrEqual(t, now.Sub(last), 5*time.Minute)
			require.LessOrEqual(t, unreleased, 10*time.Minute+5*time.Minute)
			last, r.Heartbeat, r.Message = now, now, a.Message
			if a.Completes {
				require.NotEqual(t, evictions.Released, fate.State)
				return
			}
		}
		require.Equal(t, evictions.Released, fate.State, "what waits has an end")
	})
}
