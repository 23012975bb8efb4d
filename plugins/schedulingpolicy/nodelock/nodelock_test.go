// SPDX-License-Identifier: Apache-2.0

package nodelock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid"}}
}

// world is an API server for several schedulers.
type world struct {
	client *fake.Clientset
	clock  *clocktesting.FakeClock
}

func newWorld() *world {
	return &world{client: fake.NewClientset(), clock: clocktesting.NewFakeClock(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))}
}

func (w *world) scheduler(identity string) *Locks {
	return New(w.client.CoordinationV1().Leases("locks"), identity, w.clock)
}

// holder is who holds the lock of a node.
func (w *world) holder(t *testing.T, node string) string {
	t.Helper()
	lease, err := w.client.CoordinationV1().Leases("locks").Get(t.Context(), Name(node), metav1.GetOptions{})
	require.NoError(t, err)
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// briefly is a context that ends soon, for waits that do not succeed.
func briefly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*retry, errors.New("the time is over"))
	t.Cleanup(cancel)
	return ctx
}

func TestALockExcludesOtherSchedulers(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a, b := w.scheduler("a"), w.scheduler("b")
	unlock, err := a.Lock(t.Context(), node("n1"))
	require.NoError(t, err)
	assert.Equal(t, "a", w.holder(t, "n1"))
	_, err = b.Lock(briefly(t), node("n1"))
	require.EqualError(t, err, "node n1 is locked by a: the time is over")
	other, err := b.Lock(t.Context(), node("n2"))
	require.NoError(t, err, "other nodes are not locked")
	other()

	unlock()
	unlock() // twice is once
	assert.Empty(t, w.holder(t, "n1"))
	unlock, err = b.Lock(t.Context(), node("n1"))
	require.NoError(t, err)
	assert.Equal(t, "b", w.holder(t, "n1"))
	unlock()
	assert.Empty(t, b.nodes, "nothing is kept of nodes that are not locked")
}

// The last request can end with the wait: its error names no holder.
func TestAWaitThatEndsWithARequestNamesTheHolder(t *testing.T) {
	t.Parallel()
	w := newWorld()
	_, err := w.scheduler("a").Lock(t.Context(), node("n1"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	reads := 0
	w.client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if reads++; reads == 1 {
			return false, nil, nil
		}
		cancel(errors.New("the time is over"))
		return true, nil, ctx.Err()
	})
	_, err = w.scheduler("b").Lock(ctx, node("n1"))
	require.EqualError(t, err, "node n1 is locked by a: the time is over")
}

func TestANodeWithAnyNameHasALease(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.SliceOfN(rapid.StringMatching(`[a-z0-9][-a-z0-9]{0,61}[a-z0-9]`), 1, 8).Draw(t, "labels")
		name := strings.Join(labels, ".") + strings.Repeat(".a", 127)
		name = strings.TrimRight(name[:rapid.IntRange(1, 253).Draw(t, "length")], ".-")
		lease := Name(name)
		require.Empty(t, validation.NameIsDNSSubdomain(lease, false), lease)
		if len(name) <= 243 {
			require.Equal(t, prefix+name, lease)
		}
	})
	long := strings.Repeat("a.", 120)
	assert.Empty(t, validation.NameIsDNSSubdomain(Name(long+"node-1"), false))
	assert.NotEqual(t, Name(long+"node-1"), Name(long+"node-2"))
}

// The garbage collector deletes a Lease whose owner is gone, also one that is held.
func TestTheLeaseOfARecreatedNodeBelongsToIt(t *testing.T) {
	t.Parallel()
	w := newWorld()
	unlock, err := w.scheduler("a").Lock(t.Context(), node("n1"))
	require.NoError(t, err)
	unlock()
	again := node("n1")
	again.UID = "recreated"
	unlock, err = w.scheduler("b").Lock(t.Context(), again)
	require.NoError(t, err)
	defer unlock()
	lease, err := w.client.CoordinationV1().Leases("locks").Get(t.Context(), Name("n1"), metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "recreated"}}, lease.OwnerReferences)
}

// A scheduler that is killed leaves its Lease behind. Clocks of two machines differ, so it expires when it did not change for
// its duration, as the other one sees it.
func TestTheLockOfAKilledSchedulerExpires(t *testing.T) {
	t.Parallel()
	w := newWorld()
	_, err := w.scheduler("killed").Lock(t.Context(), node("n1"))
	require.NoError(t, err)
	b := w.scheduler("b")
	_, err = b.Lock(briefly(t), node("n1"))
	require.ErrorContains(t, err, "node n1 is locked by killed")
	w.clock.Step(Duration - time.Second)
	_, err = b.Lock(briefly(t), node("n1"))
	require.Error(t, err)
	w.clock.Step(time.Second)
	unlock, err := b.Lock(t.Context(), node("n1"))
	require.NoError(t, err, "what one attempt saw counts for the next")
	unlock()
}

// Within a scheduler the Lease is passed on, and taken and released once for all that wait.
func TestPodsOfOneSchedulerShareTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.scheduler("a")
	var inside, most, writes atomic.Int32
	w.client.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetVerb() != "get" {
			writes.Add(1)
		}
		return false, nil, nil
	})
	first, err := a.Lock(t.Context(), node("n1"))
	require.NoError(t, err)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			unlock, err := a.Lock(t.Context(), node("n1"))
			assert.NoError(t, err)
			most.Store(max(most.Load(), inside.Add(1)))
			inside.Add(-1)
			unlock()
		})
	}
	require.Eventually(t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.nodes["n1"].users == 21
	}, 10*time.Second, time.Millisecond, "all wait")
	first()
	group.Wait()
	assert.EqualValues(t, 1, most.Load(), "one at a time")
	assert.EqualValues(t, 2, writes.Load(), "one write takes the Lease, one releases it")
	assert.Empty(t, w.holder(t, "n1"))
}

func TestTheLeaseIsRenewedBeforeABindingThatItMightNotOutlast(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.scheduler("a")
	first, err := a.Lock(t.Context(), node("n1"))
	require.NoError(t, err)
	locked := make(chan func())
	go func() {
		second, err := a.Lock(t.Context(), node("n1"))
		assert.NoError(t, err)
		locked <- second
	}()
	require.Eventually(t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.nodes["n1"].users == 2
	}, 10*time.Second, time.Millisecond)
	w.clock.Step(Duration - margin)
	first()
	second := <-locked
	lease, err := w.client.CoordinationV1().Leases("locks").Get(t.Context(), Name("n1"), metav1.GetOptions{})
	require.NoError(t, err)
	assert.True(t, w.clock.Now().Equal(lease.Spec.RenewTime.Time))
	second()
	assert.Empty(t, w.holder(t, "n1"))
}

func TestAWaitThatIsGivenUpLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.scheduler("a")
	first, err := a.Lock(t.Context(), node("n1"))
	require.NoError(t, err)
	_, err = a.Lock(briefly(t), node("n1"))
	require.EqualError(t, err, "node n1 is locked by a, this scheduler, for other pods: the time is over")
	first()
	assert.Empty(t, w.holder(t, "n1"))
	again, err := a.Lock(t.Context(), node("n1"))
	require.NoError(t, err)
	again()
}

func TestAConflictIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld()
	unlock, err := w.scheduler("a").Lock(t.Context(), node("n1"))
	require.NoError(t, err)
	unlock()
	conflicts := 2
	w.client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflicts--; conflicts >= 0 {
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, Name("n1"), nil)
		}
		return false, nil, nil
	})
	unlock, err = w.scheduler("b").Lock(t.Context(), node("n1"))
	require.NoError(t, err)
	unlock()
}

func TestAnErrorOfTheAPIServerIsReturned(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.client.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, Name("n1"), nil)
	})
	a := w.scheduler("a")
	_, err := a.Lock(t.Context(), node("n1"))
	require.ErrorContains(t, err, "lock node n1: ")
	require.True(t, apierrors.IsForbidden(err))
	assert.Empty(t, a.nodes)
}

// The holder keeps the Lease for a pod that waits; if that pod gives up at the same moment, it is the last one.
func TestTheLastOneThatGivesUpReleasesTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.scheduler("a")
	unlock, err := a.Lock(t.Context(), node("n1"))
	require.NoError(t, err)
	waiting := a.join("n1")
	unlock()
	assert.Equal(t, "a", w.holder(t, "n1"))
	a.leave(t.Context(), "n1", waiting, false)
	assert.Empty(t, w.holder(t, "n1"))
}
