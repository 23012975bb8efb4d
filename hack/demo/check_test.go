// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

var webMix = split.New(70, 2)

// placed returns n pods of web, each on a node of its slot's type.
func placed(m split.Mix, n int) []pod {
	pods := make([]pod, n)
	for slot := range pods {
		t := m.TypeOf(slot)
		pods[slot] = pod{
			name: "web-" + string(rune('a'+slot)), app: web, node: t.String() + "-0", slot: slot, slotType: t, on: t,
			ready: true,
		}
	}
	return pods
}

// move puts the pod of a slot on a node of another type.
func move(slot int, t capacity.Type) func([]pod) []pod {
	return func(pods []pod) []pod {
		pods[slot].on, pods[slot].node = t, t.String()+"-0"
		return pods
	}
}

// unbind removes the node of the pod of a slot.
func unbind(slot int, why string) func([]pod) []pod {
	return func(pods []pod) []pod {
		p := &pods[slot]
		p.node, p.on, p.slot, p.slotType, p.waits = "", capacity.Unknown, split.NoSlot, capacity.Unknown, why
		return pods
	}
}

func TestExactAcceptsTheSplitOfEverySize(t *testing.T) {
	for n := range 31 {
		require.Empty(t, exact(web, webMix, n, placed(webMix, n)), "%d replicas", n)
	}
}

// Every difference from the mix fails the check that determines the exit code of the demo.
func TestExactNamesWhatDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		doctor func([]pod) []pod
		want   string
	}{
		"one pod too few":      {func(pods []pod) []pod { return pods[:19] }, "web: 19 pods instead of 20"},
		"a pod without a node": {unbind(19, "no free capacity"), "web: 1 of 20 pods have no node"},
		"a spot slot on on-demand": {
			move(3, capacity.OnDemand),
			"web: 13 spot / 7 on-demand instead of 14 spot / 6 on-demand: mix 70% spot, at least 2 on-demand, 20 replicas",
		},
		"an on-demand slot on spot": {move(0, capacity.Spot), "web: slot 0 is on-demand, its pod runs on spot node spot-0"},
		"two pods that changed sides, which the split does not show": {
			func(pods []pod) []pod { return move(0, capacity.Spot)(move(3, capacity.OnDemand)(pods)) },
			"web: slot 3 is spot, its pod runs on on-demand node on-demand-0",
		},
		"a pod on a node of unknown type": {
			move(3, capacity.Unknown),
			"web: 13 spot / 6 on-demand / 1 of unknown type " +
				"instead of 14 spot / 6 on-demand: mix 70% spot, at least 2 on-demand, 20 replicas",
		},
		"a slot held twice":    {func(pods []pod) []pod { pods[3].slot = 2; return pods }, "web: slot 2 is held by web-c and web-d"},
		"a slot without a pod": {func(pods []pod) []pod { pods[3].slot = 24; return pods }, "web: slot 3 is not held"},
		"a pod without a slot": {func(pods []pod) []pod { pods[3].slot = split.NoSlot; return pods }, "web: pod web-d runs without a slot"},
		"a slot marked as of the other type": {
			func(pods []pod) []pod { pods[3].slotType = capacity.OnDemand; return pods },
			"web: slot 3 is annotated as on-demand instead of spot: mix 70% spot, at least 2 on-demand",
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, exact(web, webMix, 20, c.doctor(placed(webMix, 20))), c.want)
		})
	}
}

func TestBorrowedOnlyAllowsSpotSlotsOnOnDemandAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		doctor        func([]pod) []pod
		wantBorrowing int
		want          string
	}{
		"no pod is borrowed":        {doctor: slices.Clone[[]pod]},
		"a spot slot on on-demand":  {doctor: move(3, capacity.OnDemand), wantBorrowing: 1},
		"an on-demand slot on spot": {doctor: move(0, capacity.Spot), want: "web: slot 0 is on-demand, its pod runs on spot node spot-0"},
		"a pod that waits":          {doctor: unbind(3, "no free capacity"), want: "web: pod web-d has no node"},
		"a node of unknown type":    {doctor: move(3, capacity.Unknown), want: "web: pod web-d runs on unknown-0, whose type is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			borrowing, differs := borrowedOnly(web, webMix, 20, c.doctor(placed(webMix, 20)))
			require.Equal(t, c.wantBorrowing, borrowing)
			if c.want == "" {
				require.Empty(t, differs)
			} else {
				require.Contains(t, differs, c.want)
			}
		})
	}
}

func TestPodsBorrowExactlyWhatSpotHasNoCapacityFor(t *testing.T) {
	pic := picture{nodes: []node{
		{name: "spot-0", is: capacity.Spot, podCapacity: 4, accepts: true},
		{name: "spot-1", is: capacity.Spot, podCapacity: 4, cordoned: true},
		{name: "on-demand-0", is: capacity.OnDemand, podCapacity: 4, accepts: true},
	}}
	require.Empty(t, borrowedBecauseFull(2, 6, pic))
	require.Empty(t, borrowedBecauseFull(0, 4, pic))
	require.Equal(t, []string{"3 pods are borrowed instead of 2: 6 spot slots, spot capacity for 4"}, borrowedBecauseFull(3, 6, pic))
	require.NotEmpty(t, borrowedBecauseFull(0, 6, pic))
}

func TestOnlyOnDemandWaitsNamesWhatDiffers(t *testing.T) {
	waits := slotsOf(webMix, capacity.OnDemand, 20, 30)
	require.Equal(t, []int{20, 23, 26}, waits)
	reasons := map[int]string{
		20: "4 Insufficient cpu, slot 20 needs on-demand", 23: "slot 23 needs on-demand", 26: "slot 26 needs on-demand",
	}
	asItMustBe := func() []pod {
		pods := placed(webMix, 30)
		for slot, why := range reasons {
			unbind(slot, why)(pods)
		}
		return pods
	}
	require.Empty(t, onlyOnDemandWaits(web, webMix, 30, waits, asItMustBe()))
	for name, c := range map[string]struct {
		doctor func([]pod) []pod
		want   string
	}{
		"a spot slot waits too": {unbind(22, "no free capacity"), "web: 4 pods are pending instead of 3, of the on-demand slots 20, 23 and 26"},
		"the wrong slot waits":  {unbind(20, "slot 19 needs on-demand"), `web: no pending pod has the reason "slot 20 needs on-demand"`},
		"an on-demand slot borrows": {
			move(0, capacity.Spot),
			"web: 22 pods run on spot instead of 21: mix 70% spot, at least 2 on-demand, 30 replicas",
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, onlyOnDemandWaits(web, webMix, 30, waits, c.doctor(asItMustBe())), c.want)
		})
	}
}

func TestNodesAsLabelledNamesWhatDiffers(t *testing.T) {
	asLabelled := func() picture {
		var pic picture
		for slot, p := range providers {
			pic.nodes = append(pic.nodes, node{name: p.name, is: p.want, rule: "some-rule"})
			if p.want != capacity.Unknown {
				pic.pods = append(pic.pods, pod{name: "on-" + p.name, app: probe, node: p.name, slot: slot, slotType: p.want, on: p.want})
			}
		}
		return pic
	}
	require.Empty(t, nodesAsLabelled(asLabelled()))

	pic := asLabelled()
	pic.nodes[5].is = capacity.Spot
	require.Contains(t, nodesAsLabelled(pic), `node gke-2 is spot by rule "some-rule" instead of on-demand`)
	pic = asLabelled()
	pic.pods[0].node = "unlabeled"
	require.ElementsMatch(t, []string{
		"node karpenter-1 has 0 pods instead of 1", "node unlabeled has 1 pods instead of 0",
		"node unlabeled is unknown, its pod on-karpenter-1 has a slot of type spot",
	}, nodesAsLabelled(pic))
}
