// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/plugintest"
)

// wake does what the Holder does after each round.
func (f *fixture) wake() map[string]int {
	f.plugin.waiting.wake(f.plugin.holdings.Freed(f.clock.Now()))
	return f.Activated.Take()
}

// woken is what the last change wakes, at once or after the pause of the namespace.
func (f *fixture) woken(t *testing.T) (pods map[string]int) {
	t.Helper()
	pods = f.wake()
	require.Eventually(t, func() bool {
		if len(pods) == 0 {
			pods = f.Activated.Take()
		}
		return len(pods) > 0
	}, 10*time.Second, time.Millisecond)
	return pods
}

// large requests all of a node.
func large(app, name string) *corev1.Pod {
	p := pod(app, name)
	p.Spec.Containers[0].Resources.Requests = builders.Requests("2", "1Gi")
	return p
}

// refused runs a pod through PreFilter, and Filter on a node.
func (f *fixture) refused(t *testing.T, p *corev1.Pod, on string) {
	t.Helper()
	state, _ := f.try(p)
	require.NotNil(t, f.plugin.Filter(f.Ctx, state, p, node(on)))
}

func TestPodsAreWokenOncePerChange(t *testing.T) {
	f := newFixture(t)
	r := f.hold("later", "n1", "n2")
	f.wake()
	p := large("other", "a")
	woken := map[string]int{"shop/a": 1}
	f.refused(t, p, "n1")
	assert.Empty(t, f.wake(), "nothing has changed")

	f.hold("more", "n3")
	assert.Equal(t, woken, f.woken(t), "what is held was tried without it")
	assert.Empty(t, f.wake(), "once")
	f.refused(t, p, "n1")
	web := pod("web", "w")
	state := f.reserve(t, web, "n1")
	f.plugin.waiting.forget(web)
	assert.Empty(t, f.wake(), "nothing is released")
	f.plugin.Unreserve(f.Ctx, state, web, "n1")
	assert.Equal(t, woken, f.woken(t), "a pod gave it back")
	f.refused(t, p, "n1")
	f.plugin.reservationHandler().OnDelete(r)
	assert.Equal(t, woken, f.woken(t), "a Reservation was deleted")
	f.refused(t, p, "n3")
	f.advance(time.Hour)
	assert.Equal(t, woken, f.woken(t), "a Reservation has expired")
	assert.Empty(t, f.plugin.waiting.pods)
}

// A change wakes the pods that lacked what was held for others, and those for which capacity is held.
func TestPodsThatNoChangeHelpsAreNotWoken(t *testing.T) {
	f := newFixture(t)
	r := f.hold("later", "n1")
	lacks, waits, served := large("other", "lacks"), pod("other", "waits"), pod("web", "served")
	f.refused(t, lacks, "n1")
	f.try(waits)
	f.try(served)
	f.hold("more", "n2")
	assert.Equal(t, map[string]int{"shop/lacks": 1, "shop/served": 1}, f.woken(t))
	f.refused(t, lacks, "n1")
	r.Labels = map[string]string{v1alpha1.BindGroupLabel: "g"}
	f.plugin.reservationHandler().OnUpdate(r, r)
	f.plugin.reservationHandler().OnDelete(r)
	assert.Empty(t, f.wake(), "the pod that it was prepared for has the capacity, or gives it back by itself")
}

// A tenant who makes and deletes Reservations all the time has the pods of a namespace tried no more often than their back-off,
// and those of other namespaces are not delayed by that.
func TestReservationsThatChangeAllTheTimeWakePodsRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := &plugintest.Activated{}
		w := newWaiting(func(pods map[string]*corev1.Pod) { woken.Activate(klog.Logger{}, pods) }, func(*corev1.Pod) bool { return false })
		lacked := &atomic.Bool{}
		lacked.Store(true)
		put := func(namespace string, n int) {
			for i := range n {
				p := pod("other", fmt.Sprint(i))
				p.Namespace = namespace
				w.put(p, 0, lacked)
			}
		}
		for change := range int64(600) { // ten a second, for a minute
			put("many", 1000)
			put("few", 1)
			w.wake(change + 1)
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		many, few := woken.In("many"), woken.In("few")
		assert.LessOrEqual(t, many, 7*1000)
		assert.GreaterOrEqual(t, many, 6*1000)
		assert.Equal(t, 600, few, "one pod is tried again at each change")
		time.Sleep(time.Minute)
	})
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
	assert.Equal(t, map[string]int{"shop/a": 1}, f.woken(t))
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
	f.plugin.waiting.pods["shop"][gone.UID].lacked.Store(true)
	f.hold("more", "n2")
	f.woken(t)
	assert.Empty(t, f.plugin.waiting.pods, "nothing would forget it later")
}

func TestTheHoldingsFollowTheNodes(t *testing.T) {
	f := newFixture(t)
	f.hold("later", "n1", "n2")
	n1, n2 := node("n1").Node(), node("n2").Node()
	cordoned := n2.DeepCopy()
	cordoned.Spec.Unschedulable = true
	h := f.plugin.nodeHandler()
	h.OnAdd(n1, true)
	h.OnAdd(n2, true)
	h.OnUpdate(n2, cordoned)
	updates := f.plugin.holdings.Updates(began)
	require.Len(t, updates, 1)
	assert.Equal(t, int32(1), updates[0].Object.Status.HeldCount)
	assert.Len(t, f.owned(pod("web", "a")), 2)
	h.OnDelete(cache.DeletedFinalStateUnknown{Obj: n1})
	f.plugin.holdings.Updates(began)
	assert.Equal(t, []string{"n2"}, f.owned(pod("web", "a")))
}
