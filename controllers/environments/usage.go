// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/kinds"
)

const (
	// maxSeries is how many environments have series of their own, the oldest first: each tenant can create environments.
	maxSeries = 500
	// usageInterval is how often the metrics API is read at most, whoever scrapes. unservedInterval is the same where it does not exist.
	usageInterval, unservedInterval = 15 * time.Second, 5 * time.Minute
	usageTimeout                    = 2 * time.Second
)

var podMetrics = schema.GroupVersionKind{Group: "metrics.k8s.io", Version: "v1beta1", Kind: "PodMetricsList"}

// component is a component of an environment.
type component struct{ namespace, environment, name string }

func (c component) labels() []string { return []string{c.namespace, c.environment, c.name} }

func componentOf(pod client.Object) component {
	l := pod.GetLabels()
	return component{l[v1alpha1.EnvironmentNamespaceLabel], l[v1alpha1.EnvironmentLabel], l[v1alpha1.EnvironmentComponentLabel]}
}

// amounts are CPU in cores and memory in bytes.
type amounts struct{ cores, bytes float64 }

func (a *amounts) add(list corev1.ResourceList) {
	a.cores += list.Cpu().AsApproximateFloat64()
	a.bytes += list.Memory().AsApproximateFloat64()
}

// UsageCollector exports what the containers of environments use, as the metrics API has it, and their limits.
type UsageCollector struct {
	cache, live client.Reader
	clock       clock.PassiveClock

	mu sync.Mutex
	// used is that of pods, by namespace and name, until due.
	used map[client.ObjectKey]amounts
	due  time.Time
}

// NewUsageCollector returns a collector that reads Environments and pods from a cache, and the metrics API directly.
func NewUsageCollector(cache, live client.Reader, c clock.PassiveClock) *UsageCollector {
	return &UsageCollector{cache: cache, live: live, clock: c}
}

// Describe implements prometheus.Collector.
func (u *UsageCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{cpuUsageDesc, cpuLimitDesc, memoryUsageDesc, memoryLimitDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (u *UsageCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	pods, environments := &corev1.PodList{}, &v1alpha1.EnvironmentList{}
	if u.cache.List(ctx, environments, client.UnsafeDisableDeepCopy) != nil ||
		u.cache.List(ctx, pods, client.HasLabels{v1alpha1.EnvironmentLabel}, client.UnsafeDisableDeepCopy) != nil {
		return // not filled yet
	}
	usage, limits := sums(pods.Items, oldest(environments.Items, maxSeries), u.read(ctx))
	gauge := func(d *prometheus.Desc, value float64, c component) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, c.labels()...)
	}
	for c, a := range usage {
		gauge(cpuUsageDesc, a.cores, c)
		gauge(memoryUsageDesc, a.bytes, c)
	}
	for c, a := range limits {
		if a.cores > 0 {
			gauge(cpuLimitDesc, a.cores, c)
		}
		if a.bytes > 0 {
			gauge(memoryLimitDesc, a.bytes, c)
		}
	}
}

// sums adds up what the running pods of some environments use, as far as it is known, and their limits.
func sums(
	pods []corev1.Pod, environments map[client.ObjectKey]bool, used map[client.ObjectKey]amounts,
) (usage, limits map[component]amounts) {
	usage, limits = map[component]amounts{}, map[component]amounts{}
	for i := range pods {
		p := &pods[i]
		c := componentOf(p)
		counted := environments[client.ObjectKey{Namespace: c.namespace, Name: c.environment}]
		if !counted || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
			continue
		}
		if a, known := used[client.ObjectKeyFromObject(p)]; known {
			sum := usage[c]
			usage[c] = amounts{sum.cores + a.cores, sum.bytes + a.bytes}
		}
		sum := limits[c]
		for j := range p.Spec.Containers {
			sum.add(p.Spec.Containers[j].Resources.Limits)
		}
		limits[c] = sum
	}
	return usage, limits
}

// oldest returns the keys of the first n environments by age.
func oldest(all []v1alpha1.Environment, n int) map[client.ObjectKey]bool {
	order := make([]*v1alpha1.Environment, len(all))
	for i := range all {
		order[i] = &all[i]
	}
	slices.SortFunc(order, func(a, b *v1alpha1.Environment) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			compare(client.ObjectKeyFromObject(a), client.ObjectKeyFromObject(b)))
	})
	keys := map[client.ObjectKey]bool{}
	for _, e := range order[:min(n, len(order))] {
		keys[client.ObjectKeyFromObject(e)] = true
	}
	return keys
}

// read returns what pods of environments use. If the metrics API cannot be read, nothing is known.
func (u *UsageCollector) read(ctx context.Context) map[client.ObjectKey]amounts {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.clock.Now()
	if now.Before(u.due) {
		return u.used
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(podMetrics)
	err := u.live.List(ctx, list, client.HasLabels{v1alpha1.EnvironmentLabel})
	u.used, u.due = map[client.ObjectKey]amounts{}, now.Add(usageInterval)
	if kinds.NotServed(err) {
		u.due = now.Add(unservedInterval)
	}
	for i := range list.Items { // none after an error
		u.used[client.ObjectKeyFromObject(&list.Items[i])] = usageOf(&list.Items[i])
	}
	return u.used
}

// usageOf adds up what the containers of a pod use.
func usageOf(metrics *unstructured.Unstructured) (sum amounts) {
	containers, _, _ := unstructured.NestedSlice(metrics.Object, "containers")
	for _, c := range containers {
		fields, _ := c.(map[string]any)
		list := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			text, _, _ := unstructured.NestedString(fields, "usage", string(name))
			if q, err := budget.ParseQuantity(text); err == nil {
				list[name] = q
			}
		}
		sum.add(list)
	}
	return sum
}
