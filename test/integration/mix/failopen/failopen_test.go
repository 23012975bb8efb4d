// SPDX-License-Identifier: Apache-2.0

// Package failopen_test is about pods with the scheduling gate of Berth while no
// scheduler leads: the controller ungates them, and repairs the mix afterwards.
package failopen_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
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
func gated(w *testenv.World, app string) int {
	w.T.Helper()
	return len(testenv.Where(w.Live(app), gate.Has))
}

// waitGated waits until so many pods of an app wait for their slot.
func waitGated(w *testenv.World, app string, n int) {
	w.T.Helper()
	testenv.Becomes(w, fmt.Sprintf("%d pods of %s are gated", n, app), n, func() int { return gated(w, app) })
}

// unrepaired leaves pods as the stock scheduler placed them: it may place them so that one would be moved, and its
// replacement be gated and ungated as well.
func unrepaired(c *controller.Configuration) {
	c.Mix.Rebalance.Mode, c.Mix.AnnotationRepairsPerMinute = v1alpha1.RebalanceModeOff, 0
}

// ungated is what the controller counted.
func ungated(w *testenv.World, c *cluster.Controller) int {
	w.T.Helper()
	return w.Metric(c, "berth_mix_gates_failed_open_total", map[string]string{"reason": v1alpha1.UngateReasonNoLeader})
}

// requireUngated demands that the controller ungated the pods, and recorded that once.
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
		testenv.Patch(w, l, func(l *coordinationv1.Lease) { l.Spec = spec() })
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

var spotNodes = []string{"spot-0", "spot-1", "spot-2", "spot-3", "spot-4", "spot-5"}

// In the full length: pods are ungated within 90 seconds at the default of 60.
func TestPodsAreUngatedWithoutASchedulerAndTheMixIsRestored(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	m := split.New(70, 2)
	leader := startScheduler(w, "replica-1")
	w.StartStock()
	failOpen := testenv.Length(5*time.Second, time.Minute)
	c := w.Controller(testenv.Impatient, after(failOpen))
	web := builders.Deployment("web", 10, builders.Gated, builders.ByDefault)
	w.Create(builders.CapacityMix("web", 70, 2), web)
	w.WaitReady("web", 10)
	before := w.RequireExact("web", m, 10)
	follower := startScheduler(w, "replica-2")

	testenv.Kill(follower)
	testenv.Kill(leader)
	w.Cordon(true, spotNodes...) // where the stock scheduler would put some of them by chance
	since := time.Now()
	w.Scale(web, 20)
	w.UpTo(failOpen+30*time.Second).WaitSplit("web", "all 20 run", testenv.Split{Spot: 7, OnDemand: 13})
	t.Logf("bound %s after the last scheduler was killed", time.Since(since).Round(time.Second))
	requireUngated(w, testenv.Where(w.Live("web"), func(p *corev1.Pod) bool {
		return !slices.ContainsFunc(before, func(q corev1.Pod) bool { return q.UID == p.UID })
	}))
	assert.Equal(t, 10, ungated(w, c))
	testenv.Becomes(w, "none waits", 0, func() int { return w.Metric(c, "berth_mix_gated_pods", nil) })

	dead := holder(w)
	startScheduler(w, "replica-3")
	w.Eventually("the third leads", func() (bool, string) { return holder(w) != dead, dead })
	w.Cordon(false, spotNodes...) // now replicas can move, and the third ungates their replacements
	w.Within(testenv.Length(testenv.SettleTimeout, 3*time.Minute), "the mix is repaired, and those that were ungated have their slots", func() (bool, string) {
		pods := w.Live("web")
		good := len(testenv.Where(pods, func(p *corev1.Pod) bool { _, ok := governing.ClaimedSlot(p); return ok && testenv.Ready(p) }))
		s := w.SplitOf(pods)
		return s == testenv.SplitBy(m, 20) && good == 20, fmt.Sprintf("%s, %d with a slot and Ready", s, good)
	})
	w.RequireExact("web", m, 20)
	assert.Equal(t, 10, ungated(w, c), "the replacements were ungated by the scheduler")
	w.WaitSatisfied("web")
	assert.Len(t, w.Evictions(), 7)
}

func TestASchedulerThatReturnsInTimeFindsAllPodsGated(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	s := startScheduler(w, "replica-1")
	c := w.Controller(testenv.Impatient, after(30*time.Second))
	w.Create(builders.CapacityMix("web", 70, 2))
	testenv.Kill(s)
	w.Create(builders.Deployment("web", 20, builders.Gated))
	testenv.Becomes(w, "the controller sees that they wait", 20, func() int { return w.Metric(c, "berth_mix_gated_pods", nil) })
	assert.Equal(t, 20, gated(w, "web"))
	startScheduler(w, "replica-2")
	w.WaitReady("web", 20)
	w.RequireExact("web", split.New(70, 2), 20)
	assert.Empty(t, w.PodPatches())
	assert.Zero(t, ungated(w, c))
}

func TestNothingFailsOpenWhileASchedulerLeadsByAnyClock(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	w.StartStock()
	renew := hold(w, 6*time.Second)
	c := w.Controller(testenv.Impatient, after(2*time.Second), unrepaired)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10, builders.Gated, builders.ByDefault))
	waitGated(w, "web", 10)
	renewed := time.Now()
	w.Always(testenv.Length(15*time.Second, 2*time.Minute), "the gates stay shut", func() (bool, string) {
		if time.Since(renewed) > time.Second {
			renew()
			renewed = time.Now()
		}
		n := gated(w, "web")
		return n == 10, fmt.Sprint(n)
	})
	assert.Empty(t, w.PodPatches())
	assert.Zero(t, ungated(w, c))

	testenv.Becomes(w.UpTo(30*time.Second), "they are ungated once no leader renews", 0, func() int { return gated(w, "web") })
	assert.Greater(t, time.Since(renewed), 6*time.Second, "the lease had a holder until then")
	requireUngated(w, w.WaitBound("web", 10))
	assert.Equal(t, 10, ungated(w, c))
}

func TestWithoutProofNoPodIsUngated(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	w.StartStock()
	without := withoutElection(t)
	for _, tc := range []struct {
		name   string
		change func(*controller.Configuration)
		opens  bool
		says   string
	}{
		{name: "never", change: func(c *controller.Configuration) { c.Mix.Gates.FailOpenSeconds = 0 }},
		{name: "dry-run", change: func(c *controller.Configuration) { c.DryRun = true }, says: "No scheduler leads"},
		{name: "elsewhere", change: func(c *controller.Configuration) { c.Namespaces = []string{"elsewhere"} }},
		{
			name: "without-the-right", says: "Cannot determine whether a scheduler leads",
			change: func(c *controller.Configuration) {
				c.Mix.Gates.SchedulerLease = controller.SchedulerLease{Namespace: "kube-system", Name: "kube-scheduler"}
			},
		},
		{name: "without-election", change: func(c *controller.Configuration) { c.SchedulerConfig = without }},
		// The same without any of it: what the others hold back does happen.
		{name: "missing-lease", change: func(*controller.Configuration) {}, opens: true, says: "No scheduler leads"},
	} {
		w.Run(tc.name, func(t *testing.T, w *testenv.World) {
			c := w.Controller(testenv.Impatient, after(time.Second), tc.change)
			w.Create(lone(tc.name, tc.name))
			if !tc.opens {
				waitGated(w, tc.name, 1)
				testenv.Stays(w, 5*time.Second, "the gate stays shut", 1, func() int { return gated(w, tc.name) })
				assert.Zero(t, ungated(w, c))
			} else {
				requireUngated(w, w.WaitBound(tc.name, 1))
			}
			assert.Contains(t, testenv.ReadFile(t, c.LogPath()), tc.says)
			if tc.name == "dry-run" {
				w.Reconfigure(c, func(c *controller.Configuration) { c.DryRun = false })
				requireUngated(w, w.WaitBound(tc.name, 1))
			}
			w.Delete(&w.Live(tc.name)[0])
		})
	}
}

// Two minutes more than with a lease, so it is not in the short run.
func TestWithoutLeaderElectionALongWaitUngatesAPod(t *testing.T) {
	if testenv.Length(0, 1) == 0 {
		t.Skip("takes two minutes: make test-faults")
	}
	w := newWorld(t, testenv.Roomy()...)
	w.StartStock()
	file := withoutElection(t)
	w.Controller(testenv.Impatient, after(5*time.Second), func(c *controller.Configuration) { c.SchedulerConfig = file })
	w.Create(lone("web", "web"))
	since := time.Now()
	testenv.Becomes(w.UpTo(160*time.Second), "it is ungated", 0, func() int { return gated(w, "web") })
	assert.Greater(t, time.Since(since), 120*time.Second)
	requireUngated(w, w.WaitBound("web", 1))
}

func TestOtherGatesStayAndABurstIsUngatedOldestFirst(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	w.StartStock()
	other := func(t *corev1.PodTemplateSpec) {
		t.Spec.SchedulingGates = append(t.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/quota"})
	}
	w.Create(lone("quota", "quota", other))
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 250, builders.Gated, builders.ByDefault))
	waitGated(w, "web", 250)
	pods := w.Live("web")
	c := w.Controller(testenv.Impatient, after(time.Second), unrepaired)
	w.WaitBound("web", 250)
	assert.Equal(t, 250, ungated(w, c))
	p := w.Live("quota")[0]
	assert.Len(t, p.Spec.SchedulingGates, 2, "a pod that another gate holds waits for that one, and Berth's is the last to go")
	assert.NotContains(t, p.Annotations, v1alpha1.UngateReasonAnnotation)
	made := map[string]time.Time{}
	for i := range pods {
		made[pods[i].Name] = pods[i].CreationTimestamp.Time
	}
	openings := w.PodPatches()
	assert.Len(t, openings, 250)
	for i := 1; i < len(openings); i++ {
		before, r := openings[i-1].Name, openings[i].Name
		require.False(t, made[r].Before(made[before]), "the oldest first: opening %d, %s made at %s after %s made at %s", i, r, made[r], before, made[before])
	}
	for _, r := range openings {
		delete(made, r.Name)
	}
	assert.Empty(t, made, "one patch each")
}
