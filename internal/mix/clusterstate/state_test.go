// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
)

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// A namespace that holds only pods of DaemonSets used to lose its index with
// the first of them, and the second one to go then crashed the controller.
func TestPodsOfDaemonSetsComeAndGoInANamespaceOfTheirOwn(t *testing.T) {
	f := newClusterState()
	daemon := ownedBy("apps/v1", "DaemonSet", "agent", "uid-agent")
	first, second := podNamed("a", daemon, on("n")), podNamed("b", daemon, on("n"))
	fill(f, first, second)
	assert.Empty(t, f.Namespaces(), "no pod there can be governed")
	require.NotPanics(t, func() {
		f.DeletePod(nameOf(first), first.UID)
		f.SetPod(podNamed("b", daemon, on("n"), ready))
		f.DeletePod(nameOf(second), second.UID)
	})
	assert.Empty(t, f.pods)
	assert.Empty(t, f.nodes)
}

func TestSetPodTakesOverWhatChanges(t *testing.T) {
	base := func() *corev1.Pod { return podNamed("p", asks("100m", "64Mi")) }
	tests := map[string]a[*corev1.Pod]{
		"the pod is bound":                                 on("n"),
		"the pod becomes Ready":                            ready,
		"the pod terminates":                               terminating,
		"the pod finishes":                                 finished,
		"a label changes":                                  func(p *corev1.Pod) { p.Labels["x"] = "y" },
		"an annotation that counts changes":                slot(3),
		"the pod's CPU is resized in place":                func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = requestsOf("2", "64Mi") },
		"the pod's memory is resized in place":             func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = requestsOf("100m", "1Gi") },
		"a gated pod gets a nodeSelector of its own":       func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "spot"} },
		"another pod of the same name takes its place":     func(p *corev1.Pod) { p.UID = "another" },
		"another pod takes its place and is younger":       func(p *corev1.Pod) { p.UID = "another"; made(5)(p) },
		"the pod is adopted by a controller":               ownedBy("apps/v1", "ReplicaSet", "rs", "uid-rs"),
		"its data is declared to be of no value":           annotated(pods.SafeToEvict, "true"),
		"it becomes a mirror pod, which nothing may move":  annotated(corev1.MirrorPodAnnotationKey, "x"),
		"an ephemeral change of readiness moves its clock": func(p *corev1.Pod) { ready(p); p.Status.Conditions[0].LastTransitionTime.Time = epoch.Add(9e9) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			f := fill(newClusterState(), base())
			told := map[governing.GroupKey]int{}
			f.Changed = func(key governing.GroupKey) { told[key]++ }
			p := base()
			change(p)
			f.SetPod(p)
			assert.Equal(t, newClusterState().podOf(p, nil), f.Pod(namespaceName, "p"))
			want := map[governing.GroupKey]int{{Namespace: namespaceName}: 1} // the base has no controller
			if len(p.OwnerReferences) > 0 {
				want[governing.GroupKey{Namespace: namespaceName, ID: "uid-rs"}] = 1
			}
			assert.Equal(t, want, told)
			f.SetPod(p.DeepCopy())
			assert.Equal(t, want, told, "the same again is no change")
		})
	}
	t.Run("an annotation that is not read is no change", func(t *testing.T) {
		f := fill(newClusterState(), base())
		f.Changed = func(governing.GroupKey) { t.Error("called") }
		f.SetPod(podNamed("p", asks("100m", "64Mi"), annotated("example.com/x", "y")))
	})
}

func TestDeletePodComparesTheUID(t *testing.T) {
	f := fill(newClusterState(), podNamed("p"))
	f.DeletePod(nameOf(podNamed("p")), "of-another")
	assert.NotNil(t, f.Pod(namespaceName, "p"))
	f.DeletePod(types.NamespacedName{Namespace: namespaceName, Name: "none"}, "")
	f.DeletePod(nameOf(podNamed("p")), "")
	assert.Nil(t, f.Pod(namespaceName, "p"))
	assert.Nil(t, f.Pods(namespaceName))
}

func TestNodesReportTheirDeparture(t *testing.T) {
	f := newClusterState()
	var left []string
	changes := 0
	f.NodeLeft = func(d Departure) { left = append(left, fmt.Sprint(d.Name, " ", d.Type, ", staying ", d.Staying)) }
	f.Changed = func(key governing.GroupKey) { assert.Empty(t, key); changes++ }
	f.SetNode(nodeOf("a", capacity.Spot))
	f.SetNode(nodeOf("a", capacity.Spot))
	assert.Equal(t, 1, changes, "the same again is no change")
	f.SetNode(nodeOf("b", capacity.OnDemand, departing))
	assert.Empty(t, left, "a node that departs when it is first seen did not leave just now")
	f.SetNode(nodeOf("d", capacity.Spot))
	f.SetNode(nodeOf("a", capacity.Spot, departing))
	f.SetNode(nodeOf("a", capacity.Spot, departing))
	assert.Equal(t, []string{"a spot, staying 1"}, left)
	f.DeleteNode("a")
	assert.Equal(t, []string{"a spot, staying 1"}, left, "it has been counted")
	f.SetNode(nodeOf("c", capacity.Spot))
	assert.Equal(t, 2, f.Count(capacity.Spot))
	f.DeleteNode("c")
	f.DeleteNode("c")
	assert.Equal(t, []string{"a spot, staying 1", "c spot, staying 1"}, left)
	assert.Equal(t, 0, f.Count(capacity.OnDemand), "a departing node does not count")
	assert.Equal(t, Node{Name: "c"}, f.Node("c"))
	assert.Equal(t, capacity.OnDemand, f.Node("b").Type)
}

// What began a departure is its cause: what the tools mark afterwards, up to the end of the node, is a consequence.
func TestADepartureKeepsTheCauseThatItBeganWith(t *testing.T) {
	taint := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	deleting := func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.Now()) }
	cordon := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	handler := func(n *corev1.Node) {
		n.Labels["node.kubernetes.io/exclude-from-external-load-balancers"] = "aws-node-termination-handler"
	}
	notices := map[string]string{ // what the provider announced
		"the provider interrupts": "aws-spot-interruption", "the provider interrupts an empty one": "aws-spot-interruption",
	}
	const disrupted, scaleDown, spot = "karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler", "aws-node-termination-handler/spot-itn"
	owned := func(kind string) *corev1.Pod {
		p := podNamed("p")
		p.Spec.NodeName = "a"
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "o", UID: "o", Controller: new(true)}}
		return p
	}
	for name, tc := range map[string]struct {
		steps []func(*corev1.Node) // each is added to those before it; then the node vanishes
		pod   *corev1.Pod
		cause capacity.Cause
		lost  bool
	}{
		"Karpenter consolidates":                      {[]func(*corev1.Node){taint(disrupted), deleting}, owned("ReplicaSet"), capacity.Autoscaler, false},
		"Karpenter handles an interruption":           {[]func(*corev1.Node){deleting, taint(disrupted)}, owned("ReplicaSet"), capacity.Deletion, true},
		"Karpenter deletes an empty node":             {[]func(*corev1.Node){deleting, taint(disrupted)}, owned("DaemonSet"), capacity.Deletion, false},
		"the cluster-autoscaler scales down":          {[]func(*corev1.Node){taint(scaleDown), taint("aws-node-termination-handler/asg-lifecycle-termination"), deleting}, owned("ReplicaSet"), capacity.Autoscaler, false},
		"the cluster-autoscaler removes an empty one": {[]func(*corev1.Node){taint(scaleDown)}, nil, capacity.Autoscaler, false},
		"the provider interrupts":                     {[]func(*corev1.Node){taint(spot), cordon, deleting}, owned("ReplicaSet"), capacity.Interruption, true},
		"the provider interrupts an empty one":        {[]func(*corev1.Node){taint(spot)}, nil, capacity.Interruption, true},
		"an interrupted node that consolidates":       {[]func(*corev1.Node){taint(disrupted), taint(spot)}, owned("ReplicaSet"), capacity.Autoscaler, false},
		"an administrator cordons and deletes":        {[]func(*corev1.Node){cordon}, owned("ReplicaSet"), capacity.Maintenance, false},
		"the handler drains without taints":           {[]func(*corev1.Node){func(n *corev1.Node) { cordon(n); handler(n) }}, nil, capacity.Interruption, true},
		"a running node vanishes":                     {nil, owned("ReplicaSet"), capacity.Vanished, true},
		"an empty node vanishes":                      {nil, nil, capacity.Vanished, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newClusterState()
			var left []Departure
			f.NodeLeft = func(d Departure) { left = append(left, d) }
			n := nodeOf("a", capacity.Spot)
			f.SetNode(n)
			if tc.pod != nil {
				f.SetPod(tc.pod)
			}
			for _, step := range tc.steps {
				n = n.DeepCopy()
				step(n)
				f.SetNode(n)
			}
			f.DeleteNode("a")
			require.Len(t, left, 1, "it leaves once")
			assert.Equal(t, tc.cause, left[0].Cause)
			assert.Equal(t, notices[name], left[0].Notice)
			assert.Equal(t, tc.lost, left[0].Cause.Lost(left[0].Empty))
		})
	}
}

func TestMayFit(t *testing.T) {
	full := nodeOf("full", capacity.Spot)
	full.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1")
	tests := map[string]struct {
		objects []metav1.Object
		asks    *corev1.Pod
		want    bool
	}{
		"an empty node has room":                            {[]metav1.Object{nodeOf("n", capacity.Spot)}, podNamed("p", asks("4", "8Gi")), true},
		"a node of the other type does not count":           {[]metav1.Object{nodeOf("n", capacity.OnDemand)}, podNamed("p"), false},
		"a node that takes no pods does not count":          {[]metav1.Object{nodeOf("n", capacity.Spot, func(n *corev1.Node) { n.Spec.Unschedulable = true })}, podNamed("p"), false},
		"too little CPU is left":                            {[]metav1.Object{nodeOf("n", capacity.Spot), podNamed("q", on("n"), asks("3500m", "0"))}, podNamed("p", asks("501m", "0")), false},
		"just enough CPU is left":                           {[]metav1.Object{nodeOf("n", capacity.Spot), podNamed("q", on("n"), asks("3500m", "0"))}, podNamed("p", asks("500m", "0")), true},
		"too little memory is left":                         {[]metav1.Object{nodeOf("n", capacity.Spot), podNamed("q", on("n"), asks("0", "8Gi"))}, podNamed("p", asks("0", "1")), false},
		"no more pods are allowed":                          {[]metav1.Object{full, podNamed("q", on("full"))}, podNamed("p"), false},
		"a terminating pod still takes room":                {[]metav1.Object{full, podNamed("q", on("full"), terminating)}, podNamed("p"), false},
		"a finished pod takes no room":                      {[]metav1.Object{full, podNamed("q", on("full"), finished)}, podNamed("p"), true},
		"a DaemonSet's pod takes room":                      {[]metav1.Object{full, podNamed("q", on("full"), ownedBy("apps/v1", "DaemonSet", "d", "d"))}, podNamed("p"), false},
		"a pod that requests nothing fits an overfull node": {[]metav1.Object{nodeOf("n", capacity.Spot), podNamed("q", on("n"), asks("5", "9Gi"))}, podNamed("p"), true},
		"a pod without CPU needs memory only":               {[]metav1.Object{nodeOf("n", capacity.Spot), podNamed("q", on("n"), asks("5", "1Gi"))}, podNamed("p", asks("0", "1Gi")), true},
		"use is known before the node is":                   {[]metav1.Object{podNamed("q", on("full")), full}, podNamed("p"), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := fill(newClusterState(), tc.objects...)
			assert.Equal(t, tc.want, f.MayFit(capacity.Spot, f.podOf(tc.asks, nil)))
		})
	}
}

func TestReplacePodsForgetsWhatIsNotListed(t *testing.T) {
	f := fill(newClusterState(), podNamed("gone"), podNamed("stays"), podNamed("renewed"))
	renewed := podNamed("renewed")
	renewed.UID = "second-life"
	f.ReplacePods([]*corev1.Pod{podNamed("stays"), renewed, podNamed("new")})
	var names []string
	for _, p := range f.Pods(namespaceName) {
		names = append(names, p.Name)
	}
	assert.ElementsMatch(t, []string{"stays", "renewed", "new"}, names)
	assert.Equal(t, types.UID("second-life"), f.Pod(namespaceName, "renewed").UID)
}

// Tables that only grow would leak over months.
func TestWhatGonePodsHadInCommonIsForgotten(t *testing.T) {
	f := newClusterState()
	stays := podNamed("stays", slot(1), on("n-stays"), ownedBy("batch/v1", "Job", "j", "uid-stays"))
	f.SetPod(stays)
	record := f.Pod(namespaceName, "stays")
	largest := 0
	for i := range 40_000 {
		p := podNamed(fmt.Sprintf("p-%d", i), slot(i%5), on(fmt.Sprintf("node-%d", i)), ownedBy("batch/v1", "Job", "j", types.UID(fmt.Sprintf("uid-%d", i))))
		p.Labels = map[string]string{"batch.kubernetes.io/controller-uid": fmt.Sprintf("uid-%d", i)}
		f.SetPod(p)
		f.DeletePod(nameOf(p), p.UID)
		largest = max(largest, len(f.sets.byHash)+len(f.owners.byRef)+len(f.texts))
	}
	assert.LessOrEqual(t, largest, 2*minSweep)
	assert.Len(t, f.pods, 1)
	assert.Len(t, f.nodes, 1)
	assert.Same(t, record, f.Pod(namespaceName, "stays"), "readers may hold the record")
	assert.Equal(t, "1", record.AllAnnotations()[v1alpha1.SlotAnnotation])
	again := podNamed("again", slot(1), ownedBy("batch/v1", "Job", "j", "uid-stays"))
	f.SetPod(again)
	assert.Same(t, record.Owner, f.Pod(namespaceName, "again").Owner, "what is in use is still shared")
}

// The names of nodes alone outgrow everything else where spot nodes come and go.
func TestNamesOfGoneNodesAreForgotten(t *testing.T) {
	f := newClusterState()
	for i := range 20_000 {
		name := fmt.Sprintf("node-%d", i)
		f.SetNode(nodeOf(name, capacity.Spot))
		f.SetPod(podNamed("p", on(name)))
		f.DeleteNode(name)
	}
	assert.LessOrEqual(t, len(f.texts), 2*minSweep)
}

func TestAllPodsIncludesPodsOfNodes(t *testing.T) {
	rs := replicaSet("web-1", 1, under(deployment("web", 1)))
	f := fill(newClusterState(), rs, podNamed("w", owned(rs)), podNamed("s", owned(statefulSet("db", 1))), podNamed("b"),
		podNamed("d", ownedBy("apps/v1", "DaemonSet", "daemons", "daemons"), func(p *corev1.Pod) { p.Namespace = "system" }))
	assert.Empty(t, f.Pods("system"))
	require.Len(t, f.AllPods("system"), 1)
	assert.ElementsMatch(t, []string{"shop", "system"}, f.AllNamespaces())
	got := map[string]string{}
	for _, p := range append(f.AllPods("shop"), f.AllPods("system")...) {
		w := f.Above(p)
		got[p.Name] = w.Kind + " " + w.Namespace + "/" + w.Name
	}
	assert.Equal(t, map[string]string{
		"d": "DaemonSet system/daemons", "w": "Deployment shop/web", "s": "StatefulSet shop/db", "b": "Pod shop/b",
	}, got)
	f.DeletePod(types.NamespacedName{Namespace: "system", Name: "d"}, "")
	assert.Empty(t, f.AllPods("system"))
	assert.Equal(t, []string{"shop"}, f.AllNamespaces())
}
