// SPDX-License-Identifier: Apache-2.0

package placeholder_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// inZone is a node of a zone; one on on-demand has capacity for one replica.
func inZone(capacityType, zone string) cluster.NodeSpec {
	n := cluster.NodeSpec{Name: capacityType + "-" + zone, CapacityType: capacityType, Zone: zone}
	if capacityType == onDemand {
		n.CPU = "150m"
	}
	return n
}

// apartFrom requires that no pod of an app runs in the zone.
func apartFrom(app string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: builders.Labels(app)},
			}},
		}}
	}
}

// assertWaits demands that the placeholder does not run on what there is, and that no replica is touched.
func assertWaits(w *testenv.World) {
	w.T.Helper()
	w.Always(holds, "it does not run where the replica may not", func() (bool, string) {
		all := holders(w)
		return len(all) == 1 && all[0].Spec.NodeName == "", names(all)
	})
	assert.Empty(w.T, w.Evictions())
}

// waitMoved waits until a replica was evicted once, and its replacement runs on a node.
func waitMoved(w *testenv.World, node string) {
	w.T.Helper()
	w.WaitEvictions(1)
	w.Eventually("the replacement runs on "+node, func() (bool, string) {
		there := testenv.Where(w.Live("web"), func(p *corev1.Pod) bool { return p.Spec.NodeName == node && testenv.Ready(p) })
		return len(there) == 1, ""
	})
}

// The replacement may run in the zone that its replica leaves, and in no other.
func TestAReplicaApartFromItsSiblingsMovesWithinItsZone(t *testing.T) {
	w := testenv.New(t, inZone(spot, "zone-a"), inZone(spot, "zone-b"))
	w.ApplyFiles("manifests/rbac/placeholders")
	w.Create(builders.CapacityMix("web", 50, 1, placeholders), builders.Deployment("web", 2, apartFrom("web")))
	w.WaitReady("web", 2)
	w.Controller(testenv.Impatient)
	first := waitHolders(w, 1)[0]
	replica := testenv.Where(w.Live("web"), func(p *corev1.Pod) bool { return string(p.UID) == first.Labels[v1alpha1.PlaceholderLabel] })[0]
	own, other := "zone-a", "zone-b"
	if replica.Spec.NodeName == spot+"-zone-b" {
		own, other = other, own
	}
	w.AddNodes(inZone(onDemand, other))
	assertWaits(w)
	w.AddNodes(inZone(onDemand, own))
	waitMoved(w, onDemand+"-"+own)
	waitHolders(w, 0)
	w.WaitSatisfied("web")
	assert.Len(t, w.Evictions(), 1)
}

// The anti-affinity of a pod selects by the labels of the replacement, which the placeholder has not.
func TestAPlaceholderAvoidsTheZoneOfAPodApartFromItsReplica(t *testing.T) {
	w := testenv.New(t, inZone(spot, "zone-a"), inZone(spot, "zone-b"))
	w.ApplyFiles("manifests/rbac/placeholders")
	w.Create(builders.Pod("db", "db", apartFrom("web"), builders.OnNodesWith(corev1.LabelTopologyZone, "zone-b")))
	w.WaitReady("db", 1)
	w.Create(builders.CapacityMix("web", 50, 1, placeholders), builders.Deployment("web", 2))
	w.WaitReady("web", 2)
	w.Controller(testenv.Impatient)
	waitHolders(w, 1)
	w.AddNodes(inZone(onDemand, "zone-b"))
	assertWaits(w)
	w.AddNodes(inZone(onDemand, "zone-a"))
	waitMoved(w, onDemand+"-zone-a")
	waitHolders(w, 0)
	w.WaitSatisfied("web")
	assert.Len(t, w.Evictions(), 1)
}

// A node that comes would not help: the pod that the replica must be near to is gone.
func TestNoPlaceholderIsCreatedWhereNoNewNodeWouldFit(t *testing.T) {
	w := testenv.New(t, inZone(spot, "zone-a"))
	w.ApplyFiles("manifests/rbac/placeholders")
	db := builders.Pod("db", "db")
	w.Create(db)
	w.WaitReady("db", 1)
	w.Create(builders.CapacityMix("web", 50, 1, placeholders), builders.Deployment("web", 2, func(p *corev1.PodTemplateSpec) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: builders.Labels("db")},
			}},
		}}
	}))
	w.WaitReady("web", 2)
	w.Delete(db)
	w.WaitDeleted(db)
	before := w.Live("web")
	w.Controller(testenv.Impatient)
	w.WaitBlocked("web", "PlaceholderRefused", "no pod matches the required pod affinity of the replacement")
	assert.Empty(t, holders(w))
	assertUntouched(w, before)
}
