// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
)

const (
	// metricsTimeout bounds reading what containers use: a status without it is better than none.
	metricsTimeout = 2 * time.Second
	// kubelets is how many kubelets are read at a time.
	kubelets = 8
)

// usage is what a container uses, as far as it is known.
type usage struct {
	milliCores int64
	memory     int64
	disk       int64
	rx, tx     int64
}

// usageKey is a container of a pod of the environment's namespace.
type usageKey struct{ pod, container string }

// podMetricsList is the answer of metrics.k8s.io about pods.
type podMetricsList struct {
	Items []struct {
		Metadata   metav1.ObjectMeta `json:"metadata"`
		Containers []struct {
			Name  string              `json:"name"`
			Usage corev1.ResourceList `json:"usage"`
		} `json:"containers"`
	} `json:"items"`
}

// summary is the answer of a kubelet about the pods of its node.
type summary struct {
	Pods []struct {
		PodRef     struct{ Name, Namespace, UID string } `json:"podRef"`
		Containers []struct {
			Name   string
			Rootfs struct{ UsedBytes int64 }
			Logs   struct{ UsedBytes int64 }
			CPU    struct{ UsageNanoCores *int64 }
			Memory struct{ WorkingSetBytes int64 }
		} `json:"containers"`
		Network struct{ RxBytes, TxBytes int64 } `json:"network"`
	} `json:"pods"`
}

// metrics are what an environment's containers use. A source that is not there adds nothing, and a container of which
// nothing is known is left out.
func (c *service) metrics(ctx context.Context, e *environment, running []instance) []*schedulerv1.ContainerMetrics {
	if len(running) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	var sources errgroup.Group
	sources.SetLimit(kubelets)
	var pods podMetricsList
	sources.Go(func() error {
		pods, _ = c.store.podMetrics(ctx, e)
		return nil
	})
	var summaries []summary
	if c.summary {
		var mu sync.Mutex // guards summaries
		for _, node := range nodesOf(running) {
			sources.Go(func() error {
				if s, err := c.store.summary(ctx, node); err == nil {
					mu.Lock()
					defer mu.Unlock()
					summaries = append(summaries, s)
				}
				return nil
			})
		}
	}
	_ = sources.Wait() // none of them has an error
	return metricsToWire(running, usageOf(&pods, summaries, e.Status.Namespace))
}

func nodesOf(running []instance) []string {
	var nodes []string
	for i := range running {
		if node := running[i].pod.Spec.NodeName; node != "" {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// usageOf joins the answers of the sources. Network is counted by pod: its first container has all of it.
func usageOf(pods *podMetricsList, summaries []summary, namespace string) map[usageKey]usage {
	out := map[usageKey]usage{}
	for i := range summaries {
		for _, p := range summaries[i].Pods {
			if p.PodRef.Namespace != namespace {
				continue
			}
			for j, c := range p.Containers {
				u := usage{memory: c.Memory.WorkingSetBytes, disk: c.Rootfs.UsedBytes + c.Logs.UsedBytes}
				if n := c.CPU.UsageNanoCores; n != nil {
					u.milliCores = *n / 1e6
				}
				if j == 0 {
					u.rx, u.tx = p.Network.RxBytes, p.Network.TxBytes
				}
				out[usageKey{p.PodRef.Name, c.Name}] = u
			}
		}
	}
	for i := range pods.Items {
		for _, c := range pods.Items[i].Containers {
			key := usageKey{pods.Items[i].Metadata.Name, c.Name}
			u := out[key]
			u.milliCores, u.memory = c.Usage.Cpu().MilliValue(), c.Usage.Memory().Value()
			out[key] = u
		}
	}
	return out
}

func metricsToWire(running []instance, used map[usageKey]usage) []*schedulerv1.ContainerMetrics {
	var out []*schedulerv1.ContainerMetrics
	for i := range running {
		in := &running[i]
		u, known := used[usageKey{in.pod.Name, in.container.Name}]
		if !known {
			continue
		}
		limits := in.container.Resources.Limits
		out = append(out, &schedulerv1.ContainerMetrics{
			ContainerId: in.id(), CpuUsagePercent: percent(u.milliCores, limits.Cpu()),
			MemoryUsageBytes: u.memory, MemoryLimitBytes: limits.Memory().Value(),
			DiskUsageBytes: u.disk, NetworkRxBytes: u.rx, NetworkTxBytes: u.tx,
		})
	}
	return out
}

// percent is a share of a limit of CPU, of one core where there is none.
func percent(milliCores int64, limit *resource.Quantity) float64 {
	of := limit.MilliValue()
	if of <= 0 {
		of = 1000
	}
	return float64(milliCores) * 100 / float64(of)
}

func (s *store) podMetrics(ctx context.Context, e *environment) (podMetricsList, error) {
	return readJSON[podMetricsList](ctx, s.coreV1.RESTClient().Get().
		AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces", e.Status.Namespace, "pods").Param("labelSelector", selectorOf(e)))
}

func (s *store) summary(ctx context.Context, node string) (summary, error) {
	return readJSON[summary](ctx, s.coreV1.RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("stats/summary"))
}

func readJSON[T any](ctx context.Context, r *rest.Request) (out T, err error) {
	b, err := r.SetHeader("Accept", runtime.ContentTypeJSON).MaxRetries(0).Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	return out, err
}
