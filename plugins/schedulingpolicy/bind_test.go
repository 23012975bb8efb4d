// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/plugins/schedulingpolicy/nodelock"
	"berth.dev/berth/scheduler/upstream"
)

func pessimistic(r *v1alpha1.SchedulingRules) {
	r.Bind = &v1alpha1.BindRules{Mode: v1alpha1.BindPessimistic, LockTimeoutSeconds: ptr.To[int32](1)}
}

func TestANodeAdmitsWhatFitsBesideItsPods(t *testing.T) {
	t.Parallel()
	done := func(phase corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = phase } }
	ssd := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }
	large, port := requests("3", "1Gi"), func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	}
	for name, test := range map[string]struct {
		running []*corev1.Pod
		pod     *corev1.Pod
		node    *corev1.Node
		want    string
	}{
		"an empty node":            {nil, pod("x", "", large), node("n", "a"), ""},
		"a node without capacity":  {[]*corev1.Pod{pod("1", "n", large)}, pod("x", "", large), node("n", "a"), "Insufficient cpu"},
		"pods that have succeeded": {[]*corev1.Pod{pod("1", "n", large, done(corev1.PodSucceeded))}, pod("x", "", large), node("n", "a"), ""},
		"pods that have failed":    {[]*corev1.Pod{pod("1", "n", large, done(corev1.PodFailed))}, pod("x", "", large), node("n", "a"), ""},
		"the pod itself":           {[]*corev1.Pod{pod("x", "n", large)}, pod("x", "", large), node("n", "a"), ""},
		"a port that is in use":    {[]*corev1.Pod{pod("1", "n", port)}, pod("x", "", port), node("n", "a"), "node(s) didn't have free ports"},
		"a node of another label":  {nil, pod("x", "", ssd), node("n", "a"), "node(s) didn't match Pod's node affinity/selector"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var running []corev1.Pod
			for _, p := range test.running {
				running = append(running, *p)
			}
			err := (&SchedulingPolicy{admission: upstream.Admission{}}).admits(test.node, running, test.pod)
			if test.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, "node n does not admit the pod any more: "+test.want)
		})
	}
}

// bound runs Bind for a pod on a node, after a cycle that selected the node.
func (f *fixture) bind(t *testing.T, p *corev1.Pod) (fwk.CycleState, string, *fwk.Status) {
	t.Helper()
	on, state := f.place(t, p)
	return state, on, f.plugin.Bind(f.Ctx, state, p, on)
}

func (f *fixture) holder(t *testing.T, node string) string {
	t.Helper()
	lease, err := f.Client.CoordinationV1().Leases("berth-system").Get(t.Context(), nodelock.Name(node), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "no lease"
	}
	require.NoError(t, err)
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// created has the API server have the fixture's nodes.
func (f *fixture) created(t *testing.T) {
	t.Helper()
	for _, n := range f.nodes {
		_, err := f.Client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, f.Informers.Core().V1().Nodes().Informer().GetIndexer().Add(n))
	}
}

func TestAPessimisticPolicyLocksTheNodeUntilThePodIsBound(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(2)...)
	f.created(t)
	f.set(policy(pessimistic))
	p := pod("x", "")
	state, on, status := f.bind(t, p)
	require.True(t, status.IsSkip(), "another plugin binds the pod: %s", status.Message())
	assert.NotEmpty(t, f.holder(t, on))
	f.framework.RunPostBindPlugins(f.Ctx, state, p, on)
	assert.Empty(t, f.holder(t, on))

	state, on, status = f.bind(t, p)
	require.True(t, status.IsSkip())
	f.framework.RunReservePluginsUnreserve(f.Ctx, state, p, on)
	f.framework.RunReservePluginsUnreserve(f.Ctx, state, p, on)
	assert.Empty(t, f.holder(t, on), "a pod that is not bound locks nothing")
}

func TestAnOptimisticPolicyLocksNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(2)...)
	f.created(t)
	f.set(policy())
	_, on, status := f.bind(t, pod("x", ""))
	assert.True(t, status.IsSkip())
	assert.Equal(t, "no lease", f.holder(t, on))
}

// The scheduler's cache does not have the pod that another scheduler bound.
func TestAPodThatDoesNotFitAnyMoreIsNotBound(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(1)...)
	f.created(t)
	f.set(policy(pessimistic))
	f.React("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.PodList{Items: []corev1.Pod{*pod("other", "n00", requests("4", "1Gi"))}}, nil
	})
	_, on, status := f.bind(t, pod("x", ""))
	assert.Equal(t, fwk.Unschedulable, status.Code())
	assert.Equal(t, "node n00 does not admit the pod any more: Insufficient cpu", status.Message())
	assert.Empty(t, f.holder(t, on))
}

func TestANodeThatCannotBeLockedOrReadIsNotUsed(t *testing.T) {
	t.Parallel()
	refuse := func(verb, resource string) func(*fixture) {
		return func(f *fixture) {
			f.React(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
			})
		}
	}
	for name, test := range map[string]struct {
		refuse func(*fixture)
		want   string
	}{
		"the lease is refused":       {refuse("create", "leases"), "lock node n00: "},
		"the node is not answered":   {refuse("get", "nodes"), "verify the node: "},
		"the pods are not answered":  {refuse("list", "pods"), "verify node n00: list its pods: "},
		"the lock is held by others": {func(f *fixture) { f.hold(t, "n00") }, "node n00 is locked by another: spec.bind.lockTimeoutSeconds is over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, noArgs(), fleetOf(1)...)
			f.created(t)
			f.set(policy(pessimistic))
			test.refuse(f)
			_, _, status := f.bind(t, pod("x", ""))
			assert.Equal(t, fwk.Unschedulable, status.Code())
			assert.Contains(t, status.Message(), test.want)
		})
	}
}

// hold has another scheduler lock a node.
func (f *fixture) hold(t *testing.T, name string) {
	t.Helper()
	locks := nodelock.New(f.Client.CoordinationV1().Leases("berth-system"), "another", clock.RealClock{})
	_, err := locks.Lock(t.Context(), node(name, "a"))
	require.NoError(t, err)
}
