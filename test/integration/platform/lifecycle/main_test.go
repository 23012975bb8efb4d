// SPDX-License-Identifier: Apache-2.0

// Package lifecycle_test kills schedulers and the API server in the middle of
// bursts of pods, and looks at what is written to the API and when.
package lifecycle_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true})) }

const (
	// A strike counts when so many pods of a burst are bound at that moment.
	burst, fewest, most = 200, 10, 190
	// spareTries is how many bursts more there may be for strikes that came too late.
	spareTries = 6
)

// wide returns nodes with capacity for several bursts at once.
func wide() []cluster.NodeSpec {
	return append(cluster.Nodes("spot", 8), cluster.Nodes("on-demand", 5)...)
}

// A disturbance of a burst.
type disturbance struct {
	// strike makes it, recover makes good for it.
	strike, recover func()
	// pods changes the templates of the burst.
	pods []func(*corev1.PodTemplateSpec)
	// count returns how many pods of an app are bound after strike; nil queries the API server.
	count func(app string) int
	// schedule has the pods scheduled, once all of a burst are there; nil where the scheduler runs all the time.
	schedule func()
}

// bursts creates Deployments of 200 pods, one after the other, strikes each
// when so many of its pods are bound, until it has struck often enough in the
// middle, and demands the exact mix of each.
func bursts(w *testenv.World, times int, when []int, d disturbance) {
	w.T.Helper()
	m := split.New(70, 7)
	if d.count == nil {
		d.count = func(app string) int { s := w.SplitOf(w.Live(app)); return s.Spot + s.OnDemand }
	}
	h := w.History()
	done := 0
	for try := 0; done < times; try++ {
		require.Less(w.T, try, times+spareTries, "bursts until %d strikes met the middle; %d did", times, done)
		app := fmt.Sprintf("burst-%d", try)
		already := h.Bound()
		w.Create(builders.CapacityMix(app, m.SpotPercent, m.MinOnDemand), builders.Deployment(app, burst, d.pods...))
		if d.schedule != nil {
			testenv.Becomes(w, "all pods of "+app+" are there", burst, func() int { return len(w.Live(app)) })
			d.schedule()
		}
		for _, bound := range when {
			await(w, h, already+max(5, bound-10*try)) // on a slow machine a strike comes late
			d.strike()
			struck := d.count(app)
			if struck >= fewest && struck <= most {
				done++
			}
			w.T.Logf("%s: struck when %d pods were bound", app, struck)
			d.recover()
		}
		w.RequireExact(app, m, burst)
		w.AssertBoundOnce(h)
		require.False(w.T, w.T.Failed(), "after %s", app)
		w.Delete(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: app}}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	}
}

// await waits, as closely as it can, until so many pods have been seen bound.
func await(w *testenv.World, h *testenv.History, bound int) {
	w.T.Helper()
	deadline := time.After(testenv.SettleTimeout)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for h.Bound() < bound {
		select {
		case <-deadline:
			require.FailNow(w.T, "the burst is not being scheduled", "%d pods bound, waiting for %d", h.Bound(), bound)
		case <-tick.C:
		}
	}
}
