// SPDX-License-Identifier: Apache-2.0

// Package placement_test places Deployments by their mix on a real control plane.
package placement_test

import (
	"fmt"
	"os"
	"testing"

	"berth.dev/berth/internal/mix"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/world"
)

func TestMain(m *testing.M) { os.Exit(world.Main(m, world.Options{})) }

// The published expected values, each as a Deployment.
func TestEveryExpectedValueIsExactTheMomentAllPodsAreBound(t *testing.T) {
	w := world.New(t, world.Roomy()...)
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
		t.Run(fmt.Sprintf("%d replicas at %d%% floor %d", row.replicas, row.percent, row.floor), func(t *testing.T) {
			w := *w
			w.T = t
			app := fmt.Sprintf("row-%d", i)
			w.Create(builders.CapacityMix(app, row.percent, row.floor), builders.Deployment(app, row.replicas))
			pods := w.RequireExact(app, mix.New(row.percent, row.floor), int(row.replicas))
			if got := w.SplitOf(pods).Spot; got != int(row.wantSpot) {
				t.Errorf("%d pods on spot, want %d", got, row.wantSpot)
			}
		})
	}
}

func TestScalingIsExactAfterEveryStep(t *testing.T) {
	w := world.New(t, world.Roomy()...)
	m := mix.New(70, 2)
	w.Create(builders.CapacityMix("web", 70, 2))
	web := builders.Deployment("web", 0)
	w.Create(web)
	scale := func(n int32) {
		t.Helper()
		w.Scale(web, n)
		w.WaitReady("web", int(n))
		w.RequireExact("web", m, int(n))
	}
	for n := int32(0); n <= 20; n++ {
		scale(n)
	}
	for n := int32(19); n >= 0; n-- {
		scale(n)
	}
	for _, n := range []int32{5, 15, 8, 0, 1, 10, 20, 3} {
		scale(n)
	}
}
