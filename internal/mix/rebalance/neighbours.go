// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/clusterstate"
)

// Neighbours are the objects of a namespace that decide whether a replica may run beside its replacement for a while.
type Neighbours struct {
	Services []corev1.Service
	// Claims are read if the replica uses any.
	Claims      []corev1.PersistentVolumeClaim
	Autoscalers []autoscalingv2.HorizontalPodAutoscaler
	Budgets     []DisruptionBudget
	Bounds      Bounds
}

// Unreleasable returns why a replica of a workload cannot be released by the removal of a label, "" if it can. One that flees is lost
// soon: that an autoscaler counts one replica more until then is the lesser harm.
func (n *Neighbours) Unreleasable(pod *corev1.Pod, w clusterstate.Workload, key string, flees bool) string {
	checks := []func() string{
		func() string { return n.claimOf(pod) },
		func() string { return spreadBy(pod, key) },
		func() string { return n.serviceBy(pod, key) },
		func() string { return n.budgetBy(pod, key) },
		func() string { return n.crowded(pod) },
	}
	if !flees {
		checks = append(checks, func() string { return n.autoscalerOf(w) })
	}
	for _, refuses := range checks {
		if why := refuses(); why != "" {
			return why
		}
	}
	return ""
}

// crowded names a quota. The ReplicaSet would not create the replacement, and would not learn when the replica is gone.
func (n *Neighbours) crowded(pod *corev1.Pod) string {
	ends := pod.DeepCopy()
	if ends.Spec.ActiveDeadlineSeconds == nil {
		ends.Spec.ActiveDeadlineSeconds = new(int64(1))
	}
	if quota := n.Bounds.entered(ends, pod); quota != "" {
		return fmt.Sprintf("ResourceQuota %q, which covers pods that end by themselves, has no place for pod %s", quota, pod.Name)
	}
	if quota := n.Bounds.Crowded(pod); quota != "" {
		return fmt.Sprintf("ResourceQuota %q does not allow a replacement beside pod %s", quota, pod.Name)
	}
	return ""
}

// claimOf names a volume that the replacement cannot use while the replica does.
func (n *Neighbours) claimOf(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		c := pod.Spec.Volumes[i].PersistentVolumeClaim
		if c == nil {
			continue
		}
		shared := slices.ContainsFunc(n.Claims, func(o corev1.PersistentVolumeClaim) bool {
			return o.Name == c.ClaimName && !pods.OnOneNode(&o)
		})
		if !shared {
			return fmt.Sprintf("pod %s uses claim %s, whose access modes do not allow its replacement on another node", pod.Name, c.ClaimName)
		}
	}
	return ""
}

// spreadBy names a hard constraint that does not count the replica any more once the label is gone: the replacement could run where the
// constraint forbids two.
func spreadBy(pod *corev1.Pod, key string) string {
	by := func(selector *metav1.LabelSelector, keys []string) bool {
		return slices.Contains(keys, key) || selector != nil && pods.SelectsBy(selector, key)
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule && by(c.LabelSelector, c.MatchLabelKeys) {
			return fmt.Sprintf("the topology spread of pod %s over %s counts pods by label %s", pod.Name, c.TopologyKey, key)
		}
	}
	a := pod.Spec.Affinity
	if a == nil || a.PodAntiAffinity == nil {
		return ""
	}
	for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if by(term.LabelSelector, term.MatchLabelKeys) {
			return fmt.Sprintf("the anti-affinity of pod %s over %s selects pods by label %s", pod.Name, term.TopologyKey, key)
		}
	}
	return ""
}

// serviceBy names a Service that would send the replica no requests any more.
func (n *Neighbours) serviceBy(pod *corev1.Pod, key string) string {
	for i := range n.Services {
		s := &n.Services[i]
		if _, by := s.Spec.Selector[key]; by && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			return fmt.Sprintf("Service %q selects pod %s by label %s", s.Name, pod.Name, key)
		}
	}
	return ""
}

// budgetBy names a PodDisruptionBudget that would not protect the replica any more.
func (n *Neighbours) budgetBy(pod *corev1.Pod, key string) string {
	without := labels.Set{}
	for k, v := range pod.Labels {
		if k != key {
			without[k] = v
		}
	}
	for i := range n.Budgets {
		if b := &n.Budgets[i]; b.Selects(pod.Labels) && !b.Selects(without) {
			return fmt.Sprintf("PodDisruptionBudget %q selects pod %s by label %s", b.Name, pod.Name, key)
		}
	}
	return ""
}

// autoscalerOf names an autoscaler that would count one replica more: one that scales by a metric of the pods.
func (n *Neighbours) autoscalerOf(w clusterstate.Workload) string {
	for i := range n.Autoscalers {
		a := &n.Autoscalers[i]
		if ref := a.Spec.ScaleTargetRef; ref.Kind == w.Kind && ref.Name == w.Name && byPods(a.Spec.Metrics) {
			return fmt.Sprintf("HorizontalPodAutoscaler %q counts the pods of %s %s by their labels, and would count one more", a.Name, w.Kind,
				w.Name)
		}
	}
	return ""
}

// byPods reports whether an autoscaler counts the pods that its target selects. Only a value of an object or of another system that is
// divided by the replicas needs no pods. One without metrics scales by CPU.
func byPods(metrics []autoscalingv2.MetricSpec) bool {
	return len(metrics) == 0 || slices.ContainsFunc(metrics, func(m autoscalingv2.MetricSpec) bool {
		switch {
		case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
			return m.Object.Target.Type != autoscalingv2.AverageValueMetricType
		case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
			return m.External.Target.Type != autoscalingv2.AverageValueMetricType
		}
		return true
	})
}
