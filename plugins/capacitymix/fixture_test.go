// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
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
	configv1 "berth.dev/berth/apis/config/v1"
	"berth.dev/berth/apis/v1alpha1"
)

// fixture is the plugin in a real scheduling framework. The API behind it is a
// fake: nothing here depends on how an API server behaves. What does is tested
// in test/integration.
type fixture struct {
	ctx       context.Context
	plugin    *CapacityMix
	framework framework.Framework
	client    *fake.Clientset
	recorder  *events.FakeRecorder
	activated activated
	nodes     []*corev1.Node
	infos     []fwk.NodeInfo
}

// activated records the pods that were activated.
type activated map[string]int

func (a activated) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for name := range pods {
		a[name]++
	}
}

func defaultArgs() *config.CapacityMixArgs {
	v1 := &configv1.CapacityMixArgs{}
	configv1.SetDefaults_CapacityMixArgs(v1)
	args := &config.CapacityMixArgs{}
	if err := configv1.Convert_v1_CapacityMixArgs_To_config_CapacityMixArgs(v1, args, nil); err != nil {
		panic(err)
	}
	return args
}

// newFixture builds the plugin with the given nodes, and with objects (pods and
// their owners) in its caches.
func newFixture(tb testing.TB, args *config.CapacityMixArgs, nodes []*corev1.Node, objects ...runtime.Object) *fixture {
	tb.Helper()
	schedulermetrics.Register()
	_, ctx := ktesting.NewTestContext(tb)
	ctx, cancel := context.WithCancel(ctx)
	tb.Cleanup(cancel)
	f := &fixture{ctx: ctx, nodes: nodes, activated: activated{}, recorder: events.NewFakeRecorder(100), client: fake.NewClientset(objects...)}
	factory := informers.NewSharedInformerFactory(f.client, 0)
	snapshot := cache.NewSnapshot(nil, nodes)
	registry := frameworkruntime.Registry{}
	require.NoError(tb, registry.Register(queuesort.Name, queuesort.New))
	require.NoError(tb, registry.Register(defaultbinder.Name, defaultbinder.New))
	require.NoError(tb, registry.Register(Name, func(ctx context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
		pl, err := NewFactory()(ctx, args, h)
		if err == nil {
			f.plugin = pl.(*CapacityMix)
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
		QueueSort: on(queuesort.Name), PreFilter: on(Name), Filter: on(Name), PostFilter: on(Name), PreScore: on(Name),
		Score: on(Name), Reserve: on(Name), Bind: on(Name, defaultbinder.Name),
	}}
	var err error
	f.framework, err = frameworkruntime.NewFramework(ctx, registry, profile,
		frameworkruntime.WithClientSet(f.client), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithEventRecorder(f.recorder),
		frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithPodActivator(f.activated))
	require.NoError(tb, err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for _, n := range nodes {
		f.plugin.ledger.SetNode(n)
		info, err := snapshot.NodeInfos().Get(n.Name)
		require.NoError(tb, err)
		f.infos = append(f.infos, info)
	}
	return f
}

// mix adds a CapacityMix, as the watch would.
func (f *fixture) mix(tb testing.TB, cm *v1alpha1.CapacityMix) {
	tb.Helper()
	require.NoError(tb, f.plugin.mixes.Set(cm))
}

func capacityMix(app string, percent, floor int32, changes ...func(*v1alpha1.CapacityMix)) *v1alpha1.CapacityMix {
	cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: app, UID: types.UID(app), Generation: 1}}
	cm.Spec.Selector.MatchLabels = map[string]string{"app": app}
	cm.Spec.SpotPercent, cm.Spec.MinOnDemand = percent, floor
	for _, change := range changes {
		change(cm)
	}
	return cm
}

func testNode(name, capacityType string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"karpenter.sh/capacity-type": capacityType, corev1.LabelTopologyZone: name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
}

// testPod is a pod of a ReplicaSet named after its app.
func testPod(app string, i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("%s-%d", app, i), UID: types.UID(fmt.Sprintf("%s-%d", app, i)), Labels: map[string]string{"app": app},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Set", Name: app, UID: types.UID(app), Controller: new(true)}},
		},
		Spec: corev1.PodSpec{SchedulerName: "berth-scheduler", Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
		}}}}},
	}
}

// objects are pods as runtime objects.
func objects(pods ...*corev1.Pod) []runtime.Object {
	out := make([]runtime.Object, 0, len(pods))
	for _, p := range pods {
		out = append(out, p)
	}
	return out
}
