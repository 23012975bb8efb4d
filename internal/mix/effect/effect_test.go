// SPDX-License-Identifier: Apache-2.0

package effect

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// runner is a group of one runner, at 70 percent.
func runner(n int, changes ...func(*clusterstate.Group)) *clusterstate.Group {
	name := fmt.Sprintf("runner-%d", n)
	g := &clusterstate.Group{
		Key:      governing.GroupKey{Namespace: "ci", ID: name},
		Workload: clusterstate.Workload{APIVersion: "example.com/v1", Kind: "Runner", Namespace: "ci", Name: name, UID: types.UID(name)},
		Replicas: 1, Owners: 1, Governing: &governing.Mix{Source: "capacitymix/ci", Mix: split.New(70, 0)},
		Assignments: []clusterstate.Assignment{{Pod: &clusterstate.Pod{
			Name: name, Owner: &metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Runner", Name: name, UID: types.UID(name)},
		}}},
	}
	for _, change := range changes {
		change(g)
	}
	return g
}

func TestGroupsOfOneAreFoundWhereTheMixHasNoEffect(t *testing.T) {
	replicaSet := func(deployment string) func(*clusterstate.Group) {
		return func(g *clusterstate.Group) {
			g.Workload.APIVersion, g.Workload.Kind, g.Workload.Name = "apps/v1", "Deployment", deployment
			g.Assignments[0].Pod.Owner.APIVersion, g.Assignments[0].Pod.Owner.Kind = "apps/v1", "ReplicaSet"
		}
	}
	both := func(change func(*clusterstate.Group)) []*clusterstate.Group {
		return []*clusterstate.Group{runner(0, change), runner(1, change)}
	}
	const inAll = "2 groups of kind Runner have one replica each, which the mix gives no spot slot: " +
		"set spec.group: Selector, or add the kind to onePodKinds"
	for name, tc := range map[string]struct {
		groups []*clusterstate.Group
		want   string
	}{
		"nothing":                 {nil, ""},
		"one runner":              {[]*clusterstate.Group{runner(0)}, ""},
		"two runners":             {[]*clusterstate.Group{runner(0), runner(1)}, inAll},
		"a floor":                 {both(func(g *clusterstate.Group) { g.Governing.Mix = split.New(100, 1) }), inAll},
		"all on spot":             {both(func(g *clusterstate.Group) { g.Governing.Mix = split.New(100, 0) }), ""},
		"none on spot, by choice": {both(func(g *clusterstate.Group) { g.Governing.Mix = split.New(0, 0) }), ""},
		"no spot by the bound":    {both(func(g *clusterstate.Group) { g.Governing.Mix.MaxSpot = 0 }), ""},
		"two replicas each":       {both(func(g *clusterstate.Group) { g.Replicas = 2 }), ""},
		"sets of several owners":  {both(func(g *clusterstate.Group) { g.Owners = 3 }), ""},
		"sets that have one pod":  {both(func(g *clusterstate.Group) { g.Key.ID = "Runner.example.com/" + g.Key.ID }), ""},
		"a role":                  {both(func(g *clusterstate.Group) { g.Governing.RoleName = "driver" }), ""},
		"by selector":             {both(func(g *clusterstate.Group) { g.Governing.Grouping.By = governing.BySelector }), ""},
		"by top":                  {both(func(g *clusterstate.Group) { g.Governing.Grouping.By = governing.ByTop }), ""},
		"by controller": {
			both(func(g *clusterstate.Group) { g.Governing.Grouping.By = governing.ByController }),
			"2 groups of kind Runner have one replica each, which the mix gives no spot slot: set spec.group: Selector",
		},
		"two Deployments": {
			[]*clusterstate.Group{runner(0, replicaSet("a")), runner(1, replicaSet("b"))},
			"2 groups of kind ReplicaSet have one replica each, which the mix gives no spot slot: set spec.group: Selector",
		},
		"two revisions of a Deployment": {[]*clusterstate.Group{runner(0, replicaSet("a")), runner(1, replicaSet("a"))}, ""},
		"rollouts":                      {both(func(g *clusterstate.Group) { g.Rollout.Rolling = true }), ""},
		"two kinds":                     {[]*clusterstate.Group{runner(0), runner(1, replicaSet("a"))}, ""},
		"the most of two kinds": {
			[]*clusterstate.Group{runner(0, replicaSet("a")), runner(1), runner(2, replicaSet("b")), runner(3), runner(4)},
			"3 groups of kind Runner have one replica each, which the mix gives no spot slot: set spec.group: Selector, or add the kind to onePodKinds",
		},
	} {
		t.Run(name, func(t *testing.T) {
			most, ok := GroupsOfOne(slices.Values(tc.groups))
			assert.Equal(t, tc.want != "", ok)
			if ok {
				assert.Equal(t, tc.want, most.String()+": "+most.Remedy())
			}
		})
	}
}

func TestTheOrderOfGroupsChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var groups []*clusterstate.Group
		for i := range rapid.IntRange(0, 6).Draw(t, "groups") {
			kind := rapid.SampledFrom([]string{"Runner", "Task"}).Draw(t, "kind")
			groups = append(groups, runner(i, func(g *clusterstate.Group) { g.Assignments[0].Pod.Owner.Kind = kind }))
		}
		most, ok := GroupsOfOne(slices.Values(groups))
		again, still := GroupsOfOne(slices.Values(rapid.Permutation(groups).Draw(t, "order")))
		assert.Equal(t, ok, still)
		assert.Equal(t, most, again)
	})
}

func TestPinsCountThePodsOfUnits(t *testing.T) {
	pod := func(pinned bool, labels map[string]string) *clusterstate.Pod {
		return &clusterstate.Pod{Pinned: pinned, Labels: labels}
	}
	queued := map[string]string{"kueue.x-k8s.io/queue-name": "batch"}
	started := map[string]string{"kueue.x-k8s.io/podset": "main"}
	g := &clusterstate.Group{Assignments: []clusterstate.Assignment{
		{Pod: pod(true, nil)},
		{Pod: pod(false, queued)},
		{Pod: pod(true, queued), Pods: []*clusterstate.Pod{pod(true, queued), pod(true, started), pod(false, nil)}},
	}}
	p := PinsOf(slices.Values([]*clusterstate.Group{g}))
	assert.Equal(t, Pins{Pods: 5, Pinned: 3, Kueue: 2}, p)
	assert.Equal(t, "pods that name a capacity type themselves: 3 of 5, of which Kueue manages 2: the flavor of their quota decides their type; "+
		"the mix counts them and decides the type of the other 2", p.String())
	assert.Equal(t, "pods that name a capacity type themselves: 2 of 2; the mix counts them and decides nothing", Pins{Pods: 2, Pinned: 2}.String())
}

func TestWhoPinnedAPodIsReadFromItsFields(t *testing.T) {
	fields := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	template := fields("kube-controller-manager", `{"f:spec":{"f:containers":{},"f:nodeSelector":{}}}`)
	for want, pod := range map[string]*corev1.Pod{
		"":      {ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{template, fields("other", `{"f:metadata":{}}`)}}},
		"quota": {ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{template, fields("quota", `{"f:spec":{"f:nodeSelector":{"f:a":{}}}}`)}}},
		"zoned": {ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{fields("zoned", `{"f:spec":{"f:affinity":{"f:nodeAffinity":{}}}}`)}}},
		"Kueue": {ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"kueue.x-k8s.io/podset": "main"}, ManagedFields: []metav1.ManagedFieldsEntry{template},
		}},
	} {
		assert.Equal(t, want, PinWriter(pod), want)
	}
}
