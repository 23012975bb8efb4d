// SPDX-License-Identifier: Apache-2.0

package defaulting_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

var forSpot = v1alpha1.Toleration{Key: "spot", Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoSchedule}

// tolerant is a mix with a toleration for spot.
func tolerant(app string) *v1alpha1.CapacityMix {
	return builders.CapacityMix(app, 70, 2, func(cm *v1alpha1.CapacityMix) {
		cm.Spec.Tolerations = &v1alpha1.TolerationsByType{Spot: []v1alpha1.Toleration{forSpot}}
	})
}

func withGates(c *controller.Configuration) { c.Webhook.Gates = true }

// A mix and its workloads are made in one moment, as by one `kubectl apply`: the
// webhook has seen neither when the first pods come.
func TestTheWebhookGatesEveryPodThatAMixGoverns(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Webhook(withGates)
	annotated := builders.Deployment("annotated", 10)
	annotated.Annotations = map[string]string{governing.PrefixBerth + "/spot-percent": "70", governing.PrefixBerth + "/min-on-demand": "2"}
	w.Create(tolerant("web"), builders.Deployment("web", 20), builders.StatefulSet("db", 6, appsv1.ParallelPodManagement), annotated, builders.CapacityMix("db", 50, 1))
	for app, m := range map[string]split.Mix{"web": split.New(70, 2), "annotated": split.New(70, 2)} {
		n := map[string]int{"web": 20, "annotated": 10}[app]
		for _, p := range w.RequireExact(app, m, n) {
			limited, ungated := gate.LimitedTo(&p)
			require.True(t, ungated, "%s had the gate: %v", p.Name, p.Annotations)
			assert.Equal(t, limited.String(), p.Spec.NodeSelector[capacity.KarpenterCapacityType], p.Name)
			tolerates := false
			for i := range p.Spec.Tolerations {
				tolerates = tolerates || p.Spec.Tolerations[i].Key == forSpot.Key
			}
			assert.Equal(t, app == "web" && limited == capacity.Spot, tolerates, "%s tolerates the taint of spot nodes", p.Name)
		}
	}
	w.RequireExact("db", split.New(50, 1), 6)
}

func TestTheWebhookLeavesGatesToThosePodsThatNeedThem(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Webhook(withGates)
	w.Create(tolerant("web"))
	asked := func(p *corev1.Pod) *corev1.Pod {
		require.NoError(t, w.DryRun(p))
		return p
	}
	w.Eventually("the mix is known", func() (bool, string) { return gate.Has(asked(builders.Pod("web", "probe"))), "" })

	stays := asked(builders.Pod("web", "stays", builders.ByDefault))
	assert.True(t, gate.Has(stays))
	assert.Equal(t, corev1.DefaultSchedulerName, stays.Spec.SchedulerName, "whoever schedules it sees its type")
	own := asked(builders.Pod("web", "own", builders.Gated))
	assert.Len(t, own.Spec.SchedulingGates, 1, "a gate of its own is enough")
	assert.False(t, gate.Has(asked(builders.Pod("other", "other"))), "no mix governs it")
	pinned := asked(builders.Pod("web", "pinned", builders.OnNodesWith(capacity.KarpenterCapacityType, "spot")))
	assert.False(t, gate.Has(pinned), "it names a type itself")
	no := asked(builders.Pod("web", "no", func(t *corev1.PodTemplateSpec) { t.Labels[v1alpha1.InjectLabel] = "disabled" }))
	assert.False(t, gate.Has(no), "it opts out")
}

// Without gates a pod's type is not known when it is made: it gets the
// tolerations of both.
func TestWithoutGatesPodsGetTheTolerationsOfTheirMix(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Webhook()
	w.Create(tolerant("web"), builders.Deployment("web", 10))
	for _, p := range w.RequireExact("web", split.New(70, 2), 10) {
		assert.Contains(t, p.Spec.Tolerations, corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoSchedule}, p.Name)
		assert.NotContains(t, p.Annotations, v1alpha1.ClaimAnnotation, p.Name)
	}
}

// The API server refuses pods with a toleration that compares, as its feature gate is off: no pod of the mix could be created.
func TestWithoutTheFeatureGatePodsGetNoTolerationsThatCompare(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Webhook()
	cm := tolerant("web")
	cm.Spec.Tolerations.Spot = append(cm.Spec.Tolerations.Spot, v1alpha1.Toleration{Key: "a", Operator: corev1.TolerationOpGt, Value: "5"})
	w.Create(cm, builders.Deployment("web", 10))
	for _, p := range w.RequireExact("web", split.New(70, 2), 10) {
		assert.Contains(t, p.Spec.Tolerations, corev1.Toleration(forSpot), p.Name)
		assert.NotContains(t, p.Spec.Tolerations, corev1.Toleration(cm.Spec.Tolerations.Spot[1]), p.Name)
	}
	own := builders.Pod("web", "own", func(t *corev1.PodTemplateSpec) {
		t.Spec.Tolerations = []corev1.Toleration{corev1.Toleration(cm.Spec.Tolerations.Spot[1])}
	})
	require.ErrorContains(t, w.DryRun(own), `Unsupported value: "Gt"`, "the gate is off")
}

// A webhook that is not called cannot gate: then pods are placed as without the gate.
func TestPodsThatTheWebhookMissedArePlacedByTheirMix(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	c := w.Webhook(withGates)
	w.Create(tolerant("web"))
	testenv.End(c, true)
	w.Create(builders.Deployment("web", 10))
	for _, p := range w.RequireExact("web", split.New(70, 2), 10) {
		assert.NotContains(t, p.Annotations, v1alpha1.ClaimAnnotation, p.Name)
	}
}
