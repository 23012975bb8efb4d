// SPDX-License-Identifier: Apache-2.0

package gatefailopen

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

func pods(names ...string) []*clusterstate.Pod {
	var list []*clusterstate.Pod
	for _, name := range names {
		list = append(list, &clusterstate.Pod{Namespace: "shop", Name: name, UID: types.UID(name)})
	}
	return list
}

func names(pods []*clusterstate.Pod) (list []string) {
	for _, p := range pods {
		list = append(list, p.Name)
	}
	return list
}

func TestAPodIsDueOnceItHasWaited(t *testing.T) {
	w := waiting{}
	assert.Empty(t, w.due(pods("a", "b"), at(0), time.Minute))
	assert.Empty(t, w.due(pods("a", "b", "c"), at(30), time.Minute))
	assert.Equal(t, []string{"b", "a"}, names(w.due(pods("b", "c", "a"), at(60), time.Minute)), "in the order that they came in")
	assert.Equal(t, []string{"c"}, names(w.due(pods("c"), at(90), time.Minute)))
	assert.Len(t, w, 1, "those that are gone are forgotten")
	assert.Empty(t, w.due(pods("a"), at(90), time.Minute), "it begins to wait again")
}

// However old a pod is by the API server's clock: it has waited for as long as
// it was seen to wait, without a break.
func TestDueIsHowLongAPodWasSeen(t *testing.T) {
	all := pods("a", "b", "c")
	rapid.Check(t, func(t *rapid.T) {
		w := waiting{}
		seen := map[types.UID]time.Time{}
		now := 0
		for range rapid.IntRange(0, 20).Draw(t, "looks") {
			now += rapid.IntRange(0, 20).Draw(t, "later")
			var there []*clusterstate.Pod
			var want []string
			for _, p := range all {
				if !rapid.Bool().Draw(t, "there") {
					delete(seen, p.UID)
					continue
				}
				there = append(there, p)
				if _, known := seen[p.UID]; !known {
					seen[p.UID] = at(now)
				}
				if at(now).Sub(seen[p.UID]) >= 30*time.Second {
					want = append(want, p.Name)
				}
			}
			require.Equal(t, want, names(w.due(there, at(now), 30*time.Second)))
			require.Len(t, w, len(there))
		}
	})
}

func TestOnlyLivingPodsWithoutOtherGatesAreUngated(t *testing.T) {
	all := pods("a", "b", "c", "d")
	all[3].OtherGates = true
	all[1].Terminating = true
	all[2].Namespace = "bank"
	assert.Equal(t, []string{"a", "c"}, names(within(all, nil)))
	assert.Equal(t, []string{"c"}, names(within(all, []string{"bank"})))
	assert.Equal(t, []string{"a", "b", "c", "d"}, names(all), "the argument stays as it is")
}

// Pods that a first check missed would be released after younger ones.
func TestNoPodBeginsToWaitBeforeAllAreListed(t *testing.T) {
	listed := false
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	c := New(Options{
		State: clusterstate.New(clusterstate.Options{Classifier: classifier, Mixes: governing.NewRegistry()}), Listed: func() bool { return listed },
		Clock: testingclock.NewFakeClock(at(0)), FailOpen: time.Minute,
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "a"}}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
	c.State.SetPod(pod)
	c.check(t.Context())
	assert.Empty(t, c.waiting)
	listed = true
	c.check(t.Context())
	assert.Len(t, c.waiting, 1)
}

// Between two checks that are as far apart as they are meant to be, and late by a
// call that runs into its bound, the watch goes on; a pod is released in time.
func TestThePeriodFitsTheWatch(t *testing.T) {
	for _, failOpen := range []time.Duration{time.Second, 5 * time.Second, time.Minute, time.Hour} {
		c := New(Options{FailOpen: failOpen})
		assert.GreaterOrEqual(t, c.watch.gap, c.period()+callTimeout)
		assert.LessOrEqual(t, failOpen+2*c.period(), failOpen+20*time.Second)
		assert.Positive(t, c.period())
	}
	assert.Equal(t, 180*time.Second, New(Options{FailOpen: time.Minute}).patience(), "without a lease")
}
