// SPDX-License-Identifier: Apache-2.0

// Package plugintest has the scheduling framework for unit tests of plugins. The
// API behind it is a fake: nothing here depends on how an API server behaves. What
// does is tested in test/integration.
package plugintest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// TB is what a test and a property have in common.
type TB interface {
	Errorf(format string, args ...any)
	FailNow()
}

// Cluster is a fake API server with the informers of a scheduler.
type Cluster struct {
	Ctx       context.Context //nolint:containedctx // of the test
	Client    *fake.Clientset
	Informers informers.SharedInformerFactory
	Recorder  *events.FakeRecorder
	Activated *Activated
	Snapshot  *cache.Snapshot
}

// NewCluster returns a cluster with nodes, and with objects (pods and their owners) in its caches.
func NewCluster(tb testing.TB, nodes []*corev1.Node, objects ...runtime.Object) *Cluster {
	tb.Helper()
	schedulermetrics.Register()
	_, ctx := ktesting.NewTestContext(tb)
	ctx, cancel := context.WithCancel(ctx)
	tb.Cleanup(cancel)
	client := fake.NewClientset(objects...)
	return &Cluster{
		Ctx:       ctx,
		Client:    client,
		Informers: informers.NewSharedInformerFactory(client, 0),
		Recorder:  events.NewFakeRecorder(100),
		Activated: &Activated{},
		Snapshot:  cache.NewSnapshot(nil, nodes),
	}
}

// Framework returns the scheduling framework of a profile with a plugin at all its
// extension points, before DefaultBinder.
func (c *Cluster) Framework(tb testing.TB, name string, create frameworkruntime.PluginFactory) framework.Framework {
	tb.Helper()
	registry := frameworkruntime.Registry{name: create, queuesort.Name: queuesort.New, defaultbinder.Name: defaultbinder.New}
	enabled := []schedulerconfig.Plugin{{Name: name, Weight: 1}, {Name: queuesort.Name}, {Name: defaultbinder.Name}}
	profile := &schedulerconfig.KubeSchedulerProfile{
		SchedulerName: "berth-scheduler",
		Plugins:       &schedulerconfig.Plugins{MultiPoint: schedulerconfig.PluginSet{Enabled: enabled}},
	}
	f, err := frameworkruntime.NewFramework(c.Ctx, registry, profile, c.options()...)
	require.NoError(tb, err)
	return f
}

// Handle returns what a plugin of a profile without a name is created with.
func (c *Cluster) Handle(tb testing.TB) framework.Framework {
	tb.Helper()
	f, err := frameworkruntime.NewFramework(c.Ctx, nil, nil, c.options()...)
	require.NoError(tb, err)
	return f
}

func (c *Cluster) options() []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithClientSet(c.Client),
		frameworkruntime.WithInformerFactory(c.Informers),
		frameworkruntime.WithEventRecorder(c.Recorder),
		frameworkruntime.WithSnapshotSharedLister(c.Snapshot),
		frameworkruntime.WithPodActivator(c.Activated),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
	}
}

// Start starts the informers.
func (c *Cluster) Start() {
	c.Informers.Start(c.Ctx.Done())
	c.Informers.WaitForCacheSync(c.Ctx.Done())
}

// React has the API server answer requests with a function before all others, which it calls one request at a time. Informers run
// already, and send requests at any time: PrependReactor alone would race with them.
func (c *Cluster) React(verb, resource string, react clienttesting.ReactionFunc) {
	c.Client.Lock()
	defer c.Client.Unlock()
	c.Client.PrependReactor(verb, resource, react)
}

// SetPods adds or replaces pods in the cache.
func (c *Cluster) SetPods(tb TB, pods ...*corev1.Pod) {
	for _, p := range pods {
		require.NoError(tb, c.Informers.Core().V1().Pods().Informer().GetIndexer().Update(p))
	}
}

// DeletePod deletes a pod from the cache.
func (c *Cluster) DeletePod(tb TB, pod *corev1.Pod) {
	require.NoError(tb, c.Informers.Core().V1().Pods().Informer().GetIndexer().Delete(pod))
}

// Activated counts how often pods were activated.
type Activated struct {
	mu   sync.Mutex
	pods map[string]int
}

// Activate implements fwk.PodActivator.
func (a *Activated) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods == nil {
		a.pods = map[string]int{}
	}
	for name := range pods {
		a.pods[name]++
	}
}

// Pods returns the counts by namespace/name.
func (a *Activated) Pods() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.pods)
}

// In returns how often pods of a namespace were activated.
func (a *Activated) In(namespace string) (times int) {
	for name, n := range a.Pods() {
		if strings.HasPrefix(name, namespace+"/") {
			times += n
		}
	}
	return times
}

// Take returns the counts since the last Take.
func (a *Activated) Take() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	pods := a.pods
	a.pods = nil
	return pods
}

// Activations receives the pods of each activation.
type Activations chan map[string]*corev1.Pod

// Activate implements fwk.PodActivator.
func (a Activations) Activate(_ klog.Logger, pods map[string]*corev1.Pod) { a <- pods }

// Next returns the names of the pods that are activated next.
func (a Activations) Next(t *testing.T) []string {
	t.Helper()
	select {
	case pods := <-a:
		return slices.Collect(maps.Keys(pods))
	case <-time.After(10 * time.Second):
		t.Fatal("no pod is activated")
		return nil
	}
}

// Await waits until a condition is true, 30 seconds at most.
func Await(tb TB, condition func() bool) {
	require.Eventually(tb, condition, 30*time.Second, time.Millisecond)
}
