// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestAResizeThatFreesCapacityWakesAReplica(t *testing.T) {
	w := newWorld(t, nil, node("spot-0", "spot", "4"), node("on-demand-0", "on-demand", "4"))
	w.Create(builders.Pod("other", "other", builders.CPU("3500m"), builders.OnNode("spot-0")))
	w.WaitBound("other", 1)
	w.Create(builders.CapacityMix("web", 100, 0, spotOnly), builders.Deployment("web", 1, builders.CPU("2")))
	w.WaitUnschedulable("web", 1)
	w.ReportResources("other")
	w.Resize("other", "1")
	w.StaysSplit(testenv.Short, "web", "the node has the capacity only once its kubelet has taken it", testenv.Split{Pending: 1})
	w.ReportResources("other")
	w.RequireExact("web", split.New(100, 0), 1)
}

// Slots do not depend on resources: a replica that is resized keeps its own, and the next ones are placed by what it requests now.
func TestResizedReplicasKeepTheirSlots(t *testing.T) {
	w := newWorld(t, nil, node("spot-0", "spot", "4"), node("spot-1", "spot", "4"), node("on-demand-0", "on-demand", "8"))
	web := builders.Deployment("web", 4, builders.CPU("1"))
	w.Create(builders.CapacityMix("web", 50, 0, spotOnly), web)
	before := w.Slots(w.RequireExact("web", split.New(50, 0), 4))
	for _, p := range before {
		w.ReportResources(p.Name)
		if p.Spec.NodeName == "on-demand-0" {
			w.Resize(p.Name, "3") // two of them: 2 CPUs are left
			w.ReportResources(p.Name)
		}
	}
	w.Scale(web, 10) // 5 on-demand
	w.WaitSplit("web", "one on-demand replica waits", testenv.Split{Spot: 5, OnDemand: 4, Pending: 1})
	now := w.Slots(testenv.Where(w.Live("web"), func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }))
	for slot, p := range before {
		require.Contains(t, now, slot)
		assert.Equal(t, p.UID, now[slot].UID, "slot %d", slot)
		w.Resize(p.Name, "500m")
		w.ReportResources(p.Name)
	}
	w.RequireExact("web", split.New(50, 0), 10)
}

// A replica that waits because it is above its ResourceLimit is tried again when it requests less.
func TestAReplicaThatIsResizedToItsResourceLimitRuns(t *testing.T) {
	w := newWorld(t, nil, node("spot-0", "spot", "4"), node("on-demand-0", "on-demand", "4"))
	w.Create(builders.ResourceLimit("small", builders.SizeCPU("1", "1")))
	w.Create(builders.CapacityMix("web", 100, 0, spotOnly), builders.Deployment("web", 1, builders.CPU("2"), builders.OfSize("small")))
	waiting := w.WaitUnschedulable("web", 1)[0]
	require.Contains(t, testenv.PodCondition(&waiting, corev1.PodScheduled).Message, "cpu request 2 is above 1")
	w.Resize(waiting.Name, "1")
	assert.Equal(t, waiting.UID, w.RequireExact("web", split.New(100, 0), 1)[0].UID, "the same pod")
}
