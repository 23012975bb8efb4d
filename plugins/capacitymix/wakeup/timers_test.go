// SPDX-License-Identifier: Apache-2.0

package wakeup

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"berth.dev/berth/test/plugintest"
)

func TestAPodHasOneTimerHoweverOftenItIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		var woken plugintest.Activated
		w := NewTimers(corelisters.NewPodLister(pods), woken.Activate, clock.RealClock{}, klog.Background())
		set := func(pod *corev1.Pod, in time.Duration) { w.Set(pod, time.Now().Add(in), in) }
		stays, leaves, another, unknown := plugintest.Pod("web", 0), plugintest.Pod("web", 1), plugintest.Pod("web", 2), plugintest.Pod("web", 3)
		for _, pod := range []*corev1.Pod{stays, leaves, another} {
			require.NoError(t, pods.Add(pod))
		}
		for range 1000 {
			set(stays, time.Hour)
			time.Sleep(time.Second)
		}
		set(leaves, time.Hour)
		set(another, time.Hour)
		set(unknown, time.Hour)
		assert.Len(t, w.timers, 3, "a pod that is gone has none")
		w.Stop(leaves.UID)
		replaced := plugintest.Pod("web", 2)
		replaced.UID = "another"
		require.NoError(t, pods.Update(replaced))

		time.Sleep(time.Hour - 2*time.Second)
		synctest.Wait()
		assert.Empty(t, woken.Pods())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, map[string]int{"shop/web-0": 1}, woken.Pods())
		assert.Empty(t, w.timers)

		set(stays, time.Hour)
		ends := stays.DeepCopy()
		ends.DeletionTimestamp = new(metav1.Now())
		require.NoError(t, pods.Update(ends))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		assert.Equal(t, map[string]int{"shop/web-0": 1}, woken.Pods(), "a pod that is being deleted is not tried")
	})
}
