// SPDX-License-Identifier: Apache-2.0

package wakeup

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/plugins/capacitymix/mixtest"
	"berth.dev/berth/plugins/internal/perscheduler"
)

func TestAChangeWakesAtOnceAndMoreOfThemAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		woken := map[string]int{}
		p := NewThrottle(func(namespace string, _ Changes) int {
			mu.Lock()
			defer mu.Unlock()
			woken[namespace]++
			return 5000
		})
		seen := func(namespace string) int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return woken[namespace]
		}
		for range 595 { // ten times a second, for a minute
			p.NamespaceChanged("shop")
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, 6, seen("shop"))
		p.NamespaceChanged("other")
		assert.Equal(t, 1, seen("other"), "another namespace does not pause")
		time.Sleep(time.Minute)
		assert.Equal(t, [2]int{7, 1}, [2]int{seen("shop"), seen("other")}, "the last change is not lost")
		assert.Empty(t, p.pending)
		p.NamespaceChanged("shop")
		assert.Equal(t, 8, seen("shop"), "at once again")
		time.Sleep(time.Minute)
	})
}

// Whatever the order of changes, each one is followed by a wake-up of what it
// concerns, within the pause, and no namespace is woken for more than it may be.
func TestNoWakeUpIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(*testing.T) {
			pods := rapid.IntRange(0, 1000).Draw(rt, "pods")
			changed, woken := map[policy.GroupKey]time.Time{}, map[policy.GroupKey]time.Time{}
			groups := []policy.GroupKey{{Namespace: "a", ID: "1"}, {Namespace: "a", ID: "2"}, {Namespace: "b", ID: "1"}}
			begun, calls := time.Now(), map[string]int{}
			var mu sync.Mutex
			p := NewThrottle(func(namespace string, of Changes) int {
				mu.Lock()
				defer mu.Unlock()
				calls[namespace]++
				for _, key := range groups {
					if _, has := of.Groups[key]; key.Namespace == namespace && (of.All || has) {
						woken[key] = time.Now()
					}
				}
				return pods
			})
			for range rapid.IntRange(1, 50).Draw(rt, "changes") {
				key := rapid.SampledFrom(groups).Draw(rt, "group")
				if rapid.Bool().Draw(rt, "all") {
					p.NamespaceChanged(key.Namespace)
					for _, k := range groups {
						if k.Namespace == key.Namespace {
							changed[k] = time.Now()
						}
					}
				} else {
					p.GroupChanged(key)
					changed[key] = time.Now()
				}
				time.Sleep(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "ms")) * time.Millisecond)
			}
			lasted := time.Since(begun)
			time.Sleep(maxPause)
			synctest.Wait()
			mu.Lock()
			for key, at := range changed {
				assert.False(rt, woken[key].Before(at), "%v", key)
			}
			if pause := min(time.Duration(pods)*pausePerPod, maxPause); pause > 0 {
				for namespace, n := range calls {
					assert.LessOrEqual(rt, n, int(lasted/pause)+2, namespace)
				}
			}
			mu.Unlock()
			time.Sleep(2 * maxPause)
			synctest.Wait()
			assert.Empty(rt, p.pending, fmt.Sprint(groups))
		})
	})
}

// How long the pods of a namespace wait for their attempt while a tenant of
// another one changes a mix ten times a second that governs 5,000 pods which fit
// nowhere. The queue is the scheduler's; an attempt takes 200 µs.
func BenchmarkNeighbourOfAMixThatChangesAllTheTime(b *testing.B) {
	for name, paced := range map[string]bool{"paced": true, "activated by every change": false} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				waits := neighbourWaits(b, paced, 15*time.Second)
				b.ReportMetric(float64(waits[len(waits)/2].Milliseconds()), "ms-p50")
				b.ReportMetric(float64(waits[len(waits)-1].Milliseconds()), "ms-max")
			}
		})
	}
}

func neighbourWaits(b *testing.B, paced bool, lasts time.Duration) (waits []time.Duration) {
	schedulermetrics.Register()
	logger, ctx := klog.Background(), b.Context()
	less, err := queuesort.New(ctx, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	q := queue.NewTestQueue(ctx, less.(fwk.QueueSortPlugin).Less)
	pods := make([]*corev1.Pod, 5000)
	for i := range pods {
		pods[i] = mixtest.Pod("stuck", i)
		q.Add(ctx, pods[i])
	}
	seen := make(chan struct{})
	begun, over := time.Now(), time.Now().Add(lasts)
	go func() { // the scheduling loop
		defer close(seen)
		for time.Now().Before(over) {
			entity, err := q.Pop(logger)
			if err != nil || entity == nil { // it is closed
				return
			}
			pod := entity.(*framework.QueuedPodInfo)
			for spent := time.Now(); time.Since(spent) < 200*time.Microsecond; {
			}
			if at, _ := time.Parse(time.RFC3339Nano, pod.Pod.Annotations["added"]); !at.IsZero() {
				waits = append(waits, time.Since(at))
				q.Done(pod.Pod.UID)
				continue
			}
			pod.UnschedulablePlugins = sets.New("CapacityMix")
			_ = q.AddUnschedulablePodIfNotPresent(logger, pod, q.SchedulingCycle())
			q.Done(pod.Pod.UID)
		}
	}()
	p := NewThrottle(func(string, Changes) int {
		q.Activate(logger, perscheduler.Pods(pods...))
		return len(pods)
	})
	for i := 0; time.Now().Before(over); i++ {
		if paced {
			p.NamespaceChanged("shop")
		} else {
			q.Activate(logger, perscheduler.Pods(pods...))
		}
		neighbour := mixtest.Pod("neighbour", i)
		neighbour.Annotations = map[string]string{"added": time.Now().Format(time.RFC3339Nano)}
		q.Add(ctx, neighbour)
		time.Sleep(100 * time.Millisecond)
	}
	q.Close()
	<-seen
	if len(waits) == 0 {
		waits = []time.Duration{time.Since(begun)} // none had its turn
	}
	slices.Sort(waits)
	return waits
}
