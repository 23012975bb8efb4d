// SPDX-License-Identifier: Apache-2.0

// Package limits_test measures what ResourceLimits cost the scheduler, without
// an API server: docs/performance.md has the figures.
package limits_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/plugins/resourcelimit"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/perf/bench"
	"berth.dev/berth/test/perf/cycle"
)

const (
	limits     = 5_000
	pods       = 10_000
	namespaces = 50
	nodes      = 1_000
	// perRound is how many of the pods are placed before the other side has its turn.
	perRound = 50
)

// sized makes the limits: bounds that every pod keeps and, if they have rules,
// nodes that every node is one of, so that both sides look at the same nodes.
func sized(rules bool) []v1alpha1.ResourceLimit {
	all := make([]v1alpha1.ResourceLimit, limits)
	for i := range all {
		changes := []func(*v1alpha1.ResourceLimitSpec){builders.SizeCPU("100m", "2")}
		if rules {
			changes = append(changes, builders.SizeOnNodesWith("pool", "batch"), builders.SizeRequires(corev1.LabelTopologyZone, v1alpha1.NodeOpIn, "a", "b", "c"))
		}
		l := builders.ResourceLimit(fmt.Sprintf("size-%d", i/namespaces), changes...)
		l.Namespace, l.UID, l.Generation = fmt.Sprintf("ns-%d", i%namespaces), types.UID(fmt.Sprint(i)), 1
		all[i] = *l
	}
	return all
}

// serve answers as an API server that has these limits, which do not change.
func serve(tb testing.TB, all []v1alpha1.ResourceLimit) *rest.Config {
	tb.Helper()
	list := v1alpha1.ResourceLimitList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ResourceLimitList"}, Items: all}
	list.ResourceVersion = "1"
	body, err := json.Marshal(list)
	require.NoError(tb, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("sendInitialEvents") != "" {
			http.Error(w, "lists are not streamed", http.StatusUnprocessableEntity)
			return
		}
		if r.URL.Query().Get("watch") != "" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = w.Write(body)
	}))
	tb.Cleanup(server.CloseClientConnections)
	return &rest.Config{Host: server.URL}
}

// cycles is a scheduler whose scheduling cycles are measured. It has two
// profiles, which see the same nodes at the same place in memory: the stock one,
// and one with ResourceLimit. The pods of the first name no limit.
type cycles struct {
	ctx       context.Context
	scheduler *scheduler.Scheduler
	sides     [2]side
}

type side struct {
	framework framework.Framework
	pods      []*framework.QueuedPodInfo
}

var profiles = [2]string{"stock", builders.Scheduler}

// newCycles makes a scheduler that has the limits. Of every hundred pods of
// the second side so many name one; the others have a label with another key.
// Own is what the pods of the first side request themselves.
func newCycles(tb testing.TB, all []v1alpha1.ResourceLimit, percent int, own func(*corev1.PodTemplateSpec)) *cycles {
	tb.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	tb.Cleanup(cancel)
	c := &cycles{ctx: ctx}
	objects := make([]runtime.Object, 0, nodes+2*pods)
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		objects = append(objects, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "batch", corev1.LabelTopologyZone: string(rune('a' + i%3)), corev1.LabelHostname: name}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
			}},
		})
	}
	for n, name := range profiles {
		for i := range pods {
			label := "example.com/size"
			if n == 1 && i%100 < percent {
				label = v1alpha1.ResourceLimitLabel
			}
			changes := []func(*corev1.PodTemplateSpec){builders.SchedulerName(name)}
			if n == 0 {
				changes = append(changes, own)
			}
			p := builders.Pod("web", fmt.Sprintf("%s-%d", name, i), append(changes, func(t *corev1.PodTemplateSpec) { t.Labels[label] = fmt.Sprintf("size-%d", i/namespaces%100) })...)
			p.Namespace, p.UID = fmt.Sprintf("ns-%d", i%namespaces), types.UID(p.Name)
			c.sides[n].pods = append(c.sides[n].pods, cycle.Queued(p))
			objects = append(objects, p)
		}
	}
	client := fake.NewClientset(objects...)
	factory := scheduler.NewInformerFactory(client, 0, nil)
	var err error
	c.scheduler, err = scheduler.New(ctx, client, factory, nil, func(string) events.EventRecorderLogger { return events.NewFakeRecorder(0) },
		scheduler.WithProfiles(twoProfiles(tb)...), scheduler.WithKubeConfig(serve(tb, all)),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{resourcelimit.Name: resourcelimit.NewFactory()}))
	require.NoError(tb, err)
	start(ctx, tb, factory)
	require.NoError(tb, c.scheduler.WaitForHandlersSync(ctx))
	for n, name := range profiles {
		c.sides[n].framework = c.scheduler.Profiles[name]
		require.NoError(tb, cycle.WaitAdmitting(ctx, c.sides[n].framework))
		c.run(tb, n, 0) // the caches
	}
	return c
}

// twoProfiles are the stock scheduler's, and the same with the plugin.
func twoProfiles(tb testing.TB) []schedconfig.KubeSchedulerProfile {
	tb.Helper()
	defaults, err := latest.Default()
	require.NoError(tb, err)
	stock, sized := defaults.Profiles[0], *defaults.Profiles[0].DeepCopy()
	stock.SchedulerName, sized.SchedulerName = profiles[0], profiles[1]
	sized.Plugins.MultiPoint.Enabled = append(sized.Plugins.MultiPoint.Enabled, schedconfig.Plugin{Name: resourcelimit.Name, Weight: 2})
	sized.PluginConfig = append(sized.PluginConfig, schedconfig.PluginConfig{Name: resourcelimit.Name, Args: &config.ResourceLimitArgs{SyncTimeoutSeconds: 60}})
	return []schedconfig.KubeSchedulerProfile{stock, sized}
}

func start(ctx context.Context, tb testing.TB, factory informers.SharedInformerFactory) {
	tb.Helper()
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		require.True(tb, synced, kind)
	}
}

// pace is pods a second of the clock, and of the process's processor time, which
// other work on the machine changes little.
type pace struct{ clock, processor float64 }

// run finds nodes for a round's pods of a side.
func (c *cycles) run(tb testing.TB, n, round int) pace {
	tb.Helper()
	from := round * perRound % pods
	began, used := time.Now(), bench.ProcessorTime()
	for _, p := range c.sides[n].pods[from : from+perRound] {
		if _, err := cycle.Schedule(c.ctx, c.scheduler, c.sides[n].framework, framework.NewCycleState(), p); err != nil {
			require.NoError(tb, err)
		}
	}
	return pace{clock: perRound / time.Since(began).Seconds(), processor: perRound / (bench.ProcessorTime() - used).Seconds()}
}

// BenchmarkCycles finds nodes for 10,000 pods on each side, in turn and in small
// rounds, so that what else the machine does falls on both. With 0 percent the
// plugin is there and no pod names a limit.
func BenchmarkCycles(b *testing.B) {
	schedulermetrics.Register()
	nothing := func(*corev1.PodTemplateSpec) {}
	for _, kind := range []struct {
		name  string
		rules bool
		own   func(*corev1.PodTemplateSpec)
	}{
		{"bounds", false, nothing},
		{"bounds-and-nodes", true, nothing},
		{"against-the-same-nodes-in-the-pods", true, func(t *corev1.PodTemplateSpec) {
			builders.OnNodesWith("pool", "batch")(t)
			builders.RequireNodeLabel(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "a", "b", "c")(t)
		}},
	} {
		for _, percent := range []int{0, 10, 50, 100} {
			if percent == 0 && kind.rules || percent < 100 && strings.HasPrefix(kind.name, "against") {
				continue // the same as another, or no comparison
			}
			b.Run(fmt.Sprintf("%s/percent=%d", kind.name, percent), func(b *testing.B) {
				c := newCycles(b, sized(kind.rules), percent, kind.own)
				for b.Loop() {
					var speeds [2][]float64
					var clock, processor []float64
					for round := range pods / perRound {
						var now [2]pace
						for turn := range c.sides { // who begins changes
							n := (turn + round) % 2
							now[n] = c.run(b, n, round)
							speeds[n] = append(speeds[n], now[n].clock)
						}
						clock = append(clock, now[1].clock/now[0].clock)
						processor = append(processor, now[1].processor/now[0].processor)
					}
					b.ReportMetric(bench.Median(speeds[0]), "without/s")
					b.ReportMetric(bench.Median(speeds[1]), "with/s")
					b.ReportMetric(bench.Median(clock), "ratio")
					b.ReportMetric(bench.Median(processor), "cpu-ratio")
				}
			})
		}
	}
}
