// SPDX-License-Identifier: Apache-2.0

package samples_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// Samples of kinds that are not of Kubernetes. The operator of Spark does not run here: the test makes the pods as it does.
const (
	unitsSample = "leaderworkerset.yaml"
	rolesSample = "spark.yaml"
)

// serve has the API server accept any object of a kind, and returns the one of a sample.
func serve(w *testenv.World, kind schema.GroupVersionKind, plural, file, name string) *unstructured.Unstructured {
	w.T.Helper()
	crd := testenv.CRD(plural + "." + kind.Group)
	crd.Object["spec"] = map[string]any{
		"group": kind.Group, "scope": "Namespaced",
		"names": map[string]any{"kind": kind.Kind, "plural": plural},
		"versions": []any{map[string]any{
			"name": kind.Version, "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}},
	}
	crd.SetAnnotations(map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"}) // of a group of Kubernetes
	w.CreateForTest(crd)
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	w.Succeeds("the kind is served", func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		return w.Client.List(w.Ctx, list)
	})
	apply(w, file)
	require.NoError(w.T, w.Client.Get(w.Ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, o))
	return o
}

// ownerOf is a reference to an object.
func ownerOf(o *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID()}
}

func TestTheSampleOfUnitsHasEachGroupOnOneType(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Operator(cluster.LWS)
	apply(w, unitsSample)
	types, units := w.Types(), map[string]map[capacity.Type]int{}
	for _, p := range w.WaitReady("llm", 12) {
		group := p.Labels["leaderworkerset.sigs.k8s.io/group-index"]
		if units[group] == nil {
			units[group] = map[capacity.Type]int{}
		}
		units[group][types[p.Spec.NodeName]]++
	}
	m := split.New(50, 1)
	for group, on := range units {
		var slot int
		_, err := fmt.Sscan(group, &slot)
		require.NoError(t, err)
		assert.Equal(t, map[capacity.Type]int{m.TypeOf(slot): 3}, on, "group %s", group)
	}
}

func TestTheSampleOfRolesHasTheDriverOnOnDemand(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	application := serve(w, schema.GroupVersionKind{Group: "sparkoperator.k8s.io", Version: "v1beta2", Kind: "SparkApplication"}, "sparkapplications", rolesSample, "pi")
	role := func(name string) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) { t.Labels["spark-role"] = name }
	}
	driver := builders.Pod("pi", "pi-driver", role("driver"), builders.OwnedBy(ownerOf(application)))
	w.Create(driver)
	w.WaitBound("pi", 1)
	of := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: driver.Name, UID: testenv.Read(w, driver.Name, &corev1.Pod{}).UID}
	for i := range 5 {
		w.Create(builders.Pod("pi", fmt.Sprint("pi-exec-", i), role("executor"), builders.OwnedBy(of)))
	}
	types, executors := w.Types(), map[capacity.Type]int{}
	for _, p := range w.WaitBound("pi", 6) {
		if p.Name == driver.Name {
			assert.Equal(t, capacity.OnDemand, types[p.Spec.NodeName])
			continue
		}
		executors[types[p.Spec.NodeName]]++
	}
	assert.Equal(t, map[capacity.Type]int{capacity.Spot: 4, capacity.OnDemand: 1}, executors)
}
