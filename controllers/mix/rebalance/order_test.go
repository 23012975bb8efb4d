// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/rebalance"
)

// Any order of events gives the same verdicts. The controller reconciles what changed, in batches of events of any size, and
// at a resync leaves out what cannot have changed. Beside it runs one to which everything is always new: its cluster state is
// filled again from the objects that there are, and it reconciles every workload until nothing changes any more. After every
// batch both must have the same entry for every workload and the same in every status, and have sent the same requests.
func TestAnyOrderOfEventsGivesTheSameVerdicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newScene(t)
		pod := func(t *rapid.T) { w.setPod(w.drawPod(t)) }
		steps := map[string]func(*rapid.T){
			"a pod is added or changed":   pod,
			"another pod is":              pod,
			"a pod becomes Ready, or not": w.flip,
			"a pod is deleted":            w.deletePod,
			"a node is added or changed":  func(t *rapid.T) { w.setNode(drawNode(t)) },
			"a node is deleted":           w.deleteNode,
			"a controller changes":        func(t *rapid.T) { w.setOwner(drawOwner(t)) },
			"a controller is deleted":     w.deleteOwner,
			"a mix changes":               func(t *rapid.T) { w.setMix(w.drawMix(t)) },
			"a mix is deleted":            w.deleteMix,
			"a budget changes":            w.setBudget,
			"a budget is deleted":         w.deleteBudget,
			"time passes":                 w.passTime,
			"a move is completed":         w.completeMove,
			"placeholders are shown":      w.showPlaceholders,
			"a placeholder was left":      w.leaveBehind,
			"somebody writes a status":    w.tamper,
			"":                            w.compare,
		}
		t.Repeat(steps)
	})
}

var (
	sceneNamespaces = []string{"a", "b"}
	sceneNodes      = []string{"n0", "n1", "n2", "n3", "n4"}
	sceneOwners     = []sceneOwner{
		{"apps/v1", "ReplicaSet", "rs"}, {"apps/v1", "ReplicaSet", "other"}, {"apps/v1", "StatefulSet", "set"}, {"apps/v1", "DaemonSet", "daemon"}, {"", "", ""},
	}
)

type sceneOwner struct{ apiVersion, kind, name string }

func pick[T any](t *rapid.T, label string, of ...T) T { return rapid.SampledFrom(of).Draw(t, label) }

func oneIn(t *rapid.T, n int, label string) bool { return rapid.IntRange(0, n-1).Draw(t, label) == 0 }

// podOf is a Ready replica of a controller.
func podOf(namespace string, o sceneOwner, ordinal, life int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", cmp.Or(o.name, "bare"), ordinal)}}
	p.UID = types.UID(fmt.Sprintf("%s-%s-%d", p.Namespace, p.Name, life))
	p.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(ordinal) * time.Second))
	p.Labels, p.Annotations = map[string]string{"app": "web"}, map[string]string{}
	if o.name != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: o.apiVersion, Kind: o.kind, Name: o.name, UID: types.UID(p.Namespace + "-" + o.name), Controller: new(true)}}
	}
	p.Spec.SchedulerName = "berth-scheduler"
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: cpu("1")}}}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

func (w *scene) drawPod(t *rapid.T) *corev1.Pod {
	namespace := pick(t, "namespace", sceneNamespaces...)
	o := pick(t, "owner", slices.Concat(sceneOwners, sceneOwners[:3])...)
	ordinal := rapid.IntRange(0, 3).Draw(t, "ordinal")
	p := podOf(namespace, o, ordinal, rapid.IntRange(0, 2).Draw(t, "life"))
	p.Labels["app"] = pick(t, "app", "web", "web", "db")
	if oneIn(t, 3, "in a unit") {
		p.Labels["unit"] = pick(t, "unit", "x", "y")
	}
	if !oneIn(t, 4, "without a slot") {
		p.Annotations[v1alpha1.SlotAnnotation] = fmt.Sprint(ordinal)
	}
	for _, a := range [][2]string{{v1alpha1.SpotPercentAnnotation, "50"}, {"karpenter.sh/do-not-disrupt", pick(t, "keeps", "true", "90s", "10m")}} {
		if oneIn(t, 10, a[0]) {
			p.Annotations[a[0]] = a[1]
		}
	}
	p.Spec.SchedulerName = pick(t, "scheduler", "berth-scheduler", "berth-scheduler", "berth-scheduler", "other")
	p.Spec.NodeName = pick(t, "node", append([]string{""}, sceneNodes...)...)
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = cpu(pick(t, "cpu", "1", "2"))
	if oneIn(t, 10, "local data") {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}}
	}
	if oneIn(t, 10, "pinned") {
		p.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "spot"}
	}
	if oneIn(t, 10, "terminating") {
		p.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	if p.Spec.NodeName == "" || oneIn(t, 6, "not ready") {
		p.Status.Conditions[0].Status = corev1.ConditionFalse
	}
	return p
}

func drawNode(t *rapid.T) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pick(t, "node", sceneNodes...), Labels: map[string]string{}}}
	if typ := pick(t, "type", "spot", "spot", "on-demand", "on-demand", ""); typ != "" {
		n.Labels["karpenter.sh/capacity-type"] = typ
	}
	n.Spec.Unschedulable = oneIn(t, 6, "cordoned")
	if oneIn(t, 8, "departing") {
		n.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
	}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: cpu(pick(t, "cpu", "2", "4")), corev1.ResourceMemory: cpu("8Gi"), corev1.ResourcePods: cpu("10")}
	return n
}

func drawOwner(t *rapid.T) metav1.Object {
	meta := metav1.ObjectMeta{Namespace: pick(t, "namespace", sceneNamespaces...), Generation: rapid.Int64Range(1, 2).Draw(t, "generation")}
	replicas := rapid.Int32Range(0, 4).Draw(t, "replicas")
	meta.Name = pick(t, "owner", "rs", "other", "set", "deployment", "deployment")
	meta.UID = types.UID(meta.Namespace + "-" + meta.Name)
	if oneIn(t, 6, "annotated") {
		meta.Annotations = map[string]string{v1alpha1.SpotPercentAnnotation: "40"}
	}
	return ownerOf(meta, replicas, rapid.Int32Range(0, 4).Draw(t, "updated"))
}

func (w *scene) drawMix(t *rapid.T) *v1alpha1.CapacityMix {
	cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: pick(t, "namespace", sceneNamespaces...), Name: pick(t, "mix", "m", "n")}}
	cm.Spec.SpotPercent, cm.Spec.MinOnDemand = pick[int32](t, "percent", 0, 50, 70, 100, 150), rapid.Int32Range(0, 1).Draw(t, "floor")
	cm.Spec.Selector.MatchLabels = pick(t, "selector", nil, map[string]string{"app": "web"}, map[string]string{"app": "db"})
	cm.Spec.Group = pick(t, "group", "", "", v1alpha1.PodGroupingSelector, v1alpha1.PodGroupingTop)
	if oneIn(t, 3, "by units") {
		cm.Spec.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: "unit"}
	}
	r := &v1alpha1.RebalanceSpec{
		Mode:                 pick(t, "mode", v1alpha1.RebalanceModeEvict, v1alpha1.RebalanceModeEvict, v1alpha1.RebalanceModeReport, v1alpha1.RebalanceModeOff),
		MaxConcurrent:        new(rapid.Int32Range(1, 2).Draw(t, "concurrent")),
		StabilizationSeconds: new(pick[int32](t, "stabilization", 0, 0, 60)),
		Provisioning:         pick(t, "provisioning", v1alpha1.ProvisioningWait, v1alpha1.ProvisioningPlaceholder),
	}
	if w.byTheClock && oneIn(t, 3, "windows") {
		r.Windows = []v1alpha1.RebalanceWindow{{Schedule: pick(t, "schedule", "*/3 * * * *", "bad"), DurationSeconds: 60}}
	}
	cm.Spec.Rebalance = r
	return cm
}

func (w *scene) setBudget(t *rapid.T) {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: pick(t, "namespace", sceneNamespaces...), Name: pick(t, "budget", "x", "y")}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(t, "app", "web", "db")}}
	b.Spec.MinAvailable = new(intstr.FromInt32(1))
	b.Status.DisruptionsAllowed = rapid.Int32Range(0, 1).Draw(t, "allowed")
	w.changeBudget(b, false)
}

// compare reconciles, and demands that both have come to the same. Mostly it does so after every event: a batch leaves less to
// be compared.
func (w *scene) compare(t *rapid.T) {
	if w.batches && oneIn(t, 2, "more events first") {
		return
	}
	w.reconcile(t)
	want, got := w.all.entries(), w.some.entries()
	for i := range min(len(want), len(got)) { // so that a failure is easy to read
		require.Equal(t, want[i].Group.Key, got[i].Group.Key)
		require.Equal(t, want[i].Verdict, got[i].Verdict, "verdict about %s", got[i].Group.Key)
		require.Equal(t, want[i], got[i])
	}
	require.Len(t, got, len(want))
	for _, want := range w.all.cache.Mixes() {
		require.Equal(t, want.Status, w.some.cache.Mix(want.Namespace, want.Name).Status, "status of mix %s/%s", want.Namespace, want.Name)
	}
	require.ElementsMatch(t, w.all.asked, w.some.asked, "requests")
	require.ElementsMatch(t, w.all.events(), w.some.events(), "events")
	w.all.asked, w.some.asked = nil, nil
}

// entries are those in a store, by value.
func (s *side) entries() []rebalance.Entry {
	all := s.controller.Workloads.All()
	for i := range all {
		e := &all[i]
		e.Group.Version = 0
		p := *e.Group.Governing // one from annotations is recreated
		e.Group.Governing = &p
		if len(e.Selecting) == 0 {
			e.Selecting = nil
		}
		if len(e.Placeholders) == 0 {
			e.Placeholders = nil
		}
		if len(e.Held) == 0 {
			e.Held = nil
		}
	}
	slices.SortFunc(all, func(a, b rebalance.Entry) int {
		return cmp.Or(cmp.Compare(a.Group.Key.Namespace, b.Group.Key.Namespace), cmp.Compare(a.Group.Key.ID, b.Group.Key.ID))
	})
	return all
}
