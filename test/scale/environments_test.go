// SPDX-License-Identifier: Apache-2.0

package scale_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const (
	environments = 100
	// environmentsRSS bounds the controller's memory with them, in MB.
	environmentsRSS = 150
)

// 100 environments of 4 components, in a namespace each, are created at once,
// stopped, started, left alone by a controller that starts again, and deleted.
func TestAHundredEnvironmentsComeAndGoAtOnce(t *testing.T) {
	w := testenv.New(t, append(cluster.Nodes("spot", 10), cluster.Nodes("on-demand", 10)...)...)
	w.ApplyFiles("manifests/rbac/environments")
	run := func(c *controller.Configuration) {
		testenv.Impatient(c)
		c.Controllers = []string{controller.ControllerEnvironments}
	}
	c := w.Controller(run)
	each := func(do func(*v1alpha1.Environment) error) {
		together(t, environments, func(i int) error { return do(environmentOf(w, i)) })
	}
	reached := func(phase v1alpha1.EnvironmentPhase) {
		began := time.Now()
		reach(w, fmt.Sprintf("all environments are %s", phase), environments, time.Second, func() int {
			return countEnvironments(w, phase)
		})
		t.Logf("%d environments are %s after %s", environments, phase, time.Since(began).Round(100*time.Millisecond))
	}
	set := func(policy v1alpha1.RunPolicy) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"runPolicy":"`+string(policy)+`"}}`))
		each(func(e *v1alpha1.Environment) error { return w.Client.Patch(w.Ctx, e, patch) })
	}

	each(func(e *v1alpha1.Environment) error { return w.Client.Create(w.Ctx, e) })
	reached(v1alpha1.EnvironmentRunning)
	set(v1alpha1.RunPolicyStopped)
	reached(v1alpha1.EnvironmentStopped)
	set(v1alpha1.RunPolicyRunning)
	reached(v1alpha1.EnvironmentRunning)
	rss := peakRSS(t, c.PID())
	t.Logf("peak RSS: %d MB", rss)
	assert.Less(t, rss, environmentsRSS, "peak RSS in MB")
	assertOwnPorts(t, w)

	testenv.End(c, true)
	writes := func() []testenv.Request {
		return w.Audit(func(r testenv.Request) bool {
			return r.Write() && r.User == cluster.BerthEnvironmentsUser && r.Resource != "events" && r.Resource != "leases"
		})
	}
	before := len(writes())
	c = w.Controller(run)
	w.UpTo(patience).Reaches("environments that have been looked at", environments, func() int {
		return w.Metric(c, "controller_runtime_reconcile_total", map[string]string{"controller": "environment"})
	})
	assert.Empty(t, writes()[before:], "a controller that starts again")

	each(func(e *v1alpha1.Environment) error { return w.Client.Delete(w.Ctx, e) })
	began := time.Now()
	w.Within(patience, "nothing is left", func() (bool, string) {
		left := w.Names(&v1alpha1.EnvironmentList{})
		namespaces := w.Names(&corev1.NamespaceList{}, client.HasLabels{v1alpha1.EnvironmentLabel})
		return len(left)+len(namespaces) == 0, fmt.Sprintf("%d environments, %d namespaces", len(left), len(namespaces))
	})
	t.Logf("all are gone after %s", time.Since(began).Round(100*time.Millisecond))
}

func environmentOf(w *testenv.World, i int) *v1alpha1.Environment {
	e := builders.Environment(fmt.Sprintf("env-%03d", i))
	e.Namespace = w.Namespace
	return e
}

// countEnvironments counts those that are in a phase as of their last change.
func countEnvironments(w *testenv.World, phase v1alpha1.EnvironmentPhase) (n int) {
	w.T.Helper()
	for _, e := range testenv.List(w, &v1alpha1.EnvironmentList{}).Items {
		if e.Status.ObservedGeneration == e.Generation && e.Status.Phase == phase {
			n++
		}
	}
	return n
}

// assertOwnPorts demands that every port of every environment was given once.
func assertOwnPorts(t *testing.T, w *testenv.World) {
	t.Helper()
	var given []int32
	for _, e := range testenv.List(w, &v1alpha1.EnvironmentList{}).Items {
		for _, p := range e.Status.Ports {
			given = append(given, p.HostPort)
		}
	}
	slices.Sort(given)
	assert.Len(t, given, 4*environments)
	assert.Len(t, slices.Compact(given), 4*environments, "ports that were given twice")
}
