// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// limitedMix has limits of replicas per zone, or others.
func limitedMix(limits ...domains.Limit) *governing.Mix {
	return &governing.Mix{Mix: split.New(0, 0), MaxPerDomain: limits}
}

var twoPerZone = domains.Limit{Key: corev1.LabelTopologyZone, Count: 2}

// limitedClaim is the claim of a pod of a unit, "" for none.
func limitedClaim(name, unit string, m *governing.Mix) ledger.Claim {
	c := claimOf(name)
	c.Governing, c.Unit, c.AnyOrder = m, unit, unit != ""
	return c
}

// zonedLedger has a node in each of some zones, of the same name.
func zonedLedger(t require.TestingT, zones ...string) *ledger.Ledger {
	l := newLedger(t)
	for _, zone := range zones {
		l.SetNode(node(zone, "on-demand", zone))
	}
	return l
}

// placed reserves a node for a pod.
func placed(t *testing.T, l *ledger.Ledger, c ledger.Claim, node string) error {
	t.Helper()
	return l.Reserve(c.Pod.UID, held(t, l, c).Slot, node)
}

func namesOf(pods []*corev1.Pod) (names []string) {
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}

func TestADomainHasAtMostAsManyReplicasAsTheMixAllows(t *testing.T) {
	l, m := zonedLedger(t, "a", "b"), limitedMix(twoPerZone)
	for _, name := range []string{"web-0", "web-1"} {
		require.NoError(t, placed(t, l, limitedClaim(name, "", m), "a"))
	}
	third := limitedClaim("web-2", "", m)
	require.ErrorIs(t, placed(t, l, third, "a"), ledger.ErrDomainFull)
	r, refused := held(t, l, third).Limits.Refuse("", false, map[string]string{corev1.LabelTopologyZone: "a"})
	require.True(t, refused)
	assert.Equal(t, domains.Refusal{Key: corev1.LabelTopologyZone, Value: "a", Have: 2, Max: 2}, r)
	require.ErrorIs(t, placed(t, l, third, "unknown"), ledger.ErrDomainFull, "of a node that is not known, no domain is known")
	l.SetNode(&corev1.Node{})
	require.ErrorIs(t, placed(t, l, third, ""), ledger.ErrDomainFull, "a node without the label is in no domain")

	l.Refused("web-2")
	assert.Equal(t, []string{"web-2"}, namesOf(l.Forget("web-0")), "there is a place for one")
	require.NoError(t, placed(t, l, third, "a"))
	fourth := limitedClaim("web-3", "", m)
	require.ErrorIs(t, placed(t, l, fourth, "a"), ledger.ErrDomainFull)
	l.Refused("web-3")
	assert.Equal(t, []string{"web-3"}, namesOf(l.Unreserve("web-1")), "it is not bound after all")
	require.NoError(t, placed(t, l, fourth, "a"))
	require.ErrorIs(t, placed(t, l, limitedClaim("web-1", "", m), "a"), ledger.ErrDomainFull)
	require.NoError(t, placed(t, l, limitedClaim("web-1", "", m), "b"))

	other := limitedClaim("other", "", m)
	other.Group.ID = "other"
	require.NoError(t, placed(t, l, other, "a"), "a group of its own")
}

func TestAMemberOfAPodGroupKeepsToTheLimit(t *testing.T) {
	l, m := zonedLedger(t, "a"), limitedMix(domains.Limit{Key: corev1.LabelTopologyZone, Count: 1})
	first, second := limitedClaim("web-0", "", m), limitedClaim("web-1", "", m)
	hold := l.Next(first)
	_, refused := hold.Limits.Refuse("", false, map[string]string{})
	assert.True(t, refused, "of the first member, too, a node without the label is refused")
	require.NoError(t, l.Take(first, hold.Slot, "a"))
	require.ErrorIs(t, l.Take(second, l.Next(second).Slot, "a"), ledger.ErrDomainFull)
	l.Return("web-0")
	require.NoError(t, l.Take(second, l.Next(second).Slot, "a"))
}

func TestAUnitIsOneReplicaInADomain(t *testing.T) {
	l, m := zonedLedger(t, "a", "b"), limitedMix(twoPerZone)
	for _, name := range []string{"a-0", "a-1", "b-0"} {
		require.NoError(t, placed(t, l, limitedClaim(name, name[:1], m), "a"))
	}
	require.ErrorIs(t, placed(t, l, limitedClaim("c-0", "c", m), "a"), ledger.ErrDomainFull)
	require.NoError(t, placed(t, l, limitedClaim("a-2", "a", m), "a"), "its unit is there already")
	l.Forget("a-0")
	l.Forget("a-1")
	require.ErrorIs(t, placed(t, l, limitedClaim("c-0", "c", m), "a"), ledger.ErrDomainFull)
	l.Forget("a-2")
	require.NoError(t, placed(t, l, limitedClaim("c-0", "c", m), "a"), "the last pod of a unit gives up its place")
}

func TestAShareIsOfTheReplicasThatTheGroupShallHave(t *testing.T) {
	l, m := zonedLedger(t, "a"), limitedMix(domains.Limit{Key: corev1.LabelTopologyZone, Percent: 50})
	claim := func(i, wanted int) ledger.Claim {
		c := limitedClaim(fmt.Sprint("web-", i), "", m)
		c.Wanted = wanted
		return c
	}
	require.NoError(t, placed(t, l, claim(0, 4), "a"))
	require.NoError(t, placed(t, l, claim(1, 4), "a"))
	require.ErrorIs(t, placed(t, l, claim(2, 4), "a"), ledger.ErrDomainFull)
	require.NoError(t, placed(t, l, claim(2, 6), "a"), "the owner was scaled")
	require.ErrorIs(t, placed(t, l, claim(3, 0), "a"), ledger.ErrDomainFull, "50% of the 4 that there are")
	for i := range 4 {
		held(t, l, claim(4+i, 0))
	}
	require.NoError(t, placed(t, l, claim(3, 0), "a"), "50% of 8, of which 5 wait")
}

// A node takes another label while pods run on it, and the mix another key.
func TestLimitsFollowNodesAndMixes(t *testing.T) {
	l, m := zonedLedger(t, "a", "b"), limitedMix(domains.Limit{Key: corev1.LabelTopologyZone, Count: 1})
	require.NoError(t, placed(t, l, limitedClaim("web-0", "", m), "a"))
	require.ErrorIs(t, placed(t, l, limitedClaim("web-1", "", m), "a"), ledger.ErrDomainFull)
	l.SetNode(node("b", "on-demand", "a"))
	require.ErrorIs(t, placed(t, l, limitedClaim("web-1", "", m), "b"), ledger.ErrDomainFull)
	l.SetNode(node("a", "on-demand", "c"))
	require.NoError(t, placed(t, l, limitedClaim("web-1", "", m), "b"))
	by := limitedMix(domains.Limit{Key: corev1.LabelInstanceTypeStable, Count: 2})
	require.ErrorIs(t, placed(t, l, limitedClaim("web-2", "", by), "b"), ledger.ErrDomainFull, "both are of one type of machine")
	require.NoError(t, placed(t, l, limitedClaim("web-2", "", limitedMix()), "b"))
}

func TestALimitThatIsAPreferenceRefusesNothing(t *testing.T) {
	l, m := zonedLedger(t, "a"), limitedMix(domains.Limit{Key: corev1.LabelTopologyZone, Count: 1, Soft: true})
	for i := range 3 {
		require.NoError(t, placed(t, l, limitedClaim(fmt.Sprint("web-", i), "", m), "a"))
	}
	limits := held(t, l, limitedClaim("next", "", m)).Limits
	_, refused := limits.Refuse("", false, nil)
	assert.False(t, refused)
	assert.EqualValues(t, 1, limits.Over("", map[string]string{corev1.LabelTopologyZone: "a"}))
	assert.EqualValues(t, 0, limits.Over("", map[string]string{corev1.LabelTopologyZone: "b"}))
	assert.EqualValues(t, 1, limits.Over("", nil), "a node of no domain is worse")
}

// released removes the gate of a pod that gets any domain but some.
func released(t *testing.T, l *ledger.Ledger, c ledger.Claim, barred ...string) {
	t.Helper()
	held(t, l, c)
	l.Openings(c.Pod.UID)
	require.True(t, l.Lean(c.Pod.UID, capacity.OnDemand))
	require.True(t, l.Confine(c.Pod.UID, anyBut(barred...)))
}

func anyBut(zones ...string) domains.Confinement {
	return domains.Confinement{corev1.LabelTopologyZone: {Values: zones}}
}

func only(zones ...string) domains.Confinement {
	return domains.Confinement{corev1.LabelTopologyZone: {Only: true, Values: zones}}
}

func TestAGatedPodLearnsHowFullTheDomainsAre(t *testing.T) {
	l, m := zonedLedger(t, "a", "b"), limitedMix(twoPerZone)
	require.NoError(t, placed(t, l, limitedClaim("web-0", "", m), "a"))
	released(t, l, limitedClaim("web-1", "", m))
	released(t, l, limitedClaim("web-2", "", m), "a")
	held(t, l, limitedClaim("web-3", "", m))
	want := domains.Occupancy{
		Key: corev1.LabelTopologyZone, Max: 2, Have: map[string]int{"a": 1}, Open: 2, Excluded: map[string]int{"a": 1}, Named: map[string]int{},
	}
	assert.Equal(t, []domains.Occupancy{want}, l.Openings("web-3").Limits)

	l.Refused("web-3")
	l.Observe(ledger.Bound{UID: "web-1", Member: in(webKey), Limited: capacity.OnDemand, Pending: podNamed("web-1"), Claimed: 1})
	assert.Equal(t, []domains.Occupancy{want}, l.Openings("web-3").Limits, "it is seen")
	o := l.Observe(ledger.Bound{UID: "web-1", Member: in(webKey), Limited: capacity.OnDemand, Node: "a", Claimed: 1})
	assert.Equal(t, []string{"web-3"}, namesOf(o.Wake), "one that waits has its node")
	assert.Empty(t, l.Observe(ledger.Bound{UID: "web-1", Member: in(webKey), Limited: capacity.OnDemand, Node: "a", Claimed: 1}).Wake)
	want.Have["a"], want.Open = 2, 1
	assert.Equal(t, []domains.Occupancy{want}, l.Openings("web-3").Limits)
	l.Refused("web-3")
	l.Observe(ledger.Bound{UID: "web-4", Member: in(webKey), Limited: capacity.OnDemand, Pending: podNamed("web-4"), Claimed: 4})
	require.NoError(t, l.Reserve("web-4", 4, "b"))
	o = l.Observe(ledger.Bound{UID: "web-4", Member: in(webKey), Limited: capacity.OnDemand, Node: "b", Claimed: 4})
	assert.Equal(t, []string{"web-3"}, namesOf(o.Wake), "also one that this scheduler bound")
	l.Forget("web-4")
	assert.Equal(t, domains.Occupancy{
		Key: corev1.LabelTopologyZone, Max: 2, Have: map[string]int{"a": 2}, Excluded: map[string]int{"a": 0}, Named: map[string]int{},
	}, l.Openings("web-2").Limits[0], "a pod that is tried again is not in its own way")
}

// Two decisions are made at the same time, or a pod without a gate takes the place meanwhile.
func TestAPodIsNotReleasedIntoADomainThatIsTakenMeanwhile(t *testing.T) {
	l, m := zonedLedger(t, "a", "b"), limitedMix(domains.Limit{Key: corev1.LabelTopologyZone, Count: 1})
	gated := limitedClaim("web-0", "", m)
	held(t, l, gated)
	require.NoError(t, placed(t, l, limitedClaim("web-1", "", m), "a"))
	require.True(t, l.Lean("web-0", capacity.OnDemand))
	assert.False(t, l.Confine("web-0", nil))
	held(t, l, limitedClaim("web-2", "", m))
	assert.Equal(t, 0, l.Openings("web-2").Limits[0].Open, "no gate was removed")
	require.True(t, l.Lean("web-0", capacity.OnDemand))
	assert.True(t, l.Confine("web-0", anyBut("a")))
	require.True(t, l.Lean("web-2", capacity.OnDemand))
	assert.False(t, l.Confine("web-2", anyBut("a")), "the other one may get any zone but a")
}

func TestAPodWithoutAGateLeavesThoseWithoutANodeTheirPlaces(t *testing.T) {
	l, m := zonedLedger(t, "a", "b"), limitedMix(domains.Limit{Key: corev1.LabelTopologyZone, Count: 1})
	held(t, l, limitedClaim("web-0", "", m))
	require.True(t, l.Lean("web-0", capacity.OnDemand))
	require.True(t, l.Confine("web-0", only("a")))
	other := limitedClaim("web-1", "", m)
	r, refused := held(t, l, other).Limits.Refuse("", false, map[string]string{corev1.LabelTopologyZone: "a"})
	require.True(t, refused)
	assert.Equal(t, domains.Refusal{Key: corev1.LabelTopologyZone, Value: "a", Max: 1, Open: 1}, r)
	require.ErrorIs(t, placed(t, l, other, "a"), ledger.ErrDomainFull)
	require.NoError(t, placed(t, l, other, "b"))
	l.Observe(ledger.Bound{
		UID: "web-0", Member: in(webKey), Limited: capacity.OnDemand, Pending: podNamed("web-0"), Confined: only("a"),
	})
	require.NoError(t, l.Reserve("web-0", held(t, l, limitedClaim("web-0", "", m)).Slot, "a"), "it has that place itself")
}

// A patch had no answer: it may have had an effect.
func TestAPodThatMayBeReleasedStaysCounted(t *testing.T) {
	l, m := zonedLedger(t, "a", "b"), limitedMix(domains.Limit{Key: corev1.LabelTopologyZone, Count: 1})
	released(t, l, limitedClaim("web-0", "", m), "a")
	held(t, l, limitedClaim("web-1", "", m))
	assert.Equal(t, 0, l.Openings("web-0").Limits[0].Open, "it is not in its own way")
	assert.Equal(t, 1, l.Openings("web-1").Limits[0].Open, "but in that of others")
	require.True(t, l.Lean("web-0", capacity.OnDemand))
	require.True(t, l.Confine("web-0", anyBut("a", "b")))
	assert.Equal(t, map[string]int{"a": 1}, l.Openings("web-1").Limits[0].Excluded, "it may have zone b by the first patch")
	l.Observe(ledger.Bound{
		UID: "web-0", Member: in(webKey), Limited: capacity.OnDemand, Pending: podNamed("web-0"), Confined: anyBut("a", "b"),
	})
	assert.Equal(t, map[string]int{"a": 1, "b": 1}, l.Openings("web-1").Limits[0].Excluded, "now it is seen")
}

func TestPodsAreTriedAgainWhenALimitGrows(t *testing.T) {
	l, m := zonedLedger(t, "a"), limitedMix(domains.Limit{Key: corev1.LabelTopologyZone, Percent: 50})
	var woken []string
	l.Wake = func(pods []*corev1.Pod) {
		woken = append(woken, namesOf(pods)...)
		l.Size() // without the lock
	}
	require.NoError(t, placed(t, l, limitedClaim("web-0", "", m), "a"))
	for _, name := range []string{"web-1", "web-2"} {
		require.ErrorIs(t, placed(t, l, limitedClaim(name, "", m), "a"), ledger.ErrDomainFull)
		l.Refused(types.UID(name))
	}
	require.Empty(t, woken, "1 is 50% of 3")
	held(t, l, limitedClaim("web-3", "", m))
	held(t, l, limitedClaim("web-1", "", m))
	assert.Equal(t, []string{"web-1", "web-2"}, woken, "2 is 50% of 4")
}

func TestAPodOfAUnitGetsTheDomainsThatTheOthersGet(t *testing.T) {
	l, m := zonedLedger(t, "a"), limitedMix(twoPerZone)
	released(t, l, limitedClaim("u-0", "u", m), "a")
	held(t, l, limitedClaim("u-1", "u", m))
	o := l.Openings("u-1")
	assert.True(t, o.Decided)
	assert.Equal(t, anyBut("a"), o.Confined)
	assert.Equal(t, 1, o.Limits[0].Open, "of the unit")
	l.Forget("u-0")
	assert.False(t, l.Openings("u-1").Decided)
}

func TestMoreDomainsThanAPodCanNameAreNotNamed(t *testing.T) {
	l, m := newLedger(t), limitedMix(domains.Limit{Key: corev1.LabelTopologyZone, Count: 1})
	for i := range domains.MaxNamed + 1 {
		name := fmt.Sprint("n-", i)
		l.SetNode(node(name, "on-demand", name))
		require.NoError(t, placed(t, l, limitedClaim(fmt.Sprint("web-", i), "", m), name))
	}
	held(t, l, limitedClaim("next", "", m))
	o := l.Openings("next").Limits[0]
	assert.True(t, o.Unnamed)
	assert.Empty(t, o.Have)
}

// TestLimitsEqualARecount has pods alone and in units claim, be released, be bound, leave and follow others, on nodes that change.
func TestLimitsEqualARecount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := zonedLedger(t, "a", "b", "c")
		mixes := []*governing.Mix{
			limitedMix(twoPerZone), limitedMix(domains.Limit{Key: corev1.LabelTopologyZone, Percent: 100}, domains.Limit{Key: corev1.LabelHostname, Count: 1}),
			limitedMix(),
		}
		m := mixes[0]
		groups := []governing.GroupKey{webKey, {Namespace: "shop", ID: "other"}}
		claim := func(i int) ledger.Claim {
			c := limitedClaim(fmt.Sprint("p-", i), []string{"", "u", "v"}[i%3], m)
			c.Group = groups[i/3%2]
			return c
		}
		confined := func() domains.Confinement {
			if rapid.Bool().Draw(t, "any domain") {
				return nil
			}
			return domains.Confinement{corev1.LabelTopologyZone: {
				Only: rapid.Bool().Draw(t, "only"), Values: []string{rapid.SampledFrom([]string{"a", "b", "x"}).Draw(t, "domain")},
			}}
		}
		nodeName := func() string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node") }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, 11).Draw(t, "pod")
			c := claim(i)
			uid := c.Pod.UID
			switch rapid.IntRange(0, 10).Draw(t, "what") {
			case 0, 1:
				_, _ = l.Claim(c)
			case 2:
				if h, err := l.Claim(c); err == nil {
					_ = l.Reserve(uid, h.Slot, nodeName())
				}
			case 3:
				if _, err := l.Claim(c); err == nil {
					l.Openings(uid)
					if l.Lean(uid, capacity.OnDemand) {
						l.Confine(uid, confined())
					}
				}
			case 4:
				l.Observe(ledger.Bound{UID: uid, Member: c.Member, Limited: capacity.OnDemand, Pending: c.Pod, Claimed: i, Confined: confined()})
			case 5:
				l.Observe(ledger.Bound{UID: uid, Member: c.Member, Node: nodeName(), Claimed: i})
			case 6:
				l.Doubt(uid)
				l.Unreserve(uid)
			case 7:
				l.Forget(uid)
			case 8:
				l.SetNode(node(nodeName(), "on-demand", nodeName()))
			case 9:
				m = rapid.SampledFrom(mixes).Draw(t, "mix")
			case 10:
				c.Group = groups[(i/3+1)%2]
				l.Follow(uid, c.Member, ledger.Version{})
			}
			for _, key := range groups {
				kept, recounted := l.LimitCounts(key)
				require.Equal(t, recounted, kept, "group %s", key.ID)
			}
		}
		for i := range 12 {
			l.Forget(types.UID(fmt.Sprint("p-", i)))
		}
		for _, name := range []string{"a", "b", "c"} {
			l.DeleteNode(name)
		}
		require.Empty(t, slices.Sorted(func(yield func(string) bool) {
			for name := range l.Sizes() {
				if !yield(name) {
					return
				}
			}
		}), "nothing is left")
	})
}
