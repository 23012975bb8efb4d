// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// nodesOfEachType: s is spot, o on-demand, u unknown, gone-s and gone-o depart.
func nodesOfEachType() []metav1.Object {
	return []metav1.Object{
		nodeOf("s", capacity.Spot), nodeOf("o", capacity.OnDemand), nodeOf("u", capacity.Unknown),
		nodeOf("gone-s", capacity.Spot, departing), nodeOf("gone-o", capacity.OnDemand, departing),
	}
}

func one(t *testing.T, f *State) Group {
	t.Helper()
	groups := f.Groups(namespaceName)
	require.Len(t, groups, 1)
	return groups[0]
}

// lines are assignments as "slot name on place".
func lines(g Group) (out []string) {
	for _, s := range g.Assignments {
		place := map[Place]string{Settled: "settled", Departing: "departing", Pending: "pending"}[s.Place]
		out = append(out, fmt.Sprintf("%d %s on %s, %s", s.Slot, s.Pod.Name, s.On, place))
	}
	return out
}

// The default mix has the slots O O S S S S O S S S.
func TestAssignments(t *testing.T) {
	rs := replicaSet("rs", 9)
	mine := owned(rs)
	set := statefulSet("db", 3)
	set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5}
	indexed := job("j")
	index := func(i string) a[*corev1.Pod] { return annotated(batchv1.JobCompletionIndexAnnotation, i) }
	tests := map[string]struct {
		objects []metav1.Object
		want    []string
	}{
		"pods stand on the slots that they claimed": {
			[]metav1.Object{podNamed("a", mine, on("s"), slot(4)), podNamed("b", mine, on("o"), slot(0))},
			[]string{"0 b on on-demand, settled", "4 a on spot, settled"},
		},
		"a pod without a slot takes the lowest of the type it runs on": {
			[]metav1.Object{podNamed("a", mine, on("s")), podNamed("b", mine, on("o"))},
			[]string{"0 b on on-demand, settled", "2 a on spot, settled"},
		},
		"pending pods take the lowest free slots by age": {
			[]metav1.Object{podNamed("young", mine, made(9)), podNamed("old", mine, made(1)), podNamed("a", mine, on("o"), slot(1))},
			[]string{"0 old on on-demand, pending", "1 a on on-demand, settled", "2 young on spot, pending"},
		},
		"departing pods count as on the type of their slot": {
			[]metav1.Object{podNamed("a", mine, on("gone-s"), slot(1)), podNamed("b", mine, on("gone-o"), slot(0))},
			[]string{"0 b on on-demand, departing", "1 a on on-demand, departing"},
		},
		"of two with the same slot the oldest keeps it": {
			[]metav1.Object{podNamed("young", mine, on("s"), slot(2), made(5)), podNamed("old", mine, on("s"), slot(2))},
			[]string{"2 old on spot, settled", "3 young on spot, settled"},
		},
		"terminating and finished pods hold no slot": {
			[]metav1.Object{podNamed("a", mine, on("o"), slot(0), terminating), podNamed("b", mine, on("o"), slot(1), finished), podNamed("c", mine)},
			[]string{"0 c on on-demand, pending"},
		},
		"an absurd slot is no slot": {
			[]metav1.Object{podNamed("a", mine, on("s"), annotated(v1alpha1.SlotAnnotation, "99999999"))},
			[]string{"2 a on spot, settled"},
		},
		"a node that is not known is of unknown type": {
			[]metav1.Object{podNamed("a", mine, on("never-seen"), slot(2)), podNamed("b", mine, on("u"), slot(3))},
			[]string{"2 a on unknown, settled", "3 b on unknown, settled"},
		},
		"a StatefulSet's pods have the slots of their ordinals, whatever they carry": {
			[]metav1.Object{set, podNamed("db-7", owned(set), on("s"), slot(0)), podNamed("db-5", owned(set), on("o"), slot(9)), podNamed("db-6", owned(set))},
			[]string{"0 db-5 on on-demand, settled", "1 db-6 on on-demand, pending", "2 db-7 on spot, settled"},
		},
		"a StatefulSet that is not known counts ordinals from 0": {
			[]metav1.Object{podNamed("db-2", owned(set), on("s"))},
			[]string{"2 db-2 on spot, settled"},
		},
		"an Indexed Job's pods have the slots of their indexes": {
			[]metav1.Object{indexed, podNamed("x", owned(indexed), index("3")), podNamed("y", owned(indexed), index("0"), on("o"))},
			[]string{"0 y on on-demand, settled", "3 x on spot, pending"},
		},
		"a second pod of an index is assigned beside it": {
			[]metav1.Object{podNamed("x", owned(indexed), index("2"), on("s")), podNamed("y", owned(indexed), index("2"), made(1))},
			[]string{"2 x on spot, settled", "3 y on spot, pending"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := one(t, fill(newClusterState(), append(nodesOfEachType(), tc.objects...)...))
			assert.Equal(t, tc.want, lines(g))
		})
	}
}

func TestPodsHaveTheSlotsOfSplitAssign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := fill(newClusterState(), nodesOfEachType()[:3]...)
		var pods []split.Pod
		for i := range rapid.IntRange(1, 12).Draw(t, "pods") {
			node := rapid.SampledFrom([]string{"s", "o", "u"}).Draw(t, "node")
			age, claimed := rapid.IntRange(0, 4).Draw(t, "age"), rapid.IntRange(-1, 9).Draw(t, "slot")
			p := podNamed(fmt.Sprintf("p-%d", i), ownedBy("apps/v1", "ReplicaSet", "rs", "rs"), on(node), made(age))
			if claimed >= 0 {
				slot(claimed)(p)
			}
			f.SetPod(p)
			pods = append(pods, split.Pod{ID: string(p.UID), Created: p.CreationTimestamp.UnixNano(), Slot: claimed, On: f.Node(node).Type})
		}
		g := f.Groups(namespaceName)[0]
		var got []split.Assignment
		for _, s := range g.Assignments {
			got = append(got, s.Assignment)
		}
		require.Equal(t, split.Assign(g.Governing.Mix, pods), got)
		wrong := map[string]bool{}
		for _, s := range split.WrongSide(g.Governing.Mix, got, 0) {
			wrong[s.ID] = true
		}
		require.Len(t, g.WrongSide(), len(wrong))
		for _, s := range g.WrongSide() {
			require.True(t, wrong[s.ID])
		}
	})
}

func TestWrongSideNamesOnlySettledPods(t *testing.T) {
	rs := replicaSet("rs", 4)
	mine := owned(rs)
	g := one(t, fill(newClusterState(), append(nodesOfEachType(), rs,
		podNamed("a", mine, on("o"), slot(0)), podNamed("b", mine, on("gone-o"), slot(2)),
		podNamed("c", mine, on("o"), slot(3)), podNamed("d", mine))...))
	assert.Equal(t, []string{"0 a on on-demand, settled", "1 d on on-demand, pending", "2 b on spot, departing", "3 c on on-demand, settled"}, lines(g))
	wrong := g.WrongSide()
	require.Len(t, wrong, 1)
	assert.Equal(t, "c", wrong[0].Pod.Name)
	assert.Equal(t, split.Count{OnDemand: 2}, g.Actual())
	assert.Equal(t, 1, g.Borrowed())
	pending, leaving, settled := g.Counts()
	assert.Equal(t, []int{1, 1, 2}, []int{pending, leaving, settled})
	assert.False(t, g.Satisfied())

	// Both b and d are on spot slots too high for a group of three; b leaves by itself.
	g = one(t, fill(newClusterState(), append(nodesOfEachType(),
		podNamed("a", mine, on("s"), slot(2)), podNamed("b", mine, on("gone-s"), slot(9)), podNamed("d", mine, on("s"), slot(8)))...))
	wrong = g.WrongSide()
	require.Len(t, wrong, 1)
	assert.Equal(t, "d", wrong[0].Pod.Name)
}

// Nine of ten are there, exactly as the mix has them: the tenth is missing, and
// no one is on the wrong side for it.
func TestAMissingReplicaPutsNoPodOnTheWrongSide(t *testing.T) {
	rs := replicaSet("rs", 10)
	f := fill(newClusterState(), append(nodesOfEachType(), rs)...)
	for i := 1; i < 10; i++ {
		node := "s"
		if split.New(70, 2).TypeOf(i) == capacity.OnDemand {
			node = "o"
		}
		f.SetPod(podNamed(fmt.Sprintf("p-%d", i), owned(rs), on(node), slot(i)))
	}
	g := one(t, f)
	assert.Empty(t, g.WrongSide())
	pending, _, settled := g.Counts()
	assert.Equal(t, []int{1, 9}, []int{pending, settled})
}

// A ReplicaSet may delete another pod than the one with the highest slot. Where more is about to change, the next pod fills the gap.
func TestGapsAreClosedOnceNothingChanges(t *testing.T) {
	gap := []string{"0 a on spot, settled", "1 b on on-demand, settled", "5 c on on-demand, settled"}
	for name, c := range map[string]struct {
		replicas int32
		changes  func(c *corev1.Pod)
		more     []metav1.Object
		want     []string
	}{
		"all replicas run":              {replicas: 3, want: []string{"0 a on spot, settled", "1 b on on-demand, settled", "2 c on on-demand, settled"}},
		"a replica is missing":          {replicas: 4, want: gap},
		"there is one too many":         {replicas: 2, want: gap},
		"another pod still terminates":  {replicas: 3, more: []metav1.Object{podNamed("z", owned(replicaSet("rs", 3)), on("o"), slot(2), terminating)}, want: gap},
		"an evicted pod would be fatal": {replicas: 3, changes: func(c *corev1.Pod) { c.Spec.RestartPolicy = corev1.RestartPolicyNever }, want: gap},
	} {
		t.Run(name, func(t *testing.T) {
			rs := replicaSet("rs", c.replicas)
			last := podNamed("c", owned(rs), on("o"), slot(5))
			if c.changes != nil {
				c.changes(last)
			}
			objects := append(nodesOfEachType(), rs, podNamed("a", owned(rs), on("s"), slot(0)), podNamed("b", owned(rs), on("o"), slot(1)), last)
			assert.Equal(t, c.want, lines(one(t, fill(newClusterState(), append(objects, c.more...)...))))
		})
	}
}

func TestGoing(t *testing.T) {
	rs := replicaSet("rs", 4)
	mine := owned(rs)
	f := fill(newClusterState(), append(nodesOfEachType(), rs, podNamed("a", mine, on("o"), slot(1)), podNamed("b", mine, on("o"), slot(4)), podNamed("c", mine, on("o"), slot(3)))...)
	g := one(t, f)
	before := lines(g)
	going := g.Going(map[types.UID]bool{"uid-b": true, "uid-of-nobody": true})
	assert.Equal(t, []string{"0 b on on-demand, pending", "1 a on on-demand, settled", "3 c on on-demand, settled"}, lines(going), "the replacement will claim the lowest free slot")
	assert.Equal(t, before, lines(g), "the group itself does not change")
	assert.Equal(t, lines(going), lines(going.Going(map[types.UID]bool{"uid-b": true})), "twice is as good as once")
	assert.Equal(t, before, lines(g.Going(nil)))

	set := statefulSet("db", 3)
	g = one(t, fill(newClusterState(), append(nodesOfEachType(), set, podNamed("db-1", owned(set), on("o")), podNamed("db-2", owned(set), on("o")))...))
	assert.Equal(t, []string{"1 db-1 on on-demand, settled", "2 db-2 on spot, pending"}, lines(g.Going(map[types.UID]bool{"uid-db-2": true})), "it comes back to its own slot")
}

func TestWorkloadsAreNamedAsUsersDo(t *testing.T) {
	d, rs, lone := deployment("web", 3), replicaSet("web-7d", 3), replicaSet("lone", 2)
	under(d)(rs)
	f := fill(newClusterState(), d, rs, lone, podNamed("a", owned(rs)), podNamed("b", owned(lone)), podNamed("c", ownedBy("apps.kruise.io/v1alpha1", "CloneSet", "clone", "uid-clone")), podNamed("d"))
	groups := f.Groups(namespaceName)
	var names []string
	for _, g := range groups {
		names = append(names, g.Workload.String())
	}
	assert.Equal(t, []string{"CloneSet clone", "Deployment web (web-7d)", "Pod default", "ReplicaSet lone"}, names)
	assert.Equal(t, Workload{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespaceName, Name: "web", Revision: "web-7d", UID: "uid-web"}, groups[1].Workload)
	assert.Equal(t, governing.GroupKey{Namespace: namespaceName, ID: "uid-web-7d"}, groups[1].Key)
	assert.Equal(t, []int{1, 3, 1, 2}, []int{groups[0].Replicas, groups[1].Replicas, groups[2].Replicas, groups[3].Replicas}, "requested, else how many live")
	assert.Empty(t, groups[2].Workload.UID, "no controller recreates bare pods")
	assert.Equal(t, scheduler, groups[1].SchedulerName)
}

// With equally many pods, the newest counts: it was made from the present template.
func TestTheLabelsOfOnePodNeverDecideForTheOthers(t *testing.T) {
	rs := replicaSet("rs", 4)
	unsteered := func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }
	f := fill(newClusterState(), rs,
		podNamed("old", owned(rs), annotated(v1alpha1.SpotPercentAnnotation, "10"), unsteered),
		podNamed("new", owned(rs), made(5), annotated(v1alpha1.SpotPercentAnnotation, "90")))
	g := one(t, f)
	assert.Equal(t, int32(90), g.Governing.Mix.SpotPercent)
	assert.Equal(t, scheduler, g.SchedulerName)

	f.SetPod(podNamed("lost", owned(rs), made(9), slot(7), unsteered))
	f.SetPod(podNamed("third", owned(rs), made(6), annotated(v1alpha1.SpotPercentAnnotation, "90")))
	g = one(t, f)
	assert.Equal(t, int32(90), g.Governing.Mix.SpotPercent)
	assert.Equal(t, 2, len(g.Assignments), "pods that the mix does not govern have no assignment, so none of them is evicted")
	assert.Equal(t, 2, g.Replicas, "4 requested, 2 are other pods")
	assert.Equal(t, []int{7}, g.Taken)
}

func TestAPodThatNoMixSelectsHasNoAssignment(t *testing.T) {
	set := statefulSet("db", 3)
	mine := ownedBy("apps/v1", "StatefulSet", "db", "uid-db")
	unsteered := func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }
	f := fill(newClusterState(), set, podNamed("db-0", mine, unsteered), podNamed("db-1", mine, made(1), unsteered),
		podNamed("db-2", mine, made(2), annotated(v1alpha1.SpotPercentAnnotation, "90")))
	g := one(t, f)
	assert.Equal(t, []string{"2 db-2 on spot, pending"}, lines(g))
	assert.Equal(t, 1, g.Replicas)
}

// References are what tenants write: a pod with the UID of another's controller takes nothing from that one's pods.
func TestAForgedReferenceChangesNoOtherPod(t *testing.T) {
	rs := replicaSet("rs", 2)
	forged := func(p *corev1.Pod) { p.Namespace = "aaa" }
	f := fill(newClusterState(), rs,
		podNamed("forged", ownedBy("apps/v1", "DaemonSet", "d", rs.UID), forged),
		podNamed("also", ownedBy("batch/v1", "Job", "rs", rs.UID), forged),
		podNamed("web-1", owned(rs)), podNamed("web-2", owned(rs), made(1)))
	g := one(t, f)
	assert.Equal(t, "ReplicaSet rs", g.Workload.String())
	assert.Len(t, g.Assignments, 2)
	for name, kind := range map[string]string{"forged": "DaemonSet", "also": "Job"} {
		p := f.Pod("aaa", name)
		require.NotNil(t, p, name)
		assert.Equal(t, kind, p.Owner.Kind)
	}
}

func TestTwoBillionReplicasAllocateNoAssignments(t *testing.T) {
	rs := replicaSet("rs", math.MaxInt32)
	g := one(t, fill(newClusterState(), rs, podNamed("a", owned(rs))))
	allocated := testing.AllocsPerRun(5, func() {
		g.WrongSide()
		g.PendingByType()
	})
	assert.Less(t, allocated, 100.0)
	pending, _, _ := g.Counts()
	assert.Equal(t, math.MaxInt32, pending)
}

func TestRollouts(t *testing.T) {
	d := func(change func(*appsv1.Deployment)) metav1.Object {
		o := deployment("web", 5)
		o.Generation, o.Status.ObservedGeneration, o.Status.AvailableReplicas = 3, 3, 5
		change(o)
		return o
	}
	s := func(change func(*appsv1.StatefulSet)) metav1.Object {
		o := statefulSet("db", 5)
		o.Status.UpdateRevision, o.Status.UpdatedReplicas = "b", 2
		change(o)
		return o
	}
	partition := func(n int32) func(*appsv1.StatefulSet) {
		return func(o *appsv1.StatefulSet) {
			o.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &n}
		}
	}
	tests := map[string]struct {
		object metav1.Object
		want   Rollout
	}{
		"a Deployment at rest": {d(func(*appsv1.Deployment) {}), Rollout{}},
		"a Deployment whose controller has not seen the change yet": {d(func(o *appsv1.Deployment) { o.Status.ObservedGeneration = 2 }), Rollout{Rolling: true}},
		"a Deployment with fewer updated pods than wanted":          {d(func(o *appsv1.Deployment) { o.Status.UpdatedReplicas = 4 }), Rollout{Rolling: true}},
		"a Deployment with old pods left":                           {d(func(o *appsv1.Deployment) { o.Status.Replicas = 6 }), Rollout{Rolling: true}},
		"a Deployment without replicas has one pod": {d(func(o *appsv1.Deployment) {
			o.Spec.Replicas, o.Status.Replicas, o.Status.UpdatedReplicas = nil, 1, 1
		}), Rollout{}},
		"a Deployment that gave up": {d(func(o *appsv1.Deployment) {
			o.Status.UpdatedReplicas = 4
			o.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse}}
		}), Rollout{Rolling: true, Stuck: true}},
		"a Deployment with replicas that are not available": {d(func(o *appsv1.Deployment) {
			share := intstr.FromString("50%")
			o.Status.UpdatedReplicas, o.Status.AvailableReplicas = 4, 2
			o.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &share}
		}), Rollout{Rolling: true, Unavailable: 3, MaxUnavailable: 2}},
		"a Deployment whose share cannot be read": {d(func(o *appsv1.Deployment) {
			share := intstr.FromString("half")
			o.Status.UpdatedReplicas, o.Status.AvailableReplicas = 4, 2
			o.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &share}
		}), Rollout{Rolling: true, Unavailable: 3}},
		"a Deployment that goes on": {d(func(o *appsv1.Deployment) {
			o.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue}, {Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse}}
		}), Rollout{}},
		"the leaders of a LeaderWorkerSet, which lowers the partition step by step": {s(func(o *appsv1.StatefulSet) {
			partition(3)(o)
			o.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "leaderworkerset.x-k8s.io/v1", Kind: "LeaderWorkerSet", Name: "db", UID: "uid-lws", Controller: new(true),
			}}
		}), Rollout{Rolling: true}},
		"a StatefulSet at rest": {s(func(o *appsv1.StatefulSet) { o.Status.CurrentRevision = "b" }), Rollout{}},
		"a StatefulSet whose controller has not seen the change yet": {s(func(o *appsv1.StatefulSet) { o.Status.CurrentRevision, o.Generation = "b", 2 }), Rollout{Rolling: true}},
		"a StatefulSet that rolls out":                               {s(func(*appsv1.StatefulSet) {}), Rollout{Rolling: true}},
		"a StatefulSet with all pods updated":                        {s(func(o *appsv1.StatefulSet) { o.Status.UpdatedReplicas = 5 }), Rollout{}},
		"a StatefulSet that has reached its partition":               {s(partition(3)), Rollout{}},
		"a StatefulSet that has not reached its partition":           {s(partition(2)), Rollout{Rolling: true}},
		"a StatefulSet with a partition above its size":              {s(partition(9)), Rollout{}},
		"a StatefulSet that rolls out by hand":                       {s(func(o *appsv1.StatefulSet) { o.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType }), Rollout{}},
		"a ReplicaSet on its own never rolls":                        {replicaSet("rs", 3), Rollout{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, Strip(tc.object).rollout)
		})
	}
	dep, rs := deployment("web", 3), replicaSet("web-7d", 3)
	under(dep)(rs)
	dep.Status.UpdatedReplicas = 1
	assert.True(t, one(t, fill(newClusterState(), dep, rs, podNamed("a", owned(rs)))).Rollout.Rolling, "a revision rolls with its Deployment")
}

func TestOwnersReportWhatChanges(t *testing.T) {
	f := newClusterState()
	calls, version := 0, 0
	f.Changed = func(key governing.GroupKey) { assert.Equal(t, namespaceName, key.Namespace); calls++ }
	step := func(want int, why string, change func(*appsv1.Deployment)) {
		d := deployment("web", 3)
		version++
		d.ResourceVersion = fmt.Sprint(version)
		change(d)
		before := calls
		f.SetOwner(d)
		assert.Equal(t, want, calls-before, why)
	}
	step(1, "a new one", func(*appsv1.Deployment) {})
	step(0, "only its status' message changed", func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 })
	step(1, "an annotation that counts", func(d *appsv1.Deployment) { d.Annotations = map[string]string{v1alpha1.SpotPercentAnnotation: "5"} })
	step(1, "it rolls", func(d *appsv1.Deployment) {
		d.Annotations = map[string]string{v1alpha1.SpotPercentAnnotation: "5"}
		d.Status.UpdatedReplicas = 1
	})
	f.DeleteOwner(deployment("web", 3).UID)
	f.DeleteOwner(deployment("web", 3).UID)
	assert.Equal(t, 4, calls, "deleted once")
	f.SetOwner(replicaSet("old", 0))
	assert.Empty(t, f.objects, "a ReplicaSet of an old revision is not kept")
	rs := replicaSet("shrinks", 0)
	rs.Status.Replicas = 2
	f.SetOwner(Strip(rs)) // as a list does
	assert.Len(t, f.objects, 1, "one that still has pods is")
}

// A change of a controller's owner changes the groups below it, and they are reported.
func TestAGroupChangesWithTheOwnerOfItsController(t *testing.T) {
	d, rs := deployment("web", 1), replicaSet("web-7d", 1)
	under(d)(rs)
	f := fill(newClusterState(), d, rs, podNamed("a", owned(rs)))
	key := governing.GroupKey{Namespace: namespaceName, ID: string(rs.UID)}
	require.False(t, f.Group(key).Rollout.Rolling)
	var told []governing.GroupKey
	f.Changed = func(key governing.GroupKey) { told = append(told, key) }
	d.Status.UpdatedReplicas = 0
	f.SetOwner(d)
	assert.True(t, f.Group(key).Rollout.Rolling)
	assert.Contains(t, told, key)
	told = nil
	f.DeleteOwner(d.UID)
	assert.Equal(t, Rollout{}, f.Group(key).Rollout)
	assert.Contains(t, told, key)
}
