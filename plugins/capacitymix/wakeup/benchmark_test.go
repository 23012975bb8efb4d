// SPDX-License-Identifier: Apache-2.0

package wakeup

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"berth.dev/berth/internal/budget"
	"berth.dev/berth/plugins/internal/perscheduler"
	"berth.dev/berth/test/plugintest"
)

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
		pods[i] = plugintest.Pod("stuck", i)
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
	p := budget.NewThrottle(func(string, budget.Changes[string]) int {
		q.Activate(logger, perscheduler.Pods(pods...))
		return len(pods)
	})
	for i := 0; time.Now().Before(over); i++ {
		if paced {
			p.NamespaceChanged("shop")
		} else {
			q.Activate(logger, perscheduler.Pods(pods...))
		}
		neighbour := plugintest.Pod("neighbour", i)
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
