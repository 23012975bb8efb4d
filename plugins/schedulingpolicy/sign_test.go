// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
)

// nearWeb prefers nodes with pods of an app.
func nearWeb(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 10, PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			},
		}},
	}}
}

// A pod is signed, and then placed like those before it with the same signature, only if its placement changes the score of one node.
func TestPodsAreSigned(t *testing.T) {
	t.Parallel()
	balance, preferred := functions(v1alpha1.ScoreResourceBalance), functions(v1alpha1.ScorePreferredAffinity)
	for name, c := range map[string]struct {
		nodes  int
		policy *v1alpha1.SchedulingPolicy
		pod    *corev1.Pod
		signed bool
	}{
		"scores of the node alone":            {6, policy(balance), pod("x", ""), true},
		"packing":                             {6, policy(functions(v1alpha1.ScoreBinpacking)), pod("x", ""), true},
		"preferences for nodes":               {6, policy(preferred), pod("x", ""), true},
		"preferences for pods":                {6, policy(preferred), pod("x", "", nearWeb), false},
		"preferences that no function reads":  {6, policy(balance), pod("x", "", nearWeb), true},
		"spreading":                           {6, policy(balance, functions(v1alpha1.ScoreSpreading)), pod("x", ""), false},
		"apart from other pods":               {6, policy(functions(v1alpha1.ScoreAntiAffinity)), pod("x", ""), false},
		"the pod's own constraints":           {6, policy(functions(v1alpha1.ScoreTopologySpread)), pod("x", ""), false},
		"one after the other":                 {6, policy(balance, tieBreaker(v1alpha1.TieBreakerRoundRobin)), pod("x", ""), false},
		"at random":                           {6, policy(balance, tieBreaker(v1alpha1.TieBreakerRandom)), pod("x", ""), false},
		"as many nodes as have a score":       {maxRanked, policy(balance), pod("x", ""), true},
		"more nodes than have a score of own": {maxRanked + 1, policy(balance), pod("x", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, noArgs(), fleetOf(c.nodes)...)
			f.snapshot()
			fragments, status := f.plugin.SignPod(f.Ctx, c.pod)
			assert.Empty(t, fragments, "no policy")
			assert.True(t, status.IsSuccess(), "a pod without a policy is signed by the other plugins")

			f.set(c.policy)
			_, status = f.plugin.SignPod(f.Ctx, c.pod)
			assert.False(t, status.IsSuccess(), "the number of nodes is not known before the first pod is scored")
			f.run(t, c.pod, f.infos(t))
			fragments, status = f.plugin.SignPod(f.Ctx, c.pod)
			assert.Equal(t, c.signed, status.IsSuccess())
			if !c.signed {
				return
			}
			require.Len(t, fragments, 1)
			changed := c.policy.DeepCopy()
			changed.Generation++
			tieBreaker(v1alpha1.TieBreakerLeastLoaded)(&changed.Spec.SchedulingRules)
			f.set(changed)
			other, _ := f.plugin.SignPod(f.Ctx, c.pod)
			require.Len(t, other, 1)
			assert.NotEqual(t, fragments, other, "another policy is another signature")
		})
	}
}

// Without preferences for nodes, those for pods are all that counts.
func TestPreferencesForPodsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(3)...)
	f.snapshot(pod("1", "n01", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }))
	f.set(policy(functions(v1alpha1.ScorePreferredAffinity)))
	x := pod("x", "", nearWeb)
	on, state := f.place(t, x)
	assert.Equal(t, "n01", on)
	table := read(state).table
	for i := range table.candidates {
		want := 0.0
		if table.candidates[i].Node == "n01" {
			want = 1
		}
		assert.InDelta(t, want, table.facts[i].PreferredNodes, 0, table.candidates[i].Node)
		assert.InDelta(t, want, table.facts[i].PreferredPods, 0, table.candidates[i].Node)
	}
}

// The record of an attempt whose node was taken back is for the handler of failures. A pod that is bound has none any more.
func TestTheRecordOfAnEarlierAttemptIsForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(3)...)
	f.snapshot()
	f.set(policy(recorded(v1alpha1.RecordAlways)))
	x := pod("x", "")
	on, state := f.place(t, x)
	f.plugin.Unreserve(f.Ctx, state, x, on)
	on, state = f.place(t, x)
	f.plugin.PostBind(f.Ctx, state, x, on)
	_, record := f.recorder.take("", x.UID)
	assert.Nil(t, record)
	assert.Equal(t, decision.Bound, f.records(t, "x")[0].Outcome, "the newest is the first")
}

var _ fwk.SignPlugin = &SchedulingPolicy{}
