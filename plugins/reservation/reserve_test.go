// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/plugins/internal/cyclestate"
)

// bindings has the API receive the Bindings, with a response.
func (f *fixture) bindings(response error) (received *[]*corev1.Binding) {
	received = &[]*corev1.Binding{}
	f.React("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		b, ok := a.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
		if ok {
			*received = append(*received, b)
		}
		return ok, nil, response
	})
	return received
}

func TestReserveUsesWhatIsHeldOnTheNode(t *testing.T) {
	f := newFixture(t)
	f.hold("later", "n1")
	a, b := pod("web", "a"), pod("web", "b")
	states := map[*corev1.Pod]fwk.CycleState{}
	for _, p := range []*corev1.Pod{a, b} {
		states[p], _ = f.try(p)
	}
	assert.Nil(t, f.plugin.Reserve(f.Ctx, states[a], a, "n2"))
	assert.Nil(t, cyclestate.ReadReserved(states[a]).Annotations(), "nothing is held there")
	assert.Equal(t, []string{"n1"}, f.owned(b))

	assert.Nil(t, f.plugin.Reserve(f.Ctx, states[a], a, "n1"))
	assert.Equal(t, map[string]string{v1alpha1.ReservationAnnotation: "later"}, cyclestate.ReadReserved(states[a]).Annotations())
	assert.Empty(t, f.owned(b))
	status := f.plugin.Reserve(f.Ctx, states[b], b, "n1")
	assert.Equal(t, []any{fwk.Unschedulable, ErrReasonLost}, []any{status.Code(), status.Message()}, "another pod uses it")
	assert.Nil(t, cyclestate.ReadReserved(states[b]).Annotations())
	assert.Equal(t, map[string]int{"shop/b": 1}, f.Activated.Take(), "it is tried again at once")
}

func TestReserveFailsAfterTheExpiration(t *testing.T) {
	f := newFixture(t)
	f.hold("later", "n1")
	p := pod("web", "a")
	state, _ := f.try(p)
	f.advance(time.Hour)
	assert.Equal(t, ErrReasonLost, f.plugin.Reserve(f.Ctx, state, p, "n1").Message())
}

func TestUnreserveCanBeCalledTwiceAndWithoutReserve(t *testing.T) {
	f := newFixture(t)
	p, other := pod("web", "a"), pod("web", "b")
	f.plugin.Unreserve(f.Ctx, framework.NewCycleState(), p, "n1")
	f.hold("later", "n1")
	state, _ := f.try(p)
	f.plugin.Unreserve(f.Ctx, state, p, "n1")
	assert.Equal(t, []string{"n1"}, f.owned(other), "without Reserve")

	state = f.reserve(t, p, "n1")
	require.Empty(t, f.owned(other))
	before := f.plugin.holdings.Freed(began)
	f.plugin.Unreserve(f.Ctx, state, p, "n1")
	assert.Equal(t, []string{"n1"}, f.owned(other))
	assert.Nil(t, cyclestate.ReadReserved(state).Annotations())
	assert.Equal(t, before+1, f.plugin.holdings.Freed(began))

	f.reserve(t, other, "n1")
	f.plugin.Unreserve(f.Ctx, state, p, "n1")
	assert.Empty(t, f.owned(p), "twice: another pod uses it now")
	assert.Equal(t, before+1, f.plugin.holdings.Freed(began))
}

func TestBindWritesTheReservationOnThePod(t *testing.T) {
	f := newFixture(t)
	f.hold("later", "n1")
	received := f.bindings(nil)
	p := pod("web", "a")
	state := f.reserve(t, p, "n1")
	assert.True(t, f.plugin.Bind(f.Ctx, state, p, "n1").IsSuccess())
	require.Len(t, *received, 1)
	b := (*received)[0]
	assert.Equal(t, map[string]string{v1alpha1.ReservationAnnotation: "later"}, b.Annotations)
	assert.Equal(t, []string{"shop", "a", "a", "n1"}, []string{b.Namespace, b.Name, string(b.UID), b.Target.Name})

	bound := p.DeepCopy()
	bound.Annotations, bound.Spec.NodeName = b.Annotations, "n1"
	f.plugin.podHandler().OnUpdate(p, bound)
	f.plugin.Unreserve(f.Ctx, state, p, "n1")
	assert.Empty(t, f.owned(pod("web", "b")), "a pod that is bound gives nothing back")
}

func TestAFailedBindingIsAnError(t *testing.T) {
	f := newFixture(t)
	f.hold("later", "n1")
	f.bindings(errors.New("no"))
	p := pod("web", "a")
	state := f.reserve(t, p, "n1")
	status := f.plugin.Bind(f.Ctx, state, p, "n1")
	require.EqualError(t, status.AsError(), "no")
	f.plugin.Unreserve(f.Ctx, state, p, "n1")
	assert.Equal(t, []string{"n1"}, f.owned(p))
}

func TestOtherPodsAreLeftToTheNextBinder(t *testing.T) {
	f := newFixture(t)
	received := f.bindings(nil)
	p := pod("web", "a")
	assert.True(t, f.plugin.Bind(f.Ctx, framework.NewCycleState(), p, "n1").IsSkip(), "nothing is held")
	f.hold("later", "n1")
	assert.True(t, f.plugin.Bind(f.Ctx, f.reserve(t, p, "n2"), p, "n2").IsSkip(), "nothing is held there")
	other := pod("other", "b")
	assert.True(t, f.plugin.Bind(f.Ctx, f.reserve(t, other, "n1"), other, "n1").IsSkip(), "it is not held for it")
	assert.Empty(t, *received)
}

func TestALateBindWithAnExpiredReservationFails(t *testing.T) {
	f := newFixture(t)
	f.hold("later", "n1")
	received := f.bindings(nil)
	p := pod("web", "a")
	state := f.reserve(t, p, "n1")
	f.advance(time.Hour)
	status := f.plugin.Bind(f.Ctx, state, p, "n1")
	assert.Equal(t, []any{fwk.Unschedulable, ErrReasonExpired}, []any{status.Code(), status.Message()})
	assert.Empty(t, *received)
	assert.Equal(t, map[string]int{"shop/a": 1}, f.Activated.Take(), "it is tried again without the Reservation")
	f.plugin.Unreserve(f.Ctx, state, p, "n1")
	assert.True(t, f.plugin.holdings.View(f.clock.Now()).Empty())

	f.hold("again", "n1")
	state = f.reserve(t, p, "n1")
	f.advance(time.Hour - 1)
	assert.True(t, f.plugin.Bind(f.Ctx, state, p, "n1").IsSuccess(), "it expires in a moment")
	assert.Len(t, *received, 1)
}
