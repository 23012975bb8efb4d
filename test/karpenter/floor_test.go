// SPDX-License-Identifier: Apache-2.0

package karpenter_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// drains runs kubectl drain of all on-demand nodes at once, again and again, each node in a process of its own. It returns how many ended.
func (w *autoscaled) drains(long time.Duration, seen map[string]capacity.Type) (ended int) {
	w.T.Helper()
	w.Tool(cluster.Kubectl, "version", "--client") // it is built before the time counts
	var mu sync.Mutex                              // guards what follows
	running := map[string]bool{}
	var group sync.WaitGroup
	began, deleted := time.Now(), false
	w.Always(long, "the drains go on", func() (bool, string) {
		now := w.Types()
		maps.Copy(seen, now)
		for name, t := range now {
			mu.Lock()
			again := t == capacity.OnDemand && !running[name]
			running[name] = running[name] || again
			mu.Unlock()
			if !again {
				continue
			}
			group.Go(func() {
				_, err := w.TryTool(cluster.Kubectl, "drain", name, "--ignore-daemonsets", "--timeout=20s")
				mu.Lock()
				defer mu.Unlock()
				if running[name] = err == nil; err == nil { // it has no replicas any more
					ended++
				}
			})
		}
		if !deleted && time.Since(began) > long/2 {
			w.deleteOnDemand()
			deleted = true
		}
		return true, ""
	})
	group.Wait()
	maps.Copy(seen, w.Types())
	return ended
}

// deleteOnDemand deletes the NodeClaims of all on-demand nodes: Karpenter drains these, too.
func (w *autoscaled) deleteOnDemand() {
	w.T.Helper()
	for _, claim := range w.list(nodeClaims) {
		if claim.GetLabels()[cluster.CapacityTypeLabel] == v1alpha1.CapacityTypeOnDemand {
			require.NoError(w.T, client.IgnoreNotFound(w.Client.Delete(w.Ctx, &claim)))
		}
	}
}

// Karpenter consolidates as eagerly as it can, kubectl drains all on-demand nodes at once and again, and in the middle all their NodeClaims
// are deleted. What kubectl may not evict waits, until Karpenter has launched the nodes for what it has evicted.
func TestDrainsAndConsolidationLeaveTheFloor(t *testing.T) {
	const replicas, floor = 12, 4
	m := split.New(50, floor)
	p := both
	p.consolidateAfter = "5s"
	w := start(t, p)
	w.ApplyFiles("manifests/rbac/placeholders")
	w.Controller(testenv.Impatient)
	w.Create(
		builders.CapacityMix("web", m.SpotPercent, m.MinOnDemand, builders.ProtectFloor, builders.Rebalance(func(r *v1alpha1.RebalanceSpec) {
			r.Strategy, r.Provisioning = v1alpha1.RebalanceStrategySurge, v1alpha1.ProvisioningPlaceholder
		})),
		builders.Deployment("web", replicas, builders.CPU(cpu), builders.Gated),
	)
	w.WaitExact("web", m, replicas, patience)
	w.WaitCondition("web", v1alpha1.ConditionFloorProtected, true, v1alpha1.ReasonBudgetsKept)
	recording := w.Record("web")
	seen := w.Types()

	ended := w.drains(testenv.Length(2*time.Minute, 10*time.Minute), seen)
	w.WaitExact("web", m, replicas, patience)
	maps.Copy(seen, w.Types())
	lost := len(slices.DeleteFunc(slices.Collect(maps.Keys(seen)), func(name string) bool { _, is := w.Types()[name]; return is }))
	byKarpenter := len(w.Audit(func(r testenv.Request) bool {
		return r.User == cluster.KarpenterUser && r.Resource == "pods/eviction" && r.OK()
	}))
	ready, all := recording.FewestReadyOf(seen, capacity.OnDemand, replicas)
	t.Logf("%d drains ended, %d of %d nodes are gone, %d evictions, %d of them by Karpenter; fewest Ready: %d on on-demand, %d in all", ended,
		lost, len(seen), w.evictions(), byKarpenter, ready, all)
	require.Positive(t, ended, "drains that ended")
	assert.Positive(t, byKarpenter, "evictions by Karpenter")
	assert.GreaterOrEqual(t, ready, floor, "fewest Ready replicas on on-demand at any event: %s", fmt.Sprint(seen))
	w.requireKarpentersNodes()
}
