// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
)

// applied are the statuses that were written, and the error that the API server returns for a write.
type applied struct {
	statuses []v1alpha1.SchedulingPolicyStatus
	err      error
}

// cluster has policies and pods. What is written is recorded, and read from then on.
func cluster(t *testing.T, policies ...*v1alpha1.SchedulingPolicy) (*Controller, *clocktesting.FakePassiveClock, *applied) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	writes := &applied{}
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.SchedulingPolicy{}).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
			require.Equal(t, "status", sub)
			require.Equal(t, types.ApplyPatchType, patch.Type())
			if writes.err != nil {
				return writes.err
			}
			sent := &v1alpha1.SchedulingPolicy{}
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.(*unstructured.Unstructured).Object, sent))
			require.Empty(t, sent.Spec, "nothing but the status is applied")
			writes.statuses = append(writes.statuses, sent.Status)
			stored := &v1alpha1.SchedulingPolicy{}
			require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(o), stored))
			stored.Status = sent.Status
			require.NoError(t, c.Status().Update(ctx, stored))
			o.SetResourceVersion(stored.ResourceVersion)
			return nil
		},
	})
	for _, p := range policies {
		b = b.WithObjects(p)
	}
	clock := clocktesting.NewFakePassiveClock(began)
	c := New(Options{Client: b.Build(), Clock: clock, Pods: fixedPods(pods(3, "app=web"))})
	for _, p := range policies {
		c.Set(p.DeepCopy())
	}
	return c, clock, writes
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// reconciled is how long a policy waits until it is reconciled again.
func reconciled(t *testing.T, c *Controller, name string) time.Duration {
	t.Helper()
	result, err := c.Reconcile(t.Context(), request(name))
	require.NoError(t, err)
	return result.RequeueAfter
}

func TestAStatusIsWrittenOnce(t *testing.T) {
	c, clock, writes := cluster(t, policy("web", 2, "app=web"), policy("all", 1, ""))
	assert.Zero(t, reconciled(t, c, "web"))
	assert.Empty(t, writes.statuses, "it was not counted")
	c.recount(namespace)
	for range 3 {
		assert.Zero(t, reconciled(t, c, "web"))
		clock.SetTime(clock.Now().Add(time.Hour))
	}
	require.Len(t, writes.statuses, 1)
	assert.EqualValues(t, 3, writes.statuses[0].PodCount)
	assert.Zero(t, reconciled(t, c, "all"))
	require.Len(t, writes.statuses, 2)
	assert.Equal(t, v1alpha1.ReasonConflict, writes.statuses[1].Conditions[0].Reason)
}

func TestOnlyTheVersionThatWasCountedGetsAStatus(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.SchedulingPolicy){
		"an older spec":  func(p *v1alpha1.SchedulingPolicy) { p.Generation = 2 },
		"another object": func(p *v1alpha1.SchedulingPolicy) { p.UID = "new" },
	} {
		c, _, writes := cluster(t, policy("web", 1, "app=web"))
		c.recount(namespace)
		p := &v1alpha1.SchedulingPolicy{}
		require.NoError(t, c.Client.Get(t.Context(), request("web").NamespacedName, p))
		change(p)
		require.NoError(t, c.Client.Update(t.Context(), p))
		assert.Zero(t, reconciled(t, c, "web"), name)
		assert.Empty(t, writes.statuses, name)
		c.Set(p)
		assert.Equal(t, []string{"web"}, c.recount(namespace), name)
		reconciled(t, c, "web")
		assert.Len(t, writes.statuses, 1, name)
	}
}

func TestAStatusThatCannotBeWrittenIsRetried(t *testing.T) {
	c, clock, writes := cluster(t, policy("web", 1, "app=web"))
	c.recount(namespace)
	writes.err = errors.New("no route")
	_, err := c.Reconcile(t.Context(), request("web"))
	require.ErrorContains(t, err, "write the status of SchedulingPolicy shop/web: no route")
	writes.err = nil
	assert.Equal(t, writeEvery, reconciled(t, c, "web"), "not at once")
	clock.SetTime(clock.Now().Add(writeEvery))
	assert.Zero(t, reconciled(t, c, "web"))
	assert.Len(t, writes.statuses, 1)
}

func TestNothingIsKeptOfADeletedPolicy(t *testing.T) {
	p := policy("web", 1, "app=web")
	c, _, writes := cluster(t, p)
	c.recount(namespace)
	reconciled(t, c, "web")
	require.Len(t, writes.statuses, 1)
	require.Equal(t, 1, c.statuses.Len())
	require.NoError(t, c.Client.Delete(t.Context(), p))
	assert.Zero(t, reconciled(t, c, "web"))
	assert.Zero(t, c.statuses.Len())
}

func TestWritesAreBoundedForOneAndForAll(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(began)
	c := New(Options{Clock: clock})
	one := types.NamespacedName{Namespace: namespace, Name: "one"}
	assert.Zero(t, c.wait(one, false))
	assert.Equal(t, writeEvery, c.wait(one, false), "a write a second")
	clock.SetTime(began.Add(300 * time.Millisecond))
	assert.Equal(t, 700*time.Millisecond, c.wait(one, false))
	granted := func(prefix string, excess bool) (n int) {
		for i := range 1000 {
			if c.wait(types.NamespacedName{Name: fmt.Sprint(prefix, i)}, excess) == 0 {
				n++
			}
		}
		return n
	}
	assert.InDelta(t, excessAtOnce, granted("excess-", true), 1, "those that govern no pod")
	assert.Equal(t, excessDelay, c.wait(types.NamespacedName{Name: "excess"}, true), "they try again later")
	assert.InDelta(t, writesAtOnce, 1+granted("other-", false), 3, "which does not delay the others")
	assert.Equal(t, writeEvery, c.wait(types.NamespacedName{Name: "next"}, false))
}
