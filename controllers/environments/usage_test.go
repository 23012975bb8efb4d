// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"berth.dev/berth/apis/v1alpha1"
)

func podOf(env, component, name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "env-" + env, Name: name, UID: types.UID(name), Labels: map[string]string{
		v1alpha1.EnvironmentNamespaceLabel: "team", v1alpha1.EnvironmentLabel: env, v1alpha1.EnvironmentComponentLabel: component,
	}}}
	p.Status.Phase = corev1.PodRunning
	p.Spec.Containers = []corev1.Container{{Name: component, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}}}}
	return p
}

func metricsOf(p *corev1.Pod, cpu, memory string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"containers": []any{
		map[string]any{"name": "x", "usage": map[string]any{"cpu": cpu, "memory": memory}},
	}}}
	u.SetGroupVersionKind(podMetrics.GroupVersion().WithKind("PodMetrics"))
	u.SetNamespace(p.Namespace)
	u.SetName(p.Name)
	u.SetLabels(p.Labels)
	return u
}

func environmentOf(name string) *v1alpha1.Environment {
	return &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
}

func collector(t *testing.T, c *clocktesting.FakePassiveClock, objects ...client.Object) (*UsageCollector, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	scheme.AddKnownTypeWithName(podMetrics, &unstructured.UnstructuredList{})
	scheme.AddKnownTypeWithName(podMetrics.GroupVersion().WithKind("PodMetrics"), &unstructured.Unstructured{})
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return NewUsageCollector(api, api, c), api
}

func TestUsageIsAddedUpByComponent(t *testing.T) {
	first, second, leaving := podOf("shop", "backend", "a"), podOf("shop", "backend", "b"), podOf("shop", "backend", "c")
	leaving.Status.Phase = corev1.PodFailed
	unknown := podOf("shop", "frontend", "d")
	orphan := podOf("gone", "backend", "e")
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	u, api := collector(t, clock, environmentOf("shop"), first, second, leaving, unknown, orphan,
		metricsOf(first, "250m", "16Mi"), metricsOf(second, "0.5", "16Mi"), metricsOf(leaving, "9", "9Gi"), metricsOf(orphan, "9", "9Gi"))
	const backend = `{component="backend",environment="shop",namespace="team"}`
	expect := func(cpu string) {
		t.Helper()
		require.NoError(t, testutil.CollectAndCompare(u, strings.NewReader(`
# HELP berth_environment_cpu_usage_cores CPU that the containers of a component use.
# TYPE berth_environment_cpu_usage_cores gauge
berth_environment_cpu_usage_cores`+backend+` `+cpu+`
# HELP berth_environment_memory_usage_bytes Memory that the containers of a component use.
# TYPE berth_environment_memory_usage_bytes gauge
berth_environment_memory_usage_bytes`+backend+` 3.3554432e+07
# HELP berth_environment_cpu_limit_cores CPU limits of the containers of a component.
# TYPE berth_environment_cpu_limit_cores gauge
berth_environment_cpu_limit_cores`+backend+` 1
berth_environment_cpu_limit_cores{component="frontend",environment="shop",namespace="team"} 0.5
`), "berth_environment_cpu_usage_cores", "berth_environment_memory_usage_bytes", "berth_environment_cpu_limit_cores"))
	}
	expect("0.75")
	require.NoError(t, api.Delete(t.Context(), metricsOf(first, "", "")))
	require.NoError(t, api.Create(t.Context(), metricsOf(first, "1", "16Mi")))
	expect("0.75") // not read for each scrape
	clock.SetTime(clock.Now().Add(usageInterval))
	expect("1.5")
}

// Tenants create environments: their number bounds neither the memory of the controller nor that of Prometheus otherwise.
func TestTheSeriesOfEnvironmentsAreBounded(t *testing.T) {
	var objects []client.Object
	for i := range maxSeries + 10 {
		e := environmentOf(fmt.Sprintf("e%03d", i))
		e.CreationTimestamp = metav1.NewTime(time.Unix(int64(i), 0))
		objects = append(objects, e, podOf(e.Name, "backend", e.Name))
	}
	u, _ := collector(t, clocktesting.NewFakePassiveClock(time.Unix(0, 0)), objects...)
	assert.Equal(t, 2*maxSeries, testutil.CollectAndCount(u), "the two limits of each")

	counts := &restartCounts{}
	for i := range maxSeries + 10 {
		counts.observe(client.ObjectKey{Name: fmt.Sprint(i)}, nil)
	}
	assert.Len(t, counts.seen, maxSeries)
}

func TestRestartsAreCountedOnce(t *testing.T) {
	restarts.Reset()
	counts := &restartCounts{}
	key := client.ObjectKey{Namespace: "team", Name: "shop"}
	p := podOf("shop", "backend", "a")
	status := func(n int32, reason string) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "backend", RestartCount: n}}
		if reason != "" {
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: reason}
		}
		counts.observe(key, []corev1.Pod{*p})
		counts.observe(key, []corev1.Pod{*p})
	}
	value := func(reason string) float64 {
		return testutil.ToFloat64(restarts.WithLabelValues("team", "shop", "backend", reason))
	}
	status(5, "Error")
	assert.Zero(t, value("Error"), "an earlier leader counted them")
	status(7, "OOMKilled")
	assert.InDelta(t, 2, value("OOMKilled"), 0)
	p.UID = "another"
	status(1, "StartError")
	assert.InDelta(t, 1, value("Other"), 0, "the pod is new, and so are its restarts")
	counts.forget(key)
	assert.Zero(t, testutil.CollectAndCount(restarts))
}
