// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// wake does what the Placer does after each round.
func (f *fixture) wake() map[string]int {
	f.plugin.waiting.wake(f.plugin.ledger.Freed(f.clock.Now()))
	return f.Activated.Take()
}

func TestPodsAreWokenOncePerChange(t *testing.T) {
	f := newFixture(t)
	r := f.hold("later", "n1", "n2")
	f.wake()
	p := pod("other", "a")
	woken := map[string]int{"shop/a": 1}
	f.try(p)
	assert.Empty(t, f.wake(), "nothing has changed")

	f.hold("more", "n3")
	assert.Equal(t, woken, f.wake(), "what is held was tried without it")
	assert.Empty(t, f.wake(), "once")
	f.try(p)
	web := pod("web", "w")
	state := f.reserve(t, web, "n1")
	f.plugin.waiting.forget(web.UID)
	assert.Empty(t, f.wake(), "nothing is released")
	f.plugin.Unreserve(f.Ctx, state, web, "n1")
	assert.Equal(t, woken, f.wake(), "a pod gave it back")
	f.try(p)
	f.plugin.reservationHandler().OnDelete(r)
	assert.Equal(t, woken, f.wake(), "a Reservation was deleted")
	f.try(p)
	f.advance(time.Hour)
	assert.Equal(t, woken, f.wake(), "a Reservation has expired")
	assert.Empty(t, f.plugin.waiting.pods)
}

// The pod was refused with what was freed last, and woken for it.
func TestAWokenPodThatWasRefusedIsNotRestrictedAgain(t *testing.T) {
	f := newFixture(t)
	f.hold("later", "n1")
	p := pod("web", "a")
	state, result := f.try(p)
	require.NotNil(t, result)
	f.plugin.PostFilter(f.Ctx, state, p, nil)
	f.Activated.Take()
	assert.Equal(t, map[string]int{"shop/a": 1}, f.wake())
	_, result = f.try(p)
	assert.Nil(t, result)
}

func TestPodsThatDoNotWaitAreForgotten(t *testing.T) {
	f := newFixture(t)
	f.hold("later", "n1")
	bound, gone, replaced := pod("other", "bound"), pod("other", "gone"), pod("other", "replaced")
	for _, p := range []*corev1.Pod{bound, gone, replaced} {
		f.try(p)
	}
	h := f.plugin.podHandler()
	onNode := bound.DeepCopy()
	onNode.Spec.NodeName = "n"
	h.OnUpdate(bound, onNode)
	h.OnDelete(cache.DeletedFinalStateUnknown{Obj: gone})
	again := replaced.DeepCopy()
	again.UID = "again"
	h.OnUpdate(replaced, again)
	assert.Empty(t, f.plugin.waiting.pods)

	f.try(gone) // it was deleted when its cycle had begun
	f.wake()
	assert.Empty(t, f.plugin.waiting.pods, "nothing would forget it later")
}

func TestNodesAreKnownToTheLedger(t *testing.T) {
	f := newFixture(t)
	f.hold("later", "n1", "n2")
	n1, n2 := node("n1").Node(), node("n2").Node()
	h := f.plugin.nodeHandler()
	h.OnAdd(n1, true)
	h.OnAdd(n2, true)
	h.OnUpdate(n1, n1)
	f.plugin.ledger.Updates(began)
	assert.Len(t, f.owned(pod("web", "a")), 2)
	h.OnDelete(cache.DeletedFinalStateUnknown{Obj: n1})
	f.plugin.ledger.Updates(began)
	assert.Equal(t, []string{"n2"}, f.owned(pod("web", "a")))
}
