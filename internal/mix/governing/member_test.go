// SPDX-License-Identifier: Apache-2.0

package governing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// labeled is a pod with labels and a controller.
func labeled(labels map[string]string, owner ...metav1.OwnerReference) *corev1.Pod {
	p := pod(nil, owner...)
	p.Labels = labels
	return p
}

// below gives an object a controller of a custom kind.
func below(meta metav1.ObjectMeta, kind, uid string) metav1.ObjectMeta {
	meta.OwnerReferences = ownedBy(kind, "example.com/v1", uid)
	return meta
}

func TestMember(t *testing.T) {
	const (
		lwsName, lwsKey, lwsIndex = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-key", "leaderworkerset.sigs.k8s.io/group-index"
		jobSet, jobKey            = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/job-key"
	)
	controllers := known{
		"rs":  &appsv1.ReplicaSet{ObjectMeta: below(object("ReplicaSet", "rs", nil), "Rollout", "rollout")},
		"job": &batchv1.Job{ObjectMeta: below(object("Job", "job", nil), "Workflow", "workflow")},
		"set": &appsv1.StatefulSet{ObjectMeta: object("StatefulSet", "set", nil)},
	}
	ofRS, ofSet := ownedBy("ReplicaSet", "apps/v1", "rs"), ownedBy("StatefulSet", "apps/v1", "set")
	lws := map[string]string{lwsName: "model", lwsKey: "k3", lwsIndex: "3"}
	ordinal := func(p *corev1.Pod) *corev1.Pod { p.Name = "db-4"; return p }
	group := func(pod *corev1.Pod, name string) *corev1.Pod {
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
		return pod
	}
	type by = func(*v1alpha1.CapacityMixSpec)
	selector := func(s *v1alpha1.CapacityMixSpec) { s.Group = v1alpha1.PodGroupingSelector }
	top := func(s *v1alpha1.CapacityMixSpec) { s.Group = v1alpha1.PodGroupingTop }
	controller := func(s *v1alpha1.CapacityMixSpec) { s.Group = v1alpha1.PodGroupingController }
	byLabel := func(s *v1alpha1.CapacityMixSpec) {
		s.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: "unit"}
	}
	byPodGroup := func(s *v1alpha1.CapacityMixSpec) { s.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitSchedulingGroup} }
	byPod := func(s *v1alpha1.CapacityMixSpec) { s.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitPod} }
	driver := func(s *v1alpha1.CapacityMixSpec) {
		s.Roles = []v1alpha1.MixRole{{Name: "driver", CapacityType: "on-demand", Selector: v1alpha1.PodSelector{MatchLabels: map[string]string{"role": "driver"}}}}
	}
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		by       []by
		id, unit string
		slot     int
		anyOrder bool
	}{
		"a ReplicaSet":                      {pod: labeled(nil, ofRS...), id: "rs", slot: -1},
		"a StatefulSet":                     {pod: ordinal(labeled(nil, ofSet...)), id: "set", slot: 4},
		"no controller":                     {pod: labeled(nil), id: "capacitymix/all", slot: -1, anyOrder: true},
		"by selector":                       {pod: labeled(nil, ofRS...), by: []by{selector}, id: "capacitymix/all", slot: -1, anyOrder: true},
		"ordinals do not count by selector": {pod: ordinal(labeled(nil, ofSet...)), by: []by{selector}, id: "capacitymix/all", slot: -1, anyOrder: true},
		"by top":                            {pod: labeled(nil, ofRS...), by: []by{top}, id: "rollout~all", slot: -1, anyOrder: true},
		"by top, a Job":                     {pod: labeled(nil, ownedBy("Job", "batch/v1", "job")...), by: []by{top}, id: "workflow~all", slot: -1, anyOrder: true},
		"by top, nothing above":             {pod: labeled(nil, ofSet...), by: []by{top}, id: "set~all", slot: -1, anyOrder: true},
		"by top, no controller":             {pod: labeled(nil), by: []by{top}, id: "capacitymix/all", slot: -1, anyOrder: true},
		"a LeaderWorkerSet":                 {pod: labeled(lws, ofSet...), id: "LeaderWorkerSet.leaderworkerset.x-k8s.io/model/of/capacitymix/all", unit: "k3", slot: 3, anyOrder: true},
		"a LeaderWorkerSet by controller":   {pod: ordinal(labeled(lws, ofSet...)), by: []by{controller}, id: "set", slot: 4},
		"a LeaderWorkerSet, pods alone":     {pod: labeled(lws, ofSet...), by: []by{byPod}, id: "LeaderWorkerSet.leaderworkerset.x-k8s.io/model/of/capacitymix/all", slot: -1, anyOrder: true},
		"a LeaderWorkerSet by selector":     {pod: labeled(lws, ofSet...), by: []by{selector}, id: "capacitymix/all", unit: "k3", slot: -1, anyOrder: true},
		"a copied label":                    {pod: labeled(lws, ofRS...), id: "rs", slot: -1},
		"a bare pod with a copied label":    {pod: labeled(lws), id: "capacitymix/all", slot: -1, anyOrder: true},
		"a unit by label, without, ordinal": {pod: ordinal(labeled(nil, ofSet...)), by: []by{byLabel}, id: "set", slot: 4},
		"a JobSet":                          {pod: labeled(map[string]string{jobSet: "train", jobKey: "j0"}, ownedBy("Job", "batch/v1", "job")...), id: "JobSet.jobset.x-k8s.io/train/of/capacitymix/all", unit: "j0", slot: -1, anyOrder: true},
		"a runner with a set":               {pod: labeled(map[string]string{"set": "linux"}, ownedBy("Runner", "example.com/v1", "r1")...), id: "Runner.example.com/linux/of/capacitymix/all", slot: -1, anyOrder: true},
		"a runner without a set":            {pod: labeled(nil, ownedBy("Runner", "example.com/v1", "r1")...), id: "Runner.example.com/of/capacitymix/all", slot: -1, anyOrder: true},
		"a runner by controller":            {pod: labeled(nil, ownedBy("Runner", "example.com/v1", "r1")...), by: []by{controller}, id: "r1", slot: -1, anyOrder: true},
		"a kind of another group":           {pod: labeled(nil, ownedBy("Runner", "example.org/v1", "r1")...), id: "r1", slot: -1, anyOrder: true},
		"a unit by label":                   {pod: labeled(map[string]string{"unit": "u"}, ofRS...), by: []by{byLabel}, id: "rs", unit: "u", slot: -1, anyOrder: true},
		"a unit by label, without":          {pod: labeled(nil, ofRS...), by: []by{byLabel}, id: "rs", slot: -1},
		"a unit has no ordinal":             {pod: ordinal(labeled(map[string]string{"unit": "u"}, ofSet...)), by: []by{byLabel}, id: "set", unit: "u", slot: -1, anyOrder: true},
		"a unit by PodGroup":                {pod: group(labeled(nil, ofRS...), "gang"), by: []by{byPodGroup}, id: "rs", unit: "gang", slot: -1, anyOrder: true},
		"a PodGroup is no unit by itself":   {pod: group(labeled(nil, ofRS...), "gang"), id: "rs", slot: -1},
		"a role":                            {pod: labeled(map[string]string{"role": "driver"}, ofRS...), by: []by{driver}, id: "rs/driver", slot: -1},
		"a role by selector":                {pod: labeled(map[string]string{"role": "driver"}, ofRS...), by: []by{driver, selector}, id: "capacitymix/all/driver", slot: -1, anyOrder: true},
		"not the role":                      {pod: labeled(map[string]string{"role": "executor"}, ofRS...), by: []by{driver}, id: "rs", slot: -1},
	} {
		t.Run(name, func(t *testing.T) {
			cm := mixNamed("all", time.Hour, 50, nil)
			for _, change := range tc.by {
				change(&cm.Spec)
			}
			r := resolver(t, controllers, cm)
			r.OnePodKinds = governing.OnePodKinds{schema.GroupKind{Group: "example.com", Kind: "Runner"}: "set"}
			m, _ := r.Resolve(tc.pod)
			require.NotNil(t, m)
			member, ok := r.Member(tc.pod, m)
			require.True(t, ok)
			assert.Equal(t, governing.Member{
				Group: governing.GroupKey{Namespace: "shop", ID: tc.id}, Unit: tc.unit, Slot: tc.slot, AnyOrder: tc.anyOrder,
			}, member)
			assert.Equal(t, len(tc.by) == 0, m.Plain())
			assert.Equal(t, !strings.Contains(tc.id, "/"), member.Group.Owner() != "")
		})
	}
}

func TestAnAnnotationNamesTheGroup(t *testing.T) {
	annotations := func(group string) map[string]string {
		return map[string]string{percent: "50", v1alpha1.GroupAnnotation: group}
	}
	rs := &appsv1.ReplicaSet{ObjectMeta: below(object("ReplicaSet", "rs", nil), "Rollout", "rollout")}
	r := resolver(t, known{"rs": rs})
	for group, want := range map[string]string{"Controller": "rs", "Top": "rollout", "workers": "annotations/workers/50% spot, at least 0 on-demand"} {
		p := pod(annotations(group), ownedBy("ReplicaSet", "apps/v1", "rs")...)
		m, invalid := r.Resolve(p)
		require.NotNil(t, m, group)
		assert.Empty(t, invalid)
		member, _ := r.Member(p, m)
		assert.Equal(t, want, member.Group.ID)
	}
	for _, group := range []string{"Selector", "", "Workers", "a/b", strings.Repeat("a", 64), "-a", "top"} {
		m, invalid := r.Resolve(pod(annotations(group)))
		assert.Nil(t, m, group)
		require.Len(t, invalid, 1, group)
		assert.Equal(t, v1alpha1.GroupAnnotation, invalid[0].Key)
		assert.Contains(t, invalid[0].String(), "it must be Controller, Top or a name")
	}
}

// A role has one type, and all else as its mix has it.
func TestARoleHasOneType(t *testing.T) {
	cm := mixNamed("all", time.Hour, 50, nil)
	cm.Spec.MinOnDemand, cm.Spec.WhenOnDemandUnavailable = 3, v1alpha1.WhenOnDemandUnavailableSpot
	cm.Spec.Roles = []v1alpha1.MixRole{
		{Name: "leader", CapacityType: "on-demand", Selector: v1alpha1.PodSelector{MatchLabels: map[string]string{"role": "leader"}}},
		{Name: "cache", CapacityType: "spot", Selector: v1alpha1.PodSelector{MatchLabels: map[string]string{"tier": "cache"}}},
	}
	r := resolver(t, nil, cm)
	leader, _ := r.Resolve(labeled(map[string]string{"role": "leader", "tier": "cache"}))
	cache, _ := r.Resolve(labeled(map[string]string{"tier": "cache"}))
	other, _ := r.Resolve(labeled(nil))
	assert.Equal(t, split.New(0, 0), leader.Mix, "the first role that selects the pod")
	assert.Equal(t, split.New(100, 0), cache.Mix)
	assert.Equal(t, split.New(50, 3), other.Mix)
	assert.Equal(t, []string{"leader", "cache", ""}, []string{leader.RoleName, cache.RoleName, other.RoleName})
	assert.True(t, leader.BorrowSpot)
	assert.Equal(t, other.Source, leader.Source)
	assert.False(t, other.Same(leader))
}

func TestTooManyRolesAreInvalid(t *testing.T) {
	cm := mixNamed("all", time.Hour, 50, nil)
	cm.Spec.Roles = make([]v1alpha1.MixRole, 9)
	_, _, err := governing.FromCapacityMix(cm)
	assert.EqualError(t, err, "spec.roles: 9 roles are more than 8")
}

// A floor of one mix is one of its own pods: with one sequence for both, which of them has it would depend on the last pod that came.
func TestTwoMixesOfOneTopHaveAGroupEach(t *testing.T) {
	rs := &appsv1.ReplicaSet{ObjectMeta: below(object("ReplicaSet", "rs", nil), "Rollout", "rollout")}
	var mixes []*v1alpha1.CapacityMix
	for _, track := range []string{"stable", "canary"} {
		cm := mixNamed(track, time.Hour, 50, map[string]string{"track": track})
		cm.Spec.Group = v1alpha1.PodGroupingTop
		mixes = append(mixes, cm)
	}
	r := resolver(t, known{"rs": rs}, mixes...)
	for _, track := range []string{"stable", "canary"} {
		p := labeled(map[string]string{"track": track}, ownedBy("ReplicaSet", "apps/v1", "rs")...)
		m, _ := r.Resolve(p)
		member, _ := r.Member(p, m)
		assert.Equal(t, governing.GroupKey{Namespace: "shop", ID: "rollout"}.Under(track), member.Group)
		assert.EqualValues(t, "rollout", member.Group.Owner())
	}
}

// References may form a circle.
func TestACircleOfOwnersHasATop(t *testing.T) {
	controllers := known{}
	for _, uid := range []string{"a", "b"} {
		other := map[string]string{"a": "b", "b": "a"}[uid]
		controllers[types.UID(uid)] = &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: uid, UID: types.UID(uid), OwnerReferences: ownedBy("ReplicaSet", "apps/v1", other),
		}}
	}
	cm := mixNamed("all", time.Hour, 50, nil)
	cm.Spec.Group = v1alpha1.PodGroupingTop
	r := resolver(t, controllers, cm)
	p := labeled(nil, ownedBy("ReplicaSet", "apps/v1", "a")...)
	m, _ := r.Resolve(p)
	member, ok := r.Member(p, m)
	assert.True(t, ok)
	assert.Equal(t, "a~all", member.Group.ID)
	assert.EqualValues(t, "a", member.Group.Owner())
}
