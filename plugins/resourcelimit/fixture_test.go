// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
)

// fixture is the plugin in a real scheduling framework, with another plugin to
// compare it with. The API behind it is a fake: nothing here depends on how an
// API server behaves. What does is tested in test/integration/limits/scheduling.
type fixture struct {
	ctx       context.Context
	plugin    *ResourceLimit
	framework framework.Framework
	activated activated
}

// activated records how often pods were activated.
type activated map[string]int

func (a activated) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for name := range pods {
		a[name]++
	}
}

func newFixture(tb testing.TB, args *config.ResourceLimitArgs, objects ...runtime.Object) *fixture {
	tb.Helper()
	schedulermetrics.Register()
	_, ctx := ktesting.NewTestContext(tb)
	ctx, cancel := context.WithCancel(ctx)
	tb.Cleanup(cancel)
	f := &fixture{ctx: ctx, activated: activated{}}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	registry := frameworkruntime.Registry{}
	require.NoError(tb, registry.Register(queuesort.Name, queuesort.New))
	require.NoError(tb, registry.Register(defaultbinder.Name, defaultbinder.New))
	require.NoError(tb, registry.Register(Name, func(ctx context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
		pl, err := NewFactory()(ctx, args, h)
		if err == nil {
			f.plugin = pl.(*ResourceLimit)
		}
		return pl, err
	}))
	on := func(names ...string) schedulerconfig.PluginSet {
		var set schedulerconfig.PluginSet
		for _, n := range names {
			set.Enabled = append(set.Enabled, schedulerconfig.Plugin{Name: n, Weight: 1})
		}
		return set
	}
	profile := &schedulerconfig.KubeSchedulerProfile{SchedulerName: "berth-scheduler", Plugins: &schedulerconfig.Plugins{
		QueueSort: on(queuesort.Name), Bind: on(defaultbinder.Name),
		PreFilter: on(Name), Filter: on(Name), PreScore: on(Name), Score: on(Name),
	}}
	var err error
	f.framework, err = frameworkruntime.NewFramework(ctx, registry, profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(cache.NewSnapshot(nil, nil)), frameworkruntime.WithPodActivator(f.activated))
	require.NoError(tb, err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return f
}

func defaultArgs() *config.ResourceLimitArgs {
	return &config.ResourceLimitArgs{DefaultNamespace: "sizes", SyncTimeoutSeconds: 60}
}

// set adds or replaces a limit as the watch would.
func (f *fixture) set(l *v1alpha1.ResourceLimit) { f.plugin.limitHandler().OnAdd(l, false) }

func limit(namespace, name string, changes ...func(*v1alpha1.ResourceLimitSpec)) *v1alpha1.ResourceLimit {
	l := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), Generation: 1}}
	for _, change := range changes {
		change(&l.Spec)
	}
	return l
}

// next is the next generation of a limit.
func next(l *v1alpha1.ResourceLimit, changes ...func(*v1alpha1.ResourceLimitSpec)) *v1alpha1.ResourceLimit {
	l = l.DeepCopy()
	l.Generation++
	for _, change := range changes {
		change(&l.Spec)
	}
	return l
}

func cpu(most string) func(*v1alpha1.ResourceLimitSpec) {
	return func(s *v1alpha1.ResourceLimitSpec) { s.CPU = new(resource.MustParse(most)) }
}

func onNodes(key, value string) func(*v1alpha1.ResourceLimitSpec) {
	return func(s *v1alpha1.ResourceLimitSpec) { s.NodeSelector = map[string]string{key: value} }
}

// pod requests one CPU and names a size, "" for none.
func pod(name, size string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{SchedulerName: "berth-scheduler", Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		}}}},
	}
	if size != "" {
		p.Labels = map[string]string{v1alpha1.ResourceLimitLabel: size}
	}
	return p
}

func node(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func info(n *corev1.Node) fwk.NodeInfo {
	i := framework.NewNodeInfo()
	i.SetNode(n)
	return i
}
