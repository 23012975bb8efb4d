// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/plugins/capacitymix/ungate"
	"berth.dev/berth/test/plugintest"
)

// fixture is the plugin in a real scheduling framework.
type fixture struct {
	ctx       context.Context
	cluster   *plugintest.Cluster
	plugin    *CapacityMix
	ungater   *ungate.Ungater
	framework framework.Framework
	infos     []fwk.NodeInfo
	fenced    atomic.Bool
	// mixes are the CapacityMixes that the plugin has, by name.
	mixes map[string]*v1alpha1.CapacityMix
}

// newFixture builds the plugin with the given nodes, and with objects (pods and
// their owners) in its caches.
func newFixture(tb testing.TB, args *config.CapacityMixArgs, nodes []*corev1.Node, objects ...runtime.Object) *fixture {
	tb.Helper()
	c := plugintest.NewCluster(tb, nodes, objects...)
	f := &fixture{ctx: c.Ctx, cluster: c, mixes: map[string]*v1alpha1.CapacityMix{}}
	f.framework = c.Framework(tb, Name, func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		factory := &factory{fenced: func() bool { return f.fenced.Load() }, clock: clock.RealClock{}}
		pl, err := factory.build(ctx, args, h)
		if err != nil {
			return nil, err
		}
		f.plugin = pl.(*CapacityMix)
		s, err := factory.schedulers.Join(ctx, h, nil, func(*shared) error { return nil })
		f.ungater = s.ungater
		return pl, err
	})
	c.Start()
	require.NoError(tb, f.plugin.Startup.Wait(f.ctx))
	plugintest.Await(tb, f.plugin.Quarantine.Synced) // it would end, at some time, what a test has in quarantine
	for _, n := range nodes {
		f.plugin.Ledger.SetNode(n)
		info, err := c.Snapshot.NodeInfos().Get(n.Name)
		require.NoError(tb, err)
		f.infos = append(f.infos, info)
	}
	return f
}

// webFixture is the plugin with twoNodes, and with pods of a mix that has no floor.
func webFixture(t *testing.T, percent int32, pods ...*corev1.Pod) *fixture {
	t.Helper()
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", percent, 0))
	return f
}

// mix adds a CapacityMix, without the effects of its event.
func (f *fixture) mix(tb testing.TB, cm *v1alpha1.CapacityMix) {
	tb.Helper()
	require.NoError(tb, f.plugin.Mixes.Set(cm))
	f.mixes[cm.Name] = cm
}

// changeMix has the watch deliver a CapacityMix, which is new or changed.
func (f *fixture) changeMix(cm *v1alpha1.CapacityMix) {
	before := f.mixes[cm.Name]
	f.mixes[cm.Name] = cm
	if before == nil {
		f.plugin.MixHandler().OnAdd(cm, false)
		return
	}
	cm.Generation = before.Generation + 1
	f.plugin.MixHandler().OnUpdate(before, cm)
}

// addPod and deletePod have the watch deliver a pod.
func (f *fixture) addPod(pod *corev1.Pod)    { f.plugin.PodHandler().OnAdd(pod, false) }
func (f *fixture) deletePod(pod *corev1.Pod) { f.plugin.PodHandler().OnDelete(pod) }

// ungate gives a pod its slot as the ungater does, and returns the pod as the API server then has it.
func (f *fixture) ungate(tb plugintest.TB, pod *corev1.Pod) *corev1.Pod {
	patch, _, err := f.ungater.Patch(pod)
	require.NoError(tb, err)
	after := plugintest.Patched(tb, pod, patch)
	f.addPod(after)
	return after
}

// bindingOf is the Binding that an action created.
func bindingOf(t *testing.T, action clienttesting.Action) *corev1.Binding {
	t.Helper()
	create, ok := action.(clienttesting.CreateAction)
	require.True(t, ok)
	return create.GetObject().(*corev1.Binding)
}

func typeOf(f *fixture, node string) capacity.Type {
	n, _ := f.plugin.Ledger.Node(node)
	return n.Type
}
