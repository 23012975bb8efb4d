// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestAPodWhoseLimitDoesNotExistWaitsUntilItDoes(t *testing.T) {
	w := testenv.New(t, four()...)
	start(w, nil)
	w.Create(builders.Deployment("web", 5, builders.OfSize("later")))
	missing := fmt.Sprintf("0/4 nodes are available: ResourceLimit %q does not exist.", w.Namespace+"/later")
	waitReason(w, "web", 5, missing)
	w.Create(builders.ResourceLimit("other"))
	staysPending(w, "web", 5)

	limit := builders.ResourceLimit("later", builders.SizeOnNodesWith(pool, "web"))
	w.Create(limit)
	for name := range testenv.NodesOf(requireWoken(w, "web", 5)) {
		assert.Contains(t, []string{"web-a", "web-b"}, name)
	}

	// Once it is gone, new pods wait again and running ones stay.
	w.Delete(limit)
	w.Create(builders.Pod("new", "new", builders.OfSize("later")))
	waitReason(w, "new", 1, missing)
	w.WaitBound("web", 5)
}

// Limits and pods that come at the same time, in any order: none is forgotten.
func TestNoPodIsForgottenWhenItsLimitComesWithIt(t *testing.T) {
	w := testenv.New(t, four()...)
	start(w, nil)
	const n = 60
	for i := range n {
		name := fmt.Sprintf("size-%d", i)
		pod, limit := builders.Pod("web", name, builders.OfSize(name)), builders.ResourceLimit(name, builders.SizeOnNodesWith(pool, "batch"))
		w.Create(pod, limit)
	}
	requireWoken(w, "web", n)
}

func TestAPodHasTheDocumentedLimit(t *testing.T) {
	w := testenv.New(t, four()...)
	shared := w.Namespace + "-sizes"
	require.NoError(t, w.Cluster.CreateNamespace(w.Ctx, shared))
	start(w, map[string]any{"defaultNamespace": shared})
	inDefault := func(l *v1alpha1.ResourceLimit) {
		l.Namespace = shared
		require.NoError(t, w.Client.Create(w.Ctx, l))
	}
	inDefault(builders.ResourceLimit("shared", builders.SizeOnNodesWith(corev1.LabelHostname, "web-a"), builders.SizeSelects("elsewhere")))
	inDefault(builders.ResourceLimit("both", builders.SizeOnNodesWith(corev1.LabelHostname, "web-b")))
	w.Create(
		builders.ResourceLimit("both", builders.SizeOnNodesWith(corev1.LabelHostname, "batch-a")),
		builders.ResourceLimit("selects", builders.SizeOnNodesWith(corev1.LabelHostname, "batch-b"), builders.SizeSelects("selected")),
	)
	for app, tc := range map[string]struct {
		size []func(*corev1.PodTemplateSpec)
		want string
	}{
		"named":     {[]func(*corev1.PodTemplateSpec){builders.OfSize("both")}, "batch-a"},
		"annotated": {[]func(*corev1.PodTemplateSpec){builders.PodAnnotation(v1alpha1.ResourceLimitLabel, "both")}, "batch-a"},
		"shared":    {[]func(*corev1.PodTemplateSpec){builders.OfSize("shared")}, "web-a"},
		"selected":  {nil, "batch-b"},
	} {
		// The watch brings limits in their order, so once one applies all do.
		w.Create(builders.Deployment(app+"-gate", 1, builders.OfSize("selects")))
		w.WaitBound(app+"-gate", 1)
		w.Create(builders.Deployment(app, 4, tc.size...))
		assert.Equal(t, map[string]int{tc.want: 4}, testenv.NodesOf(w.WaitBound(app, 4)), app)
	}
	// A selector of the default namespace selects nothing here.
	w.Create(builders.Deployment("elsewhere", 8))
	assert.Greater(t, len(testenv.NodesOf(w.WaitBound("elsewhere", 8))), 1)

	// One that comes to the default namespace wakes pods of all others.
	w.Create(builders.Deployment("late", 2, builders.OfSize("late")))
	waitReason(w, "late", 2, fmt.Sprintf("0/4 nodes are available: ResourceLimit %q does not exist.", w.Namespace+"/late"))
	inDefault(builders.ResourceLimit("late"))
	requireWoken(w, "late", 2)
}

// overheadClass makes a RuntimeClass whose pods take 250m CPU more.
func overheadClass(w *testenv.World) string {
	w.T.Helper()
	class := &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}, Handler: "vm",
		Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}},
	}
	w.CreateForTest(class)
	return class.Name
}

// extra is a container beside the main one.
func extra(cpu string) corev1.Container {
	return corev1.Container{Name: "extra", Image: "example.com/extra:1", Resources: corev1.ResourceRequirements{Requests: builders.Requests(cpu, "8Mi")}}
}

// CpuLimit, else cpu, is the most that a pod as a whole may request:
// with its init containers, its sidecars, its figure for all containers
// together, and its overhead.
func TestAPodAboveItsSizeWaitsAndReportsBothFigures(t *testing.T) {
	w := testenv.New(t, four()...)
	start(w, nil)
	class := overheadClass(w)
	limit := builders.ResourceLimit("small", builders.SizeCPU("1", "2"))
	w.Create(limit)
	apps := map[string]struct {
		pods func(*corev1.PodTemplateSpec)
		said string
	}{
		"containers": {builders.CPU("2500m"), "cpu request 2500m is above 2"},
		"limits": {func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2200m")}
		}, "cpu limit 2200m is above 2"},
		"init": {func(t *corev1.PodTemplateSpec) { t.Spec.InitContainers = []corev1.Container{extra("2300m")} }, "cpu request 2300m is above 2"},
		"sidecar": {func(t *corev1.PodTemplateSpec) {
			sidecar := extra("1950m")
			sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			t.Spec.InitContainers = []corev1.Container{sidecar}
		}, "cpu request 2050m is above 2"},
		"pod-level": {func(t *corev1.PodTemplateSpec) {
			t.Spec.Resources = &corev1.ResourceRequirements{Requests: builders.Requests("2600m", "128Mi")}
		}, "cpu request 2600m is above 2"},
		"overhead": {func(t *corev1.PodTemplateSpec) { builders.CPU("1900m")(t); t.Spec.RuntimeClassName = &class }, "cpu request 2150m is above 2"},
	}
	for app, a := range apps {
		w.Create(builders.Deployment(app, 1, a.pods, builders.OfSize("small")))
	}
	// What is within the size is placed: the bound itself, and a large init container before a large one.
	w.Create(builders.Deployment("fits", 1, builders.CPU("2"), builders.OfSize("small"), func(t *corev1.PodTemplateSpec) {
		t.Spec.InitContainers = []corev1.Container{extra("2")}
	}))
	w.WaitBound("fits", 1)
	for app, a := range apps {
		waitReason(w, app, 1, fmt.Sprintf("0/4 nodes are available: pod is above ResourceLimit %q: %s.", w.Namespace+"/small", a.said))
	}

	change(w, limit, builders.SizeCPU("1", "3"))
	for app := range apps {
		requireWoken(w, app, 1)
	}
}

// A pod that waits can be given another size by its label or its annotation.
func TestAPodThatIsRelabelledIsTriedWithItsNewSize(t *testing.T) {
	w := testenv.New(t, four()...)
	start(w, nil)
	w.Create(builders.ResourceLimit("small", builders.SizeCPU("10m", "10m")), builders.ResourceLimit("large", builders.SizeCPU("1", "1")))
	w.Create(builders.Pod("labelled", "labelled", builders.OfSize("small")), builders.Pod("annotated", "annotated", builders.PodAnnotation(v1alpha1.ResourceLimitLabel, "small")))
	for _, app := range []string{"labelled", "annotated"} {
		waitReason(w, app, 1, fmt.Sprintf("0/4 nodes are available: pod is above ResourceLimit %q: cpu request 100m is above 10m.", w.Namespace+"/small"))
	}
	testenv.Patch(w, &w.Live("labelled")[0], func(p *corev1.Pod) { p.Labels[v1alpha1.ResourceLimitLabel] = "large" })
	requireWoken(w, "labelled", 1)
	testenv.Patch(w, &w.Live("annotated")[0], func(p *corev1.Pod) { p.Annotations[v1alpha1.ResourceLimitLabel] = "large" })
	requireWoken(w, "annotated", 1)
}
