// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestTheYoungerOfTwoConflictingMixesNamesTheOlder(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	older := builders.CapacityMix("web", 70, 2)
	w.Create(older)
	w.Create(builders.Deployment("web", 10), builders.CapacityMix("idle", 50, 1))
	youngerThan(w, w.Mix("web"), builders.CapacityMix("web", 30, 2, func(m *v1alpha1.CapacityMix) { m.Name = "younger" }))
	w.WaitReady("web", 10)
	w.Controller(testenv.Impatient)
	w.WaitSatisfied("web")
	w.WaitCondition("web", v1alpha1.ConditionAccepted, true, v1alpha1.ReasonAccepted)
	cm := w.WaitCondition("younger", v1alpha1.ConditionAccepted, false, v1alpha1.ReasonConflict)
	c := meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionAccepted)
	assert.Contains(t, c.Message, "governed by an older one: web")
	for _, name := range []string{"younger", "idle"} {
		w.WaitStatus(name, "without pods of its own", func(s *v1alpha1.CapacityMixStatus) bool {
			return testenv.Condition(s, v1alpha1.ConditionSatisfied, true, v1alpha1.ReasonNoWorkloads) && s.WorkloadCount == 0 && len(s.Workloads) == 0
		})
	}
	w.RequireExact("web", split.New(70, 2), 10)
	assert.Empty(t, w.Evictions())

	w.Delete(older)
	w.WaitExact("web", split.New(30, 2), 10, testenv.SettleTimeout)
	w.WaitSatisfied("younger")
	assert.Len(t, w.Evictions(), 4, "the younger mix governs now")
}

// youngerThan creates a mix in a later second, which is as exact as an age is.
func youngerThan(w *testenv.World, older, younger *v1alpha1.CapacityMix) {
	w.T.Helper()
	w.Eventually("the mix is younger", func() (bool, string) {
		m := younger.DeepCopy()
		w.Create(m)
		if m.CreationTimestamp.After(older.CreationTimestamp.Time) {
			return true, ""
		}
		w.Delete(m)
		return false, m.CreationTimestamp.String()
	})
}

func TestWorkloadListIsBoundedAndUnsatisfiedComeFirst(t *testing.T) {
	const workloads = v1alpha1.MaxStatusWorkloads + 3
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("many", 0, 0))
	many := func(t *corev1.PodTemplateSpec) { t.Labels["many"] = "" }
	w.ChangeMix("many", func(m *v1alpha1.CapacityMix) { m.Spec.Selector.MatchLabels = map[string]string{"many": ""} })
	for i := range workloads - 1 {
		w.Create(builders.Deployment(fmt.Sprintf("a-%02d", i), 1, many))
	}
	w.Create(builders.Deployment("z-astray", 1, many, builders.OnNodesWith(cluster.CapacityTypeLabel, spot)))
	w.Controller(testenv.Impatient)
	cm := w.WaitStatus("many", "complete", func(s *v1alpha1.CapacityMixStatus) bool {
		return s.WorkloadCount == workloads && s.SatisfiedCount == workloads-1 && testenv.BlockedBy(s, "Pinned")
	})
	s := &cm.Status
	require.Len(t, s.Workloads, v1alpha1.MaxStatusWorkloads)
	assert.Equal(t, "z-astray", s.Workloads[0].Name, "what is out of its mix comes first")
	assert.NotNil(t, s.Workloads[0].Blocked)
	assert.Equal(t, int32(workloads), s.Desired.OnDemand, "the sums are of all")
	assert.Equal(t, int32(workloads-1), s.Actual.OnDemand)
	assert.True(t, slices.IsSortedFunc(s.Workloads[1:], func(a, b v1alpha1.WorkloadMix) int { return strings.Compare(a.Name, b.Name) }))
	assert.Empty(t, w.Evictions())
}

func TestOnlyADuplicateSlotAndItsDeletionCostAreRepaired(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(50, 1)
	w.Create(builders.CapacityMix("ours", 50, 1), builders.Deployment("ours", 4))
	w.Create(builders.CapacityMix("users", 50, 1), builders.Deployment("users", 4, builders.PodAnnotation(v1alpha1.PodDeletionCostAnnotation, "42")))
	// Pods that another scheduler placed have no slot.
	w.Create(builders.CapacityMix("foreign", 50, 1), builders.Deployment("foreign", 3, builders.SchedulerName(corev1.DefaultSchedulerName), func(t *corev1.PodTemplateSpec) { t.Spec.NodeName = "on-demand-0" }))
	for app, n := range map[string]int{"ours": 4, "users": 4, "foreign": 3} {
		w.WaitReady(app, n)
	}
	w.Controller(testenv.Impatient)
	w.WaitSatisfied("ours")
	w.WaitSatisfied("users")
	w.WaitBlocked("foreign", "OtherScheduler")
	require.Empty(t, w.PodPatches(), "nothing is patched where all is well")

	for _, app := range []string{"ours", "users"} {
		oldest, youngest := byAge(w.RequireExact(app, m, 4))
		slot := oldest.Annotations[v1alpha1.SlotAnnotation]
		testenv.Patch(w, youngest, func(p *corev1.Pod) { p.Annotations[v1alpha1.SlotAnnotation] = slot })
		testenv.Becomes(w, "the slots of "+app+" are repaired", 4, func() int {
			seen := map[string]bool{}
			for _, p := range w.Live(app) {
				seen[p.Annotations[v1alpha1.SlotAnnotation]] = true
			}
			return len(seen)
		})
		slots := w.Slots(w.RequireExact(app, m, 4))
		types := w.Types()
		for slot, p := range slots {
			want := "-" + strconv.Itoa(slot)
			if app == "users" {
				want = "42"
			}
			assert.Equal(t, want, p.Annotations[v1alpha1.PodDeletionCostAnnotation], "the deletion cost of pod %s of slot %d", p.Name, slot)
			assert.Equal(t, m.TypeOf(slot), types[p.Spec.NodeName], "the type of slot %d", slot)
			assert.Equal(t, m.TypeOf(slot).String(), p.Annotations[v1alpha1.CapacityTypeAnnotation])
		}
	}
	testenv.Stays(w, testenv.Holds, "nothing more is patched", 2, func() int { return len(w.PodPatches()) })
	for _, p := range w.PodPatches() {
		assert.NotContains(t, p.Name, "foreign")
	}
	assert.Empty(t, w.Evictions())
}

// A scale-down that removes another pod than the one with the highest slot leaves a gap.
func TestAGapIsClosedWithoutAMove(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m, d := split.New(50, 1), builders.Deployment("web", 6)
	w.Create(builders.CapacityMix("web", 50, 1), d)
	w.RequireExact("web", m, 6)
	w.Controller(testenv.Impatient)
	w.WaitSatisfied("web")

	pods := w.Slots(w.Live("web"))
	gap := slices.IndexFunc([]int{0, 1, 2, 3, 4}, func(slot int) bool { return m.TypeOf(slot) == m.TypeOf(5) })
	victim, last := pods[gap], pods[5]
	testenv.Patch(w, victim, func(p *corev1.Pod) { p.Annotations[v1alpha1.PodDeletionCostAnnotation] = "-1000" })
	w.Scale(d, 5)
	w.WaitExact("web", m, 5, testenv.SettleTimeout)
	assert.Equal(t, last.UID, w.Slots(w.Live("web"))[gap].UID, "the pod of the highest slot has the one that became free")
	assert.Empty(t, w.Evictions())
	w.ScaleExactly(d, m, 4)
}

// byAge returns the pods that choose their slots first and last.
func byAge(pods []corev1.Pod) (oldest, youngest *corev1.Pod) {
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	return &pods[0], &pods[len(pods)-1]
}
