// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
)

var (
	forSpot     = v1alpha1.Toleration{Key: "spot", Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoSchedule}
	forOnDemand = v1alpha1.Toleration{Key: "dear", Operator: corev1.TolerationOpExists}
)

// tolerant is a mix of pods of an app, with tolerations.
func tolerant(app string) *v1alpha1.CapacityMix {
	return builders.CapacityMix(app, 70, 2, func(cm *v1alpha1.CapacityMix) {
		cm.Namespace = "shop"
		cm.Spec.Tolerations = &v1alpha1.TolerationsByType{Spot: []v1alpha1.Toleration{forSpot}, OnDemand: []v1alpha1.Toleration{forOnDemand}}
	})
}

// world is what the webhook has in its caches, and what the API server would answer.
type world struct {
	seen, there   map[types.UID]metav1.Object
	mixes         []v1alpha1.CapacityMix
	reads, lists  int
	apiErr        error
	block, unread bool
}

// gating is a handler that gates, and has the mix of app web and the mix by
// default of berth-scheduler and of the scheduler defaulting.
func gating(t *testing.T, w *world, limits ...*v1alpha1.ResourceLimit) *Handler {
	t.Helper()
	h := handler(limits...)
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	store := governing.NewRegistry()
	require.NoError(t, store.Set(tolerant("web")))
	h.Gates, h.Pins = true, classifier.Pins
	h.Mixes = NewMixes(MixesOptions{
		Conventions: governing.Conventions{Prefixes: []string{governing.PrefixBerth}}, Store: store,
		Defaults: map[string]*governing.Mix{"defaulting": {Source: governing.SourceDefault, Mix: split.New(50, 0)}},
		Owner:    func(uid types.UID) metav1.Object { return w.seen[uid] },
		Read: func(ctx context.Context, _ string, ref *metav1.OwnerReference) (metav1.Object, error) {
			w.reads++
			if w.block {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return w.there[ref.UID], w.apiErr
		},
		List: func(ctx context.Context, _ string) ([]v1alpha1.CapacityMix, error) {
			w.lists++
			if w.block {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return w.mixes, w.apiErr
		},
		Synced: func() bool { return !w.unread },
	})
	return h
}

type change = func(*corev1.PodTemplateSpec)

// pod is one of an app as JSON, as it is sent. A change that is nil is none.
func pod(t *testing.T, app string, changes ...change) string {
	t.Helper()
	changes = slices.DeleteFunc(changes, func(c change) bool { return c == nil })
	template := builders.PodTemplate(app, append([]change{builders.SchedulerName(corev1.DefaultSchedulerName)}, changes...)...)
	raw, err := json.Marshal(&corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec})
	require.NoError(t, err)
	return string(raw)
}

func ownedBy(kind, uid string) change {
	return func(t *corev1.PodTemplateSpec) {
		t.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "owner", UID: types.UID(uid), Controller: new(true)}}
	}
}

func replicaSet(uid string, annotations map[string]string) map[types.UID]metav1.Object {
	return map[types.UID]metav1.Object{types.UID(uid): &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "owner", UID: types.UID(uid), Annotations: annotations}}}
}

// became is what the API server makes of a pod with the answer; called again, the webhook changes nothing.
func became(t *testing.T, h *Handler, raw string) *corev1.Pod {
	t.Helper()
	after := func(raw string) string {
		r := ask(h, raw)
		require.True(t, r.Allowed)
		b, err := json.Marshal(patched(t, raw, r))
		require.NoError(t, err)
		return string(b)
	}
	once := after(raw)
	assert.JSONEq(t, once, after(once), "reinvocationPolicy: IfNeeded")
	p := &corev1.Pod{}
	require.NoError(t, json.Unmarshal([]byte(once), p))
	return p
}

func TestGovernedPodsAreGated(t *testing.T) {
	const other = "example.com/other"
	gate := func(name string) change {
		return func(t *corev1.PodTemplateSpec) {
			t.Spec.SchedulingGates = append(t.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
		}
	}
	annotated := builders.MixAnnotations(70, 2)
	ours := []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
	for name, tc := range map[string]struct {
		app, scheduler string
		change         change
		wantGates      []corev1.PodSchedulingGate
		wantScheduler  string
	}{
		"one that a mix selects": {app: "web", wantGates: ours},
		"one with annotations":   {app: "api", change: builders.PodAnnotation(v1alpha1.SpotPercentAnnotation, "70"), wantGates: ours},
		"one of an annotated owner": {
			app: "api", change: ownedBy("ReplicaSet", "annotated"), wantGates: ours,
		},
		"one of the default mix of its scheduler":           {app: "api", scheduler: "defaulting", wantGates: ours, wantScheduler: "defaulting"},
		"one of another scheduler":                          {app: "web", scheduler: "mine", wantGates: ours, wantScheduler: "mine"},
		"one with another gate":                             {app: "web", change: gate(other), wantGates: append([]corev1.PodSchedulingGate{{Name: other}}, ours...)},
		"not again":                                         {app: "web", change: gate(v1alpha1.CapacityMixGate), wantGates: ours},
		"not one that nothing governs":                      {app: "api", wantScheduler: builders.Scheduler},
		"not one that nothing governs, but it has the gate": {app: "api", change: gate(v1alpha1.CapacityMixGate), wantGates: ours},
		"not one with a bad annotation":                     {app: "api", change: builders.PodAnnotation(v1alpha1.SpotPercentAnnotation, "many"), wantScheduler: builders.Scheduler},
		"not one that names a type":                         {app: "web", change: builders.OnNodesWith("karpenter.sh/capacity-type", "spot"), wantScheduler: builders.Scheduler},
		"not one that requires a type":                      {app: "web", change: builders.RequireNodeLabel("cloud.google.com/gke-spot", corev1.NodeSelectorOpDoesNotExist), wantScheduler: builders.Scheduler},
		"one that prefers a type":                           {app: "web", change: builders.PreferNodeLabel("karpenter.sh/capacity-type", "spot"), wantGates: ours},
		"not one with a node":                               {app: "web", change: func(t *corev1.PodTemplateSpec) { t.Spec.NodeName = "n" }},
		"not one of a DaemonSet":                            {app: "web", change: ownedBy("DaemonSet", "d"), wantScheduler: builders.Scheduler},
		"not a DaemonSet's of the default mix":              {app: "api", scheduler: "defaulting", change: ownedBy("DaemonSet", "d"), wantScheduler: "defaulting"},
		"not a mirror of a file":                            {app: "web", change: builders.PodAnnotation(corev1.MirrorPodAnnotationKey, "x")},
		"one with a size, which our scheduler enforces": {
			app: "web", change: builders.OfSize("small"), wantGates: ours, wantScheduler: builders.Scheduler,
		},
		"one with a size that is missing": {app: "web", change: builders.OfSize("none"), wantGates: ours, wantScheduler: builders.Scheduler},
		"not one whose size names a type": {app: "web", change: builders.OfSize("on-spot"), wantScheduler: builders.Scheduler},
	} {
		t.Run(name, func(t *testing.T) {
			h := gating(t, &world{seen: replicaSet("annotated", annotated)}, limit("small", nil), limit("on-spot", func(s *v1alpha1.ResourceLimitSpec) {
				s.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "spot"}
			}))
			scheduler := builders.SchedulerName(cmp.Or(tc.scheduler, corev1.DefaultSchedulerName))
			p := became(t, h, pod(t, tc.app, tc.change, scheduler))
			assert.Equal(t, tc.wantGates, p.Spec.SchedulingGates)
			assert.Equal(t, cmp.Or(tc.wantScheduler, corev1.DefaultSchedulerName), p.Spec.SchedulerName)
			assert.Empty(t, p.Spec.Tolerations, "the scheduler adds those of the type")
		})
	}
}

// A pod that names no scheduler gets one, and with it the mix by default of that scheduler.
func TestTheSchedulerThatAPodGetsHasADefaultForIt(t *testing.T) {
	h := gating(t, &world{})
	h.SchedulerName = "defaulting"
	p := became(t, h, pod(t, "api"))
	assert.Equal(t, "defaulting", p.Spec.SchedulerName)
	assert.Len(t, p.Spec.SchedulingGates, 1)
	p = became(t, h, pod(t, "web"))
	assert.Equal(t, corev1.DefaultSchedulerName, p.Spec.SchedulerName, "it is governed already")
	h.SchedulerName = ""
	p = became(t, h, pod(t, "api"))
	assert.Empty(t, p.Spec.SchedulingGates)
}

// Without gates a pod's type is not known when it is created: it may run on both.
func TestTolerationsWithoutGates(t *testing.T) {
	spot, onDemand := corev1.Toleration(forSpot), corev1.Toleration(forOnDemand)
	own := corev1.Toleration{Key: "own", Operator: corev1.TolerationOpExists}
	with := func(all ...corev1.Toleration) change {
		return func(t *corev1.PodTemplateSpec) { t.Spec.Tolerations = all }
	}
	for name, tc := range map[string]struct {
		app    string
		change change
		want   []corev1.Toleration
	}{
		"none of its own":        {"web", nil, []corev1.Toleration{spot, onDemand}},
		"beside its own":         {"web", with(own), []corev1.Toleration{own, spot, onDemand}},
		"not twice":              {"web", with(onDemand), []corev1.Toleration{onDemand, spot}},
		"of a mix that has none": {"api", builders.PodAnnotation(v1alpha1.SpotPercentAnnotation, "70"), nil},
		"nothing governs":        {"api", nil, nil},
		"it names a type":        {"web", builders.OnNodesWith("karpenter.sh/capacity-type", "spot"), nil},
		"it has the gate, and a type": {"web", func(t *corev1.PodTemplateSpec) {
			t.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
		}, nil},
	} {
		h := gating(t, &world{})
		h.Gates = false
		p := became(t, h, pod(t, tc.app, tc.change))
		assert.Equal(t, tc.want, p.Spec.Tolerations, name)
	}
}

// Fields of gates and tolerations that a newer API server sends stay where they are.
func TestGatesAndTolerationsOfANewerAPIServerStay(t *testing.T) {
	raw := `{"metadata":{"generateName":"web-","labels":{"app":"web"}},"spec":{"containers":[{"name":"main"}],
		"schedulingGates":[{"name":"example.com/other","novel":1}],"tolerations":[{"key":"a","operator":"Exists","novel":2}]}}`
	h := gating(t, &world{})
	out := patched(t, raw, ask(h, raw))
	assert.Equal(t, []any{map[string]any{"name": "example.com/other", "novel": 1.0}, map[string]any{"name": v1alpha1.CapacityMixGate}}, at(out, "spec", "schedulingGates"))
	assert.Equal(t, []any{map[string]any{"key": "a", "operator": "Exists", "novel": 2.0}}, at(out, "spec", "tolerations"))
	h.Gates = false
	out = patched(t, raw, ask(h, raw))
	assert.Len(t, at(out, "spec", "tolerations"), 3)
	assert.Equal(t, map[string]any{"key": "a", "operator": "Exists", "novel": 2.0}, at(out, "spec", "tolerations", 0))
}
