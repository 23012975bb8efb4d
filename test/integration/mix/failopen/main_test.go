// SPDX-License-Identifier: Apache-2.0

// Package failopen_test is about pods with the scheduling gate of Berth while no
// scheduler leads: the controller lets them go, and repairs the mix afterwards.
package failopen_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true})) }

const (
	leaseNamespace = "berth-system"
	leaseName      = "berth-scheduler"
)

// newWorld is a world whose lease of the schedulers is gone before and after.
func newWorld(t *testing.T, nodes ...cluster.NodeSpec) *testenv.World {
	t.Helper()
	w := testenv.New(t, nodes...)
	forget := func() { w.DropLease(leaseNamespace, leaseName) }
	forget()
	t.Cleanup(forget)
	return w
}

// startScheduler starts one that takes part in the election of a leader.
func startScheduler(w *testenv.World, name string) *cluster.Scheduler {
	w.T.Helper()
	o := testenv.SchedulerOptions(testenv.SecondScheduler)
	o.Name = name
	o.LeaderElection = &cluster.LeaderElection{
		Enabled: new(true), LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond,
	}
	return w.RunScheduler(o)
}

// after has the controller wait for so long.
func after(failOpen time.Duration) func(*controller.Configuration) {
	return func(c *controller.Configuration) { c.Mix.Gates.FailOpenSeconds = int32(failOpen / time.Second) }
}

// gated returns how many pods of an app have the gate.
func gated(w *testenv.World, app string) (n int) {
	w.T.Helper()
	for _, p := range w.Live(app) {
		if gate.Has(&p) {
			n++
		}
	}
	return n
}

// waitGated waits until so many pods of an app wait for their slot.
func waitGated(w *testenv.World, app string, n int) {
	w.T.Helper()
	testenv.Becomes(w, fmt.Sprintf("%d pods of %s are gated", n, app), n, func() int { return gated(w, app) })
}

// opened is what the controller counted.
func opened(w *testenv.World, c *cluster.Controller) int {
	w.T.Helper()
	return w.Metric(c, "berth_mix_gates_failed_open_total", map[string]string{"reason": v1alpha1.UngateReasonNoLeader})
}

// requireUngated demands that the pods' gates were opened by the controller, and that it reports it, once.
func requireUngated(w *testenv.World, pods []corev1.Pod) {
	w.T.Helper()
	for i := range pods {
		p := &pods[i]
		require.Equal(w.T, v1alpha1.UngateReasonNoLeader, p.Annotations[v1alpha1.UngateReasonAnnotation], p.Name)
		require.Equal(w.T, string(p.UID)+"/"+v1alpha1.UngateReasonNoLeader, p.Annotations[v1alpha1.ClaimAnnotation], "it names the pod, so that no template can have it")
		w.WaitEvent(p.Name, "a warning, once", func(e *corev1.Event) bool {
			return e.Reason == v1alpha1.EventReasonGateFailedOpen && e.Type == corev1.EventTypeWarning && e.Count == 1
		})
	}
}

// holder is who has the schedulers' lease, or had it last.
func holder(w *testenv.World) string {
	w.T.Helper()
	return *testenv.ReadIn(w, leaseNamespace, leaseName, &coordinationv1.Lease{}).Spec.HolderIdentity
}

// hold holds the schedulers' lease as a scheduler would that does nothing, by
// a clock that is years behind.
func hold(w *testenv.World, lasts time.Duration) (renew func()) {
	w.T.Helper()
	clock := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	spec := func() coordinationv1.LeaseSpec {
		clock = clock.Add(time.Second)
		return coordinationv1.LeaseSpec{
			HolderIdentity: new("somebody"), LeaseDurationSeconds: new(int32(lasts / time.Second)),
			RenewTime: &metav1.MicroTime{Time: clock},
		}
	}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseName}, Spec: spec()}
	w.CreateAsIs(l)
	return func() {
		l.Spec = spec()
		require.NoError(w.T, w.Client.Update(w.Ctx, l))
	}
}

// lone makes a gated pod of an app.
func lone(app, name string, changes ...func(*corev1.PodTemplateSpec)) *corev1.Pod {
	return builders.Pod(app, name, append([]func(*corev1.PodTemplateSpec){builders.Gated, builders.ByDefault}, changes...)...)
}

// withoutElection writes the scheduler's configuration with leader election off, and returns its file.
func withoutElection(t *testing.T) string {
	t.Helper()
	config := testenv.ReadFile(t, testenv.Path(testenv.SecondScheduler))
	return testenv.WriteFile(t, "scheduler.yaml", strings.Replace(config, "leaderElect: true", "leaderElect: false", 1))
}
