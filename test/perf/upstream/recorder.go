// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/perf/bench"
)

const recorderName = "Recorder"

// quiet is how long no pod has to be bound before the API server's counters are
// read. The workloads sleep longer at their end, since scheduler_perf resets the
// counters after that.
const quiet = time.Second

// recorder records what the scheduler's own informers deliver. It is in the profile
// of every peer, does nothing in the scheduling cycle, and adds no watch.
type recorder struct {
	mu sync.Mutex
	// began is when the first pod that counts was seen, processor what the process had used by then.
	began     time.Time
	processor time.Duration
	// used is the processor time from then until the last pod was bound.
	used     time.Duration
	types    map[string]capacity.Type
	bindings []binding
	writes   writes
	timer    *time.Timer
}

var (
	_ fwk.PostBindPlugin    = &recorder{}
	_ fwk.EnqueueExtensions = &recorder{}
)

func (r *recorder) Name() string { return recorderName }

// PostBind does nothing: a plugin has to have an extension point.
func (r *recorder) PostBind(context.Context, fwk.CycleState, *corev1.Pod, string) {}

// EventsToRegister: it refuses no pod, so nothing makes it change its mind.
func (r *recorder) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

func (r *recorder) build(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	r.types = map[string]capacity.Type{}
	r.timer = time.AfterFunc(quiet, r.count)
	r.timer.Stop()
	context.AfterFunc(ctx, func() { r.timer.Stop() })
	informers := handle.SharedInformerFactory().Core().V1()
	if _, err := informers.Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: r.node}); err != nil {
		return nil, err
	}
	_, err := informers.Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { r.pod(nil, obj.(*corev1.Pod)) },
		UpdateFunc: func(before, after any) { r.pod(before.(*corev1.Pod), after.(*corev1.Pod)) },
	})
	return r, err
}

// node keeps the type of nodes that are gone, too: their pods stay.
func (r *recorder) node(obj any) {
	node := obj.(*corev1.Node)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.types[node.Name] = typeOf(node.Labels)
}

func typeOf(labels map[string]string) capacity.Type {
	switch labels[capacity.KarpenterCapacityType] {
	case "spot":
		return capacity.Spot
	case "on-demand":
		return capacity.OnDemand
	}
	return capacity.Unknown
}

// counts reports whether the pods of a namespace are those that are measured,
// and governed whether they are to have the mix.
func counts(namespace string) (counted, governed bool) {
	governed = strings.HasPrefix(namespace, "group-")
	return governed || strings.HasPrefix(namespace, "bystanders-"), governed
}

func (r *recorder) pod(before, pod *corev1.Pod) {
	counted, governed := counts(pod.Namespace)
	if !counted {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() {
		r.began, r.processor = time.Now(), bench.ProcessorTime()
	}
	if pod.Spec.NodeName == "" || before != nil && before.Spec.NodeName != "" {
		return
	}
	// The update in which a pod first has a node is that of its binding, so its
	// version shows in which order the API server took the bindings.
	revision, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	b := binding{
		Group: pod.Namespace, Governed: governed, Type: r.types[pod.Spec.NodeName], At: time.Since(r.began), Revision: revision,
		Slot: split.NoSlot,
	}
	if slot, err := strconv.Atoi(pod.Annotations[v1alpha1.SlotAnnotation]); err == nil {
		b.Slot = slot
	}
	r.bindings = append(r.bindings, b)
	r.used = bench.ProcessorTime() - r.processor
	r.timer.Reset(quiet)
}

// count reads the API server's counters.
func (r *recorder) count() {
	w, err := readWrites()
	if err != nil {
		return // the result will have none
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = w
}

// values are what was recorded.
func (r *recorder) values(replaces bool) bench.Values {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := throughput(r.bindings)
	if n := float64(len(r.bindings)); n > 0 {
		v["cpu_ms_per_pod"] = r.used.Seconds() * 1000 / n
	}
	if r.writes.created > 0 {
		v["api_writes_per_pod"] = r.writes.ofPods / r.writes.created
		v["events_per_pod"] = r.writes.events / r.writes.created
	}
	if !replaces {
		maps.Copy(v, exactness(split.New(spotPercent, 0), r.bindings))
	}
	return v
}
