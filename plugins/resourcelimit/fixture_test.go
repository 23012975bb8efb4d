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
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/plugintest"
)

// fixture is the plugin in a real scheduling framework, with another plugin to
// compare it with.
type fixture struct {
	*plugintest.Cluster
	plugin    *ResourceLimit
	framework framework.Framework
}

func newFixture(tb testing.TB, args *config.ResourceLimitArgs, objects ...runtime.Object) *fixture {
	tb.Helper()
	f := &fixture{Cluster: plugintest.NewCluster(tb, nil, objects...)}
	f.framework = f.Framework(tb, Name, func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		pl, err := NewFactory()(ctx, args, h)
		f.plugin, _ = pl.(*ResourceLimit)
		return pl, err
	})
	f.Start()
	require.NoError(tb, f.plugin.Wait(f.Ctx))
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
