// SPDX-License-Identifier: Apache-2.0

package karpenter_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// The same workload with the gate, on a cluster without nodes, whichever scheduler binds its pods.
func TestWithTheGateKarpenterLaunchesTheMix(t *testing.T) {
	for _, scheduler := range []string{builders.Scheduler, defaultScheduler} {
		t.Run(scheduler, func(t *testing.T) {
			w := start(t, both)
			if scheduler == defaultScheduler {
				w.StartStock()
			}
			d := builders.Deployment("web", 20, builders.CPU(cpu), builders.Gated, builders.SchedulerName(scheduler))
			w.Create(builders.CapacityMix("web", web.SpotPercent, web.MinOnDemand), d)
			w.waitMix(20)
			w.requireKarpentersNodes()

			for _, replicas := range []int32{40, 5, 20} {
				w.Scale(d, replicas)
				w.waitMix(int(replicas))
			}
			testenv.Patch(w.World, d, func(d *appsv1.Deployment) { d.Spec.Template.Annotations = map[string]string{"revision": "2"} })
			w.waitRollout(d)
			w.waitMix(20)
			w.requireKarpentersNodes()
		})
	}
}

// waitMix waits until all replicas run in their mix.
func (w *autoscaled) waitMix(replicas int) {
	w.T.Helper()
	w.WaitExact("web", web, replicas, patience)
}

// waitRollout waits until all pods of a Deployment have its newest template.
func (w *autoscaled) waitRollout(d *appsv1.Deployment) {
	w.T.Helper()
	w.Within(patience, "the rollout is complete", func() (bool, string) {
		d := testenv.Read(w.World, d.Name, &appsv1.Deployment{})
		s, n := &d.Status, *d.Spec.Replicas
		return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == n && s.Replicas == n && s.ReadyReplicas == n,
			fmt.Sprintf("%d replicas, %d updated, %d Ready", s.Replicas, s.UpdatedReplicas, s.ReadyReplicas)
	})
}

// Why there is a gate. Karpenter does not have the rule in Berth's Filter: for pods that wait for an on-demand node it
// launches spot nodes, the cheaper ones. Their capacity stays free, and they are not consolidated, since Karpenter expects the
// pods on them. Once they are reclaimed, others of their kind replace them. docs/autoscalers.md warns of this.
func TestWithoutTheGateKarpenterLaunchesNodesOfTheWrongType(t *testing.T) {
	p := both
	p.consolidateAfter = "5s"
	w := start(t, p)
	w.Create(
		builders.CapacityMix("web", web.SpotPercent, web.MinOnDemand, builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableWait, 0)),
		builders.Deployment("web", 20, builders.CPU(cpu)),
	)
	seen := launches{}
	stuck := func() (bool, string) {
		seen.see(w)
		s := w.Split("web")
		return s.Spot == 14 && s.OnDemand == 0 && s.Pending == 6, s.String() + "; " + seen.String()
	}
	w.Within(patience, "14 pods run on spot, 6 wait", stuck)
	w.Always(testenv.Length(time.Minute, 5*time.Minute), "14 pods run on spot, 6 wait, nodes have capacity for them", func() (bool, string) {
		ok, saw := stuck()
		spare := w.spare()
		return ok && len(spare) > 0, fmt.Sprintf("%s; spare: %s", saw, spare)
	})
	before := maps.Clone(seen)

	w.delete(w.spare()...) // as spot nodes go
	w.Within(patience, "Karpenter launches others", func() (bool, string) {
		_, saw := stuck()
		return len(seen.since(before)) > 0 && len(w.spare()) > 0, saw
	})
	w.Within(patience, "14 pods run on spot, 6 wait, every node that was requested is launched", func() (bool, string) {
		ok, saw := stuck()
		return ok && seen.launched(), saw
	})
	t.Logf("first %s; for those that were reclaimed, %s", before, seen.since(before))
	for _, capacityType := range seen {
		assert.Equal(t, "spot", capacityType, "type of every node that Karpenter launched: %s", seen)
	}
}

// spare returns the nodes with capacity for another replica. They are empty or not: that depends on the order in which the
// nodes became Ready.
func (w *autoscaled) spare() (names []string) {
	w.T.Helper()
	replicas := testenv.NodesOf(w.Live("web"))
	for _, n := range w.nodes() {
		if len(n.Spec.Taints) == 0 && replicas[n.Name] < perNode {
			names = append(names, n.Name)
		}
	}
	return names
}

// delete takes nodes away, by their NodeClaims.
func (w *autoscaled) delete(nodes ...string) {
	w.T.Helper()
	for _, claim := range w.list(nodeClaims) {
		if node, _, _ := unstructured.NestedString(claim.Object, "status", "nodeName"); slices.Contains(nodes, node) {
			w.Delete(&claim)
		}
	}
}
