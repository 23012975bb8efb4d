// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

func livePod(name, node string, ready bool) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	p.Spec.NodeName = node
	c := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}
	if ready {
		c.Status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{c}
	return p
}

func known(live ...corev1.Pod) clusterstate.Group {
	g := clusterstate.Group{Key: governing.GroupKey{ID: "rs"}}
	for i := range live {
		p := &live[i]
		since, ready := ReadySince(p)
		g.Assignments = append(g.Assignments, clusterstate.Assignment{Pod: &clusterstate.Pod{Name: p.Name, UID: p.UID, Node: p.Spec.NodeName, Labels: p.Labels, Ready: ready, ReadySince: since}})
	}
	return g
}

func TestDiffers(t *testing.T) {
	a, b := livePod("a", "n", true), livePod("b", "n", true)
	terminating, finished := b, b
	terminating.DeletionTimestamp = &metav1.Time{}
	finished.Status.Phase = corev1.PodSucceeded
	for name, tc := range map[string]struct {
		live   []corev1.Pod
		moving map[types.UID]bool
		want   string
	}{
		"nothing":                      {live: []corev1.Pod{b, a}},
		"a pod is gone":                {live: []corev1.Pod{a}, want: "pod b is gone"},
		"a pod is being deleted":       {live: []corev1.Pod{a, terminating}, want: "pod b is gone"},
		"a pod has finished":           {live: []corev1.Pod{a, finished}, want: "pod b is gone"},
		"a pod is not Ready any more":  {live: []corev1.Pod{a, livePod("b", "n", false)}, want: "pod b is not Ready"},
		"a pod runs elsewhere":         {live: []corev1.Pod{a, livePod("b", "m", true)}, want: `pod b has the node "m"`},
		"there is another":             {live: []corev1.Pod{a, b, livePod("c", "", false)}, want: "pod c is new"},
		"the one being moved is gone":  {live: []corev1.Pod{a}, moving: map[types.UID]bool{"b": true}},
		"the one being moved is there": {live: []corev1.Pod{a, terminating}, moving: map[types.UID]bool{"b": true}},
		"its replacement waits":        {live: []corev1.Pod{a, livePod("c", "", false)}, moving: map[types.UID]bool{"b": true}},
		"its replacement has a node":   {live: []corev1.Pod{a, livePod("c", "n", false)}, moving: map[types.UID]bool{"b": true}},
		"more than its replacement wait": {
			live: []corev1.Pod{a, livePod("c", "", false), livePod("d", "", false)}, moving: map[types.UID]bool{"b": true}, want: "pod d is new",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := known(a, b)
			assert.Equal(t, tc.want, Differs(&g, tc.moving, tc.live))
		})
	}
}

// A pod that failed its readiness probe for a moment begins its minReadySeconds again, also where the watch has shown neither.
func TestAPodThatWasNotReadyMeanwhileDiffersWithMinReadySeconds(t *testing.T) {
	a := livePod("a", "n", true)
	g := known(a)
	again := livePod("a", "n", true)
	again.Status.Conditions[0].LastTransitionTime = metav1.Now()
	assert.Empty(t, Differs(&g, nil, []corev1.Pod{again}))
	g.MinReady = time.Minute
	assert.Empty(t, Differs(&g, nil, []corev1.Pod{a}))
	assert.Equal(t, "pod a was not Ready meanwhile", Differs(&g, nil, []corev1.Pod{again}))
}

// Whatever happened that no watch has shown: where nothing differs, there are as many Ready replicas as the decision counts.
func TestEqualViewsHaveAsManyReadyReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var seen, live []corev1.Pod
		for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
			p := livePod(fmt.Sprint("p", i), rapid.SampledFrom([]string{"", "n", "m"}).Draw(t, "node"), rapid.Bool().Draw(t, "ready"))
			seen = append(seen, p)
			switch rapid.IntRange(0, 5).Draw(t, "since") {
			case 0: // it is gone
			case 1:
				p.DeletionTimestamp = &metav1.Time{}
				live = append(live, p)
			case 2:
				live = append(live, livePod(p.Name, "other", rapid.Bool().Draw(t, "ready")))
			default:
				live = append(live, p)
			}
		}
		g := known(seen...)
		if Differs(&g, nil, live) != "" {
			return
		}
		ready := 0
		for i := range live {
			if _, is := ReadySince(&live[i]); is && live[i].DeletionTimestamp == nil {
				ready++
			}
		}
		require.GreaterOrEqual(t, ready, Available(&g, time.Now()))
		require.Len(t, live, len(seen))
	})
}

func TestASelectorFindsEveryPodOfItsGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}), rapid.SampledFrom([]string{"", "x", "y"}), 0, 10)
		var all []corev1.Pod
		for range rapid.IntRange(0, 4).Draw(t, "pods") {
			all = append(all, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: set.Draw(t, "labels")}})
		}
		g := known(all...)
		s := SelectorOf(&g)
		parsed, err := labels.Parse(s.String())
		require.NoError(t, err)
		requirements, _ := parsed.Requirements()
		require.LessOrEqual(t, len(requirements), maxRequirements)
		for i := range all {
			require.True(t, parsed.Matches(labels.Set(all[i].Labels)))
		}
	})
}
