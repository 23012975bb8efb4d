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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// known has controllers by UID.
type known map[types.UID]metav1.Object

func (k known) Controller(_ string, ref *metav1.OwnerReference) metav1.Object { return k[ref.UID] }

const (
	percent = v1alpha1.SpotPercentAnnotation
	floor   = v1alpha1.MinOnDemandAnnotation
)

func object(kind, uid string, annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: "the-" + kind, UID: types.UID(uid), Annotations: annotations}
}

func ownedBy(kind, apiVersion, uid string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "the-" + kind, UID: types.UID(uid), Controller: new(true)}}
}

func pod(annotations map[string]string, owner ...metav1.OwnerReference) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: object("pod", "pod", annotations)}
	p.Labels = map[string]string{"app": "web"}
	p.OwnerReferences = owner
	return p
}

func mixNamed(name string, age time.Duration, spotPercent int32, match map[string]string) *v1alpha1.CapacityMix {
	cm := &v1alpha1.CapacityMix{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e6, 0).Add(-age))},
	}
	cm.Spec.Selector.MatchLabels = match
	cm.Spec.SpotPercent = spotPercent
	return cm
}

func resolver(t *testing.T, controllers known, mixes ...*v1alpha1.CapacityMix) *governing.Resolver {
	t.Helper()
	r := &governing.Resolver{Conventions: governing.Conventions{Prefixes: []string{governing.PrefixBerth}}, Mixes: governing.NewRegistry(), Controllers: controllers}
	for _, cm := range mixes {
		require.NoError(t, r.Mixes.Set(cm))
	}
	return r
}

func TestFirstSourceWins(t *testing.T) {
	web := map[string]string{"app": "web"}
	rs := &appsv1.ReplicaSet{ObjectMeta: object("ReplicaSet", "rs", map[string]string{percent: "40"})}
	plainRS := &appsv1.ReplicaSet{ObjectMeta: object("ReplicaSet", "plain", nil)}
	r := resolver(t, known{"rs": rs, "plain": plainRS},
		mixNamed("young", time.Hour, 10, web), mixNamed("old", 2*time.Hour, 20, web), mixNamed(
			"oldest", 3*time.Hour, 30, map[string]string{"app": "other"},
		))
	r.Default = &governing.Mix{Source: governing.SourceDefault, Mix: split.New(5, 0)}
	rsRef, plainRef := ownedBy("ReplicaSet", "apps/v1", "rs"), ownedBy("ReplicaSet", "apps/v1", "plain")

	for name, tc := range map[string]struct {
		pod    *corev1.Pod
		source string
		spot   int32
	}{
		"annotations on the pod":                    {pod(map[string]string{percent: "70%", floor: "2"}, rsRef...), governing.SourcePod, 70},
		"annotations on its controller":             {pod(nil, rsRef...), governing.SourceController, 40},
		"the oldest CapacityMix that selects it":    {pod(nil, plainRef...), "capacitymix/old", 20},
		"a controller that is not known counts not": {pod(nil, ownedBy("Set", "example.com/v1", "x")...), "capacitymix/old", 20},
		"the default where nothing else does":       {relabelled(pod(nil), "none"), governing.SourceDefault, 5},
		"a bad annotation leaves it to the next":    {pod(map[string]string{percent: "abc"}, rsRef...), governing.SourceController, 40},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := r.Resolve(tc.pod)
			require.NotNil(t, p)
			assert.Equal(t, tc.source, p.Source)
			assert.Equal(t, tc.spot, p.Mix.SpotPercent)
		})
	}
	r.Default = nil
	p, _ := r.Resolve(relabelled(pod(nil), "none"))
	assert.Nil(t, p, "nothing governs it")
}

func relabelled(p *corev1.Pod, app string) *corev1.Pod {
	p.Labels = map[string]string{"app": app}
	return p
}

func TestEqualAgesAreDecidedByName(t *testing.T) {
	web := map[string]string{"app": "web"}
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		r := resolver(t, nil)
		for _, name := range order {
			require.NoError(t, r.Mixes.Set(mixNamed(name, time.Hour, 50, web)))
		}
		p, _ := r.Resolve(pod(nil))
		assert.Equal(t, "capacitymix/a", p.Source)
	}
}

func TestDeletedMixesGovernNothing(t *testing.T) {
	r := resolver(t, nil, mixNamed("a", time.Hour, 50, nil))
	p, _ := r.Resolve(pod(nil))
	require.NotNil(t, p, "an empty selector selects all pods")
	r.Mixes.Delete("shop", "a")
	r.Mixes.Delete("shop", "never-there")
	p, _ = r.Resolve(pod(nil))
	assert.Nil(t, p)
}

func TestInvalidAnnotationsNameKeyValueAndProblem(t *testing.T) {
	whole := "it must be a whole number from 0 to 100"
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"no number":  {map[string]string{percent: "abc"}, `annotation berth.dev/spot-percent: "abc" is invalid: ` + whole},
		"negative":   {map[string]string{percent: "-1"}, `annotation berth.dev/spot-percent: "-1" is invalid: ` + whole},
		"above 100":  {map[string]string{percent: "101"}, `annotation berth.dev/spot-percent: "101" is invalid: ` + whole},
		"empty":      {map[string]string{percent: ""}, `annotation berth.dev/spot-percent: "" is invalid: ` + whole},
		"a fraction": {map[string]string{percent: "0.7"}, `annotation berth.dev/spot-percent: "0.7" is invalid: ` + whole},
		"floor negative": {
			map[string]string{percent: "7", floor: "-2"},
			`annotation berth.dev/min-on-demand: "-2" is invalid: it must be a whole number from 0 to 1000000`,
		},
		"floor past integer": {
			map[string]string{percent: "7", floor: "99999999999"},
			`annotation berth.dev/min-on-demand: "99999999999" is invalid: it must be a whole number from 0 to 1000000`,
		},
		"floor past bound": {
			map[string]string{percent: "7", floor: "1000001"},
			`annotation berth.dev/min-on-demand: "1000001" is invalid: it must be a whole number from 0 to 1000000`,
		},
		"zeros without end": {
			map[string]string{percent: "7", floor: strings.Repeat("0", 256<<10)},
			`annotation berth.dev/min-on-demand: "` + strings.Repeat(
				"0", 64,
			) + `…" is invalid: it must be a whole number from 0 to 1000000`,
		},
		"a long text": {
			map[string]string{percent: strings.Repeat("ü", 128<<10)},
			`annotation berth.dev/spot-percent: "` + strings.Repeat("ü", 32) + `…" is invalid: ` + whole,
		},
		"a long text, cut in a character": {
			map[string]string{percent: "x" + strings.Repeat("ü", 128<<10)},
			`annotation berth.dev/spot-percent: "x` + strings.Repeat("ü", 31) + `…" is invalid: ` + whole,
		},
		"floor alone": {
			map[string]string{floor: "2"},
			`annotation berth.dev/min-on-demand: "2" is invalid: it requires the annotation berth.dev/spot-percent`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, invalid := resolver(t, nil).Resolve(pod(tc.annotations))
			assert.Nil(t, p)
			require.Len(t, invalid, 1)
			assert.Equal(t, tc.want, invalid[0].String())
			assert.Equal(t, "the-pod", invalid[0].Object.GetName())
		})
	}
	for _, good := range []string{"0", "70", "70%", "100%"} {
		p, invalid := resolver(t, nil).Resolve(pod(map[string]string{percent: good}))
		assert.Empty(t, invalid)
		assert.NotNil(t, p, good)
	}
}

func TestSpotalisAnnotationsAreReadWhereTheyWould(t *testing.T) {
	const share, least, enabled = "spotalis.io/spot-percentage", "spotalis.io/min-on-demand", "spotalis.io/enabled"
	deployment := &appsv1.Deployment{ObjectMeta: object("Deployment", "d", nil)}
	deployment.Labels = map[string]string{enabled: "true"}
	rs := &appsv1.ReplicaSet{ObjectMeta: object("ReplicaSet", "rs", map[string]string{share: "60%", least: "1"})}
	rs.OwnerReferences = ownedBy("Deployment", "apps/v1", "d")
	p := pod(nil, ownedBy("ReplicaSet", "apps/v1", "rs")...)

	r := resolver(t, known{"d": deployment, "rs": rs})
	got, _ := r.Resolve(p)
	assert.Nil(t, got, "not unless the prefix is listed")

	r.Prefixes = []string{governing.PrefixBerth, governing.PrefixSpotalis}
	got, _ = r.Resolve(p)
	require.NotNil(t, got)
	assert.Equal(t, split.New(60, 1), got.Mix)

	delete(rs.Annotations, share)
	got, _ = r.Resolve(p)
	assert.Equal(t, split.New(0, 1), got.Mix, "without a percentage it is 0")

	r.SpotalisNamespaces = sets.New("other")
	got, invalid := r.Resolve(p)
	assert.Nil(t, got, "not in this namespace")
	assert.Empty(t, invalid)
	r.SpotalisNamespaces.Insert("shop")
	got, _ = r.Resolve(p)
	assert.Equal(t, split.New(0, 1), got.Mix)

	deployment.Labels[enabled] = "false"
	got, invalid = r.Resolve(p)
	assert.Nil(t, got, "the workload is not labelled")
	assert.Empty(t, invalid)
}

func TestSpotalisAnnotationsHaveAWindow(t *testing.T) {
	const schedule, duration = "spotalis.io/disruption-schedule", "spotalis.io/disruption-duration"
	r := resolver(t, nil)
	r.Prefixes = []string{governing.PrefixBerth, governing.PrefixSpotalis}
	long := strings.Repeat("*", 1000)
	for name, c := range map[string]struct {
		annotations        map[string]string
		schedule, duration string
	}{
		"both":         {map[string]string{schedule: "0 2 * * *", duration: "4h"}, "0 2 * * *", "4h"},
		"one":          {map[string]string{schedule: "0 2 * * *"}, "0 2 * * *", ""},
		"the other":    {map[string]string{duration: "4h"}, "", "4h"},
		"a long value": {map[string]string{schedule: long, duration: "4h"}, long[:64] + "…", "4h"},
	} {
		c.annotations["spotalis.io/spot-percentage"] = "60"
		p := pod(c.annotations)
		p.Labels["spotalis.io/enabled"] = "true"
		got, _ := r.Resolve(p)
		require.NotNil(t, got, name)
		assert.Equal(t, &governing.Window{Schedule: c.schedule, Duration: c.duration, Annotations: schedule + " and " + duration}, got.Window, name)
	}
	p := pod(map[string]string{percent: "60", schedule: "0 2 * * *", duration: "4h"})
	p.Labels["spotalis.io/enabled"] = "true"
	got, _ := r.Resolve(p)
	assert.Nil(t, got.Window, "the window belongs to a percentage of the same prefix")
}

func TestPodsThatBelongToANodeAreNeverGoverned(t *testing.T) {
	r := resolver(t, nil, mixNamed("all", time.Hour, 50, nil))
	for name, p := range map[string]*corev1.Pod{
		"a DaemonSet's pod": pod(nil, ownedBy("DaemonSet", "apps/v1", "d")...),
		"a mirror pod":      pod(map[string]string{corev1.MirrorPodAnnotationKey: "x"}),
		"a static pod":      pod(nil, ownedBy("Node", "v1", "n")...),
	} {
		got, _ := r.Resolve(p)
		assert.Nil(t, got, name)
	}
}

func groupOf(pod *corev1.Pod, m *governing.Mix) (governing.GroupKey, bool) {
	r := governing.Resolver{Controllers: known{}}
	member, ok := r.Member(pod, m)
	return member.Group, ok
}

func TestGroupOf(t *testing.T) {
	owned, _ := groupOf(pod(nil, ownedBy("Job", "batch/v1", "j")...), nil)
	assert.Equal(t, governing.GroupKey{Namespace: "shop", ID: "j"}, owned)
	_, ok := groupOf(pod(nil), nil)
	assert.False(t, ok, "a bare pod without a mix belongs nowhere")
	byMix, _ := groupOf(pod(nil), &governing.Mix{Source: "capacitymix/web"})
	assert.Equal(t, "capacitymix/web", byMix.ID)
	a, _ := groupOf(pod(nil), &governing.Mix{Source: governing.SourcePod, Mix: split.New(70, 1)})
	b, _ := groupOf(pod(nil), &governing.Mix{Source: governing.SourcePod, Mix: split.New(70, 2)})
	assert.NotEqual(t, a, b, "bare pods with annotations are one group per rule")
}

func TestIdentitySlot(t *testing.T) {
	set := &appsv1.StatefulSet{ObjectMeta: object("StatefulSet", "s", nil)}
	set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5}
	controllers := known{"s": set}
	named := func(name, kind, apiVersion, uid string, annotations map[string]string) *corev1.Pod {
		p := pod(annotations, ownedBy(kind, apiVersion, uid)...)
		p.Name = name
		return p
	}
	index := func(i string) map[string]string {
		return map[string]string{batchv1.JobCompletionIndexAnnotation: i}
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want int // split.NoSlot: none
	}{
		"an ordinal":                              {named("web-3", "StatefulSet", "apps/v1", "other", nil), 3},
		"an ordinal counts from ordinals.start":   {named("web-8", "StatefulSet", "apps/v1", "s", nil), 3},
		"an ordinal below ordinals.start is none": {named("web-4", "StatefulSet", "apps/v1", "s", nil), split.NoSlot},
		"a name without an ordinal":               {named("web", "StatefulSet", "apps/v1", "other", nil), split.NoSlot},
		"another project's StatefulSet":           {named("web-3", "StatefulSet", "apps.kruise.io/v1beta1", "k", nil), split.NoSlot},
		"a completion index":                      {named("job-x", "Job", "batch/v1", "j", index("7")), 7},
		"a plain Job":                             {named("job-3", "Job", "batch/v1", "j", nil), split.NoSlot},
		"a completion index that is none":         {named("job-x", "Job", "batch/v1", "j", index("x")), split.NoSlot},
		"a completion index past all reason":      {named("job-x", "Job", "batch/v1", "j", index("2000000000")), split.NoSlot},
		"a ReplicaSet's pod":                      {named("web-3", "ReplicaSet", "apps/v1", "r", nil), split.NoSlot},
	} {
		t.Run(name, func(t *testing.T) {
			slot, ok := governing.IdentitySlot(tc.pod, controllers)
			assert.Equal(t, tc.want != split.NoSlot, ok)
			assert.Equal(t, tc.want, slot)
		})
	}
	_, ok := governing.IdentitySlot(pod(nil), controllers)
	assert.False(t, ok)
}

func TestClaimedSlot(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "17": 17, "-1": split.NoSlot, "x": split.NoSlot, "": split.NoSlot, "99999999": split.NoSlot, "1e3": split.NoSlot,
	} {
		slot, _ := governing.ClaimedSlot(pod(map[string]string{v1alpha1.SlotAnnotation: text}))
		assert.Equal(t, want, slot, "%q", text)
	}
	_, ok := governing.ClaimedSlot(pod(nil))
	assert.False(t, ok)
}

func TestFromCapacityMix(t *testing.T) {
	cm := mixNamed("web", 0, 70, nil)
	cm.Spec.MinOnDemand, cm.Spec.MaxSpot, cm.Spec.SpotWaitSeconds = 2, ptr.To[int32](9), ptr.To[int32](30)
	cm.Spec.WhenOnDemandUnavailable = v1alpha1.WhenOnDemandUnavailableSpot
	cm.Spec.SpreadSpotOver = []string{"rack"}
	cm.Spec.ProtectFloor = true
	cm.Spec.MaxPerDomain = []v1alpha1.DomainLimit{
		{TopologyKey: "zone", MaxPercent: ptr.To[int32](34)},
		{TopologyKey: "rack", MaxCount: ptr.To[int32](2), WhenUnsatisfiable: v1alpha1.WhenDomainFullScheduleAnyway},
	}
	p, _, err := governing.FromCapacityMix(cm)
	require.NoError(t, err)
	assert.Equal(t, governing.Mix{
		Source: "capacitymix/web", Mix: split.Mix{SpotPercent: 70, MinOnDemand: 2, MaxSpot: 9}, BorrowOnDemand: true,
		SpotWait: 30 * time.Second, GatedSpotWait: 30 * time.Second, BorrowSpot: true, SpreadSpotOver: []string{"rack"},
		ProtectFloor: true,
		MaxPerDomain: []domains.Limit{{Key: "zone", Percent: 34}, {Key: "rack", Count: 2, Soft: true}},
	}, p)

	cm.Spec.WhenSpotUnavailable = v1alpha1.WhenSpotUnavailableWait
	p, _, _ = governing.FromCapacityMix(cm)
	assert.False(t, p.BorrowOnDemand)
	assert.False(t, p.AvoidInterrupted)
	cm.Spec.WhenDomainInterrupted = v1alpha1.WhenDomainInterruptedDoNotSchedule
	p, _, _ = governing.FromCapacityMix(cm)
	assert.True(t, p.AvoidInterrupted)
	cm.Spec.WhenDomainInterrupted = v1alpha1.WhenDomainInterruptedScheduleAnyway
	p, _, _ = governing.FromCapacityMix(cm)
	assert.False(t, p.AvoidInterrupted)
	cm.Spec.DeletionCost = v1alpha1.DeletionCostsRespect
	p, _, _ = governing.FromCapacityMix(cm)
	assert.True(t, p.RespectCosts)
	cm.Spec.DeletionCost = v1alpha1.DeletionCostsEnforce
	p, _, _ = governing.FromCapacityMix(cm)
	assert.False(t, p.RespectCosts)

	for name, spoil := range map[string]func(*v1alpha1.CapacityMixSpec){
		"spec.spotPercent: 150 is not between 0 and 100":         func(s *v1alpha1.CapacityMixSpec) { s.SpotPercent = 150 },
		"spec.minOnDemand: -1 is not between 0 and 1000000":      func(s *v1alpha1.CapacityMixSpec) { s.MinOnDemand = -1 },
		"spec.minOnDemand: 1000001 is not between 0 and 1000000": func(s *v1alpha1.CapacityMixSpec) { s.MinOnDemand = 1_000_001 },
		"spec.spreadSpotOver: 5 label keys are more than 4": func(s *v1alpha1.CapacityMixSpec) {
			s.SpreadSpotOver = strings.Split("a b c d e", " ")
		},
		"spec.maxPerDomain: 5 limits are more than 4": func(s *v1alpha1.CapacityMixSpec) {
			s.MaxPerDomain = make([]v1alpha1.DomainLimit, 5)
		},
		"spec.maxPerDomain[1]: maxPerDomain must have exactly one of maxPercent and maxCount": func(s *v1alpha1.CapacityMixSpec) {
			s.MaxPerDomain[1].MaxPercent = ptr.To[int32](1)
		},
		"spec.maxSpot: -1 is not between 0 and 1000000": func(s *v1alpha1.CapacityMixSpec) { s.MaxSpot = ptr.To[int32](-1) },
		"spec.spotWaitSeconds: -1 is negative":          func(s *v1alpha1.CapacityMixSpec) { s.SpotWaitSeconds = new(int32(-1)) },
	} {
		bad := cm.DeepCopy()
		spoil(&bad.Spec)
		store := governing.NewRegistry()
		require.NoError(t, store.Set(cm))
		require.EqualError(t, store.Set(bad), name)
		assert.Nil(t, store.Match("shop", nil), "a mix that turned invalid governs nothing")
	}
	cm.Spec.Selector.MatchExpressions = []v1alpha1.PodSelectorRequirement{{Key: "a", Operator: "Near"}}
	require.ErrorContains(t, governing.NewRegistry().Set(cm), "spec.selector: ")
}

func TestMayBorrow(t *testing.T) {
	p := &governing.Mix{BorrowOnDemand: true, SpotWait: time.Minute}
	wait, allowed := p.MayBorrow(capacity.Spot)
	assert.True(t, allowed)
	assert.Equal(t, time.Minute, wait)
	_, allowed = p.MayBorrow(capacity.OnDemand)
	assert.False(t, allowed)
	p.BorrowSpot = true
	wait, allowed = p.MayBorrow(capacity.OnDemand)
	assert.True(t, allowed)
	assert.Zero(t, wait, "spotWaitSeconds is the wait for spot")
}

// The UID in an owner reference may be any text.
func TestAnOwnerUIDOfAnyLengthIsAShortKey(t *testing.T) {
	long := strings.Repeat("u", 1<<20)
	key, ok := groupOf(pod(nil, ownedBy("Job", "batch/v1", long)...), nil)
	require.True(t, ok)
	assert.LessOrEqual(t, len(key.ID), 64)
	const uid = "5e3d4d4e-1f53-4d6c-a1a3-9d3e3c7f0a11"
	key, _ = groupOf(pod(nil, ownedBy("Job", "batch/v1", uid)...), nil)
	assert.Equal(t, uid, key.ID)
}

func FuzzAnnotations(f *testing.F) {
	f.Add("70%", "2", "3")
	f.Add("-0", "0x1", "")
	f.Fuzz(func(t *testing.T, share, least, slot string) {
		p := pod(
			map[string]string{percent: share, floor: least, v1alpha1.SlotAnnotation: slot, batchv1.JobCompletionIndexAnnotation: slot},
			ownedBy("Job", "batch/v1", "j")...,
		)
		r := &governing.Resolver{Conventions: governing.Conventions{Prefixes: []string{governing.PrefixBerth}}, Mixes: governing.NewRegistry(), Controllers: known{}}
		got, invalid := r.Resolve(p)
		if (got == nil) == (len(invalid) == 0) {
			t.Fatalf("%q, %q: either a mix or a complaint, got %v and %v", share, least, got, invalid)
		}
		if got != nil && got.Mix.Validate() != nil {
			t.Fatalf("%q, %q: %v", share, least, got.Mix.Validate())
		}
		for _, s := range []func() (int, bool){
			func() (int, bool) { return governing.ClaimedSlot(p) },
			func() (int, bool) { return governing.IdentitySlot(p, known{}) },
		} {
			if n, ok := s(); ok != (n >= 0) || n > split.MaxSlot {
				t.Fatalf("%q: slot %d, %t", slot, n, ok)
			}
		}
	})
}

// An unset wait has another default for pods with the gate. A set one applies to both.
func TestSpotWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		seconds     *int32
		wait, gated time.Duration
	}{
		"unset":         {nil, 0, 15 * time.Minute},
		"not at all":    {new(int32(0)), 0, 0},
		"half a minute": {new(int32(30)), 30 * time.Second, 30 * time.Second},
	} {
		wait, gated := governing.SpotWaits(tc.seconds)
		assert.Equal(t, tc.wait, wait, name)
		assert.Equal(t, tc.gated, gated, name)

		cm := mixNamed("web", 0, 70, nil)
		cm.Spec.SpotWaitSeconds = tc.seconds
		p, _, err := governing.FromCapacityMix(cm)
		require.NoError(t, err)
		assert.Equal(t, tc.wait, p.SpotWait, name)
		assert.Equal(t, tc.gated, p.GatedSpotWait, name)
		assert.Nil(t, p.Tolerations, name)
	}
}

func TestTolerationsOfAMix(t *testing.T) {
	cm := mixNamed("web", 0, 70, nil)
	cm.Spec.Tolerations = &v1alpha1.TolerationsByType{
		Spot: []v1alpha1.Toleration{
			{Key: "spot", Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoSchedule},
			{Key: "gone", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(9))},
		},
	}
	p, _, err := governing.FromCapacityMix(cm)
	require.NoError(t, err)
	assert.Equal(t, map[capacity.Type][]corev1.Toleration{
		capacity.Spot: {
			{Key: "spot", Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoSchedule},
			{Key: "gone", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(9))},
		},
		capacity.OnDemand: nil,
	}, p.Tolerations)
}

// Annotations cannot set a wait: the defaults apply.
func TestAMixOfAnnotationsHasTheDefaultWaits(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Annotations = map[string]string{percent: "70", floor: "2"}
	r := governing.Resolver{Conventions: governing.Conventions{Prefixes: []string{governing.PrefixBerth}}, Mixes: governing.NewRegistry(), Controllers: known{}}
	p, invalid := r.Resolve(pod)
	require.Empty(t, invalid)
	require.NotNil(t, p)
	assert.Zero(t, p.SpotWait)
	assert.Equal(t, governing.DefaultGatedSpotWait, p.GatedSpotWait)
}
