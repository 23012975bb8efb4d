// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/plugins/capacitymix/mixtest"
	"berth.dev/berth/plugins/capacitymix/ungate"
)

// fixture is the plugin in a real scheduling framework.
type fixture struct {
	ctx       context.Context
	cluster   *mixtest.Cluster
	plugin    *CapacityMix
	ungater   *ungate.Ungater
	framework framework.Framework
	infos     []fwk.NodeInfo
	fenced    bool
}

// newFixture builds the plugin with the given nodes, and with objects (pods and
// their owners) in its caches.
func newFixture(tb testing.TB, args *config.CapacityMixArgs, nodes []*corev1.Node, objects ...runtime.Object) *fixture {
	tb.Helper()
	c := mixtest.NewCluster(tb, nodes, objects...)
	f := &fixture{ctx: c.Ctx, cluster: c}
	registry := frameworkruntime.Registry{}
	require.NoError(tb, registry.Register(queuesort.Name, queuesort.New))
	require.NoError(tb, registry.Register(defaultbinder.Name, defaultbinder.New))
	require.NoError(tb, registry.Register(Name, func(ctx context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
		factory := &factory{fenced: func() bool { return f.fenced }}
		pl, err := factory.build(ctx, args, h)
		if err != nil {
			return nil, err
		}
		f.plugin = pl.(*CapacityMix)
		s, err := factory.schedulers.Join(ctx, h, nil, func(*shared) error { return nil })
		f.ungater = s.ungater
		return pl, err
	}))
	on := func(names ...string) schedulerconfig.PluginSet {
		var set schedulerconfig.PluginSet
		for _, n := range names {
			set.Enabled = append(set.Enabled, schedulerconfig.Plugin{Name: n, Weight: 1})
		}
		return set
	}
	f.framework = c.Framework(tb, registry, &schedulerconfig.KubeSchedulerProfile{SchedulerName: "berth-scheduler", Plugins: &schedulerconfig.Plugins{
		QueueSort: on(queuesort.Name), PreFilter: on(Name), Filter: on(Name), PostFilter: on(Name), PreScore: on(Name),
		Score: on(Name), Reserve: on(Name), Bind: on(Name, defaultbinder.Name),
	}})
	c.Start()
	require.NoError(tb, f.plugin.WaitForSync(f.ctx))
	for _, n := range nodes {
		f.plugin.Ledger.SetNode(n)
		info, err := c.Snapshot.NodeInfos().Get(n.Name)
		require.NoError(tb, err)
		f.infos = append(f.infos, info)
	}
	return f
}

// mix adds a CapacityMix, without the effects of its event.
func (f *fixture) mix(tb testing.TB, cm *v1alpha1.CapacityMix) {
	tb.Helper()
	require.NoError(tb, f.plugin.Mixes.Set(cm))
}

// addPod and deletePod have the watch deliver a pod.
func (f *fixture) addPod(pod *corev1.Pod)    { f.plugin.PodHandler().OnAdd(pod, false) }
func (f *fixture) deletePod(pod *corev1.Pod) { f.plugin.PodHandler().OnDelete(pod) }

// ungate gives a pod its slot as the ungater does, and returns the pod as the API server then has it.
func (f *fixture) ungate(tb mixtest.TB, pod *corev1.Pod) *corev1.Pod {
	patch, _, err := f.ungater.Patch(pod)
	require.NoError(tb, err)
	before, err := json.Marshal(pod)
	require.NoError(tb, err)
	text, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
	require.NoError(tb, err)
	after := &corev1.Pod{}
	require.NoError(tb, json.Unmarshal(text, after))
	f.addPod(after)
	return after
}
