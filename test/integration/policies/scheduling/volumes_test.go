// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const (
	// volumeZone is the zone of all volumes; the pods prefer the other one.
	volumeZone, preferredZone = "zone-a", "zone-b"
	// unreachable is why a node of another zone is rejected.
	unreachable = "node(s) didn't match PersistentVolume's node affinity"
)

var (
	volumeSize = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	once       = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
)

// volume makes a volume that only nodes of the zone reach.
func volume(w *testenv.World, name, class string, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	w.T.Helper()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace + "-" + name}}
	v.Spec = corev1.PersistentVolumeSpec{
		Capacity: volumeSize, AccessModes: once, StorageClassName: class, PersistentVolumeSource: source,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{volumeZone}},
			},
		}}}},
	}
	w.CreateForTest(v)
	// A claim that the controller sees before its volume waits for a resync.
	return testenv.WaitForIn(w, "", v.Name, "it is known", func(v *corev1.PersistentVolume) bool {
		return v.Status.Phase == corev1.VolumeAvailable
	})
}

func claimOf(w *testenv.World, name, class, volume string) {
	w.T.Helper()
	w.Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, VolumeName: volume, AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: volumeSize},
	}})
}

// boundClaim makes a claim that has its volume before a pod uses it.
func boundClaim(w *testenv.World) {
	w.T.Helper()
	csi := &corev1.CSIPersistentVolumeSource{Driver: "csi.test", VolumeHandle: w.Namespace}
	v := volume(w, "bound", "", corev1.PersistentVolumeSource{CSI: csi})
	claimOf(w, "data", "", v.Name)
	testenv.WaitFor(w, "data", "it is bound", func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound })
}

// waitingClaim makes a claim that gets a volume when the first pod that uses it has a node.
func waitingClaim(w *testenv.World) {
	w.T.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	w.CreateForTest(class)
	volume(w, "waiting", class.Name, corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/data"}})
	claimOf(w, "data", class.Name, "")
}

func withVolume(t *corev1.PodTemplateSpec) {
	t.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
}

// prefersOtherZone is a policy, and what a pod of it prefers, for a zone that no volume is reached from.
func prefersOtherZone() (*v1alpha1.SchedulingPolicy, template) {
	functions := func(s *v1alpha1.SchedulingPolicySpec) {
		s.Score = &v1alpha1.ScoreRules{Functions: []v1alpha1.ScoreFunction{{Name: v1alpha1.ScorePreferredAffinity}}}
	}
	return builders.SchedulingPolicy("all", functions, records(v1alpha1.RecordAlways)),
		builders.PreferNodeLabel(corev1.LabelTopologyZone, preferredZone)
}

// rejections are those of the newest attempt for a pod that waits.
func (s *server) rejections(pod string) map[decision.Reason]decision.Rejection {
	s.w.T.Helper()
	byReason := map[decision.Reason]decision.Rejection{}
	for _, r := range s.records(pod, decision.Unschedulable)[0].Rejections {
		byReason[r.Reason] = r
	}
	return byReason
}

// However much a policy prefers another zone, a pod runs where its volume is reached from, and waits if no node there fits.
func TestAPodRunsInTheZoneOfItsVolume(t *testing.T) {
	for name, volume := range map[string]struct {
		claim  func(*testenv.World)
		reason string
	}{
		"a volume that is bound":              {boundClaim, unreachable},
		"a volume that is bound with the pod": {waitingClaim, "node(s) didn't find available persistent volumes to bind"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := six()
			inZone := sets.New[string]()
			for i := range nodes {
				if nodes[i].Zone == volumeZone {
					nodes[i].CPU = "1"
					inZone.Insert(nodes[i].Name)
				}
			}
			w := testenv.New(t, nodes...)
			s := start(w)
			volume.claim(w)
			p, preference := prefersOtherZone()
			w.Create(p, builders.Pod("free", "free", preference), builders.Pod("large", "large", preference, withVolume, builders.CPU("2")))
			assert.NotContains(t, inZone, w.WaitBound("free", 1)[0].Spec.NodeName, "without a volume the policy decides")

			w.WaitUnschedulable("large", 1)
			got := s.rejections("large")
			require.Len(t, got, 2)
			assert.Equal(t, inZone.Len(), got[decision.InsufficientCPU].Nodes)
			assert.Contains(t, inZone, got[decision.InsufficientCPU].Example)
			other := got[decision.Custom]
			assert.Equal(t, len(nodes)-inZone.Len(), other.Nodes)
			assert.NotContains(t, inZone, other.Example)
			assert.Equal(t, volume.reason, other.Message)

			w.Delete(testenv.Read(w, "large", &corev1.Pod{}))
			w.Create(builders.Pod("web", "web", preference, withVolume))
			bound := w.WaitBound("web", 1)[0]
			assert.Contains(t, inZone, bound.Spec.NodeName)
			assert.Equal(t, inZone.Len(), s.records("web", decision.Bound)[0].Feasible, "only nodes of the zone are feasible")
			testenv.WaitFor(w, "data", "it is bound", func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound })
		})
	}
}

// The zone of a volume has nodes of one capacity type only. A pod whose slot is of the other type waits, or borrows there.
func TestASlotIsFilledInTheZoneOfTheVolume(t *testing.T) {
	few := func(zone string) func(*cluster.NodeSpec) {
		return func(n *cluster.NodeSpec) { n.Zone, n.CPU, n.Memory = zone, "4", "16Gi" }
	}
	for name, mix := range map[string]struct {
		when v1alpha1.WhenSpotUnavailable
		runs bool
	}{
		"it borrows": {v1alpha1.WhenSpotUnavailableOnDemand, true},
		"it waits":   {v1alpha1.WhenSpotUnavailableWait, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := testenv.New(t, append(cluster.Nodes("spot", 2, few(preferredZone)), cluster.Nodes("on-demand", 2, few(volumeZone))...)...)
			s := start(w)
			boundClaim(w)
			p, preference := prefersOtherZone()
			w.Create(p, builders.CapacityMix("web", 100, 0, builders.WhenSpotUnavailable(mix.when, 0)),
				builders.Deployment("web", 1, preference, withVolume))
			if mix.runs {
				assert.True(t, strings.HasPrefix(w.WaitBound("web", 1)[0].Spec.NodeName, "on-demand-"))
				return
			}
			pod := w.WaitUnschedulable("web", 1)[0]
			nodes := map[string]int{}
			for _, r := range s.records(pod.Name, decision.Unschedulable)[0].Rejections {
				nodes[r.Message] = r.Nodes
			}
			assert.Equal(t, map[string]int{unreachable: 2, "node(s) are on-demand, slot 0 needs spot": 2}, nodes)
		})
	}
}
