// SPDX-License-Identifier: Apache-2.0

package domains_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/domains"
)

func TestAShareIsRoundedDownAndAtLeastOne(t *testing.T) {
	for name, tc := range map[string]struct {
		limit domains.Limit
		size  int
		want  int
	}{
		"a share":               {domains.Limit{Percent: 34}, 12, 4},
		"a share below one":     {domains.Limit{Percent: 34}, 2, 1},
		"of nothing":            {domains.Limit{Percent: 34}, 0, 1},
		"of a negative number":  {domains.Limit{Percent: 34}, math.MinInt, 1},
		"of any number":         {domains.Limit{Percent: 100}, math.MaxInt, domains.MaxBound * 100},
		"all":                   {domains.Limit{Percent: 100}, 7, 7},
		"a number of any group": {domains.Limit{Count: 2}, 1, 2},
	} {
		assert.Equal(t, tc.want, tc.limit.Max(tc.size), name)
	}
}

func TestLimitsAreValidated(t *testing.T) {
	for want, l := range map[string]domains.Limit{
		"topologyKey: must not be empty":                                {Count: 1},
		"maxPerDomain must have exactly one of maxPercent and maxCount": {Key: "zone", Count: 1, Percent: 1},
		"maxPercent: 101 is not between 1 and 100":                      {Key: "zone", Percent: 101},
		"maxPercent: -1 is not between 1 and 100":                       {Key: "zone", Percent: -1},
		"maxCount: 1000001 is not between 1 and 1000000":                {Key: "zone", Count: 1_000_001},
		"maxCount: -1 is not between 1 and 1000000":                     {Key: "zone", Count: -1},
	} {
		assert.EqualError(t, l.Validate(), want)
	}
	assert.EqualError(t, domains.Limit{Key: "zone"}.Validate(), "maxPerDomain must have exactly one of maxPercent and maxCount")
	assert.NoError(t, domains.Limit{Key: "zone", Percent: 100}.Validate())
	assert.NoError(t, domains.Limit{Key: "zone", Count: domains.MaxBound}.Validate())
}

func TestLimitsAreShownInWords(t *testing.T) {
	assert.Equal(t, "at most 34% of the replicas in one zone", domains.Limit{Key: "zone", Percent: 34}.String())
	assert.Equal(t, "preferably at most 1 replica in one zone", domains.Limit{Key: "zone", Count: 1, Soft: true}.String())
	assert.Equal(t, "node(s) are in a full domain: 2 of at most 2 replicas are in zone-a",
		domains.Refusal{Key: "zone", Value: "zone-a", Have: 2, Max: 2}.Reason())
	assert.Equal(t, "node(s) are in a full domain: 1 of at most 2 replicas are in zone-a, 1 replica without a node may get there",
		domains.Refusal{Key: "zone", Value: "zone-a", Have: 1, Max: 2, Open: 1}.Reason())
	assert.Equal(t, "node(s) lack the label zone of maxPerDomain", domains.Refusal{Key: "zone", Unlabelled: true}.Reason())
}

func TestAUnitCountsOnceInADomain(t *testing.T) {
	var c domains.Counts
	a, b := map[string]string{"zone": "a"}, map[string]string{"zone": "b"}
	c.Add(a, "zone", "u")
	c.Add(a, "zone", "u")
	c.Add(b, "zone", "u")
	c.Add(a, "zone", "")
	c.Add(nil, "zone", "")
	assert.Equal(t, []string{"a"}, c.Full("", 2))
	assert.Empty(t, c.Full("u", 2), "a domain that has a pod of the unit admits the others")
	r, refused := c.Refuse(a, "zone", "", 2)
	assert.True(t, refused)
	assert.Equal(t, domains.Refusal{Key: "zone", Value: "a", Have: 2, Max: 2}, r)
	_, refused = c.Refuse(a, "zone", "u", 2)
	assert.False(t, refused)
	_, refused = c.Refuse(b, "zone", "", 2)
	assert.False(t, refused)
	r, refused = c.Refuse(nil, "zone", "", 2)
	assert.True(t, refused)
	assert.True(t, r.Unlabelled, "a node without the label is in no domain")
}

// zones are nodes, one in each of some zones.
func zones(names ...string) []map[string]string {
	nodes := make([]map[string]string, len(names))
	for i, name := range names {
		nodes[i] = map[string]string{"zone": name}
	}
	return nodes
}

func exists(key string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpExists}
}

func notIn(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpNotIn, Values: values}
}

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func TestAReleasedPodExcludesFullDomains(t *testing.T) {
	for name, tc := range map[string]struct {
		limits []domains.Occupancy
		nodes  []map[string]string
		want   []corev1.NodeSelectorRequirement
		ok     bool
	}{
		"the first": {
			[]domains.Occupancy{{Key: "zone", Max: 2}}, zones("a"), []corev1.NodeSelectorRequirement{exists("zone")}, true,
		},
		"one domain is full": {
			[]domains.Occupancy{{Key: "zone", Max: 2, Have: map[string]int{"a": 2, "b": 1}}},
			zones("a", "b"),
			[]corev1.NodeSelectorRequirement{exists("zone"), notIn("zone", "a")},
			true,
		},
		"all that there are": {
			[]domains.Occupancy{{Key: "zone", Max: 2, Have: map[string]int{"b": 2, "a": 2}}},
			zones("a", "b"),
			[]corev1.NodeSelectorRequirement{exists("zone"), notIn("zone", "a", "b")},
			true,
		},
		"one that waits may fill a domain, and another is free": {
			[]domains.Occupancy{{Key: "zone", Max: 2, Have: map[string]int{"a": 1}, Open: 1}},
			zones("a", "b"),
			[]corev1.NodeSelectorRequirement{exists("zone"), notIn("zone", "a")},
			true,
		},
		"one that waits may fill the only domain": {
			[]domains.Occupancy{{Key: "zone", Max: 2, Have: map[string]int{"a": 1}, Open: 1}}, zones("a"), nil, false,
		},
		"one that waits does not get the domain": {
			[]domains.Occupancy{
				{Key: "zone", Max: 2, Have: map[string]int{"a": 1}, Open: 1, Excluded: map[string]int{"a": 1}},
			},
			zones("a"),
			[]corev1.NodeSelectorRequirement{exists("zone")},
			true,
		},
		"those that wait may fill any domain": {
			[]domains.Occupancy{{Key: "zone", Max: 2, Open: 2}}, zones("a", "b"), nil, false,
		},
		"those that wait do not get one domain": {
			[]domains.Occupancy{{Key: "zone", Max: 1, Have: map[string]int{"b": 1}, Open: 1, Excluded: map[string]int{"a": 1, "b": 1}}},
			zones("a", "b"),
			[]corev1.NodeSelectorRequirement{exists("zone"), in("zone", "a")},
			true,
		},
		"one that waits gets one domain only": {
			[]domains.Occupancy{{Key: "zone", Max: 1, Named: map[string]int{"a": 1}}},
			zones("a", "b"),
			[]corev1.NodeSelectorRequirement{exists("zone"), notIn("zone", "a")},
			true,
		},
		"one that waits gets the only domain": {
			[]domains.Occupancy{{Key: "zone", Max: 1, Named: map[string]int{"a": 1}}}, zones("a"), nil, false,
		},
		"the unit is there already": {
			[]domains.Occupancy{{Key: "zone", Max: 1, Have: map[string]int{"a": 1}, Open: 1, Own: map[string]bool{"a": true}}},
			zones("a", "b"),
			[]corev1.NodeSelectorRequirement{exists("zone"), in("zone", "a")},
			true,
		},
		"of two keys, one has domains that those that wait do not get": {
			[]domains.Occupancy{
				{Key: "zone", Max: 1, Open: 1, Excluded: map[string]int{"a": 1, "b": 1}},
				{Key: "rack", Max: 2, Have: map[string]int{"r": 2}, Open: 1},
			},
			[]map[string]string{{"zone": "a", "rack": "r"}, {"zone": "b", "rack": "s"}, {"zone": "c", "rack": "s"}, {"zone": "b"}},
			[]corev1.NodeSelectorRequirement{exists("zone"), in("zone", "b"), exists("rack"), notIn("rack", "r")},
			true,
		},
		"no node": {
			[]domains.Occupancy{{Key: "zone", Max: 2, Have: map[string]int{"a": 2}}},
			nil,
			[]corev1.NodeSelectorRequirement{exists("zone"), notIn("zone", "a")},
			true,
		},
		"nodes of no domain": {
			[]domains.Occupancy{{Key: "zone", Max: 2}},
			[]map[string]string{{}},
			[]corev1.NodeSelectorRequirement{exists("zone")},
			true,
		},
		"too many domains to name": {
			[]domains.Occupancy{{Key: "host", Max: 1, Have: map[string]int{"a": 1}, Open: 3, Unnamed: true}},
			zones("a"),
			[]corev1.NodeSelectorRequirement{exists("host")},
			true,
		},
		"of two keys, each closes a node": {
			[]domains.Occupancy{{Key: "zone", Max: 1, Have: map[string]int{"a": 1}}, {Key: "rack", Max: 1, Have: map[string]int{"r": 1}}},
			[]map[string]string{{"zone": "a", "rack": "s"}, {"zone": "b", "rack": "r"}},
			[]corev1.NodeSelectorRequirement{exists("zone"), notIn("zone", "a"), exists("rack"), notIn("rack", "r")},
			true,
		},
	} {
		to, ok := domains.Release(tc.limits, slices.Values(tc.nodes))
		assert.Equal(t, tc.ok, ok, name)
		if tc.ok {
			got := domains.Requirements(tc.limits, to)
			assert.Equal(t, tc.want, got, name)
			assert.Len(t, domains.ConfinedBy(got), len(to), name)
			for key := range to {
				assert.Equal(t, to[key], domains.ConfinedBy(got)[key], name)
			}
			assert.True(t, domains.Safe(tc.limits, to), name)
		}
	}
}

func TestAConfinementIsReadOncePerKey(t *testing.T) {
	got := domains.ConfinedBy([]corev1.NodeSelectorRequirement{
		exists("zone"), notIn("zone", "b", "a", "b"), notIn("zone", "c"), in("zone", "d"), in("rack", "r"), exists("host"),
	})
	assert.Equal(t, domains.Confinement{"zone": {Values: []string{"a", "b"}}, "rack": {Only: true, Values: []string{"r"}}}, got)
	assert.Empty(t, domains.ConfinedBy(nil))
}

// TestEitherAllowsWhatOneOfTwoAllows also has domains that neither names.
func TestEitherAllowsWhatOneOfTwoAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) domains.Confinement {
			if rapid.Bool().Draw(t, name+" any") {
				return nil
			}
			values := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID[string]).Draw(t, name)
			return domains.Confinement{"zone": {Only: rapid.Bool().Draw(t, name+" only"), Values: values}}
		}
		x, y := draw("x"), draw("y")
		either := domains.Either(x, y)
		for _, value := range []string{"a", "b", "c", "new"} {
			if want := x["zone"].Allows(value) || y["zone"].Allows(value); either["zone"].Allows(value) != want {
				t.Fatalf("%v or %v: %v", x, y, either)
			}
		}
	})
}

func TestAConfinementIsSafeIfNoDomainCanBeExceeded(t *testing.T) {
	limits := []domains.Occupancy{{Key: "zone", Max: 1, Have: map[string]int{"a": 1}}}
	only := func(values ...string) domains.Confinement {
		return domains.Confinement{"zone": {Only: true, Values: values}}
	}
	assert.False(t, domains.Safe(limits, nil))
	assert.True(t, domains.Safe(limits, domains.Confinement{"zone": {Values: []string{"a"}}}))
	assert.False(t, domains.Safe(limits, only("a", "b")))
	assert.True(t, domains.Safe(limits, only("b")))
	limits[0].Open, limits[0].Excluded = 1, map[string]int{"a": 1, "b": 1}
	assert.False(t, domains.Safe(limits, domains.Confinement{"zone": {Values: []string{"a"}}}), "those that wait may fill any other domain")
	assert.True(t, domains.Safe(limits, only("b")))
}

// released is a pod whose gate was removed and which has no node yet.
type released struct {
	requirements []corev1.NodeSelectorRequirement
}

func (r released) admits(node map[string]string) bool {
	n := &corev1.Node{}
	n.Labels = node
	match, err := nodeaffinity.NewLazyErrorNodeSelector(&corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: r.requirements}},
	}).Match(n)
	return err == nil && match
}

// occupancyOf is how full zones are that have some replicas, and may get some that wait.
func occupancyOf(most int, have map[string]int, waiting []released) domains.Occupancy {
	o := domains.Occupancy{Key: "zone", Max: most, Have: have, Excluded: map[string]int{}, Named: map[string]int{}}
	for _, w := range waiting {
		c := domains.ConfinedBy(w.requirements)["zone"]
		counts := o.Excluded
		if c.Only {
			counts = o.Named
		} else {
			o.Open++
		}
		for _, value := range c.Values {
			counts[value]++
		}
	}
	return o
}

// couldTakeOneMore reports whether a zone has room for one more even if all that wait go there that may.
func couldTakeOneMore(zone map[string]string, most int, have map[string]int, waiting []released) bool {
	n := have[zone["zone"]]
	for _, w := range waiting {
		if w.admits(zone) {
			n++
		}
	}
	return n < most
}

// TestNoSchedulerOverfillsADomain releases pods and has them bound to any node that their affinity admits, in any order, also to nodes
// of domains that come later. No domain ever has more than it may, and a pod is held back only while no zone has room for it for certain.
func TestNoSchedulerOverfillsADomain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		known := zones("a", "b")[:rapid.IntRange(0, 2).Draw(t, "known")]
		have := map[string]int{}
		var waiting []released
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"release", "bind", "leave", "node", "fail"}).Draw(t, "step") {
			case "release":
				all := []domains.Occupancy{occupancyOf(limit, have, waiting)}
				to, ok := domains.Release(all, slices.Values(known))
				switch {
				case ok:
					waiting = append(waiting, released{domains.Requirements(all, to)})
				case len(waiting) == 0:
					t.Fatal("held back for no one")
				case slices.ContainsFunc(known, func(zone map[string]string) bool { return couldTakeOneMore(zone, limit, have, waiting) }):
					t.Fatal("held back although a zone has room")
				}
			case "bind":
				if len(waiting) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "pod")
				open := slices.DeleteFunc(slices.Clone(known), func(n map[string]string) bool { return !waiting[i].admits(n) })
				if len(open) == 0 {
					continue
				}
				have[rapid.SampledFrom(open).Draw(t, "node")["zone"]]++
				waiting = slices.Delete(waiting, i, i+1)
			case "leave":
				for value := range have {
					if have[value]--; have[value] == 0 {
						delete(have, value)
					}
					break
				}
			case "node":
				known = append(slices.Clone(known), map[string]string{"zone": fmt.Sprint("new-", len(known))})
			case "fail": // the replicas of a zone are gone at once
				if len(known) > 0 {
					delete(have, rapid.SampledFrom(known).Draw(t, "zone")["zone"])
				}
			}
			for value, n := range have {
				if n > limit {
					t.Fatalf("%d of at most %d in %s", n, limit, value)
				}
			}
		}
	})
}
