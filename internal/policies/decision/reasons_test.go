// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// world are nodes a and b, with pods, and a pod that requests little, before a test changes them.
type world struct {
	pod    *corev1.Pod
	a, b   *corev1.Node
	placed []*corev1.Pod
}

func newWorld() *world {
	return &world{pod: podOn("", "web"), a: newNode("a"), b: newNode("b")}
}

func newNode(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, "zone": name}}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"), corev1.ResourcePods: resource.MustParse("10"),
	}
	return n
}

// podOn is a pod of an application on a node.
func podOn(node, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: app + "-on-" + node, UID: "1", Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c"}}},
	}
}

func setRequest(pod *corev1.Pod, name corev1.ResourceName, quantity string) {
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse(quantity)}
}

func (w *world) place(app string) *corev1.Pod {
	p := podOn("a", app)
	w.placed = append(w.placed, p)
	return p
}

func (w *world) taint(key string) {
	w.a.Spec.Taints = append(w.a.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
}

func term(app string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
}

func avoiding(app string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(app)}}
}

func requiringLabel(key string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}}}},
	}}}
}

func spread(pod *corev1.Pod, key string) {
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
}

// defaultProfile is that of kube-scheduler without a configuration.
func defaultProfile(t *testing.T) *schedulerconfig.KubeSchedulerProfile {
	t.Helper()
	c, err := latest.Default()
	require.NoError(t, err)
	return &c.Profiles[0]
}

// rejections are what the filters of kube-scheduler reject node a with. They accept node b.
func (w *world) rejections(t *testing.T) []Rejected {
	t.Helper()
	metrics.Register()
	ctx := t.Context()
	// The plugins that read pods and nodes only.
	profile := defaultProfile(t)
	profile.Plugins.MultiPoint.Enabled = nil
	for _, name := range []string{
		names.PrioritySort, names.DefaultBinder, names.NodeUnschedulable, names.TaintToleration, names.NodeAffinity, names.NodePorts, names.NodeResourcesFit,
		names.PodTopologySpread, names.InterPodAffinity,
	} {
		profile.Plugins.MultiPoint.Enabled = append(profile.Plugins.MultiPoint.Enabled, schedulerconfig.Plugin{Name: name})
	}
	snapshot := cache.NewSnapshot(w.placed, []*corev1.Node{w.a, w.b})
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	factory := informers.NewSharedInformerFactory(client, 0)
	f, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile, frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithSnapshotSharedLister(snapshot))
	require.NoError(t, err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	state := framework.NewCycleState()
	_, status, _ := f.RunPreFilterPlugins(ctx, state, w.pod)
	require.True(t, status.IsSuccess(), status.Message())
	var rejected []Rejected
	for _, name := range []string{"a", "b"} {
		info, err := snapshot.Get(name)
		require.NoError(t, err)
		if status := f.RunFilterPlugins(ctx, state, w.pod, info); !status.IsSuccess() {
			require.Equal(t, "a", name, status.Message())
			for _, message := range status.Reasons() {
				rejected = append(rejected, Rejected{Node: info, Plugin: status.Plugin(), Message: message})
			}
		}
	}
	return rejected
}

// A release of Kubernetes with another message fails here.
func TestReasonsOfTheFiltersOfKubernetes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		want   Reason
		key    string
	}{
		"CPU":    {func(w *world) { setRequest(w.pod, "cpu", "3"); setRequest(w.place("other"), "cpu", "2") }, InsufficientCPU, ""},
		"memory": {func(w *world) { setRequest(w.pod, "memory", "7Gi"); setRequest(w.place("other"), "memory", "2Gi") }, InsufficientMemory, ""},
		"disk": {func(w *world) {
			setRequest(w.pod, "ephemeral-storage", "9Gi")
			setRequest(w.place("other"), "ephemeral-storage", "12Gi")
		}, InsufficientDisk, ""},
		"another resource": {func(w *world) {
			setRequest(w.pod, "example.com/gpu", "1")
			w.b.Status.Allocatable["example.com/gpu"] = resource.MustParse("1")
		}, Custom, ""},
		"too many pods": {func(w *world) {
			w.place("other")
			w.a.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1")
		}, Custom, ""},
		"node selector": {func(w *world) { w.pod.Spec.NodeSelector = map[string]string{"zone": "b"} }, NodeSelectorMismatch, ""},
		"no such label": {func(w *world) { w.pod.Spec.NodeSelector = map[string]string{"disk": ""}; w.b.Labels["disk"] = "" }, NodeSelectorMismatch, ""},
		"node affinity": {func(w *world) { w.pod.Spec.Affinity = requiringLabel("disk"); w.b.Labels["disk"] = "fast" }, NodeAffinityMismatch, ""},
		"affinity only": {func(w *world) {
			w.pod.Spec.Affinity = requiringLabel("disk")
			w.b.Labels["disk"] = "fast"
			w.pod.Spec.NodeSelector = map[string]string{"app": "x"}
			w.a.Labels["app"], w.b.Labels["app"] = "x", "x"
		}, NodeAffinityMismatch, ""},
		"a taint": {func(w *world) { w.taint("dedicated") }, TaintWithoutToleration, "dedicated"},
		"the second taint": {func(w *world) {
			w.taint("dedicated")
			w.taint("gpu")
			w.pod.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
		}, TaintWithoutToleration, "gpu"},
		"not ready":   {func(w *world) { w.taint(corev1.TaintNodeNotReady) }, NodeNotReady, ""},
		"unreachable": {func(w *world) { w.taint(corev1.TaintNodeUnreachable) }, NodeNotReady, ""},
		"cordoned":    {func(w *world) { w.a.Spec.Unschedulable = true }, NodeUnschedulable, ""},
		"pod affinity": {func(w *world) {
			w.pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term("db")}}
			w.place("db").Spec.NodeName = "b"
		}, PodAffinityViolation, ""},
		"pod anti-affinity":   {func(w *world) { w.pod.Spec.Affinity = avoiding("db"); w.place("db") }, PodAntiAffinityViolation, ""},
		"that of another pod": {func(w *world) { w.place("db").Spec.Affinity = avoiding("web") }, PodAntiAffinityViolation, ""},
		"topology spread":     {func(w *world) { spread(w.pod, "zone"); w.place("web") }, TopologySpreadViolation, ""},
		"no topology":         {func(w *world) { spread(w.pod, "rack"); w.b.Labels["rack"] = "1" }, TopologySpreadViolation, ""},
		"a host port": {func(w *world) {
			ports := []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
			w.pod.Spec.Containers[0].Ports, w.place("x").Spec.Containers[0].Ports = ports, ports
		}, Custom, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.change(w)
			rejected := w.rejections(t)
			require.Len(t, rejected, 1)
			reason, key := ReasonOf(rejected[0].Plugin, rejected[0].Message, w.pod, w.a)
			assert.Equal(t, c.want, reason, rejected[0].Message)
			assert.Equal(t, c.key, key)
		})
	}
}

func TestReasonsThatNoFilterOfTheTestReports(t *testing.T) {
	w := newWorld()
	w.pod.Spec.NodeSelector = map[string]string{"zone": "b"}
	reason, _ := ReasonOf("NodeAffinity", "node(s) didn't match scheduler-enforced node affinity", w.pod, w.a)
	assert.Equal(t, NodeAffinityMismatch, reason, "the node selector did not reject it")
	reason, key := ReasonOf("CapacityMix", "node(s) are spot, slot 3 needs on-demand", w.pod, w.a)
	assert.Equal(t, Custom, reason)
	assert.Empty(t, key)

	// Without the feature gate, the filter rejects a node whose taint is tolerated with it.
	w.a.Spec.Taints = []corev1.Taint{{Key: "sla", Value: "99", Effect: corev1.TaintEffectNoSchedule}}
	w.pod.Spec.Tolerations = []corev1.Toleration{{Key: "sla", Operator: corev1.TolerationOpGt, Value: "90"}}
	_, key = ReasonOf("TaintToleration", "", w.pod, w.a)
	assert.Equal(t, "sla", key)
	w.taint("gpu")
	_, key = ReasonOf("TaintToleration", "", w.pod, w.a)
	assert.Equal(t, "gpu", key)
	w.a.Spec.Taints = nil // changed since
	reason, key = ReasonOf("TaintToleration", "", w.pod, w.a)
	assert.Equal(t, TaintWithoutToleration, reason)
	assert.Empty(t, key)
}

// infoOf is a node with a pod that requests CPU.
func infoOf(node *corev1.Node, cpu string) fwk.NodeInfo {
	p := podOn(node.Name, "other")
	setRequest(p, corev1.ResourceCPU, cpu)
	info := framework.NewNodeInfo(p)
	info.SetNode(node)
	return info
}

func TestRejectionsAreGroupedByReason(t *testing.T) {
	pod := podOn("", "web")
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "d"})
	for i, cpu := range []string{"3500m", "2"} {
		pod.Spec.Containers[i].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("512Mi")}
	}
	var rejected []Rejected
	add := func(plugin, message, name, cpu string, taints ...string) {
		w := newWorld()
		w.a.Name = name
		for _, key := range taints {
			w.taint(key)
		}
		rejected = append(rejected, Rejected{Node: infoOf(w.a, cpu), Plugin: plugin, Message: message})
	}
	const fit, taint = "NodeResourcesFit", "TaintToleration"
	add(fit, "Insufficient cpu", "n3", "3")
	add(fit, "Insufficient cpu", "n1", "2500m")
	add(fit, "Insufficient cpu", "n2", "9") // overcommitted
	add(fit, "Insufficient memory", "n1", "1")
	add(fit, "Too many pods", "n1", "1")
	add(taint, "node(s) had untolerated taint(s)", "n4", "1", "gpu")
	add(taint, "node(s) had untolerated taint(s)", "n5", "1", "dedicated")
	add(taint, "node(s) had untolerated taint(s)", "n6", "1", "gpu")
	add("NodeUnschedulable", "node(s) were unschedulable", "n7", "1")
	add("NodeUnschedulable", "node(s) were unschedulable", "n8", "1")
	want := []Rejection{
		{Reason: InsufficientCPU, Nodes: 3, Example: "n1", Message: "Insufficient cpu", Requested: "5500m", Available: "1500m"},
		{Reason: NodeUnschedulable, Nodes: 2, Example: "n7", Message: "node(s) were unschedulable"},
		{Reason: TaintWithoutToleration, Nodes: 2, Example: "n4", Message: "node(s) had untolerated taint(s)", Key: "gpu"},
		{Reason: Custom, Nodes: 1, Example: "n1", Message: "Too many pods"},
		{Reason: InsufficientMemory, Nodes: 1, Example: "n1", Message: "Insufficient memory", Requested: "1Gi", Available: "8Gi"},
		{Reason: TaintWithoutToleration, Nodes: 1, Example: "n5", Message: "node(s) had untolerated taint(s)", Key: "dedicated"},
	}
	for range 20 {
		assert.Equal(t, want, Aggregate(pod, rejected))
		rand.Shuffle(len(rejected), func(i, j int) { rejected[i], rejected[j] = rejected[j], rejected[i] })
	}
	assert.Empty(t, Aggregate(pod, nil))

	setRequest(pod, corev1.ResourceEphemeralStorage, "30Gi")
	disk := Aggregate(pod, []Rejected{{Node: infoOf(newNode("a"), "9"), Plugin: fit, Message: "Insufficient ephemeral-storage"}})
	assert.Equal(t, []string{"30Gi", "20Gi"}, []string{disk[0].Requested, disk[0].Available})
	none := Aggregate(pod, []Rejected{{Node: infoOf(newNode("a"), "9"), Plugin: fit, Message: "Insufficient cpu"}})
	assert.Equal(t, "0", none[0].Available, "less than nothing is nothing")
}

func TestTheNumberOfRejectionsIsBounded(t *testing.T) {
	var rejected []Rejected
	for i := range 1000 {
		node := infoOf(newNode(fmt.Sprint("n", i)), "1")
		rejected = append(rejected, Rejected{Node: node, Plugin: "Other", Message: fmt.Sprint("node n", i, " is not good enough")}, Rejected{Node: node, Plugin: "Other", Message: "of all"})
	}
	got := Aggregate(podOn("", "web"), rejected)
	require.Len(t, got, 16)
	assert.Equal(t, 1000, got[0].Nodes)
}
