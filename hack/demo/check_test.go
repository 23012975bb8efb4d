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
		pods[slot] = pod{name: "web-" + string(rune('a'+slot)), app: web, node: t.String() + "-0", slot: slot, wants: t, on: t, ready: true}
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

// unbind takes its node from the pod of a slot.
func unbind(slot int, why string) func([]pod) []pod {
	return func(pods []pod) []pod {
		p := &pods[slot]
		p.node, p.on, p.slot, p.wants, p.waits = "", capacity.Unknown, split.NoSlot, capacity.Unknown, why
		return pods
	}
}

func TestExactAcceptsTheSplitOfEverySize(t *testing.T) {
	for n := range 31 {
		require.Empty(t, exact(web, webMix, n, placed(webMix, n)), "%d replicas", n)
	}
}

// Every way in which pods can differ from their mix fails the check that the
// exit code of the demo hangs on.
func TestExactNamesWhatDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		doctor func([]pod) []pod
		want   string
	}{
		"one pod too few": {
			doctor: func(pods []pod) []pod { return pods[:19] },
			want:   "web: 19 pods instead of 20",
		},
		"a pod without a node": {
			doctor: unbind(19, "no room"),
			want:   "web: 1 of 20 pods have no node",
		},
		"a spot slot on on-demand": {
			doctor: move(3, capacity.OnDemand),
			want:   "web: 13 spot / 7 on-demand run, the mix (70% spot, at least 2 on-demand) says 14 spot / 6 on-demand for 20 replicas",
		},
		"an on-demand slot on spot": {
			doctor: move(0, capacity.Spot),
			want:   "web: slot 0 is on-demand, its pod runs on spot node spot-0",
		},
		"two pods that changed sides, which the split does not show": {
			doctor: func(pods []pod) []pod { return move(0, capacity.Spot)(move(3, capacity.OnDemand)(pods)) },
			want:   "web: slot 3 is spot, its pod runs on on-demand node on-demand-0",
		},
		"a pod on a node of unknown type": {
			doctor: move(3, capacity.Unknown),
			want:   "web: 13 spot / 6 on-demand / 1 of unknown type run, the mix (70% spot, at least 2 on-demand) says 14 spot / 6 on-demand for 20 replicas",
		},
		"a slot held twice": {
			doctor: func(pods []pod) []pod { pods[3].slot = 2; return pods },
			want:   "web: slot 2 is held by web-c and web-d",
		},
		"a slot that nobody holds": {
			doctor: func(pods []pod) []pod { pods[3].slot = 24; return pods },
			want:   "web: slot 3 is not held",
		},
		"a pod without a slot": {
			doctor: func(pods []pod) []pod { pods[3].slot = split.NoSlot; return pods },
			want:   "web: pod web-d runs without a slot",
		},
		"a slot marked as of the other type": {
			doctor: func(pods []pod) []pod { pods[3].wants = capacity.OnDemand; return pods },
			want:   "web: slot 3 is marked on-demand, the mix (70% spot, at least 2 on-demand) makes it spot",
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
		"nobody borrows":            {doctor: slices.Clone[[]pod]},
		"a spot slot on on-demand":  {doctor: move(3, capacity.OnDemand), wantBorrowing: 1},
		"an on-demand slot on spot": {doctor: move(0, capacity.Spot), want: "web: slot 0 is on-demand, its pod runs on spot node spot-0"},
		"a pod that waits":          {doctor: unbind(3, "no room"), want: "web: pod web-d has no node"},
		"a node of unknown type":    {doctor: move(3, capacity.Unknown), want: "web: pod web-d runs on unknown-0, whose type is not known"},
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

func TestPodsBorrowExactlyWhatSpotHasNoRoomFor(t *testing.T) {
	pic := picture{nodes: []node{
		{name: "spot-0", is: capacity.Spot, room: 4, accepts: true},
		{name: "spot-1", is: capacity.Spot, room: 4, cordoned: true},
		{name: "on-demand-0", is: capacity.OnDemand, room: 4, accepts: true},
	}}
	require.Empty(t, borrowedBecauseFull(2, 6, pic))
	require.Empty(t, borrowedBecauseFull(0, 4, pic))
	require.Equal(t, []string{"3 pods borrow on-demand; 6 spot slots and spot room for 4 make it 2"}, borrowedBecauseFull(3, 6, pic))
	require.NotEmpty(t, borrowedBecauseFull(0, 6, pic))
}

func TestOnlyOnDemandWaitsNamesWhatDiffers(t *testing.T) {
	waits := slotsOf(webMix, capacity.OnDemand, 20, 30)
	require.Equal(t, []int{20, 23, 26}, waits)
	says := map[int]string{20: "4 Insufficient cpu, slot 20 needs on-demand", 23: "slot 23 needs on-demand", 26: "slot 26 needs on-demand"}
	asItMustBe := func() []pod {
		pods := placed(webMix, 30)
		for slot, why := range says {
			unbind(slot, why)(pods)
		}
		return pods
	}
	require.Empty(t, onlyOnDemandWaits(web, webMix, 30, waits, asItMustBe()))
	for name, c := range map[string]struct {
		doctor func([]pod) []pod
		want   string
	}{
		"a spot slot waits too":     {unbind(22, "no room"), "web: 4 pods wait, not the 3 of the on-demand slots 20, 23 and 26"},
		"the wrong slot waits":      {unbind(20, "slot 19 needs on-demand"), `web: no pod that waits says "slot 20 needs on-demand"`},
		"an on-demand slot borrows": {move(0, capacity.Spot), "web: 22 pods run on spot, the mix (70% spot, at least 2 on-demand) says 21 for 30 replicas"},
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
				pic.pods = append(pic.pods, pod{name: "on-" + p.name, app: probe, node: p.name, slot: slot, wants: p.want, on: p.want})
			}
		}
		return pic
	}
	require.Empty(t, nodesAsLabelled(asLabelled()))

	pic := asLabelled()
	pic.nodes[5].is = capacity.Spot
	require.Contains(t, nodesAsLabelled(pic), `node gke-2 is spot by rule "some-rule", its labels mean on-demand`)
	pic = asLabelled()
	pic.pods[0].node = "nothing-said"
	require.ElementsMatch(t, []string{
		"node karpenter-1 has 0 pods instead of 1", "node nothing-said has 1 pods instead of 0",
		"node nothing-said is unknown, its pod on-karpenter-1 holds a slot that is spot",
	}, nodesAsLabelled(pic))
}
