// SPDX-License-Identifier: Apache-2.0

package failopen_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

var spotNodes = []string{"spot-0", "spot-1", "spot-2", "spot-3", "spot-4", "spot-5"}

// In the full length: pods are let go within 90 seconds at the default of 60.
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
	w.Within(failOpen+30*time.Second, "all 20 run", func() (bool, string) {
		s := w.Split("web")
		return s.Spot == 7 && s.OnDemand == 13, s.String()
	})
	t.Logf("bound %s after the last scheduler was killed", time.Since(since).Round(time.Second))
	requireUngated(w, slices.DeleteFunc(w.Live("web"), func(p corev1.Pod) bool {
		return slices.ContainsFunc(before, func(q corev1.Pod) bool { return q.UID == p.UID })
	}))
	assert.Equal(t, 10, opened(w, c))
	testenv.Becomes(w, "none waits", 0, func() int { return w.Metric(c, "berth_mix_gated_pods", nil) })

	dead := holder(w)
	startScheduler(w, "replica-3")
	w.Eventually("the third leads", func() (bool, string) { return holder(w) != dead, dead })
	w.Cordon(false, spotNodes...) // now replicas can move, and who replaces them is opened by the third
	w.Within(testenv.Length(testenv.SettleTimeout, 3*time.Minute), "the mix is repaired, and those that were let go have their slots", func() (bool, string) {
		pods, without := w.Live("web"), 0
		for i := range pods {
			if _, ok := policy.ClaimedSlot(&pods[i]); !ok || !testenv.Ready(&pods[i]) {
				without++
			}
		}
		s := w.SplitOf(pods)
		return s.Spot == 14 && s.OnDemand == 6 && without == 0, fmt.Sprintf("%s, %d without a slot or not Ready", s, without)
	})
	w.RequireExact("web", m, 20)
	assert.Equal(t, 10, opened(w, c), "the replacements were opened by the scheduler")
	w.WaitSatisfied("web")
	assert.Len(t, w.Evictions(), 7)
}

func TestASchedulerThatIsBackInTimeFindsAllGatesShut(t *testing.T) {
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
	assert.Zero(t, opened(w, c))
}

func TestNothingFailsOpenWhileASchedulerLeadsByAnyClock(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	w.StartStock()
	renew := hold(w, 6*time.Second)
	c := w.Controller(testenv.Impatient, after(2*time.Second))
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
	assert.Zero(t, opened(w, c))

	w.Within(30*time.Second, "they are opened once nobody renews", func() (bool, string) {
		n := gated(w, "web")
		return n == 0, fmt.Sprint(n)
	})
	assert.Greater(t, time.Since(renewed), 6*time.Second, "the lease was somebody's until then")
	requireUngated(w, w.WaitBound("web", 10))
	assert.Equal(t, 10, opened(w, c))
}

func TestWhatIsNoProofOpensNothing(t *testing.T) {
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
				w.Always(5*time.Second, "the gate stays shut", func() (bool, string) { return gated(w, tc.name) == 1, "it is open" })
				assert.Zero(t, opened(w, c))
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
func TestWithoutLeaderElectionAPodThatWaitedForLongIsLetGo(t *testing.T) {
	if testenv.Length(0, 1) == 0 {
		t.Skip("takes two minutes: make test-faults")
	}
	w := newWorld(t, testenv.Roomy()...)
	w.StartStock()
	file := withoutElection(t)
	w.Controller(testenv.Impatient, after(5*time.Second), func(c *controller.Configuration) { c.SchedulerConfig = file })
	w.Create(lone("web", "web"))
	since := time.Now()
	w.Within(160*time.Second, "it is let go", func() (bool, string) { return gated(w, "web") == 0, "it waits" })
	assert.Greater(t, time.Since(since), 120*time.Second)
	requireUngated(w, w.WaitBound("web", 1))
}

func TestTheGatesOfOthersStayAndABurstIsLetGoOldestFirst(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	w.StartStock()
	other := func(t *corev1.PodTemplateSpec) {
		t.Spec.SchedulingGates = append(t.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/quota"})
	}
	w.Create(lone("quota", "quota", other))
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 250, builders.Gated, builders.ByDefault))
	waitGated(w, "web", 250)
	pods := append(w.Live("quota"), w.Live("web")...)
	c := w.Controller(testenv.Impatient, after(time.Second), func(c *controller.Configuration) {
		c.Mix.Rebalance.Mode, c.Mix.AnnotationRepairsPerMinute = v1alpha1.RebalanceModeOff, 0
	})
	w.WaitBound("web", 250)
	assert.Equal(t, 251, opened(w, c))
	p := w.Live("quota")[0]
	assert.Equal(t, []corev1.PodSchedulingGate{{Name: "example.com/quota"}}, p.Spec.SchedulingGates)
	assert.Equal(t, v1alpha1.UngateReasonNoLeader, p.Annotations[v1alpha1.UngateReasonAnnotation])
	made := map[string]time.Time{}
	for i := range pods {
		made[pods[i].Name] = pods[i].CreationTimestamp.Time
	}
	openings := w.PodPatches()
	assert.Len(t, openings, 251)
	for i := 1; i < len(openings); i++ {
		before, r := openings[i-1].Name, openings[i].Name
		require.False(t, made[r].Before(made[before]), "the oldest first: opening %d, %s made at %s after %s made at %s", i, r, made[r], before, made[before])
	}
	for _, r := range openings {
		delete(made, r.Name)
	}
	assert.Empty(t, made, "one patch each")
}
