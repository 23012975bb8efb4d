// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// row is a cluster in which a victim is to move to spot.
type row struct {
	nodes []cluster.NodeSpec
	pods  []*corev1.Pod // the one named victim moves
	// before is done once the nodes are there, and before the pods are.
	before func(w *testenv.World)
	// want is the node, "" if none fits; then because of reasons, with {ns} for the namespace.
	want    string
	reasons map[string]int
}

var rows = map[string]row{
	"a full node has no room": {
		nodes:   []cluster.NodeSpec{node("od", onDemand, "a", "4"), node("sp", spot, "a", "1")},
		pods:    []*corev1.Pod{placed(victim, "od"), placed("other", "sp")},
		reasons: map[string]int{"Insufficient cpu": 1},
	},
	"a free node takes the pod": {
		nodes: []cluster.NodeSpec{node("od", onDemand, "a", "4"), node("sp-0", spot, "a", "1"), node("sp-1", spot, "a", "1")},
		pods:  []*corev1.Pod{placed(victim, "od"), placed("other", "sp-0")},
		want:  "sp-1",
	},
	"the victim makes the room itself": {
		nodes: []cluster.NodeSpec{node("sp", spot, "a", "1")},
		pods:  []*corev1.Pod{placed(victim, "sp")},
		want:  "sp",
	},
	"a node with as many pods as it takes has no room": {
		nodes:   []cluster.NodeSpec{node("od", onDemand, "a", "4"), node("sp", spot, "a", "4", maxPods(1))},
		pods:    []*corev1.Pod{placed(victim, "od"), placed("other", "sp")},
		reasons: map[string]int{"Too many pods": 1},
	},
	"a taint keeps the pod away": {
		nodes:   []cluster.NodeSpec{node("od", onDemand, "a", "4"), node("sp", spot, "a", "4", tainted("dedicated"))},
		pods:    []*corev1.Pod{placed(victim, "od")},
		reasons: map[string]int{"node(s) had untolerated taint(s)": 1},
	},
	"a toleration lets it in": {
		nodes: []cluster.NodeSpec{node("od", onDemand, "a", "4"), node("sp", spot, "a", "4", tainted("dedicated"))},
		pods:  []*corev1.Pod{placed(victim, "od", builders.TolerateAll)},
		want:  "sp",
	},
	"a cordoned node takes no pod": {
		nodes:   []cluster.NodeSpec{node("od", onDemand, "a", "4"), node("sp", spot, "a", "4")},
		pods:    []*corev1.Pod{placed(victim, "od")},
		before:  func(w *testenv.World) { w.Cordon(true, "sp") },
		reasons: map[string]int{"node(s) were unschedulable": 1},
	},
	"a node selector picks the node": {
		nodes: []cluster.NodeSpec{node("od", onDemand, "b", "4"), node("sp-0", spot, "a", "4"), node("sp-1", spot, "b", "4")},
		pods:  []*corev1.Pod{placed(victim, "od", builders.OnNodesWith(corev1.LabelTopologyZone, "zone-b"))},
		want:  "sp-1",
	},
	"required node affinity that no node meets": {
		nodes:   []cluster.NodeSpec{node("od", onDemand, "b", "4"), node("sp", spot, "a", "4")},
		pods:    []*corev1.Pod{placed(victim, "od", builders.RequireNodeLabel(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "zone-b"))},
		reasons: map[string]int{"node(s) didn't match Pod's node affinity/selector": 1},
	},
	"a node that the pod's ResourceLimit names": {
		nodes:  []cluster.NodeSpec{node("od", onDemand, "b", "4"), node("sp-0", spot, "a", "4"), node("sp-1", spot, "b", "4")},
		before: sizeInZoneB,
		pods:   []*corev1.Pod{placed(victim, "od", builders.OfSize("zonal"))},
		want:   "sp-1",
	},
	"a ResourceLimit that no node matches": {
		nodes:   []cluster.NodeSpec{node("od", onDemand, "b", "4"), node("sp", spot, "a", "4")},
		before:  sizeInZoneB,
		pods:    []*corev1.Pod{placed(victim, "od", builders.OfSize("zonal"))},
		reasons: map[string]int{`node(s) didn't match the node rules of ResourceLimit "{ns}/zonal"`: 1},
	},
	"a ResourceLimit that is gone": {
		nodes:   []cluster.NodeSpec{node("od", onDemand, "b", "4"), node("sp", spot, "a", "4")},
		pods:    []*corev1.Pod{placed(victim, "od", builders.OfSize("gone"))},
		reasons: map[string]int{`ResourceLimit "{ns}/gone" does not exist`: 1},
	},
	"nodes that do not declare a feature that the pod requires": {
		nodes:   []cluster.NodeSpec{node("od", onDemand, "a", "4"), node("sp", spot, "a", "4")},
		pods:    []*corev1.Pod{placed(victim, "od", restartsAll)},
		reasons: map[string]int{"node(s) didn't match Pod's required features": 1},
	},
	"a node that declares it": {
		nodes:  []cluster.NodeSpec{node("od", onDemand, "a", "4"), node("sp-0", spot, "a", "4"), node("sp-1", spot, "a", "4")},
		before: declares("sp-1", "RestartAllContainersOnContainerExits"),
		pods:   []*corev1.Pod{placed(victim, "od", restartsAll)},
		want:   "sp-1",
	},
	"a sibling with required anti-affinity blocks": {
		nodes:   []cluster.NodeSpec{node("od", onDemand, "b", "4"), node("sp", spot, "a", "4")},
		pods:    []*corev1.Pod{placed(victim, "od", apart), placed("sibling", "sp", apart)},
		reasons: map[string]int{"node(s) didn't match pod anti-affinity rules": 1},
	},
	"only the victim stood in the way of anti-affinity": {
		nodes: []cluster.NodeSpec{node("od", onDemand, "a", "4"), node("sp", spot, "a", "4")},
		pods:  []*corev1.Pod{placed(victim, "od", apart)},
		want:  "sp",
	},
	"hard spread lets the pod into the zone that it leaves": {
		nodes: []cluster.NodeSpec{node("od", onDemand, "a", "4"), node("sp-0", spot, "b", "4"), node("sp-1", spot, "a", "4")},
		pods:  []*corev1.Pod{placed(victim, "od", spread), placed("sibling", "sp-0", spread)},
		want:  "sp-1",
	},
	"hard spread keeps it from the zone that is full": {
		nodes:   []cluster.NodeSpec{node("od", onDemand, "a", "4"), node("sp", spot, "b", "4")},
		pods:    []*corev1.Pod{placed(victim, "od", spread), placed("sibling", "sp", spread)},
		reasons: map[string]int{"node(s) didn't match pod topology spread constraints": 1},
	},
	"a host port that is taken": {
		nodes:   []cluster.NodeSpec{node("od", onDemand, "a", "4"), node("sp", spot, "a", "4")},
		pods:    []*corev1.Pod{placed(victim, "od", hostPort), placed("other", "sp", hostPort)},
		reasons: map[string]int{"node(s) didn't have free ports for the requested pod ports": 1},
	},
	"a host port that the victim held": {
		nodes: []cluster.NodeSpec{node("sp", spot, "a", "4")},
		pods:  []*corev1.Pod{placed(victim, "sp", hostPort)},
		want:  "sp",
	},
	"a bound volume in another zone": {
		nodes:   []cluster.NodeSpec{node("od", onDemand, "b", "4"), node("sp", spot, "a", "4")},
		before:  volumeIn("zone-b", corev1.ReadWriteOnce),
		pods:    []*corev1.Pod{placed(victim, "od", mounted)},
		reasons: map[string]int{"node(s) didn't match PersistentVolume's node affinity": 1},
	},
	"a bound volume in this zone": {
		nodes:  []cluster.NodeSpec{node("od", onDemand, "b", "4"), node("sp-0", spot, "a", "4"), node("sp-1", spot, "b", "4")},
		before: volumeIn("zone-b", corev1.ReadWriteOnce),
		pods:   []*corev1.Pod{placed(victim, "od", mounted)},
		want:   "sp-1",
	},
	"a claim for one pod that the victim gives back": {
		nodes:  []cluster.NodeSpec{node("od", onDemand, "b", "4"), node("sp", spot, "b", "4")},
		before: volumeIn("zone-b", corev1.ReadWriteOncePod),
		pods:   []*corev1.Pod{placed(victim, "od", mounted)},
		want:   "sp",
	},
	"a claim for one pod that another has": {
		nodes:   []cluster.NodeSpec{node("od", onDemand, "b", "4"), node("sp", spot, "b", "4")},
		before:  volumeIn("zone-b", corev1.ReadWriteOncePod),
		pods:    []*corev1.Pod{placed(victim, "od", mounted), placed("other", "od", mounted)},
		reasons: map[string]int{"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod": 1},
	},
}

func TestTheReplayPredictsTheScheduler(t *testing.T) {
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			w := testenv.New(t, r.nodes...)
			if r.before != nil {
				r.before(w)
			}
			for _, p := range r.pods {
				w.Create(p.DeepCopy())
			}
			a := ask(w)
			require.Equal(t, r.want, a.Node, a.Message())
			require.Equal(t, r.want != "", a.Fits)
			if !a.Fits {
				reasons := map[string]int{}
				for reason, n := range r.reasons {
					reasons[strings.ReplaceAll(reason, "{ns}", w.Namespace)] = n
				}
				require.Equal(t, reasons, a.Reasons)
			}
			requireSameAsTheScheduler(w, a)
		})
	}
}

func maxPods(n int) func(*cluster.NodeSpec) {
	return func(s *cluster.NodeSpec) { s.Pods = n }
}

func tainted(key string) func(*cluster.NodeSpec) {
	return func(n *cluster.NodeSpec) {
		n.Taints = append(n.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

func sizeInZoneB(w *testenv.World) {
	w.Create(builders.ResourceLimit("zonal", builders.SizeOnNodesWith(corev1.LabelTopologyZone, "zone-b")))
}

// restartsAll has a template's pods require a feature that kubelets declare.
func restartsAll(t *corev1.PodTemplateSpec) {
	c := &t.Spec.Containers[0]
	c.RestartPolicy = new(corev1.ContainerRestartPolicyNever)
	c.RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
}

// declares has a node declare features, as its kubelet does.
func declares(name string, features ...string) func(*testenv.World) {
	return func(w *testenv.World) {
		n := testenv.ReadIn(w, "", name, &corev1.Node{})
		before := n.DeepCopy()
		n.Status.DeclaredFeatures = features
		require.NoError(w.T, w.Client.Status().Patch(w.Ctx, n, client.StrategicMergeFrom(before)))
	}
}

// apart keeps a workload's pods in zones of their own.
func apart(t *corev1.PodTemplateSpec) {
	t.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: t.Labels},
		}},
	}}
}

// spread keeps the zones within one pod of each other, all zones that there
// are: the real replacement has a node selector for spot, the replay has not.
func spread(t *corev1.PodTemplateSpec) {
	t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		NodeAffinityPolicy: new(corev1.NodeInclusionPolicyIgnore),
		LabelSelector:      &metav1.LabelSelector{MatchLabels: t.Labels},
	}}
}

func hostPort(t *corev1.PodTemplateSpec) {
	t.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
}

const claim = "data"

func mounted(t *corev1.PodTemplateSpec) {
	t.Spec.Volumes = []corev1.Volume{{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
}

// volumeIn makes a volume that is reached from one zone, and its claim, and
// waits until they are bound.
func volumeIn(zone string, mode corev1.PersistentVolumeAccessMode) func(*testenv.World) {
	return func(w *testenv.World) {
		size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		modes := []corev1.PersistentVolumeAccessMode{mode}
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
		v.Spec = corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{Namespace: w.Namespace, Name: claim},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
			}}}},
		}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.test", VolumeHandle: w.Namespace}
		w.CreateForTest(v)
		// A claim that the controller sees before its volume waits for a resync.
		testenv.WaitForIn(w, "", v.Name, "it is known", func(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumeAvailable })
		w.Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim}, Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(""), VolumeName: v.Name, AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size},
		}})
		testenv.WaitFor(w, claim, "it is bound", func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound })
	}
}
