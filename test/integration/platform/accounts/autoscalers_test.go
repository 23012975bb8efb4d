// SPDX-License-Identifier: Apache-2.0

package accounts_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// told returns the events of a reason about a mix, and how often they were recorded.
func told(w *testenv.World, mix, reason string) (count int, messages []string) {
	w.T.Helper()
	for _, e := range w.Events(mix) {
		if e.Reason == reason {
			assert.Equal(w.T, "CapacityMix", e.InvolvedObject.Kind)
			count, messages = count+int(e.Count), append(messages, e.Message)
		}
	}
	return count, messages
}

// waitReported waits for the one event of a reason about a mix.
func waitReported(w *testenv.World, mix, reason string, words string) {
	w.T.Helper()
	e := w.WaitEvent(mix, reason, func(e *corev1.Event) bool { return e.Reason == reason })
	assert.Equal(w.T, corev1.EventTypeWarning, e.Type)
	assert.Contains(w.T, e.Message, words)
}

func TestPodsWithoutTheGateAreReportedBesideAnAutoscaler(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	gates := v1alpha1.ConditionGatesConfigured
	status := testenv.StatusOfClusterAutoscaler()
	w.CreateForTest(status)
	web := builders.Deployment("web", 4)
	w.Create(
		builders.CapacityMix("web", 70, 2), web,
		builders.CapacityMix("gated", 70, 2), builders.Deployment("gated", 4, builders.Gated),
		builders.CapacityMix("idle", 70, 2),
	)
	w.WaitExact("web", split.New(70, 2), 4, testenv.SettleTimeout)
	w.WaitExact("gated", split.New(70, 2), 4, testenv.SettleTimeout)
	c := w.Controller(testenv.Impatient)
	cm := w.WaitCondition("web", gates, false, v1alpha1.ReasonPodsWithoutGate)
	assert.Contains(t, meta.FindStatusCondition(cm.Status.Conditions, gates).Message, "cluster-autoscaler cannot evaluate the mix")
	assert.Nil(t, meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionDeletionCostsIntact), "there is no Karpenter")
	w.WaitCondition("gated", gates, true, v1alpha1.ReasonPodsGated)
	w.WaitCondition("idle", gates, true, v1alpha1.ReasonPodsGated)
	waitReported(w, "web", v1alpha1.EventReasonGatesMissing, "workloads: 1 of 1: Deployment web")

	testenv.Patch(w, web, func(d *appsv1.Deployment) { builders.Gated(&d.Spec.Template) })
	w.WaitCondition("web", gates, true, v1alpha1.ReasonPodsGated)

	// A new leader has found no autoscaler at first. It changes nothing before it has looked for one.
	testenv.End(c, true)
	w.DropLease("berth-system", "berth-controller")
	w.Create(builders.CapacityMix("late", 70, 2), builders.Deployment("late", 2))
	c = w.Controller(testenv.Impatient)
	w.WaitCondition("late", gates, false, v1alpha1.ReasonPodsWithoutGate)
	waitReported(w, "late", v1alpha1.EventReasonGatesMissing, "workloads: 1 of 1: Deployment late") // a killed process sends no more
	testenv.End(c, true)
	w.DropLease("berth-system", "berth-controller")
	c = w.Controller(testenv.Impatient)
	w.ChangeMix("late", builders.SpotPercent(60))
	w.WaitCondition("late", gates, false, v1alpha1.ReasonPodsWithoutGate)
	for _, mix := range []string{"web", "late"} {
		count, messages := told(w, mix, v1alpha1.EventReasonGatesMissing)
		assert.Equal(t, 1, count, "%s: %s", mix, messages)
	}
	count, _ := told(w, "gated", v1alpha1.EventReasonGatesMissing)
	assert.Zero(t, count)

	w.Delete(status)
	testenv.End(c, true)
	w.DropLease("berth-system", "berth-controller")
	w.Controller(testenv.Impatient)
	w.WaitStatus("late", "without an autoscaler the condition is removed", func(s *v1alpha1.CapacityMixStatus) bool {
		return meta.FindStatusCondition(s.Conditions, gates) == nil
	})
}

func TestOverwrittenDeletionCostsAreReportedOnceUntilTheyAreRight(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	costs, m := v1alpha1.ConditionDeletionCostsIntact, split.New(70, 2)
	w.ServeKarpenter()
	web := builders.Deployment("web", 10, builders.Gated)
	w.Create(
		builders.CapacityMix("web", 70, 2), web,
		builders.CapacityMix("own", 70, 2), builders.Deployment("own", 4, func(t *corev1.PodTemplateSpec) {
			t.Annotations = map[string]string{v1alpha1.PodDeletionCostAnnotation: "5"}
		}),
	)
	pods := w.WaitExact("web", m, 10, testenv.SettleTimeout)
	w.WaitExact("own", m, 4, testenv.SettleTimeout)
	unrepaired := func(c *controller.Configuration) { quick(c); c.Mix.AnnotationRepairsPerMinute = 0 }
	c := w.Controller(unrepaired)
	for _, mix := range []string{"web", "own"} {
		w.WaitCondition(mix, costs, true, v1alpha1.ReasonNotOverwritten)
	}
	overwritten := func(c *cluster.Controller, mix string) int {
		return w.Metric(c, "berth_mix_overwritten_cost_pods", map[string]string{"namespace": w.Namespace, "mix": mix})
	}
	require.Zero(t, overwritten(c, "web"))

	for _, first := range []int{-100, -200} { // the ranks of nodes change
		differ := w.WriteRanks(pods, first)
		require.Equal(t, 10, differ)
		w.WaitCondition("web", costs, false, v1alpha1.ReasonOverwritten)
		testenv.Becomes(w, "replicas with an overwritten cost", differ, func() int { return overwritten(c, "web") })
	}
	waitReported(w, "web", v1alpha1.EventReasonDeletionCostsOverwritten, "workloads: Deployment web")
	w.WaitCondition("own", costs, true, v1alpha1.ReasonNotOverwritten)
	assert.Zero(t, overwritten(c, "own"), "the cost of the template is the user's choice")

	testenv.End(c, true)
	w.DropLease("berth-system", "berth-controller")
	c = w.Controller(unrepaired)
	testenv.Becomes(w, "the new leader counts them too", 10, func() int { return overwritten(c, "web") })
	w.WaitCondition("web", costs, false, v1alpha1.ReasonOverwritten)

	testenv.End(c, true)
	w.DropLease("berth-system", "berth-controller")
	c = w.Controller(quick)
	waitMarked(w, "web", 10)
	w.WaitCondition("web", costs, true, v1alpha1.ReasonNotOverwritten)
	testenv.Becomes(w, "no cost is overwritten", 0, func() int { return overwritten(c, "web") })
	for mix, want := range map[string]int{"web": 1, "own": 0} {
		count, messages := told(w, mix, v1alpha1.EventReasonDeletionCostsOverwritten)
		assert.Equal(t, want, count, "%s: %s", mix, messages)
	}
	for _, n := range []int32{7, 4} {
		w.ScaleExactly(web, m, n)
	}
	assert.Len(t, w.Live("own"), 4)
}
