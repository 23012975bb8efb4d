// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/perf/bench"
)

// runner is a peer's scheduler in its cluster.
type runner struct {
	ctx       context.Context
	cluster   *cluster
	scheduler *scheduler.Scheduler
	framework framework.Framework
	// next pod to place.
	next int
	// cycles counts the scheduling cycles. The scheduler reuses the state of a pod in the next cycle only.
	cycles cycles
	// before, if set, is called before every scheduling cycle.
	before func(pod *corev1.Pod)
	// placed are the nodes of the pods that were placed, by their number.
	placed map[int]string
	// bySelector is set where all pods are one group.
	bySelector bool
}

// newRunner starts a scheduler up to where it would take the first pod from its
// queue: caches and the plugins' memories are filled. It ends with ctx.
func newRunner(ctx context.Context, peer string, s Scenario) (*runner, error) {
	custom := custom{limits: s.limits()}
	if peer == BerthSelector {
		custom.group = v1alpha1.PodGroupingSelector
	}
	if peer == BerthPolicy && s.Policy != "" {
		custom.policies.Items = []v1alpha1.SchedulingPolicy{policy(namespace, &v1alpha1.ScoreRules{Preset: s.Policy}, nil)}
	}
	return runnerIn(ctx, peer, newCluster(s, peer), custom)
}

// custom are objects of Berth's kinds, and how the mix groups pods.
type custom struct {
	group    v1alpha1.PodGrouping
	limits   v1alpha1.ResourceLimitList
	policies v1alpha1.SchedulingPolicyList
}

// runnerIn is newRunner for a cluster and objects of its own.
func runnerIn(ctx context.Context, peer string, c *cluster, custom custom) (*runner, error) {
	profile, err := profileOf(peer, c.scenario)
	if err != nil {
		return nil, err
	}
	return runnerWith(ctx, profile, c, custom)
}

// runnerWith is runnerIn for a profile of its own.
func runnerWith(ctx context.Context, profile *schedconfig.KubeSchedulerProfile, c *cluster, custom custom) (*runner, error) {
	schedulermetrics.Register()
	ctx = klog.NewContext(ctx, klog.Logger{})
	r := &runner{ctx: ctx, cluster: c, placed: map[int]string{}, bySelector: custom.group == v1alpha1.PodGroupingSelector}
	factory := scheduler.NewInformerFactory(r.cluster.client(), 0, nil)
	var err error
	r.scheduler, err = scheduler.New(ctx, r.cluster.client(), factory, nil, func(string) events.EventRecorderLogger { return nobody{} },
		scheduler.WithProfiles(*profile), scheduler.WithKubeConfig(serve(ctx, custom)),
		scheduler.WithFrameworkOutOfTreeRegistry(registry()))
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("%v: not listed", kind)
		}
	}
	if err := r.scheduler.WaitForHandlersSync(ctx); err != nil {
		return nil, err
	}
	r.framework = r.scheduler.Profiles[builders.Scheduler]
	r.cycles.SchedulingQueue = r.scheduler.SchedulingQueue
	r.scheduler.SchedulingQueue = &r.cycles
	return r, WaitAdmitting(ctx, r.framework)
}

// cycles is the queue of a scheduler whose cycles are counted where they begin: no pod is popped.
type cycles struct {
	queue.SchedulingQueue
	n int64
}

// SchedulingCycle returns the number of the cycle.
func (c *cycles) SchedulingCycle() int64 { return c.n }

// WaitAdmitting waits until no plugin of a profile holds a pod back: some do until
// they have the state of the cluster, and return an error for pods that bypass the queue.
func WaitAdmitting(ctx context.Context, f framework.Framework) error {
	pod := builders.Pod("probe", "probe")
	return wait.PollUntilContextTimeout(ctx, time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return !slices.ContainsFunc(f.PreEnqueuePlugins(), func(p fwk.PreEnqueuePlugin) bool {
			return !p.PreEnqueue(ctx, pod).IsSuccess()
		}), nil
	})
}

// no one reads events.
type nobody struct{}

func (nobody) Eventf(kruntime.Object, kruntime.Object, string, string, string, string, ...any) {}

func (n nobody) WithLogger(klog.Logger) events.EventRecorderLogger { return n }

// client answers the lists of the objects that matter, from memory and without
// the object tracker of the fake, which is slow with many.
func (c *cluster) client() *fake.Clientset {
	client := fake.NewClientset()
	list := func(resource string, l kruntime.Object) {
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, kruntime.Object, error) { return true, l, nil })
	}
	list("nodes", &corev1.NodeList{Items: c.nodes})
	list("replicasets", &appsv1.ReplicaSetList{Items: c.sets})
	list("jobs", &batchv1.JobList{Items: c.jobs})
	pods := make([]corev1.Pod, 0, len(c.existing)+len(c.pods))
	list("pods", &corev1.PodList{Items: append(append(pods, c.existing...), c.pods...)})
	return client
}

// serve is the API of Berth's own resources, which do not change.
func serve(ctx context.Context, c custom) *rest.Config {
	m, l, p := mixes(c.group), c.limits, c.policies
	m.Kind, m.APIVersion, m.ResourceVersion = "CapacityMixList", v1alpha1.SchemeGroupVersion.String(), "1"
	l.Kind, l.APIVersion, l.ResourceVersion = "ResourceLimitList", v1alpha1.SchemeGroupVersion.String(), "1"
	p.Kind, p.APIVersion, p.ResourceVersion = "SchedulingPolicyList", v1alpha1.SchemeGroupVersion.String(), "1"
	var none v1alpha1.ReservationList
	none.Kind, none.APIVersion, none.ResourceVersion = "ReservationList", v1alpha1.SchemeGroupVersion.String(), "1"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("sendInitialEvents") != "":
			http.Error(w, "lists are not streamed", http.StatusUnprocessableEntity)
		case r.URL.Query().Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/capacitymixes"):
			_ = json.NewEncoder(w).Encode(&m)
		case strings.HasSuffix(r.URL.Path, "/schedulingpolicies"):
			_ = json.NewEncoder(w).Encode(&p)
		case strings.HasSuffix(r.URL.Path, "/resourcelimits"):
			_ = json.NewEncoder(w).Encode(&l)
		case strings.HasSuffix(r.URL.Path, "/reservations"):
			_ = json.NewEncoder(w).Encode(&none)
		default:
			http.NotFound(w, r)
		}
	}))
	context.AfterFunc(ctx, server.CloseClientConnections)
	return &rest.Config{Host: server.URL}
}

// attempts bounds how often a pod is tried before it counts as waiting: Berth
// moves a pod that found no node to its next stage, of which there are five.
const attempts = 6

// turn places up to so many pods, and no more than fit into the time.
func (r *runner) turn(pods int, most time.Duration) (bench.Values, error) {
	pods = min(pods, len(r.cluster.pods)-r.next)
	if pods == 0 {
		return nil, errors.New("no pods are left")
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, used := time.Now(), bench.ProcessorTime()
	done, waiting, tries := 0, 0, 0
	for ; done < pods && time.Since(began) < most; done++ {
		tried, node, err := r.place(&r.cluster.pods[r.next])
		if err != nil {
			return nil, err
		}
		if tries += tried; node == "" {
			waiting++
		} else {
			r.placed[r.next] = node
		}
		r.next++
	}
	used, took := bench.ProcessorTime()-used, time.Since(began)
	runtime.ReadMemStats(&after)
	n := float64(done)
	return bench.Values{
		"cpu_us_per_pod":    float64(used.Nanoseconds()) / 1e3 / n,
		"wall_us_per_pod":   float64(took.Nanoseconds()) / 1e3 / n,
		"pods_per_s":        n / took.Seconds(),
		"allocs_per_pod":    float64(after.Mallocs-before.Mallocs) / n,
		"bytes_per_pod":     float64(after.TotalAlloc-before.TotalAlloc) / n,
		"attempts_per_pod":  float64(tries) / n,
		"pods_without_node": float64(waiting),
		"pods":              n,
	}, nil
}

// Queued is a pod as the scheduling queue has it, without a signature.
func Queued(pod *corev1.Pod) *framework.QueuedPodInfo {
	info, _ := framework.NewPodInfo(pod) // fails for terms that no API server accepts
	return &framework.QueuedPodInfo{PodInfo: info}
}

// Schedule is a scheduling cycle, which begins with the snapshot of the cluster.
func Schedule(ctx context.Context, s *scheduler.Scheduler, f framework.Framework, state fwk.CycleState,
	pod *framework.QueuedPodInfo,
) (result scheduler.ScheduleResult, err error) {
	if err := updateSnapshot(s, f); err != nil {
		return result, err
	}
	return s.SchedulePod(ctx, f, state, pod)
}

func updateSnapshot(s *scheduler.Scheduler, f framework.Framework) error {
	snapshot, ok := f.SnapshotSharedLister().(*cache.Snapshot)
	if !ok {
		return fmt.Errorf("the snapshot is a %T", f.SnapshotSharedLister())
	}
	return s.Cache.UpdateSnapshot(klog.Logger{}, snapshot)
}

// place does for one pod what the scheduling queue does when it arrives, and Scheduler.ScheduleOne up to the binding.
func (r *runner) place(pod *corev1.Pod) (tried int, node string, err error) {
	queued := Queued(pod)
	queued.PodSignature = r.framework.SignPod(r.ctx, pod)
	for tried = 1; tried <= attempts; tried++ {
		state := framework.NewCycleState()
		state.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
		if r.before != nil {
			r.before(pod)
		}
		r.cycles.n++
		result, err := Schedule(r.ctx, r.scheduler, r.framework, state, queued)
		var unfit *framework.FitError
		switch {
		case errors.As(err, &unfit):
			r.framework.RunPostFilterPlugins(r.ctx, state, pod, unfit.Diagnosis.NodeToStatus)
			continue
		case err != nil:
			return tried, "", err
		}
		assumed := pod.DeepCopy()
		assumed.Spec.NodeName = result.SuggestedHost
		if err := r.scheduler.Cache.AssumePod(klog.Logger{}, assumed); err != nil {
			return tried, "", err
		}
		if status := r.framework.RunReservePluginsReserve(r.ctx, state, assumed, result.SuggestedHost); !status.IsSuccess() {
			return tried, "", status.AsError()
		}
		return tried, result.SuggestedHost, nil
	}
	return attempts, "", nil
}
