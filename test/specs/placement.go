// SPDX-License-Identifier: Apache-2.0

// Package specs has what Berth promises wherever it runs, as functions of a world: the suites of the local control plane and
// those of kind call the same ones.
package specs

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// ExpectedValuesHold places the published expected values, each as a Deployment of at most 10 replicas.
func ExpectedValuesHold(w *testenv.World) {
	for i, row := range []struct{ replicas, percent, floor, wantSpot int32 }{
		{10, 70, 1, 7},
		{10, 73, 1, 7},
		{10, 90, 4, 6},
		{10, 80, 3, 7},
		{5, 80, 4, 1},
		{3, 80, 2, 1},
		{7, 50, 1, 3},
		{5, 0, 1, 0},
		{10, 0, 0, 0},
		{10, 100, 0, 10},
		{8, 75, 0, 6},
		{8, 60, 1, 4},
	} {
		w.Run(fmt.Sprintf("%d replicas at %d%% floor %d", row.replicas, row.percent, row.floor), func(t *testing.T, w *testenv.World) {
			app := fmt.Sprintf("row-%d", i)
			deployment := builders.Deployment(app, row.replicas)
			w.Create(builders.CapacityMix(app, row.percent, row.floor), deployment)
			pods := w.RequireExact(app, split.New(row.percent, row.floor), int(row.replicas))
			require.Equal(t, int(row.wantSpot), w.SplitOf(pods).Spot, "pods on spot")
			// The next one needs the capacity.
			w.Delete(deployment)
			w.WaitGone(pods)
		})
	}
}

// ScalingIsExactAfterEveryStep scales a Deployment to most replicas and to none, one by one, and then in jumps.
func ScalingIsExactAfterEveryStep(w *testenv.World, most int32) {
	w.T.Helper()
	m := split.New(70, 2)
	w.Create(builders.CapacityMix("web", 70, 2))
	web := builders.Deployment("web", 0)
	w.Create(web)
	for n := range most + 1 {
		w.ScaleExactly(web, m, n)
	}
	for n := most - 1; n >= 0; n-- {
		w.ScaleExactly(web, m, n)
	}
	for _, twentieths := range []int32{5, 15, 8, 0, 1, 10, 20, 3} {
		w.ScaleExactly(web, m, most*twentieths/20)
	}
}

// AnnotationsAreEnough gives a Deployment its mix by annotations and creates nothing else.
func AnnotationsAreEnough(w *testenv.World) {
	w.T.Helper()
	web := builders.Deployment("web", 8)
	web.Annotations = builders.MixAnnotations(60, 1)
	w.Create(web)
	for _, p := range w.RequireExact("web", split.New(60, 1), 8) {
		require.Equal(w.T, "annotations/controller", p.Annotations["berth.dev/mix"], "the source of the mix of pod %s", p.Name)
	}
}

// ASizeIsEnforced has a pod within its size placed, and one above it wait and report it.
func ASizeIsEnforced(w *testenv.World) {
	w.T.Helper()
	w.Create(
		builders.ResourceLimit("small", builders.SizeCPU("100m", "200m")),
		builders.Deployment("within", 1, builders.OfSize("small")),
		builders.Deployment("above", 1, builders.CPU("300m"), builders.OfSize("small")),
	)
	w.WaitReady("within", 1)
	assert.Contains(w.T, testenv.Unschedulable(&w.WaitUnschedulable("above", 1)[0]), "cpu request 300m is above 200m")
}
