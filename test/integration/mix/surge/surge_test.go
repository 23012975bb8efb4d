// SPDX-License-Identifier: Apache-2.0

// Package surge_test looks at workloads whose replicas are released before they are evicted: what is Ready at each instant, what cannot
// be released, and what becomes of released replicas when the controller or their workload ends.
package surge_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{}))
}

const (
	spot     = v1alpha1.CapacityTypeSpot
	onDemand = v1alpha1.CapacityTypeOnDemand
)

var surge = builders.RebalanceStrategy(v1alpha1.RebalanceStrategySurge)

// waitReleased waits until a replica of an app is released.
func waitReleased(w *testenv.World, app string) *corev1.Pod {
	w.T.Helper()
	return w.Record(app).WaitPod("a replica of "+app+" is released", app, func(p *corev1.Pod) bool { _, is := pods.ReleasedFrom(p); return is })
}

func TestAMoveCostsNoReplica(t *testing.T) {
	w := testenv.New(t, cluster.Nodes(onDemand, 4)...)
	slow := builders.ReadyAfter(400 * time.Millisecond)
	sizes := map[string]int{"web": 10, "one": 1}
	mixes := map[string]split.Mix{"web": split.New(70, 2), "one": split.New(100, 0)}
	w.Create(
		builders.CapacityMix("web", 70, 2, surge), builders.Deployment("web", 10, slow),
		builders.PodDisruptionBudget("web", builders.MinAvailable("100%")),
		builders.CapacityMix("one", 100, 0, surge), builders.Deployment("one", 1, slow),
		builders.PodDisruptionBudget("one", builders.MinAvailable("1")),
	)
	recordings := map[string]*testenv.Recording{}
	for app, n := range sizes {
		w.WaitReady(app, n)
		recordings[app] = w.Record(app)
	}
	w.AddNodes(cluster.Nodes(spot, 4)...)
	w.Controller(testenv.Impatient)
	for app, n := range sizes {
		w.WaitRepaired(app, mixes[app], n, testenv.SettleTimeout)
		assert.Len(t, w.EvictionsOf(app), mixes[app].Spot(n), "%s: one eviction for each replica that had to move", app)
		_, all := recordings[app].FewestReady(capacity.OnDemand, n)
		assert.Equal(t, n, all, "%s: fewest Ready replicas at any instant", app)
	}
	w.WaitEvent("web", "a replica is released", func(e *corev1.Event) bool { return e.Reason == v1alpha1.EventReasonReleased })
}

// Two of four nodes get a notice. Their pods keep serving until their replacements do, and the nodes are gone after that.
func TestANoticeCostsNoReplica(t *testing.T) {
	const replicas = 20
	nodes := cluster.Nodes(spot, 4)
	w := testenv.New(t, append(nodes, cluster.Nodes(onDemand, 4)...)...)
	w.Create(builders.CapacityMix("web", 70, 2, surge), builders.Deployment("web", replicas, builders.ReadyAfter(time.Second)))
	w.WaitExact("web", split.New(70, 2), replicas, testenv.SettleTimeout)
	w.Controller(testenv.Impatient)
	w.WaitSatisfied("web")
	lost := 0
	for _, n := range nodes[:2] {
		lost += testenv.NodesOf(w.Live("web"))[n.Name]
	}
	require.Positive(t, lost)
	recording := w.Record("web")

	for _, n := range nodes[:2] {
		w.ChangeNode(n.Name, func(o *corev1.Node) {
			o.Spec.Taints = append(o.Spec.Taints, corev1.Taint{Key: "aws-node-termination-handler/spot-itn", Effect: corev1.TaintEffectNoSchedule})
		})
	}
	w.Eventually("no replica is left on the nodes", func() (bool, string) {
		on := testenv.NodesOf(w.Live("web"))
		return on[nodes[0].Name]+on[nodes[1].Name] == 0, fmt.Sprint(on)
	})
	for _, n := range nodes[:2] {
		w.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}})
	}
	w.WaitExact("web", split.New(70, 2), replicas, testenv.SettleTimeout)
	_, all := recording.FewestReady(capacity.OnDemand, replicas)
	assert.Equal(t, replicas, all, "fewest Ready replicas at any instant")
	assert.Len(t, w.EvictionsOf("web"), lost, "no other replica is evicted")
}

func autoscaler(app string) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: app}}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app}
	h.Spec.MinReplicas, h.Spec.MaxReplicas = new(int32(2)), 2
	return h
}

// onOneVolume has pods share a volume that one node may use at a time. The scheduler does not hold them to that.
func onOneVolume(w *testenv.World) func(*corev1.PodTemplateSpec) {
	w.T.Helper()
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace + "-data"}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: modes, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}},
		ClaimRef:               &corev1.ObjectReference{Namespace: w.Namespace, Name: "data"},
	}}
	w.CreateAsIs(volume)
	w.T.Cleanup(func() { w.Delete(volume, client.GracePeriodSeconds(0)) })
	w.Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: new(""), VolumeName: volume.Name, AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size},
	}})
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	}
}

func TestAReplicaThatCannotBeReleasedStays(t *testing.T) {
	w := testenv.New(t, cluster.Nodes(onDemand, 4)...)
	byHash := func(c *corev1.PodTemplateSpec) {
		c.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 5, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: c.Labels}, MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
		}}
	}
	cases := map[string]struct {
		objects []client.Object
		words   string
	}{
		"set":    {[]client.Object{builders.StatefulSet("set", 2, appsv1.ParallelPodManagement)}, "not of a ReplicaSet"},
		"hpa":    {[]client.Object{builders.Deployment("hpa", 2), autoscaler("hpa")}, `HorizontalPodAutoscaler "hpa"`},
		"spread": {[]client.Object{builders.Deployment("spread", 2, byHash)}, "topology spread"},
		"claim":  {[]client.Object{builders.Deployment("claim", 2, onOneVolume(w))}, "claim data"},
	}
	w.Create(builders.CapacityMix("either", 100, 0, builders.RebalanceStrategy(v1alpha1.RebalanceStrategySurgeOrEvict)), builders.Deployment("either", 2), autoscaler("either"))
	for app, c := range cases {
		w.Create(append(c.objects, builders.CapacityMix(app, 100, 0, surge))...)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "by-hash"}}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	w.Create(builders.CapacityMix("service", 100, 0, surge), builders.Deployment("service", 2))
	hash := w.WaitReady("service", 2)[0].Labels
	service.Spec.Selector = map[string]string{"app": "service", appsv1.DefaultDeploymentUniqueLabelKey: hash[appsv1.DefaultDeploymentUniqueLabelKey]}
	w.Create(service)
	for app := range cases {
		w.WaitReady(app, 2)
	}
	w.WaitReady("either", 2)
	w.AddNodes(cluster.Nodes(spot, 4)...)
	w.Controller(testenv.Impatient)

	for app, c := range cases {
		w.WaitBlocked(app, "NotReleasable", c.words)
	}
	w.WaitBlocked("service", "NotReleasable", `Service "by-hash"`)
	w.WaitRepaired("either", split.New(100, 0), 2, testenv.SettleTimeout)
	assert.Len(t, w.EvictionsOf("either"), 2, "it is evicted instead")
	assert.Len(t, w.Evictions(), 2, "and no other one is")
}

func TestANewLeaderEvictsWhatWasReleased(t *testing.T) {
	w := testenv.New(t, cluster.Nodes(onDemand, 4)...)
	w.Create(builders.CapacityMix("web", 50, 0, surge), builders.Deployment("web", 4, builders.ReadyAfter(5*time.Second)))
	w.WaitReady("web", 4)
	recording := w.Record("web")
	w.AddNodes(cluster.Nodes(spot, 4)...)
	c := w.Controller(testenv.Impatient)
	p := waitReleased(w, "web")
	testenv.End(c, true)

	assert.Empty(t, p.Annotations[v1alpha1.SlotAnnotation], "its replacement has the slot")
	assert.Equal(t, "true", p.Annotations[pods.SafeToEvict], "its node may be removed")
	require.NotNil(t, p.Spec.ActiveDeadlineSeconds, "it ends without a controller")
	assert.InDelta(t, time.Hour.Seconds(), *p.Spec.ActiveDeadlineSeconds, 300)
	w.WaitReady("web", 5)
	w.Controller(testenv.Impatient)
	w.WaitRepaired("web", split.New(50, 0), 4, 2*testenv.SettleTimeout)
	assert.Len(t, w.EvictionsOf("web"), 2)
	_, all := recording.FewestReady(capacity.OnDemand, 4)
	assert.Equal(t, 4, all, "fewest Ready replicas at any instant")
}

func TestAReleasedReplicaEndsWithItsWorkload(t *testing.T) {
	w := testenv.New(t, cluster.Nodes(onDemand, 4)...)
	web := builders.Deployment("web", 2, builders.ReadyAfter(5*time.Second))
	other := builders.Deployment("other", 2, builders.ReadyAfter(5*time.Second))
	w.Create(builders.CapacityMix("web", 100, 0, surge), web, builders.CapacityMix("other", 100, 0, surge), other)
	w.WaitReady("web", 2)
	w.WaitReady("other", 2)
	w.AddNodes(cluster.Nodes(spot, 4)...)
	c := w.Controller(testenv.Impatient)
	waitReleased(w, "web")
	waitReleased(w, "other")
	w.Scale(other, 0)
	w.Eventually("the released replica goes with a workload that is scaled to none", func() (bool, string) {
		return len(w.Live("other")) == 0, fmt.Sprint(len(w.Live("other")))
	})
	testenv.End(c, true)
	w.Delete(web)
	w.Eventually("the released replica goes with its Deployment, without a controller", func() (bool, string) {
		return len(w.Live("web")) == 0, fmt.Sprint(len(w.Live("web")))
	})
}
