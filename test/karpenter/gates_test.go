// SPDX-License-Identifier: Apache-2.0

package karpenter_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

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
