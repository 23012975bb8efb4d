// SPDX-License-Identifier: Apache-2.0

// Package storms_test takes spot nodes away from workloads that a real
// controller reconciles: some, all, and again and again.
package storms_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

const (
	replicas = 20
	// quiet is how long no spot node may go for a storm to be over.
	quiet = 12 * time.Second
	// recovery bounds the moves of all replicas, one after the other, after a storm.
	recovery = quiet + testenv.SettleTimeout
)

// stormy shortens the time after a storm.
func stormy(c *controller.Configuration) { c.Mix.Rebalance.Storm.QuietSeconds = int32(quiet.Seconds()) }

// longQuiet is longer than a busy machine takes to replace all pods of spot and to start nodes, or to make the first move.
const longQuiet = 30 * time.Second

func long(c *controller.Configuration) {
	c.Mix.Rebalance.Storm.QuietSeconds = int32(longQuiet.Seconds())
}

var seventy = split.New(70, 2)

// field is a world with a workload in its mix, and its controller.
type field struct {
	*testenv.World
	controller *cluster.Controller
	spot       []cluster.NodeSpec
	// last is when the last spot node went, quiet how long none may go after that.
	last  time.Time
	quiet time.Duration
}

func newField(t *testing.T, changes ...func(*controller.Configuration)) *field {
	t.Helper()
	f := &field{spot: cluster.Nodes("spot", 6), quiet: quiet}
	f.World = testenv.New(t, append(slices.Clone(f.spot), cluster.Nodes("on-demand", 4)...)...)
	f.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", replicas))
	f.WaitExact("web", seventy, replicas, testenv.SettleTimeout)
	f.controller = f.Controller(append([]func(*controller.Configuration){testenv.Impatient, stormy}, changes...)...)
	f.WaitSatisfied("web")
	return f
}

// storm reports whether the controller's metric reports a storm.
func (f *field) storm() bool {
	f.T.Helper()
	return f.Metric(f.controller, "berth_mix_spot_storm", nil) == 1
}

func (f *field) waitStorm(on bool) {
	f.T.Helper()
	testenv.Becomes(f.UpTo(quiet+testenv.SettleTimeout), "the storm is on", on, f.storm)
}

// notice puts the mark of an interruption on nodes, as a provider does minutes before.
func (f *field) notice(nodes ...cluster.NodeSpec) {
	f.T.Helper()
	for _, n := range nodes {
		f.last = time.Now()
		f.ChangeNode(n.Name, func(o *corev1.Node) {
			o.Spec.Taints = append(o.Spec.Taints, corev1.Taint{Key: "aws-node-termination-handler/spot-itn", Effect: corev1.TaintEffectNoSchedule})
		})
	}
}

// take deletes nodes, and the pods on them, as a provider's reclaim does.
func (f *field) take(nodes ...cluster.NodeSpec) {
	f.T.Helper()
	for _, n := range nodes {
		f.last = time.Now()
		f.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}})
	}
	f.bury()
}

// bury deletes the pods whose node is gone. The pod garbage collector would
// take a minute for it, and the scheduler may have bound one a moment too late.
func (f *field) bury() {
	f.T.Helper()
	types := f.Types()
	for _, p := range f.Pods() {
		if _, there := types[p.Spec.NodeName]; p.Spec.NodeName != "" && !there {
			err := f.Client.Delete(f.Ctx, &p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
			require.NoError(f.T, client.IgnoreNotFound(err))
		}
	}
}

// waitRunning waits until all replicas of an app run on nodes that exist.
func (f *field) waitRunning(app string) {
	f.T.Helper()
	f.Eventually("all replicas of "+app+" run on nodes that exist", func() (bool, string) {
		f.bury()
		pods := f.Live(app)
		s := f.SplitOf(pods)
		return len(pods) == replicas && s.Spot+s.OnDemand == replicas && len(testenv.Where(pods, testenv.Ready)) == replicas, s.String()
	})
}

// requireQuietFirst demands that nothing was evicted before it was quiet for long enough.
func (f *field) requireQuietFirst(since time.Time) {
	f.T.Helper()
	for _, e := range f.Evictions() {
		assert.False(f.T, e.At.After(since) && e.At.Before(f.last.Add(f.quiet)), "evicted at %s; the storm began at %s, the last node went at %s: %s", e.At, since, f.last, e)
	}
}

// A third of the spot nodes go while the mix of another workload has just been
// changed: without the storm it would be moved at once.
func TestLosingAThirdOfSpotMovesNothingUntilItIsOver(t *testing.T) {
	f := newField(t)
	f.Create(builders.CapacityMix("other", 70, 2), builders.Deployment("other", replicas))
	f.WaitRepaired("other", seventy, replicas, testenv.SettleTimeout)
	require.False(t, f.storm())
	since := time.Now()
	f.notice(f.spot[0])
	f.take(f.spot[:2]...)
	f.waitStorm(true)
	f.waitRunning("web")
	f.waitRunning("other")
	f.ChangeMix("other", builders.SpotPercent(30))
	f.WaitBlocked("other", "SpotStorm", "many spot nodes are departing")
	f.waitStorm(false)
	f.WaitExact("web", seventy, replicas, recovery)
	f.WaitExact("other", split.New(30, 2), replicas, recovery)
	f.WaitSatisfied("web")
	f.WaitSatisfied("other")
	f.requireQuietFirst(since)
	assert.Empty(t, f.EvictionsOf("web"), "the rest of spot had room for what it lost")
	assert.Len(t, f.EvictionsOf("other"), 8, "what the change of the mix requests")
	assert.Equal(t, 1, f.Metric(f.controller, "berth_mix_spot_storms_total", nil))
}

func TestLosingAllOfSpotMovesNothingUntilItReturns(t *testing.T) {
	f := newField(t, long)
	f.quiet = longQuiet
	recording := f.Record("web")
	since := time.Now()
	f.notice(f.spot[:3]...)
	f.take(f.spot...)
	f.waitStorm(true)
	f.waitRunning("web")
	f.AddNodes(f.spot...) // there is room again, and it is not quiet yet
	require.Less(t, time.Since(f.last), f.quiet, "spot is back before the storm is over")
	f.WaitBlocked("web", "SpotStorm", "many spot nodes are departing")
	require.Empty(t, f.Evictions())
	f.WaitRepaired("web", seventy, replicas, recovery)
	f.requireQuietFirst(since)
	assert.Len(t, f.Evictions(), seventy.Spot(replicas), "each replica that lost its spot node moved once")
	f.requireEachSlotOnce(recording)
}

// requireEachSlotOnce demands that no slot's replica was evicted twice.
func (f *field) requireEachSlotOnce(recording *testenv.Recording) {
	f.T.Helper()
	slots := map[string]int{}
	for _, e := range recording.Events() {
		p := e.Pod
		if slot, ok := governing.ClaimedSlot(p); ok {
			slots[p.Name] = slot
		}
	}
	moved := map[int]string{}
	for _, e := range f.Evictions() {
		slot, known := slots[e.Name]
		require.True(f.T, known, "the slot of %s", e.Name)
		assert.Empty(f.T, moved[slot], "the replica of slot %d was moved twice, the second time as %s", slot, e.Name)
		moved[slot] = e.Name
	}
}

// Every 2 seconds all of spot vanishes or appears, for 30 seconds: all replicas
// of spot come to be on on-demand, capacity on spot is there half of the time, and
// a controller that took each chance would move them for nothing.
func TestWhileSpotFlapsNothingIsMovedAndAfterwardsEachReplicaOnce(t *testing.T) {
	period, length := testenv.Length(2*time.Second, 20*time.Second), testenv.Length(30*time.Second, 5*time.Minute)
	quietAtLeast := func(c *controller.Configuration) {
		c.Mix.Rebalance.Storm.QuietSeconds = max(c.Mix.Rebalance.Storm.QuietSeconds, int32(3*period.Seconds()))
	}
	f := newField(t, quietAtLeast)
	recording := f.Record("web")
	since := time.Now()
	f.flap(f.spot, period, length)
	f.waitRunning("web")
	before := len(f.Evictions())
	assert.Zero(t, before, "evicted while spot flapped")
	f.WaitRepaired("web", seventy, replicas, recovery+3*period)
	f.requireQuietFirst(since)
	f.requireEachSlotOnce(recording)
	assert.LessOrEqual(t, len(f.Evictions()), seventy.Spot(replicas))
}

// flap takes nodes away and gives them back, and ends with them there.
func (f *field) flap(nodes []cluster.NodeSpec, period, length time.Duration) {
	f.T.Helper()
	tick := time.NewTicker(period)
	defer tick.Stop()
	for end := time.Now().Add(length); time.Now().Before(end); {
		f.take(nodes...)
		<-tick.C
		f.AddNodes(nodes...)
		<-tick.C
	}
}

// One node of six that comes and goes is no storm, and is no reason to move
// what runs elsewhere.
func TestWhileOneNodeFlapsNothingIsMoved(t *testing.T) {
	period, length := testenv.Length(2*time.Second, 20*time.Second), testenv.Length(20*time.Second, 5*time.Minute)
	// A workload that lost its node is out of its mix for as long as its replacement takes.
	f := newField(t, func(c *controller.Configuration) { c.Mix.Rebalance.StabilizationSeconds = 2 })
	f.flap(f.spot[:1], period, length)
	f.waitRunning("web")
	assert.Zero(t, f.Metric(f.controller, "berth_mix_spot_storms_total", nil))
	f.WaitRepaired("web", seventy, replicas, recovery)
	assert.Empty(t, f.Evictions())
}
