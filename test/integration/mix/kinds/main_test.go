// SPDX-License-Identifier: Apache-2.0

// Package kinds_test has the real scheduler place the pods of every kind of workload in docs/workloads.md, with the owners and the
// labels that their operators give them, and compares groups and units with that page.
package kinds_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

// The kinds of owners that Kubernetes does not have, in the versions that their operators serve.
var (
	rollout           = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"}
	cloneSet          = schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}
	leaderWorkerSet   = schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}
	jobSet            = schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"}
	rayCluster        = schema.GroupVersionKind{Group: "ray.io", Version: "v1", Kind: "RayCluster"}
	sparkApplication  = schema.GroupVersionKind{Group: "sparkoperator.k8s.io", Version: "v1beta2", Kind: "SparkApplication"}
	runnerSet         = schema.GroupVersionKind{Group: "actions.github.com", Version: "v1alpha1", Kind: "AutoscalingRunnerSet"}
	ephemeralSet      = schema.GroupVersionKind{Group: "actions.github.com", Version: "v1alpha1", Kind: "EphemeralRunnerSet"}
	ephemeralRunner   = schema.GroupVersionKind{Group: "actions.github.com", Version: "v1alpha1", Kind: "EphemeralRunner"}
	pipelineRun       = schema.GroupVersionKind{Group: "tekton.dev", Version: "v1", Kind: "PipelineRun"}
	taskRun           = schema.GroupVersionKind{Group: "tekton.dev", Version: "v1", Kind: "TaskRun"}
	fleet             = schema.GroupVersionKind{Group: "agones.dev", Version: "v1", Kind: "Fleet"}
	gameServerSet     = schema.GroupVersionKind{Group: "agones.dev", Version: "v1", Kind: "GameServerSet"}
	gameServer        = schema.GroupVersionKind{Group: "agones.dev", Version: "v1", Kind: "GameServer"}
	machinePool       = schema.GroupVersionKind{Group: "pool.kubevirt.io", Version: "v1beta1", Kind: "VirtualMachinePool"}
	machine           = schema.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"}
	machineReplicaSet = schema.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachineInstanceReplicaSet"}
	machineInstance   = schema.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachineInstance"}
)

var defined struct {
	sync.Mutex
	kinds map[schema.GroupVersionKind]bool
}

// define has the API server serve a custom kind, with objects of any content.
func define(w *testenv.World, kind schema.GroupVersionKind) {
	w.T.Helper()
	defined.Lock()
	defer defined.Unlock()
	if defined.kinds[kind] {
		return
	}
	crd := builders.CRD(kind.Group, kind.Version, kind.Kind, "")
	if strings.HasSuffix(kind.Group, ".k8s.io") { // the API server protects these groups
		crd = strings.Replace(crd, "metadata: {", `metadata: {annotations: {api-approved.kubernetes.io: "unapproved, for tests"}, `, 1)
	}
	require.NoError(w.T, w.Cluster.Apply(w.Ctx, crd))
	if defined.kinds == nil {
		defined.kinds = map[schema.GroupVersionKind]bool{}
	}
	defined.kinds[kind] = true
}

// custom makes an object of a custom kind, below an owner unless that is nil.
func custom(w *testenv.World, kind schema.GroupVersionKind, name string, owner client.Object) *unstructured.Unstructured {
	w.T.Helper()
	define(w, kind)
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetName(name)
	if owner != nil {
		o.SetOwnerReferences([]metav1.OwnerReference{*controllerRef(w, owner)})
	}
	w.Create(o)
	return o
}

// chain makes an object of each kind, each below the one before, and returns the last.
func chain(w *testenv.World, name string, kinds ...schema.GroupVersionKind) (owner client.Object) {
	w.T.Helper()
	for _, kind := range kinds {
		owner = custom(w, kind, name, owner)
	}
	return owner
}

// controllerRef is the reference that operators set: the owner is the controller, and blocks its own deletion in the foreground.
func controllerRef(w *testenv.World, owner client.Object) *metav1.OwnerReference {
	w.T.Helper()
	kind, err := w.Client.GroupVersionKindFor(owner)
	require.NoError(w.T, err)
	return metav1.NewControllerRef(owner, kind)
}

// below makes an object the controller of a template's pods.
func below(w *testenv.World, owner client.Object) func(*corev1.PodTemplateSpec) {
	w.T.Helper()
	ref := *controllerRef(w, owner)
	return func(t *corev1.PodTemplateSpec) { t.OwnerReferences = []metav1.OwnerReference{ref} }
}

// labeled adds labels to a template's pods, in pairs of key and value.
func labeled(pairs ...string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Labels = maps.Clone(t.Labels)
		for pair := range slices.Chunk(pairs, 2) {
			t.Labels[pair[0]] = pair[1]
		}
	}
}

// runsOnce has a template's containers not restarted.
func runsOnce(t *corev1.PodTemplateSpec) { t.Spec.RestartPolicy = corev1.RestartPolicyNever }

// annotated adds the mix of a workload, and its group, to the annotations of an object.
func annotated(percent, floor int, group string) map[string]string {
	a := builders.MixAnnotations(percent, floor)
	if group != "" {
		a[v1alpha1.GroupAnnotation] = group
	}
	return a
}

// grouped sets which pods of a mix are one group.
func grouped(by v1alpha1.PodGrouping) func(*v1alpha1.CapacityMix) {
	return func(m *v1alpha1.CapacityMix) { m.Spec.Group = by }
}

// inUnits sets which pods of a mix hold one slot together.
func inUnits(unit v1alpha1.PodUnit) func(*v1alpha1.CapacityMix) {
	return func(m *v1alpha1.CapacityMix) { m.Spec.Unit = &unit }
}

// withRole adds a role to a mix: pods with a label run on one type.
func withRole(name, capacityType, key, value string) func(*v1alpha1.CapacityMix) {
	return func(m *v1alpha1.CapacityMix) {
		m.Spec.Roles = append(m.Spec.Roles, v1alpha1.MixRole{
			Name: name, CapacityType: capacityType, Selector: v1alpha1.PodSelector{MatchLabels: map[string]string{key: value}},
		})
	}
}

// having returns those of some pods that have a label with a value.
func having(pods []corev1.Pod, key, value string) []corev1.Pod {
	return testenv.Where(pods, func(p *corev1.Pod) bool { return p.Labels[key] == value })
}

// byOwner returns pods by the name of their controller.
func byOwner(pods []corev1.Pod) map[string][]corev1.Pod {
	owned := map[string][]corev1.Pod{}
	for _, p := range pods {
		owner := metav1.GetControllerOf(&p).Name
		owned[owner] = append(owned[owner], p)
	}
	return owned
}

// byLabel returns pods by the value of a label.
func byLabel(pods []corev1.Pod, key string) map[string][]corev1.Pod {
	by := map[string][]corev1.Pod{}
	for _, p := range pods {
		by[p.Labels[key]] = append(by[p.Labels[key]], p)
	}
	return by
}

// requireEach demands of each of some groups, of which there are n, the exact split.
func requireEach(w *testenv.World, groups map[string][]corev1.Pod, n int, m split.Mix) {
	w.T.Helper()
	require.Len(w.T, groups, n)
	for _, pods := range groups {
		w.RequireExactPods(pods, m)
	}
}

// slotOf returns the slot of a bound pod.
func slotOf(t testing.TB, p *corev1.Pod) int {
	t.Helper()
	slot, ok := governing.ClaimedSlot(p)
	require.True(t, ok, "pod %s has a slot: %v", p.Name, p.Annotations)
	return slot
}

// requireUnits demands the exact split of units of one size: the pods of a unit have one slot and run on its type, and the slots of n
// units are 0 to n-1. It returns the units by their slot.
func requireUnits(w *testenv.World, units map[string][]corev1.Pod, size int, m split.Mix) map[int]string {
	w.T.Helper()
	nodes, slots := w.Types(), map[int]string{}
	for unit, pods := range units {
		require.Len(w.T, pods, size, "pods of unit %s", unit)
		slot := slotOf(w.T, &pods[0])
		require.Empty(w.T, slots[slot], "the other unit with slot %d, beside %s", slot, unit)
		slots[slot] = unit
		for i := range pods {
			require.Equal(w.T, slot, slotOf(w.T, &pods[i]), "the slot of pod %s of unit %s", pods[i].Name, unit)
			require.Equal(w.T, m.TypeOf(slot), nodes[pods[i].Spec.NodeName], "the type of pod %s of slot %d", pods[i].Name, slot)
		}
	}
	for slot := range len(units) {
		require.Contains(w.T, slots, slot, "slots of %d units", len(units))
	}
	return slots
}

// requireUnitsWhole demands that at no event a unit had pods on two types, of those that are neither terminating nor finished. Pods on
// other nodes than those given do not count.
func requireUnitsWhole(w *testenv.World, record *testenv.Recording, nodes map[string]capacity.Type, key string) {
	w.T.Helper()
	looks := 0
	record.Replay(func(running map[types.UID]*corev1.Pod) {
		on := map[string]capacity.Type{}
		for _, p := range running {
			unit, t := p.Labels[key], nodes[p.Spec.NodeName]
			if t == capacity.Unknown {
				continue
			}
			if before, has := on[unit]; has {
				require.Equal(w.T, before, t, "the type of pod %s and of others of its unit:%s", p.Name, historyOf(record, key, unit))
			}
			on[unit] = t
		}
		looks += len(on)
	})
	require.Positive(w.T, looks, "units that ran")
}

// historyOf shows what a watch brought of the pods of a unit, for a failed test.
func historyOf(record *testenv.Recording, key, unit string) string {
	var all strings.Builder
	for _, e := range record.Events() {
		if p := e.Pod; p.Labels[key] == unit {
			slot, _ := governing.ClaimedSlot(p)
			fmt.Fprintf(&all, "\n%s %s %s %.8s %s on %q, slot %d, terminating %t", e.At.Format("15:04:05.000"), e.Type, p.Name, p.UID, p.Status.Phase,
				p.Spec.NodeName, slot, p.DeletionTimestamp != nil)
		}
	}
	return all.String()
}
