// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/test/clitest"
)

// Units are counted as one replica each, roles have their name, and owners of one pod are named by their set.
func TestGroupsInTheOutputs(t *testing.T) {
	s := clitest.GroupShop()
	c := s.Cluster(t)
	clitest.Goldens(t, "groups-status.stderr", map[string]string{"groups-status.txt": printers.Text, "groups-status.json": printers.JSON},
		func(o *command.Options) error { return showStatus(o, overview.StatusOf(c, ""), "shop", nil) })
	clitest.Golden(t, "groups-explain.txt", explained(t, c, nil))
	p := plannedWith(t, s, nil)
	out, _ := clitest.Printed(t, printers.Text, func(o *command.Options) error { return showPlan(o, p) })
	assert.Regexp(t, `LeaderWorkerSet/llm +<none> +4 units +1/2 +2/2 +4/0 +2 +0 +2 `, out)
	assert.Contains(t, out, "LeaderWorkerSet llm: 1 unit pending or on departing nodes")
}

// plannedWith is the plan of more spot for a LeaderWorkerSet with an owner as it was read, nil for one that was not.
func plannedWith(t *testing.T, s *clitest.Shop, owner *rebalance.Scale) *overview.Plan {
	t.Helper()
	c := s.Cluster(t)
	if owner != nil {
		c.Owner = func(_ context.Context, w clusterstate.Workload) rebalance.Scale {
			assert.Equal(t, "LeaderWorkerSet llm", w.String())
			return *owner
		}
	}
	changes := []overview.MixChange{changed(s, "llm", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 100 })}
	p, err := overview.PlanOf(t.Context(), c, changes, overview.Ample{}, clitest.Now)
	require.NoError(t, err)
	return p
}

// The move of a unit is one row, and one that the controller would refuse is a blocked one.
func TestAPlanShowsTheMovesOfUnits(t *testing.T) {
	s := clitest.GroupShop()
	p := plannedWith(t, s, &rebalance.Scale{Restart: rebalance.RestartWhole, Replicas: 4, Known: true})
	out, _ := clitest.Printed(t, printers.Text, func(o *command.Options) error { return showPlan(o, p) })
	clitest.Golden(t, "plan-units.txt", out)
	require.Len(t, p.Moves, 2)
	assert.Equal(t, "key-2", p.Moves[0].Unit)
	assert.Equal(t, []overview.UnitPod{{Pod: "llm-2-0"}, {Pod: "llm-2-1"}}, p.Moves[0].Pods)

	for how, why := range map[rebalance.Restart]string{
		rebalance.RestartUnknown: "it is not known that its LeaderWorkerSet creates all 2 of them again if one ends, because it could not be read",
		rebalance.RestartSingle:  "its LeaderWorkerSet does not create all 2 of them again if one ends",
	} {
		p = plannedWith(t, s, &rebalance.Scale{Restart: how})
		assert.Empty(t, p.Moves)
		require.Len(t, p.Blocked, 2)
		assert.Equal(t, rebalance.ReasonUnitWouldRestart.Name, p.Blocked[0].Reason)
		assert.Contains(t, p.Blocked[0].Message, why)
	}
}

// The controller may lack a right that the user has.
func TestAPlanFollowsTheRefusalOfTheController(t *testing.T) {
	s := clitest.GroupShop()
	for _, m := range s.Mixes {
		m.Status.ObservedGeneration = 1
		m.Status.Workloads = []v1alpha1.WorkloadMix{{Kind: "LeaderWorkerSet", Name: "llm", Blocked: &v1alpha1.BlockedMove{Reason: rebalance.ReasonUnitWouldRestart.Name}}}
	}
	p := plannedWith(t, s, &rebalance.Scale{Restart: rebalance.RestartWhole, Replicas: 4, Known: true})
	assert.Empty(t, p.Moves)
	require.Len(t, p.Blocked, 2)
	assert.Equal(t, rebalance.ReasonUnitWouldRestart.Name, p.Blocked[0].Reason)
}

// Explain has the verdict of the controller about each pod of a unit.
func TestExplainShowsWhetherAUnitMoves(t *testing.T) {
	s := clitest.GroupShop()
	s.Mixes[0].Spec.SpotPercent = 100
	for how, want := range map[rebalance.Restart]string{
		rebalance.RestartWhole: rebalance.ReasonMove.Name, rebalance.RestartSingle: rebalance.ReasonUnitWouldRestart.Name,
	} {
		c := s.Cluster(t)
		c.Owner = func(context.Context, clusterstate.Workload) rebalance.Scale { return rebalance.Scale{Restart: how} }
		for _, p := range s.Pods { // a waiting pod would delay all moves
			if p.Name == "llm-3-1" {
				c.State.DeletePod(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, "")
			}
		}
		for _, pod := range []string{"llm-2-0", "llm-2-1"} {
			assert.Equal(t, want, ofPod(t, c, pod).Move.Reason, pod)
		}
	}
}

// ofPod is the explanation of a pod of a cluster.
func ofPod(t *testing.T, c *overview.Cluster, name string) *overview.Explanation {
	t.Helper()
	q := overview.PodQuestion{Cluster: c, Pod: c.Pod("shop", name), Now: clitest.Now}
	q.Room = func() (overview.Room, func(), error) { return overview.Ample{}, func() {}, nil }
	e, err := overview.Explain(context.Background(), q)
	require.NoError(t, err)
	return e
}

func TestExplainHasTheGroupAndTheUnitAsValues(t *testing.T) {
	s := clitest.GroupShop()
	by := map[string]string{}
	for _, p := range s.Pods {
		by[p.Name] = string(ofPod(t, s.Cluster(t), p.Name).Group.By)
	}
	for name, want := range map[string]string{
		"llm-0-1": "Set", "runner-0": "OnePodKind", "pi-driver": "Selector", "pi-exec-0": "Selector", "build-0": "Name", "one-7dd8c6474c-0": "Controller",
	} {
		assert.Equal(t, want, by[name], name)
	}
	c := s.Cluster(t)
	g := ofPod(t, c, "llm-3-0").Group
	assert.Equal(t, overview.Parts{Units: 4, Pods: 8, Owners: 5}, g.Parts)
	assert.Equal(t, &overview.UnitFacts{
		Name: "key-3", By: "label leaderworkerset.sigs.k8s.io/group-key", RunsOn: "spot", Pending: 1,
		Pods: []overview.UnitPod{{Pod: "llm-3-0", Node: "s1", NodeType: "spot"}, {Pod: "llm-3-1"}},
	}, g.Unit)
	assert.Equal(t, "driver", ofPod(t, c, "pi-driver").Group.Role)

	c.Problems = []overview.Problem{{Resource: "nodes"}}
	assert.Equal(t, "unknown", ofPod(t, c, "llm-0-0").Group.Unit.RunsOn, "a node that was not read has no type")
}

func TestExplainNamesWhoChoseTheTypeOfAPod(t *testing.T) {
	s := clitest.GroupShop()
	pod := s.Cluster(t).Pod("shop", "runner-0")
	pod.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "on-demand"}
	const rest = ": it counts towards the mix, but Berth does not choose the type of its node."
	assert.Contains(t, ofPod(t, s.Cluster(t), "runner-0").Why, "It names a capacity type in its own nodeSelector or affinity"+rest)
	pod.Labels["kueue.x-k8s.io/queue-name"] = "batch"
	assert.Contains(t, ofPod(t, s.Cluster(t), "runner-0").Why, "It names a capacity type in its own nodeSelector or affinity, which Kueue wrote"+rest)
}
