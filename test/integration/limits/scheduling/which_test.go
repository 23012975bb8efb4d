// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

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
	for name := range nodesOf(requireWoken(w, "web", 5)) {
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

func TestWhichLimitAPodHas(t *testing.T) {
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
		// The watch brings limits in their order, so one that counts tells that all do.
		w.Create(builders.Deployment(app+"-gate", 1, builders.OfSize("selects")))
		w.WaitBound(app+"-gate", 1)
		w.Create(builders.Deployment(app, 4, tc.size...))
		assert.Equal(t, map[string]int{tc.want: 4}, nodesOf(w.WaitBound(app, 4)), app)
	}
	// A selector of the default namespace selects nothing here.
	w.Create(builders.Deployment("elsewhere", 8))
	assert.Greater(t, len(nodesOf(w.WaitBound("elsewhere", 8))), 1)

	// One that comes to the default namespace wakes pods of all others.
	w.Create(builders.Deployment("late", 2, builders.OfSize("late")))
	waitReason(w, "late", 2, fmt.Sprintf("0/4 nodes are available: ResourceLimit %q does not exist.", w.Namespace+"/late"))
	inDefault(builders.ResourceLimit("late"))
	requireWoken(w, "late", 2)
}
