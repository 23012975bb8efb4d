// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/plugins/internal/perscheduler"
)

func TestPreFilter(t *testing.T) {
	t.Parallel()
	f := newFixture(t, defaultArgs())
	f.set(limit("shop", "small", cpu("500m")))
	f.set(limit("shop", "large", cpu("2"), onNodes("pool", "batch")))
	f.set(limit("sizes", "shared", onNodes("pool", "shared")))
	f.set(limit("shop", "free"))
	member := pod("a", "")
	member.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("gang")}
	for name, tc := range map[string]struct {
		pod        *corev1.Pod
		wantCode   fwk.Code
		wantReason string
		wantLimit  string
	}{
		"a pod without a size is left alone":                      {pod: pod("a", ""), wantCode: fwk.Skip},
		"a size without node rules filters nothing, but is known": {pod: pod("a", "free"), wantCode: fwk.Skip, wantLimit: "shop/free"},
		"a pod within its size goes on":                           {pod: pod("a", "large"), wantCode: fwk.Success, wantLimit: "shop/large"},
		"a size of the default namespace":                         {pod: pod("a", "shared"), wantCode: fwk.Success, wantLimit: "sizes/shared"},
		"a member of a group outside of the cycle of its group": {
			pod: member, wantCode: fwk.UnschedulableAndUnresolvable, wantReason: perscheduler.ErrReasonGroupsOff,
		},
		"a size that is not there": {
			pod: pod("a", "huge"), wantCode: fwk.UnschedulableAndUnresolvable, wantReason: `ResourceLimit "shop/huge" does not exist`,
		},
		"a pod above its size": {
			pod: pod("a", "small"), wantCode: fwk.UnschedulableAndUnresolvable, wantReason: `pod is above ResourceLimit "shop/small": cpu request 1 is above 500m`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := framework.NewCycleState()
			result, status := f.plugin.PreFilter(f.Ctx, state, tc.pod, nil)
			assert.Nil(t, result)
			assert.Equal(t, tc.wantCode, status.Code())
			assert.Equal(t, tc.wantReason, status.Message())
			got := ""
			if l := limitOf(state); l != nil {
				got = l.Key
			}
			assert.Equal(t, tc.wantLimit, got)
		})
	}
}

func TestFilterGivesEachNodeAStatusOfItsOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, defaultArgs())
	f.set(limit("shop", "large", onNodes("pool", "batch")))
	state := framework.NewCycleState()
	_, status := f.plugin.PreFilter(f.Ctx, state, pod("a", "large"), nil)
	require.True(t, status.IsSuccess())

	assert.Nil(t, f.plugin.Filter(f.Ctx, state, nil, info(node("n", map[string]string{"pool": "batch"}))))
	first := f.plugin.Filter(f.Ctx, state, nil, info(node("n", map[string]string{"pool": "web"})))
	assert.Equal(t, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, `node(s) didn't match the node rules of ResourceLimit "shop/large"`), first)
	assert.NotSame(t, first, f.plugin.Filter(f.Ctx, state, nil, info(node("n", nil))), "the runtime writes to it from parallel goroutines")
}

func prefers(weight int32, key, value string) func(*v1alpha1.ResourceLimitSpec) {
	return func(s *v1alpha1.ResourceLimitSpec) {
		if s.NodeAffinity == nil {
			s.NodeAffinity = &v1alpha1.NodeAffinity{}
		}
		s.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(s.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
			v1alpha1.PreferredNodeTerm{Weight: weight, Preference: v1alpha1.NodeTerm{MatchExpressions: []v1alpha1.NodeRequirement{
				{Key: key, Operator: v1alpha1.NodeOpIn, Values: []string{value}},
			}}})
	}
}

func TestScore(t *testing.T) {
	t.Parallel()
	f := newFixture(t, defaultArgs())
	f.set(limit("shop", "picky", prefers(30, "disk", "ssd"), prefers(10, "zone", "a")))
	f.set(limit("shop", "plain", onNodes("pool", "batch")))
	nodes := []fwk.NodeInfo{
		info(node("both", map[string]string{"disk": "ssd", "zone": "a"})), info(node("one", map[string]string{"zone": "a"})), info(node("none", nil)),
	}
	score := func(p *corev1.Pod) (fwk.NodeScoreList, *fwk.Status) {
		state := framework.NewCycleState()
		_, _ = f.plugin.PreFilter(f.Ctx, state, p, nil)
		if status := f.plugin.PreScore(f.Ctx, state, p, nodes); !status.IsSuccess() {
			return nil, status
		}
		var scores fwk.NodeScoreList
		for _, n := range nodes {
			s, status := f.plugin.Score(f.Ctx, state, p, n)
			require.True(t, status.IsSuccess())
			scores = append(scores, fwk.NodeScore{Name: n.Node().Name, Score: s})
		}
		return scores, f.plugin.ScoreExtensions().NormalizeScore(f.Ctx, state, p, scores)
	}

	scores, status := score(pod("a", "picky"))
	assert.True(t, status.IsSuccess())
	assert.Equal(t, fwk.NodeScoreList{{Name: "both", Score: 100}, {Name: "one", Score: 25}, {Name: "none", Score: 0}}, scores)

	for name, p := range map[string]*corev1.Pod{"a size without preferences": pod("a", "plain"), "no size": pod("a", "")} {
		_, status := score(p)
		assert.True(t, status.IsSkip(), name)
	}
	filled := pod("a", "picky")
	filled.Annotations = map[string]string{v1alpha1.ResolvedLimitAnnotation: "shop/picky@1"}
	_, status = score(filled)
	assert.True(t, status.IsSkip(), "the webhook has put the preferences into the pod")
	filled.Annotations[v1alpha1.ResolvedLimitAnnotation] = "shop/picky@0"
	_, status = score(filled)
	assert.True(t, status.IsSuccess(), "it was another generation that the webhook saw")
}

func TestANodeWakesAPodWhenItComesToMatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t, defaultArgs())
	f.set(limit("shop", "large", cpu("2"), onNodes("pool", "batch")))
	f.set(limit("shop", "small", cpu("500m"), onNodes("pool", "batch")))
	batch, web := node("n", map[string]string{"pool": "batch"}), node("n", map[string]string{"pool": "web"})
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		old, now any
		want     fwk.QueueingHint
	}{
		"a new node that matches":               {pod: pod("a", "large"), now: batch, want: fwk.Queue},
		"a new node that does not":              {pod: pod("a", "large"), now: web, want: fwk.QueueSkip},
		"a label that makes it match":           {pod: pod("a", "large"), old: web, now: batch, want: fwk.Queue},
		"a label of a node that matched before": {pod: pod("a", "large"), old: batch, now: batch, want: fwk.QueueSkip},
		"a pod above its size":                  {pod: pod("a", "small"), now: batch, want: fwk.QueueSkip},
		"a pod whose size does not exist":       {pod: pod("a", "huge"), now: batch, want: fwk.QueueSkip},
	} {
		got, err := f.plugin.nodeChanged(klog.Background(), tc.pod, tc.old, tc.now)
		require.NoError(t, err, name)
		assert.Equal(t, tc.want, got, name)
	}
	_, err := f.plugin.nodeChanged(klog.Background(), pod("a", "large"), nil, pod("a", ""))
	require.EqualError(t, err, "want a node, got *v1.Pod")
}

func TestAPodWakesItselfOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, defaultArgs())
	for other, want := range map[string]fwk.QueueingHint{"a": fwk.Queue, "b": fwk.QueueSkip} {
		got, err := f.plugin.podChanged(klog.Background(), pod("a", "large"), nil, pod(other, "small"))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := f.plugin.podChanged(klog.Background(), pod("a", "large"), nil, nil)
	require.EqualError(t, err, "want a pod, got <nil>")
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	_, err := NewFactory()(t.Context(), &config.CapacityMixArgs{}, nil)
	require.EqualError(t, err, "want args to be of type ResourceLimitArgs, got *config.CapacityMixArgs")
	_, err = NewFactory()(t.Context(), &config.ResourceLimitArgs{DefaultNamespace: "A"}, nil)
	require.ErrorContains(t, err, `pluginConfig.ResourceLimit.args.defaultNamespace: Invalid value: "A"`)
}

func TestProfilesShareOneDefaultNamespace(t *testing.T) {
	t.Parallel()
	f := newFixture(t, defaultArgs())
	create := NewFactory()
	first, err := create(t.Context(), defaultArgs(), f.framework)
	require.NoError(t, err)
	second, err := create(t.Context(), &config.ResourceLimitArgs{DefaultNamespace: "sizes", SyncTimeoutSeconds: 5}, f.framework)
	require.NoError(t, err)
	assert.Same(t, first.(*ResourceLimit).shared, second.(*ResourceLimit).shared)
	_, err = create(t.Context(), &config.ResourceLimitArgs{SyncTimeoutSeconds: 60}, f.framework)
	require.EqualError(t, err, `pluginConfig.ResourceLimit.args.defaultNamespace: must be the same in all profiles of a scheduler, not "sizes" and ""`)
}
