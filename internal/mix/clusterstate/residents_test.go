// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
)

func TestResidentsArePodsThatStayOnANode(t *testing.T) {
	rs := replicaSet("web-1", 2)
	policy := func(policy corev1.RestartPolicy) a[*corev1.Pod] {
		return func(p *corev1.Pod) { p.Spec.RestartPolicy = policy }
	}
	running := func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		stays bool
	}{
		"a replica":                         {podNamed("p", owned(rs), on("s"), slot(2), running), true},
		"a pod without an owner":            {podNamed("p", on("s")), true},
		"a pod of another node":             {podNamed("p", on("t")), false},
		"a pod that terminates":             {podNamed("p", on("s"), terminating), false},
		"a pod that has finished":           {podNamed("p", on("s"), finished), false},
		"a pod of a DaemonSet":              {podNamed("p", on("s"), ownedBy("apps/v1", "DaemonSet", "agent", "uid-agent")), false},
		"a static pod":                      {podNamed("p", on("s"), ownedBy("v1", "Node", "s", "uid-s")), false},
		"a pod that ends":                   {podNamed("p", on("s"), policy(corev1.RestartPolicyNever)), false},
		"a pod that is tried until it ends": {podNamed("p", on("s"), policy(corev1.RestartPolicyOnFailure)), false},
		"a placeholder":                     {podNamed("p", on("s"), func(p *corev1.Pod) { p.Labels[v1alpha1.PlaceholderLabel] = "" }), false},
		"a released pod":                    {podNamed("p", owned(rs), on("s"), slot(2), running, released), false},
	} {
		t.Run(name, func(t *testing.T) {
			st := newClusterState()
			st.SetNode(nodeOf("s", capacity.Spot))
			want := 1
			if tc.stays {
				want = 2
			}
			fill(st, podNamed("other", on("s")), tc.pod)
			n, pods := st.Residents("s")
			assert.Equal(t, want, pods)
			assert.Equal(t, capacity.Spot, n.Type)
			assert.True(t, n.Accepting)
		})
	}
}

func TestANodeThatIsNotKnownHasNoResidents(t *testing.T) {
	n, pods := newClusterState().Residents("s")
	assert.Equal(t, Node{Name: "s"}, n)
	assert.Zero(t, pods)
}
