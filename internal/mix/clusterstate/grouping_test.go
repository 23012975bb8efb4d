// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
)

// labeled sets labels, as key and value in turn.
func labeled(pairs ...string) a[*corev1.Pod] {
	return func(p *corev1.Pod) {
		for i := 0; i < len(pairs); i += 2 {
			p.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

// worker is a pod of a LeaderWorkerSet, the leader with number 0. Its controllers are StatefulSets.
func worker(lws string, group, n int, changes ...a[*corev1.Pod]) *corev1.Pod {
	leader := fmt.Sprintf("%s-%d", lws, group)
	name, of := leader, lws
	if n > 0 {
		name, of = fmt.Sprintf("%s-%d", leader, n), leader
	}
	changes = append([]a[*corev1.Pod]{
		owned(statefulSet(of, 1)), made(10*group + n),
		labeled("leaderworkerset.sigs.k8s.io/name", lws, "leaderworkerset.sigs.k8s.io/group-index", fmt.Sprint(group),
			"leaderworkerset.sigs.k8s.io/group-key", "key-"+leader, "leaderworkerset.sigs.k8s.io/worker-index", fmt.Sprint(n)),
	}, changes...)
	return podNamed(name, changes...)
}

func gang(name string) a[*corev1.Pod] {
	return func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} }
}

// describeGroup is a group as "Kind name (revision): slot members on type, place | …".
func describeGroup(g *Group) string {
	var list []string
	for i := range g.Assignments {
		s := &g.Assignments[i]
		var names []string
		for _, p := range s.Members() {
			names = append(names, p.Name)
		}
		place := map[Place]string{Settled: "", Departing: ", departing", Pending: ", pending"}[s.Place]
		list = append(list, fmt.Sprintf("%d %s on %s%s", s.Slot, strings.Join(names, "+"), s.On, place))
	}
	return g.Workload.String() + ": " + strings.Join(list, " | ")
}

// Half of the replicas are on spot: the slots are O S O S.
func TestGroupsByTheSettingsOfAMix(t *testing.T) {
	old, web := replicaSet("web-1", 1), replicaSet("web-2", 1)
	for _, rs := range []*appsv1.ReplicaSet{old, web} {
		under(deployment("web", 2))(rs)
	}
	runner := func(n int, changes ...a[*corev1.Pod]) *corev1.Pod {
		name := fmt.Sprint("runner-", n)
		return podNamed(name, append(changes, ownedBy("actions.github.com/v1alpha1", "EphemeralRunner", name, types.UID("owner-"+name)), made(n))...)
	}
	tests := map[string]struct {
		spec    v1alpha1.CapacityMixSpec
		objects []metav1.Object
		want    []string
	}{
		"each controller by default": {
			objects: []metav1.Object{old, web, podNamed("a", owned(old), on("o")), podNamed("b", owned(web), on("o"), made(1))},
			want:    []string{"Deployment web (web-1): 0 a on on-demand", "Deployment web (web-2): 0 b on on-demand"},
		},
		"all pods by Selector, bare ones too": {
			spec:    v1alpha1.CapacityMixSpec{Group: v1alpha1.PodGroupingSelector},
			objects: []metav1.Object{old, web, podNamed("a", owned(old), on("o")), podNamed("b", owned(web), on("s"), made(1)), podNamed("c", made(2))},
			want:    []string{"CapacityMix m: 0 a on on-demand | 1 b on spot | 2 c on on-demand, pending"},
		},
		"the revisions of a Deployment by Top": {
			spec:    v1alpha1.CapacityMixSpec{Group: v1alpha1.PodGroupingTop},
			objects: []metav1.Object{deployment("web", 2), old, web, podNamed("a", owned(old), on("o")), podNamed("b", owned(web), made(1))},
			want:    []string{"Deployment web: 0 a on on-demand | 1 b on spot, pending"},
		},
		"runners without a label of their set": {
			objects: []metav1.Object{runner(1, on("o")), runner(2, on("s")), runner(3)},
			want:    []string{"EphemeralRunner m: 0 runner-1 on on-demand | 1 runner-2 on spot | 2 runner-3 on on-demand, pending"},
		},
		"runners of two sets": {
			objects: []metav1.Object{runner(1, labeled("scale-set", "x")), runner(2, labeled("scale-set", "y")), runner(3, labeled("scale-set", "x"))},
			want: []string{
				"EphemeralRunner x: 0 runner-1 on on-demand, pending | 1 runner-3 on spot, pending", "EphemeralRunner y: 0 runner-2 on on-demand, pending",
			},
		},
		"runners with a mix for each controller": {
			spec:    v1alpha1.CapacityMixSpec{Group: v1alpha1.PodGroupingController},
			objects: []metav1.Object{runner(1), runner(2)},
			want:    []string{"EphemeralRunner runner-1: 0 runner-1 on on-demand, pending", "EphemeralRunner runner-2: 0 runner-2 on on-demand, pending"},
		},
		"the groups of a LeaderWorkerSet on the slots of their numbers": {
			objects: []metav1.Object{worker("vllm", 1, 0, on("s")), worker("vllm", 1, 1, on("s")), worker("vllm", 0, 1), worker("vllm", 0, 0, on("o"))},
			want:    []string{"LeaderWorkerSet vllm: 0 vllm-0+vllm-0-1 on on-demand, pending | 1 vllm-1+vllm-1-1 on spot"},
		},
		"the pods of a LeaderWorkerSet alone": {
			spec:    v1alpha1.CapacityMixSpec{Unit: &v1alpha1.PodUnit{Type: v1alpha1.PodUnitPod}},
			objects: []metav1.Object{worker("vllm", 0, 0, on("o")), worker("vllm", 0, 1, on("s"))},
			want:    []string{"LeaderWorkerSet vllm: 0 vllm-0 on on-demand | 1 vllm-0-1 on spot"},
		},
		"a unit that runs on both types counts as on spot, and one with a departing pod departs": {
			spec: v1alpha1.CapacityMixSpec{Group: v1alpha1.PodGroupingSelector, Unit: &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: "unit"}},
			objects: []metav1.Object{
				podNamed("a", labeled("unit", "x"), on("o"), slot(3)), podNamed("b", labeled("unit", "x"), on("s"), made(1)),
				podNamed("c", labeled("unit", "y"), on("s"), slot(2)), podNamed("d", labeled("unit", "y"), on("gone-s"), made(2)), podNamed("e", made(3)),
			},
			want: []string{"CapacityMix m: 0 e on on-demand, pending | 2 c+d on on-demand, departing | 3 a+b on spot"},
		},
		"a unit of which a pod waits is where the others run": {
			spec: v1alpha1.CapacityMixSpec{Group: v1alpha1.PodGroupingSelector, Unit: &v1alpha1.PodUnit{Type: v1alpha1.PodUnitSchedulingGroup}},
			objects: []metav1.Object{
				podNamed("a", gang("x")), podNamed("b", gang("x"), on("s"), slot(1), made(1)), podNamed("c", gang("y"), made(2)), podNamed("d", gang("y"), made(3)),
			},
			want: []string{"CapacityMix m: 0 c+d on on-demand, pending | 1 a+b on spot, pending"},
		},
		"roles apart from the others": {
			spec: v1alpha1.CapacityMixSpec{Roles: []v1alpha1.MixRole{{
				Name: "driver", CapacityType: v1alpha1.CapacityTypeOnDemand, Selector: v1alpha1.PodSelector{MatchLabels: map[string]string{"role": "driver"}},
			}}},
			objects: []metav1.Object{old, podNamed("a", owned(old), labeled("role", "driver")), podNamed("b", owned(old), made(1)), podNamed("c", owned(old), made(2))},
			want:    []string{"Deployment web (web-1): 0 b on on-demand, pending | 1 c on spot, pending", "Deployment web (web-1): 0 a on on-demand, pending"},
		},
		"a name in annotations": {
			objects: []metav1.Object{
				podNamed("a", owned(old), annotated(v1alpha1.SpotPercentAnnotation, "50"), annotated(v1alpha1.GroupAnnotation, "batch")),
				podNamed("b", owned(web), made(1), annotated(v1alpha1.SpotPercentAnnotation, "50"), annotated(v1alpha1.GroupAnnotation, "batch")),
			},
			want: []string{"Pod batch: 0 a on on-demand, pending | 1 b on spot, pending"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o, cm := groupedOptions(), &v1alpha1.CapacityMix{Spec: tc.spec}
			cm.Namespace, cm.Name, cm.Spec.SpotPercent = namespaceName, "m", 50
			require.NoError(t, o.Mixes.Set(cm))
			for range 2 { // in any order of the objects
				var got []string
				for _, g := range fill(fill(New(o), nodesOfEachType()...), tc.objects...).Current(namespaceName) {
					got = append(got, describeGroup(g))
				}
				assert.Equal(t, tc.want, got)
				slices.Reverse(tc.objects)
			}
		})
	}
}

// Where a group is not that of one controller, or where it has units, the number of the pods that are there counts: a controller whose only
// pod terminates would be missing from the sum, and the next move would begin before the pod is back.
func TestTheReplicasOfGroupsOfManyOwners(t *testing.T) {
	a1, a2 := replicaSet("a1", 3), replicaSet("a2", 2)
	pods := []metav1.Object{podNamed("p1", owned(a1)), podNamed("p2", owned(a2), made(1))}
	g := one(t, fill(fill(New(selecting(t, nil)), a1, a2), pods...))
	assert.False(t, g.Counted)
	assert.Equal(t, 2, g.Replicas)
	assert.Equal(t, 2, g.Owners)
	g = one(t, fill(fill(New(selecting(t, nil)), a1), pods[:1]...))
	assert.False(t, g.Counted, "another owner may have had the others")
	g = one(t, fill(fill(New(selecting(t, &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: "app"})), a1, a2), pods...))
	assert.False(t, g.Counted, "an owner counts pods, and not units")
	assert.Equal(t, 1, g.Replicas)
	assert.True(t, g.Units)
}

// Of more than one owner, the most careful value counts.
func TestTheOwnersOfAGroupAreHeededTogether(t *testing.T) {
	slow := replicaSet("slow", 1, under(deployment("rolling", 2)), func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = 30 })
	rolling := deployment("rolling", 2)
	rolling.Status.UpdatedReplicas, rolling.Status.AvailableReplicas = 1, 1
	ended := job("ended")
	ended.Spec.Suspend = new(true)
	once := func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }
	plain := replicaSet("plain", 1)
	g := one(t, fill(New(selecting(t, nil)), slow, rolling, plain, podNamed("a", owned(slow)), podNamed("b", owned(plain), made(1))))
	assert.Equal(t, 30*time.Second, g.MinReady)
	assert.Equal(t, Rollout{Rolling: true, Unavailable: 1}, g.Rollout)
	assert.False(t, g.Ended)
	g = one(t, fill(New(selecting(t, nil)), ended, plain, podNamed("a", owned(ended), once), podNamed("b", owned(plain), made(1))))
	assert.False(t, g.Ended, "one of the owners makes pods")
	assert.True(t, g.CountsFailures)
	g = one(t, fill(New(selecting(t, nil)), ended, podNamed("a", owned(ended))))
	assert.True(t, g.Ended)
}

// Whatever changes which group a pod is in, the groups of before and after are reported, also if nobody has read them in between.
func TestBothGroupsOfAPodThatMovesAreReported(t *testing.T) {
	key := func(id string) governing.GroupKey { return governing.GroupKey{Namespace: namespaceName, ID: id} }
	web, rs := deployment("web", 1), replicaSet("rs", 1, under(deployment("web", 1)))
	governed := deployment("web", 1)
	governed.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "App", Name: "app", UID: "uid-app", Controller: new(true)}}
	named := replicaSet("rs", 1, func(rs *appsv1.ReplicaSet) {
		rs.Annotations = map[string]string{v1alpha1.SpotPercentAnnotation: "50", v1alpha1.GroupAnnotation: "batch"}
	})
	for name, tc := range map[string]struct {
		group  v1alpha1.PodGrouping
		before []metav1.Object
		then   metav1.Object
		want   []governing.GroupKey
	}{
		"its set is another": {
			before: []metav1.Object{worker("old", 0, 0)},
			then:   worker("old", 0, 0, labeled("leaderworkerset.sigs.k8s.io/name", "new")),
			want:   []governing.GroupKey{key("LeaderWorkerSet.leaderworkerset.x-k8s.io/old/of/capacitymix/m"), key("LeaderWorkerSet.leaderworkerset.x-k8s.io/new/of/capacitymix/m")},
		},
		"its unit is another":        {before: []metav1.Object{worker("old", 0, 0)}, then: worker("old", 0, 0, labeled("leaderworkerset.sigs.k8s.io/group-key", "k")), want: []governing.GroupKey{key("LeaderWorkerSet.leaderworkerset.x-k8s.io/old/of/capacitymix/m")}},
		"its owner appears after it": {group: v1alpha1.PodGroupingTop, before: []metav1.Object{podNamed("p", owned(rs))}, then: rs, want: []governing.GroupKey{key("uid-rs~m"), key("uid-web~m")}},
		"its top gets an owner": {
			group: v1alpha1.PodGroupingTop, before: []metav1.Object{web, rs, podNamed("p", owned(rs))}, then: governed,
			want: []governing.GroupKey{key("uid-web~m"), key("uid-app~m")},
		},
		"its owner names a group": {before: []metav1.Object{podNamed("p", owned(rs))}, then: named, want: []governing.GroupKey{key("uid-rs"), key("annotations/batch/50% spot, at least 0 on-demand")}},
	} {
		t.Run(name, func(t *testing.T) {
			o, cm := groupedOptions(), &v1alpha1.CapacityMix{}
			cm.Namespace, cm.Name, cm.Spec.SpotPercent, cm.Spec.Group = namespaceName, "m", 50, tc.group
			require.NoError(t, o.Mixes.Set(cm))
			st := fill(New(o), tc.before...)
			st.Current(namespaceName)
			told := map[governing.GroupKey]bool{}
			st.Changed = func(key governing.GroupKey) { told[key] = true }
			if p, is := tc.before[len(tc.before)-1].(*corev1.Pod); is { // nobody reads after this
				again := p.DeepCopy()
				ready(again)
				st.SetPod(again)
			}
			fill(st, tc.then)
			for _, k := range tc.want {
				assert.True(t, told[k], "%s: %v", k, told)
			}
		})
	}
}

// A tenant decides how many controllers a group has. An event of one pod costs the same, and only who reads the group has it composed.
func TestAnEventDoesNotComposeAGroupOfManyOwners(t *testing.T) {
	st := New(selecting(t, nil))
	const pods = 10_000
	for i := range pods {
		st.SetPod(podNamed(fmt.Sprint("p-", i), ofOwnOwner(i), made(i)))
	}
	g := st.Current(namespaceName)[0]
	assert.Equal(t, pods, g.Owners)
	assert.Len(t, g.Assignments, pods)
	composed := st.versions
	p := podNamed("p-0", ofOwnOwner(0), ready)
	allocated := testing.AllocsPerRun(100, func() {
		p.Status.Conditions[0].LastTransitionTime.Time = p.Status.Conditions[0].LastTransitionTime.Add(time.Second)
		st.SetPod(p)
	})
	assert.Less(t, allocated, 50.0, "allocations of an event")
	assert.Equal(t, composed, st.versions, "groups that were composed")
	st.Group(g.Key)
	assert.Equal(t, composed+1, st.versions)
}

// A chart has the annotations of one group in the templates of some workloads, and on others themselves.
func TestANameInAnnotationsIsOneGroupWhereverItIs(t *testing.T) {
	annotations := map[string]string{v1alpha1.SpotPercentAnnotation: "50", v1alpha1.GroupAnnotation: "api"}
	a1, a2 := replicaSet("a1", 1), replicaSet("a2", 1)
	a1.Annotations = annotations
	inTemplate := func(p *corev1.Pod) { p.Annotations = maps.Clone(annotations) }
	f := fill(fill(newClusterState(), nodesOfEachType()...), a1, a2, podNamed("p1", owned(a1)), podNamed("p2", owned(a2), made(1), inTemplate))
	g := one(t, f)
	assert.Len(t, g.Assignments, 2)
	assert.Empty(t, g.Taken)
	for _, p := range []*corev1.Pod{podNamed("p1", owned(a1)), podNamed("p2", owned(a2), inTemplate)} {
		assert.True(t, f.Contains(&g, p), p.Name)
	}
}

// The operator makes the workers for the leader, which may be as old as they are, and has noted how many pods a group will have.
func TestAUnitHasItsLeaderAndItsSize(t *testing.T) {
	size := annotated("leaderworkerset.sigs.k8s.io/size", "3")
	pods := []metav1.Object{worker("vllm", 0, 1, made(0), size, on("o"), ready), worker("vllm", 0, 0, made(1), size, on("o"), ready)}
	st := fill(fill(New(groupedOptions()), nodesOfEachType()...), pods...)
	cm := &v1alpha1.CapacityMix{}
	cm.Namespace, cm.Name, cm.Spec.SpotPercent = namespaceName, "m", 50
	require.NoError(t, st.Mixes.Set(cm))
	g := one(t, st)
	require.Len(t, g.Assignments, 1)
	a := &g.Assignments[0]
	assert.Equal(t, "vllm-0", a.Pod.Name, "the leader, though a worker is older")
	assert.Equal(t, "vllm-0-1", a.Members()[0].Name)
	assert.Equal(t, 3, a.Size())
	_, available := g.AllAvailableAt(a)
	assert.False(t, available, "a worker is not there yet")
	fill(st, worker("vllm", 0, 2, size, on("o"), ready))
	g = one(t, st)
	assert.True(t, g.AllAvailable(&g.Assignments[0], time.Now().Add(time.Hour)))
}

// Two mixes of one set have a sequence each: the floor of one counts its own pods.
func TestEachMixOfASetHasItsSequence(t *testing.T) {
	o := groupedOptions()
	cm := &v1alpha1.CapacityMix{}
	cm.Namespace, cm.Name, cm.Spec.SpotPercent, cm.Spec.Unit = namespaceName, "m", 50, &v1alpha1.PodUnit{Type: v1alpha1.PodUnitPod}
	cm.Spec.Selector.MatchLabels = map[string]string{"role": "leader"}
	require.NoError(t, o.Mixes.Set(cm))
	ofSet := func(role string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels = map[string]string{"role": role, "leaderworkerset.sigs.k8s.io/name": "model"}
		}
	}
	leaders, workers := statefulSet("leaders", 1), statefulSet("workers", 3)
	groups := fill(fill(New(o), leaders, workers), podNamed("l", owned(leaders), ofSet("leader")), podNamed("w", owned(workers), ofSet("worker"))).Groups(namespaceName)
	require.Len(t, groups, 2, "the workers have the default mix")
	for i := range groups {
		assert.Equal(t, []int{1, 1, 0}, []int{groups[i].Replicas, groups[i].Owners, groups[i].Assignments[0].Slot})
	}
}

// Each of two mixes of one highest owner has all of its own pods, and its own split of them.
func TestTwoMixesOfOneTopHaveTheirOwnSplits(t *testing.T) {
	o := groupedOptions()
	for _, track := range []string{"canary", "stable"} {
		cm := &v1alpha1.CapacityMix{}
		cm.Namespace, cm.Name, cm.Spec.SpotPercent, cm.Spec.Group = namespaceName, track, 50, v1alpha1.PodGroupingTop
		cm.Spec.Selector.MatchLabels = map[string]string{"track": track}
		require.NoError(t, o.Mixes.Set(cm))
	}
	owner := func(rs *appsv1.ReplicaSet) {
		rs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "web", UID: "uid-web", Controller: new(true)}}
	}
	canary, stable := replicaSet("web-c", 2, owner), replicaSet("web-s", 3, owner)
	objects := []metav1.Object{canary, stable}
	for i := range 5 {
		rs, track := stable, "stable"
		if i < 2 {
			rs, track = canary, "canary"
		}
		objects = append(objects, podNamed(fmt.Sprint(track, i), owned(rs), labeled("track", track), made(i)))
	}
	var list []string
	for _, g := range fill(New(o), objects...).Groups(namespaceName) {
		assert.EqualValues(t, "uid-web", g.Key.Owner())
		assert.Empty(t, g.Taken)
		list = append(list, describeGroup(&g))
	}
	assert.ElementsMatch(t, []string{
		"Rollout web: 0 canary0 on on-demand, pending | 1 canary1 on spot, pending",
		"Rollout web: 0 stable2 on on-demand, pending | 1 stable3 on spot, pending | 2 stable4 on on-demand, pending",
	}, list)
}
