// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restartReasons are those of the metric. All others are otherReason: runtimes have their own.
var restartReasons = []string{"OOMKilled", "Error", "Completed"}

const otherReason = "Other"

// restartCounts counts restarts of containers while this replica leads: what a new leader finds was counted by the last one.
type restartCounts struct {
	mu sync.Mutex
	// seen are the counts of the pods of each environment, as of the last time.
	seen map[client.ObjectKey]map[container]int32
}

// container is a container of a pod.
type container struct {
	pod  types.UID
	name string
}

// observe counts the restarts of the pods of an environment since the last time.
func (r *restartCounts) observe(env client.ObjectKey, pods []corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.seen[env]
	if !known && len(r.seen) >= maxSeries {
		return
	}
	now := map[container]int32{}
	for i := range pods {
		p := &pods[i]
		for j := range p.Status.ContainerStatuses {
			s := &p.Status.ContainerStatuses[j]
			key := container{p.UID, s.Name}
			now[key] = s.RestartCount
			if n := s.RestartCount - before[key]; known && n > 0 {
				restarts.WithLabelValues(append(componentOf(p).labels(), restartReason(s))...).Add(float64(n))
			}
		}
	}
	if r.seen == nil {
		r.seen = map[client.ObjectKey]map[container]int32{}
	}
	r.seen[env] = now
}

// forget deletes the series of an environment that is gone.
func (r *restartCounts) forget(env client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, env)
	restarts.DeletePartialMatch(prometheus.Labels{"namespace": env.Namespace, "environment": env.Name})
}

// restartReason is why a container ended before its last restart.
func restartReason(s *corev1.ContainerStatus) string {
	if t := s.LastTerminationState.Terminated; t != nil && slices.Contains(restartReasons, t.Reason) {
		return t.Reason
	}
	return otherReason
}
