// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// A selector, affinity, and both, which is both at once.
func TestPodsRunOnlyOnMatchingNodes(t *testing.T) {
	w := testenv.New(t, four()...)
	start(w, nil)
	const zone = corev1.LabelTopologyZone
	for app, tc := range map[string]struct {
		rules []func(*v1alpha1.ResourceLimitSpec)
		own   []func(*corev1.PodTemplateSpec)
		want  []string
	}{
		"selector": {rules: []func(*v1alpha1.ResourceLimitSpec){builders.SizeOnNodesWith(pool, "batch")}, want: []string{"batch-a", "batch-b"}},
		"affinity": {rules: []func(*v1alpha1.ResourceLimitSpec){builders.SizeRequires(zone, v1alpha1.NodeOpNotIn, "zone-a")}, want: []string{"batch-b", "web-b"}},
		"both": {
			rules: []func(*v1alpha1.ResourceLimitSpec){builders.SizeOnNodesWith(pool, "web"), builders.SizeRequires(zone, v1alpha1.NodeOpIn, "zone-b")},
			want:  []string{"web-b"},
		},
		"and-the-pods-own": {
			rules: []func(*v1alpha1.ResourceLimitSpec){builders.SizeOnNodesWith(pool, "web")},
			own:   []func(*corev1.PodTemplateSpec){builders.OnNodesWith(zone, "zone-a")},
			want:  []string{"web-a"},
		},
		"preferred": {rules: []func(*v1alpha1.ResourceLimitSpec){builders.SizePrefers(corev1.LabelHostname, "batch-b")}, want: []string{"batch-b"}},
	} {
		w.Create(builders.ResourceLimit(app, tc.rules...), builders.Deployment(app, 6, append(tc.own, builders.OfSize(app))...))
		pods := w.WaitBound(app, 6)
		assert.ElementsMatch(t, tc.want, slices.Collect(maps.Keys(testenv.NodesOf(pods))), app)
		for i := range pods {
			assert.NotContains(t, pods[i].Spec.NodeSelector, pool, "the pod itself is as it was made")
		}
	}
}

// No node matches, and the event names the limit.
func TestAPodWithoutAMatchingNodeNamesItsLimit(t *testing.T) {
	w := testenv.New(t, four()...)
	start(w, nil)
	w.Create(builders.ResourceLimit("gpu", builders.SizeOnNodesWith(pool, "gpu")), builders.Deployment("web", 2, builders.OfSize("gpu")))
	waitReason(w, "web", 2, fmt.Sprintf("0/4 nodes are available: 4 node(s) didn't match the node rules of ResourceLimit %q.", w.Namespace+"/gpu"))
	staysPending(w, "web", 2)

	// A label that makes a node match wakes the pods.
	testenv.Patch(w, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "web-a"}}, func(n *corev1.Node) { n.Labels[pool] = "gpu" })
	assert.Equal(t, map[string]int{"web-a": 2}, testenv.NodesOf(requireWoken(w, "web", 2)))
}

func TestANodeThatIsAddedAndMatchesWakesPods(t *testing.T) {
	w := testenv.New(t, four()...)
	start(w, nil)
	w.Create(builders.ResourceLimit("gpu", builders.SizeOnNodesWith(pool, "gpu")), builders.Deployment("web", 1, builders.OfSize("gpu")))
	w.WaitUnschedulable("web", 1)
	w.AddNodes(node("gpu-0", "gpu", "zone-a"))
	assert.Equal(t, map[string]int{"gpu-0": 1}, testenv.NodesOf(requireWoken(w, "web", 1)))
}

// New pods use the new rules, running pods keep their nodes: a
// limit without rules restricts no new pod.
func TestAChangedLimitAppliesToNewPodsOnly(t *testing.T) {
	w := testenv.New(t, four()...)
	start(w, nil)
	limit := builders.ResourceLimit("moving", builders.SizeOnNodesWith(pool, "batch"), builders.SizeRequires(corev1.LabelTopologyZone, v1alpha1.NodeOpIn, "zone-a"))
	w.Create(limit, builders.Deployment("before", 3, builders.OfSize("moving")))
	before := w.WaitBound("before", 3)
	assert.Equal(t, map[string]int{"batch-a": 3}, testenv.NodesOf(before))

	change(w, limit, builders.SizeOnNodesWith(pool, "web"))
	// A pod of its own on the old nodes waits, which shows that the new rules apply.
	w.Create(builders.Deployment("old-nodes", 1, builders.OfSize("moving"), builders.OnNodesWith(pool, "batch")))
	waitReason(w, "old-nodes", 1, "0/4 nodes are available: ")
	w.Create(builders.Deployment("after", 3, builders.OfSize("moving")))
	assert.Equal(t, map[string]int{"web-a": 3}, testenv.NodesOf(w.WaitBound("after", 3)))
	now := w.Live("before")
	assert.Equal(t, testenv.NodesOf(before), testenv.NodesOf(now), "running pods stay")
	for i := range now {
		assert.Zero(t, now[i].Status.ContainerStatuses[0].RestartCount)
		assert.Equal(t, before[i].UID, now[i].UID)
	}

	change(w, limit, func(s *v1alpha1.ResourceLimitSpec) { s.NodeSelector, s.NodeAffinity = nil, nil })
	requireWoken(w, "old-nodes", 1)
	for _, n := range four() {
		w.Create(builders.Deployment("on-"+n.Name, 1, builders.OfSize("moving"), builders.OnNode(n.Name)))
		w.WaitBound("on-"+n.Name, 1)
	}
}
