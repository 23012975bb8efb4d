// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// moved starts the controller, which may read LeaderWorkerSets.
func (o *leaderWorkers) moved() {
	o.T.Helper()
	rule := builders.Rule(leaderWorkerSet.Group, []string{"leaderworkersets"}, "get")
	o.Create(builders.Grant("leaderworkersets", builders.User(cluster.BerthControllerUser), rule)...)
	o.Controller(testenv.Impatient)
}

// starts returns how often the pods of each group have been created.
func starts(record *testenv.Recording) map[string]map[string]int {
	seen := map[types.UID]bool{}
	all := map[string]map[string]int{}
	for _, e := range record.Events() {
		group, pod := e.Pod.Labels[groupKey], e.Pod.Name
		if seen[e.Pod.UID] {
			continue
		}
		seen[e.Pod.UID] = true
		if all[group] == nil {
			all[group] = map[string]int{}
		}
		all[group][pod]++
	}
	return all
}

// requireStarts demands that all pods of a group have been created so often.
func (o *leaderWorkers) requireStarts(record *testenv.Recording, group string, times ...int) {
	o.T.Helper()
	pods := starts(record)[group]
	require.Len(o.T, pods, o.size, "pods of group %s", group)
	for pod, n := range pods {
		require.Contains(o.T, times, n, "how often pod %s of group %s was created", pod, group)
	}
}

// planned returns the units that a plan of another share moves, in its order.
func planned(w *testenv.World, mix string, percent int32) (units []string) {
	w.T.Helper()
	u := &live.User{
		Installation: live.Installation{SystemNamespace: "berth-system"}, Config: w.Cluster.Config(), Client: w.Client, Now: time.Now,
		Warn: func(format string, args ...any) { w.T.Logf(format, args...) },
	}
	key := client.ObjectKey{Namespace: w.Namespace, Name: mix}
	then, err := u.MixWith(w.Ctx, key, func(s *v1alpha1.CapacityMixSpec) { s.SpotPercent = percent })
	require.NoError(w.T, err)
	change, err := u.Validate(w.Ctx, then)
	require.NoError(w.T, err)
	p, err := u.Plan(w.Ctx, []overview.MixChange{change}, false)
	require.NoError(w.T, err)
	require.Empty(w.T, p.Blocked)
	for _, m := range p.Moves {
		units = append(units, m.Unit)
	}
	return units
}

// The fewest groups that make the new mix exact are moved, one after the other. Their operator creates each of them again once.
func TestAChangedMixMovesTheFewestGroups(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	before, after := split.New(70, 2), split.New(50, 2)
	w.Create(builders.CapacityMix("lws", 70, 2))
	o := newLeaderWorkers(w, "lws", 4, builders.TerminatesFor(time.Second))
	record, nodes := w.Record("lws"), w.Types()
	slots := o.scaleTo(10, before)
	o.moved()
	plan := planned(w, "lws", 50)
	w.ChangeMix("lws", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 50 })
	w.WaitSplit("lws", "two more groups of four run on on-demand", testenv.Split{Spot: 20, OnDemand: 20})
	w.WaitReady("lws", 40)
	testenv.Stays(w, testenv.Holds, "evictions", 2, w.Evicted)
	moved := 0
	for slot := range 10 {
		times := 1
		if before.TypeOf(slot) != after.TypeOf(slot) {
			moved++
			times = 2
			require.Contains(t, plan, slots[slot])
		}
		o.requireStarts(record, slots[slot], times)
	}
	require.Equal(t, 2, moved)
	require.Len(t, plan, moved)
	require.Equal(t, slots, o.waitUnits(10, after))
	requireUnitsWhole(w, record, nodes, groupKey)
}

// An update creates each group again once, in its slot; the groups of maxSurge have the slots above. No group is moved meanwhile.
func TestARolloutOfALeaderWorkerSetKeepsItsMix(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	w.Create(builders.CapacityMix("lws", 70, 2))
	o := newLeaderWorkers(w, "lws", 3, builders.TerminatesFor(time.Second))
	o.change(map[string]any{
		"type": "RollingUpdate", "rollingUpdateConfiguration": map[string]any{"maxUnavailable": int64(1), "maxSurge": int64(1)},
	}, "rolloutStrategy")
	record, nodes := w.Record("lws"), w.Types()
	slots := o.scaleTo(10, m)
	o.moved()
	o.change("2", "leaderWorkerTemplate", "workerTemplate", "metadata", "annotations", "version")
	w.Eventually("ten groups have the new template", func() (bool, string) {
		live := w.Live("lws")
		updated := testenv.Where(live, func(p *corev1.Pod) bool { return p.Annotations["version"] == "2" && testenv.Ready(p) })
		// Two pods of the group of maxSurge, which goes last, and one that misses a pod are thirty as well.
		groups := byLabel(live, groupKey)
		whole := !slices.ContainsFunc(slices.Collect(maps.Values(groups)), func(pods []corev1.Pod) bool { return len(pods) != 3 })
		return whole && len(groups) == 10 && len(updated) == 30, w.SplitOf(live).String()
	})
	require.Equal(t, slots, o.waitUnits(10, m))
	for _, group := range slots {
		// On a busy machine the operator takes a pod of the old group that it sees late for one that was lost, and creates the group again.
		o.requireStarts(record, group, 2, 3)
	}
	require.Zero(t, w.Evicted(), "evictions")
	require.Len(t, starts(record), 11, "groups, with the one of maxSurge")
	requireUnitsWhole(w, record, nodes, groupKey)
	record.RequireOnTheirTypes(m)
	testenv.Stays(w, testenv.Holds, "evictions", 0, w.Evicted)
}
