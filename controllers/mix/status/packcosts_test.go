// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
)

// wrongCost gives a replica the deletion cost that Karpenter writes.
func wrongCost(e rebalance.Entry, cost string) rebalance.Entry {
	p := e.Group.Assignments[3].Pod
	p.Owner, p.CostOrigin, p.Annotations[costKey] = e.Group.Assignments[0].Pod.Owner, clusterstate.CostOverwritten, cost
	return e
}

func TestReplicasExchangeSlotsAlthoughCostsAreOverwritten(t *testing.T) {
	restored := func() rebalance.Entry {
		e := spread()
		e.Settings.Stabilization = 5 * time.Minute
		return e
	}
	p := newPacker(t, restored())
	for range 5 {
		p.decide(wrongCost(restored(), "-100"))
		p.decide(restored())
		p.pack(t.Context(), "shop")
		require.Empty(t, patches(p.kube))
		p.clock.SetTime(p.clock.Now().Add(time.Minute))
	}
	p.decide(wrongCost(restored(), "-100"))
	p.pack(t.Context(), "shop")
	require.Empty(t, patches(p.kube), "the cost is to be restored before")
	p.decide(restored())
	p.clock.SetTime(p.clock.Now().Add(leastQuiet))
	p.pack(t.Context(), "shop")
	require.NotEmpty(t, patches(p.kube), "decisions about costs delay nothing")
}

func TestAChangeOfTheWorkloadDelaysExchanges(t *testing.T) {
	p := newPacker(t, spread())
	p.later(t, leastQuiet-time.Second)
	e := spread()
	e.Group.Assignments[3].Pod.Node = "another"
	p.decide(e)
	p.later(t, leastQuiet-time.Second)
	require.Empty(t, patches(p.kube))
}

func TestACostOfAnotherClientThatIsThatOfTheSlotDelaysNoExchange(t *testing.T) {
	e := spread()
	for i := range e.Group.Assignments {
		e.Group.Assignments[i].Pod.CostOrigin = clusterstate.CostOverwritten
	}
	p := newPacker(t, e)
	for _, s := range e.Group.Assignments {
		pod, err := p.kube.CoreV1().Pods("shop").Get(t.Context(), s.Pod.Name, metav1.GetOptions{})
		require.NoError(t, err)
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager:  "karpenter",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:controller.kubernetes.io/pod-deletion-cost":{}}}}`),
		}}
		require.NoError(t, p.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, "shop"))
	}
	p.later(t, leastQuiet)
	require.NotEmpty(t, patches(p.kube))
}
