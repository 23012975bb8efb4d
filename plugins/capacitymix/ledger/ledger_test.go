// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/test/builders"
)

var (
	webKey = governing.GroupKey{Namespace: "shop", ID: "web"}
	webMix = &governing.Mix{Mix: split.New(70, 2)}
)

// newLedger is a ledger that spreads over zones and types of machines, or over other labels.
func newLedger(t require.TestingT, over ...string) *ledger.Ledger {
	if len(over) == 0 {
		over = []string{corev1.LabelTopologyZone, corev1.LabelInstanceTypeStable}
	}
	c, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	return ledger.New(c, over)
}

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
}

// in is a pod of a group that holds a slot alone.
func in(key governing.GroupKey) governing.Member {
	return governing.Member{Group: key, Slot: split.NoSlot}
}

func claimOf(name string) ledger.Claim {
	return ledger.Claim{Pod: podNamed(name), Member: in(webKey), Governing: webMix, Exists: func() bool { return true }}
}

// held makes a claim that succeeds.
func held(t *testing.T, l *ledger.Ledger, c ledger.Claim) ledger.Hold {
	t.Helper()
	hold, err := l.Claim(c)
	require.NoError(t, err)
	return hold
}

func claim(t *testing.T, l *ledger.Ledger, name string) int {
	t.Helper()
	return held(t, l, claimOf(name)).Slot
}

func claims(t *testing.T, l *ledger.Ledger, names ...string) {
	t.Helper()
	for _, name := range names {
		claim(t, l, name)
	}
}

func TestPendingPodsHoldTheirClaims(t *testing.T) {
	l := newLedger(t)
	assert.Equal(t, 0, claim(t, l, "a"))
	assert.Equal(t, 1, claim(t, l, "b"))
	assert.Equal(t, 0, claim(t, l, "a"), "a claim is confirmed, not made twice")
	assert.Equal(t, 2, claim(t, l, "c"))
}

// A node that turns wakes all of them; a bound pod waits for nothing.
func TestPodsThatWaitAreThoseWithAClaimAndThoseThatWereOpened(t *testing.T) {
	l := newLedger(t)
	claim(t, l, "claimed")
	ungated := ledger.Bound{UID: "ungated", Member: in(webKey), Claimed: 1, Limited: capacity.Spot, Pending: claimOf("ungated").Pod}
	l.Observe(ungated)
	assert.ElementsMatch(t, []string{"claimed", "ungated"}, names(l.Pending("")))
	require.NoError(t, l.Reserve("ungated", 1, "n"))
	assert.Equal(t, []string{"claimed"}, names(l.Pending("")))
	l.Unreserve("ungated")
	assert.ElementsMatch(t, []string{"claimed", "ungated"}, names(l.Pending("")), "its binding failed")
	ungated.Node = "n"
	l.Observe(ungated)
	assert.Equal(t, []string{"claimed"}, names(l.Pending("")))
}

func names(pods []*corev1.Pod) (all []string) {
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return all
}

func TestAPodThatIsGoneGetsNoClaim(t *testing.T) {
	l := newLedger(t)
	c := claimOf("a")
	c.Exists = func() bool { return false }
	_, err := l.Claim(c)
	require.ErrorIs(t, err, ledger.ErrGone)
	assert.Equal(t, 0, claim(t, l, "b"), "its slot is free")
}

func TestAWaitingPodMovesDownWhenALowerSlotIsFree(t *testing.T) {
	l := newLedger(t)
	claims(t, l, "a", "b", "c", "d")
	next := l.Forget("b")
	require.Len(t, next, 1, "somebody is to be woken")
	assert.Equal(t, "d", next[0].Name, "the pod with the highest slot")
	assert.Equal(t, 1, claim(t, l, "d"))
	assert.Empty(t, l.Forget("c"), "nobody waits above slot 2")
	next = l.Forget("a")
	require.Len(t, next, 1)
	assert.Equal(t, "d", next[0].Name)
	l.Observe(ledger.Bound{UID: "d", Member: in(webKey), Claimed: 1, Node: "n"})
	assert.Empty(t, l.Forget("d"), "nobody waits at all")
}

// The symptom: of two pods that wait, one was woken twice, and the other one not.
func TestEveryFreedSlotWakesAPodOfItsOwn(t *testing.T) {
	l := newLedger(t)
	claims(t, l, "a", "b", "c", "d")
	for i, name := range []string{"a", "b"} {
		require.NoError(t, l.Reserve(types.UID(name), i, "n"))
	}
	assert.Equal(t, "d", l.Forget("a")[0].Name)
	assert.Equal(t, "c", l.Forget("b")[0].Name, "d is on its way")
	assert.Equal(t, 0, claim(t, l, "d"))
	assert.Equal(t, 1, claim(t, l, "c"))

	claims(t, l, "e", "f")
	require.NoError(t, l.Reserve("d", 0, "n"))
	assert.Equal(t, "f", l.Forget("d")[0].Name)
	assert.Equal(t, "e", l.Forget("f")[0].Name, "who was woken for a slot is gone: another one is")
	assert.Equal(t, 0, claim(t, l, "e"))
}

func TestANominatedPodKeepsItsClaim(t *testing.T) {
	l := newLedger(t)
	claims(t, l, "a", "b")
	l.Forget("a")
	c := claimOf("b")
	c.Keep = true
	hold := held(t, l, c)
	assert.Equal(t, 1, hold.Slot)
}

func TestReserveRefusesAPodThatLostItsSlot(t *testing.T) {
	l := newLedger(t)
	slot := claim(t, l, "a")
	// A deposed leader bound another pod with the same slot.
	l.Observe(ledger.Bound{UID: "x", Member: in(webKey), Claimed: slot, Node: "n"})
	require.ErrorIs(t, l.Reserve("a", slot, "n"), ledger.ErrNoClaim)
	assert.Equal(t, 1, claim(t, l, "a"))
	require.NoError(t, l.Reserve("a", 1, "n"))
	require.ErrorIs(t, l.Reserve("a", 1, "n"), ledger.ErrNoClaim, "not twice")
	require.ErrorIs(t, l.Reserve("unknown", 1, "n"), ledger.ErrNoClaim)
}

func TestUnreserveRestoresTheClaimAndIsIdempotent(t *testing.T) {
	l := newLedger(t)
	slot := claim(t, l, "a")
	l.SetNode(node("n", "spot", "z"))
	require.NoError(t, l.Reserve("a", slot, "n"))
	assert.EqualValues(t, 1, domainOf(l, "n"))
	l.Unreserve("a")
	l.Unreserve("a")
	l.Unreserve("unknown")
	assert.EqualValues(t, 0, domainOf(l, "n"))
	assert.Equal(t, slot, claim(t, l, "a"))
	l.Observe(ledger.Bound{UID: "a", Member: in(webKey), Claimed: slot, Node: "n"})
	l.Unreserve("a")
	assert.EqualValues(t, 1, domainOf(l, "n"), "a bound pod stays where it is")
}

// domainOf counts the pods of the group in the domain of a node.
func domainOf(l *ledger.Ledger, name string) int32 {
	n, _ := l.Node(name)
	spread := l.SpreadOf(webKey, slices.Values([]string{name}))
	return spread.Domain(n)
}

func TestASearchBeginsAnewWhenTheSlotIsOfAnotherType(t *testing.T) {
	l := newLedger(t) // slots 0 and 1 are on-demand, 2 and 3 spot
	claims(t, l, "a", "b", "c", "d")
	tried := ledger.Attempt{Stage: ledger.StageBorrow, NoCapacitySince: time.Unix(7, 0)}
	l.SetAttempt("d", 3, tried)
	l.SetAttempt("d", 0, ledger.Attempt{}) // of a slot that it does not hold
	l.Forget("c")
	hold := held(t, l, claimOf("d"))
	assert.Equal(t, ledger.Hold{Slot: 2, Type: capacity.Spot, Attempt: tried}, hold, "a spot slot like the one before: it has waited for spot already")
	l.Forget("a")
	hold = held(t, l, claimOf("d"))
	assert.Equal(t, ledger.Hold{Slot: 0, Type: capacity.OnDemand, Attempt: ledger.Attempt{TypeChanged: true}}, hold, "now it looks for on-demand")
}

func TestAPodTriesASlotAheadOfItsTurnAndComesBack(t *testing.T) {
	l := newLedger(t) // 70 %, floor 2: slots 0 and 1 are on-demand, 2 to 4 spot
	claim(t, l, "a")
	ahead := ledger.Attempt{Stage: ledger.StageAhead, NoCapacitySince: time.Unix(7, 0), Below: 10}
	l.SetAttempt("a", 0, ahead)
	hold := held(t, l, claimOf("a"))
	assert.Equal(t, ledger.Hold{Slot: 2, Type: capacity.Spot, Attempt: ahead}, hold)
	assert.Equal(t, 0, claim(t, l, "b"), "its own slot is free for others meanwhile")

	back := ledger.Attempt{Stage: ledger.StageType, NoCapacitySince: time.Unix(7, 0)}
	l.SetAttempt("a", 2, back)
	hold = held(t, l, claimOf("a"))
	assert.Equal(t, ledger.Hold{Slot: 1, Type: capacity.OnDemand, Attempt: back}, hold, "the search for on-demand goes on where it was")

	l.SetAttempt("a", 1, ledger.Attempt{Stage: ledger.StageAhead, Below: 2})
	hold = held(t, l, claimOf("a"))
	assert.Equal(t, 1, hold.Slot, "there is no spot slot below 2")
	assert.Equal(t, ledger.Attempt{Stage: ledger.StageType, Below: 2}, hold.Attempt, "it is known that there is no later slot")
}

func TestIdentitySlotsAreNotExclusive(t *testing.T) {
	l := newLedger(t)
	c := claimOf("web-3")
	c.Slot = 3
	hold := held(t, l, c)
	assert.Equal(t, 3, hold.Slot)
	c.Pod = podNamed("web-3-again")
	hold = held(t, l, c)
	assert.Equal(t, 3, hold.Slot)
	require.NoError(t, l.Reserve("web-3-again", 3, "n"))
}

func TestGroupsAndPodsLeaveNothingBehind(t *testing.T) {
	l := newLedger(t)
	for i := range 50 {
		claim(t, l, fmt.Sprint(i))
	}
	l.Observe(ledger.Bound{UID: "foreign", Member: in(webKey), Claimed: split.NoSlot, Node: "n"})
	for i := range 50 {
		l.Forget(types.UID(strconv.Itoa(i)))
	}
	l.Forget("foreign")
	groups, pods := l.Size()
	assert.Zero(t, groups)
	assert.Zero(t, pods)
}

func TestDropForgetsOnlyPendingPods(t *testing.T) {
	l := newLedger(t)
	claims(t, l, "a", "b")
	require.NoError(t, l.Reserve("b", 1, "n"))
	l.Drop("a")
	l.Drop("b")
	l.Drop("unknown")
	_, pods := l.Size()
	assert.Equal(t, 1, pods)
	assert.Equal(t, 0, claim(t, l, "c"))
}

func node(name, capacityType, zone string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		typeLabel: capacityType, corev1.LabelTopologyZone: zone, corev1.LabelInstanceTypeStable: "m",
	}}}
}

func TestSampleIsFairOverZonesAndGoesRound(t *testing.T) {
	l := newLedger(t)
	for i := range 30 {
		l.SetNode(node(fmt.Sprintf("big-%d", i), "spot", "big"))
	}
	for i := range 5 {
		l.SetNode(node(fmt.Sprintf("small-%d", i), "spot", "small"))
		l.SetNode(node(fmt.Sprintf("od-%d", i), "on-demand", "small"))
	}
	cordoned := node("big-0", "spot", "big")
	cordoned.Spec.Unschedulable = true
	l.SetNode(cordoned)
	l.DeleteNode("big-1")
	require.Equal(t, 33, l.Side(capacity.Spot))

	seen := map[string]int{}
	for range 28 {
		sample := l.Sample(capacity.Spot, 6)
		require.Len(t, sample, 6)
		zones := map[string]int{}
		distinct := map[string]bool{}
		for _, name := range sample {
			zones[name[:3]]++
			distinct[name] = true
			seen[name]++
		}
		require.Len(t, distinct, 6, "no node twice in a sample")
		require.Equal(t, map[string]int{"big": 3, "sma": 3}, zones)
	}
	for i := 2; i < 30; i++ {
		assert.Equal(t, 3, seen[fmt.Sprintf("big-%d", i)], "84 turns over 28 nodes")
	}
	assert.Zero(t, seen["big-0"]+seen["big-1"])

	assert.Len(t, l.Sample(capacity.OnDemand, 100), 5, "no more than there are")
	assert.Empty(t, l.Sample(capacity.Unknown, 10))
	whole := map[string]bool{}
	for _, name := range l.Sample(capacity.Spot, 33) {
		whole[name] = true
	}
	assert.Len(t, whole, 33, "when one zone has no more, the others fill up")
}

func TestSetNodeReportsWhenAWaitingPodMayGetAnotherResult(t *testing.T) {
	l := newLedger(t)
	assert.False(t, l.SetNode(node("n", "spot", "z")), "a new node: the scheduling queue sees to that")
	assert.False(t, l.SetNode(node("n", "spot", "z")))
	assert.False(t, l.SetNode(node("n", "spot", "y")), "another zone")
	assert.True(t, l.SetNode(node("n", "on-demand", "y")), "another type")
	leaving := node("n", "on-demand", "y")
	leaving.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
	assert.True(t, l.SetNode(leaving))
	assert.True(t, l.SetNode(node("n", "on-demand", "y")), "it stays after all")
}

func BenchmarkLedger(b *testing.B) {
	l := newLedger(b)
	for i := range 5000 {
		l.SetNode(node(fmt.Sprintf("node-%d", i), []string{"spot", "on-demand"}[i%2], fmt.Sprint("zone-", i%3)))
	}
	const groups = 1000
	keys := make([]governing.GroupKey, groups)
	pods := make([]*corev1.Pod, groups)
	for g := range keys {
		keys[g] = governing.GroupKey{Namespace: "shop", ID: fmt.Sprint("group-", g)}
		pods[g] = podNamed(fmt.Sprint("pending-", g))
		for i := range 20 {
			l.Observe(ledger.Bound{UID: types.UID(fmt.Sprintf("g%d-p%d", g, i)), Member: in(keys[g]), Claimed: i, Node: fmt.Sprintf("node-%d", (g*20+i)%5000)})
		}
	}
	exists := func() bool { return true }
	b.Run("claim, reserve, bind, forget", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			g := i % groups
			hold, err := l.Claim(ledger.Claim{Pod: pods[g], Member: in(keys[g]), Governing: webMix, Exists: exists})
			if err != nil {
				b.Fatal(err)
			}
			if err := l.Reserve(pods[g].UID, hold.Slot, "node-7"); err != nil {
				b.Fatal(err)
			}
			l.Observe(ledger.Bound{UID: pods[g].UID, Member: in(keys[g]), Claimed: hold.Slot, Node: "node-7"})
			l.Forget(pods[g].UID)
		}
	})
	b.Run("node lookup", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, known := l.Node("node-4321"); !known {
				b.Fatal("no node")
			}
		}
	})
	b.Run("node update without a change", func(b *testing.B) {
		n := node("node-4321", "on-demand", "zone-1")
		l.SetNode(n)
		b.ReportAllocs()
		for range b.N {
			l.SetNode(n)
		}
	})
	b.Run("node relabelled", func(b *testing.B) {
		n := []*corev1.Node{node("node-4321", "on-demand", "zone-1"), node("node-4321", "spot", "zone-1")}
		b.ReportAllocs()
		for i := range b.N {
			l.SetNode(n[i%2])
		}
	})
}

// BenchmarkSpreadOf reads the spread of a group of 500 pods, which wander, over the nodes of a sample and over many.
func BenchmarkSpreadOf(b *testing.B) {
	for name, over := range map[string][]string{"configured labels": nil, "own labels": {corev1.LabelTopologyZone, corev1.LabelHostname}} {
		for _, nodes := range []int{16, 500} {
			b.Run(fmt.Sprintf("%s, %d nodes", name, nodes), func(b *testing.B) {
				l := newLedger(b)
				names := make([]string, 5000)
				for i := range names {
					n := node(fmt.Sprintf("node-%d", i), []string{"spot", "on-demand"}[i%2], fmt.Sprint("zone-", i%3))
					n.Labels[corev1.LabelHostname] = n.Name
					names[i] = n.Name
					l.SetNode(n)
				}
				p := &governing.Mix{Mix: split.New(100, 0), SpreadSpotOver: over}
				c := claimOf("pending")
				c.Governing = p
				if _, err := l.Claim(c); err != nil {
					b.Fatal(err)
				}
				for i := range 500 {
					l.Observe(ledger.Bound{UID: types.UID(fmt.Sprint("p", i)), Member: in(webKey), Claimed: i, Node: names[i*7%5000]})
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := l.Claim(c); err != nil {
						b.Fatal(err)
					}
					spread := l.SpreadOf(webKey, slices.Values(names[:nodes]))
					for _, name := range names[:nodes] {
						n, _ := l.Node(name)
						_ = spread.Domain(n)
					}
				}
			})
		}
	}
}

// BenchmarkMemory fills a ledger with groups of 20 pods and reports what a pod takes.
func BenchmarkMemory(b *testing.B) {
	for _, pods := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			for b.Loop() {
				l := newLedger(b)
				for i := range 5_000 {
					l.SetNode(node(fmt.Sprintf("node-%d", i), []string{"spot", "on-demand"}[i%2], fmt.Sprint("zone-", i%3)))
				}
				before := builders.Heap()
				for i := range pods {
					l.Observe(ledger.Bound{
						UID: types.UID(fmt.Sprintf("%032d", i)), Claimed: i % 20, Node: fmt.Sprintf("node-%d", i%5_000),
						Member: in(governing.GroupKey{Namespace: "shop", ID: fmt.Sprintf("%032d", i/20)}),
					})
				}
				b.ReportMetric(float64(builders.Heap()-before)/float64(pods), "B/pod")
				runtime.KeepAlive(l)
			}
		})
	}
}

// The answer to a Binding is lost together with the watches on the connection: until the pod is seen, it may be bound with its slot, which
// it must not exchange for a lower one.
func TestAPodInDoubtKeepsItsSlot(t *testing.T) {
	group, mix := governing.GroupKey{Namespace: "shop", ID: "web"}, &governing.Mix{Mix: split.New(50, 0)}
	for name, c := range map[string]struct {
		doubt  bool
		a2, a3 int // the slots of the second and the third pod
	}{"the Binding was refused": {false, 0, 1}, "the Binding had no answer": {true, 1, 0}} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t)
			claim := func(pod string) int {
				hold, err := l.Claim(ledger.Claim{
					Pod: podNamed(pod), Member: in(group), Governing: mix, Exists: func() bool { return true },
				})
				require.NoError(t, err)
				return hold.Slot
			}
			require.Equal(t, []int{0, 1}, []int{claim("a1"), claim("a2")})
			require.NoError(t, l.Reserve("a2", 1, "n"))
			l.Forget("a1")
			if c.doubt {
				l.Doubt("a2")
			}
			l.Unreserve("a2")
			assert.Equal(t, c.a2, claim("a2"))
			assert.Equal(t, c.a3, claim("a3"))
			l.Observe(ledger.Bound{UID: "a2", Member: in(group), Node: "n", Claimed: c.a2})
			assert.Equal(t, c.a3, claim("a3"), "it holds no slot of a pod that runs")
		})
	}
}
