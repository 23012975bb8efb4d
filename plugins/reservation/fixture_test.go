// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/plugintest"
)

var began = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// fixture is the plugin in a real scheduling framework, in a process that leads.
type fixture struct {
	*plugintest.Cluster
	plugin *Reservation
	clock  *clocktesting.FakePassiveClock
}

func newFixture(tb testing.TB, pods ...runtime.Object) *fixture {
	tb.Helper()
	f := unsynced(tb, pods...)
	f.Start()
	require.NoError(tb, f.plugin.Wait(f.Ctx))
	f.plugin.holdings.Lead()
	return f
}

// unsynced is a fixture whose informers are not started.
func unsynced(tb testing.TB, pods ...runtime.Object) *fixture {
	tb.Helper()
	f := &fixture{Cluster: plugintest.NewCluster(tb, nil, pods...), clock: clocktesting.NewFakePassiveClock(began)}
	f.Framework(tb, Name, func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		sh, err := newShared(ctx, h)
		if err != nil {
			return nil, err
		}
		sh.clock = f.clock
		f.plugin = &Reservation{shared: sh, handle: h}
		return f.plugin, nil
	})
	return f
}

// hold adds a Reservation of a CPU for the pods of the app web, as the watch would, and holds capacity on nodes.
func (f *fixture) hold(name string, nodes ...string) *v1alpha1.Reservation {
	r := builders.Reservation(name, "web", "1", func(s *v1alpha1.ReservationSpec) { s.Replicas = new(int32(len(nodes))) })
	r.Namespace, r.UID, r.CreationTimestamp = "shop", types.UID(name), metav1.NewTime(f.clock.Now())
	f.plugin.reservationHandler().OnAdd(r, false)
	for _, n := range nodes {
		f.plugin.holdings.SetNode(node(n).Node())
		f.plugin.holdings.Hold(f.plugin.holdings.Next(f.clock.Now()), n, f.clock.Now())
	}
	return r
}

// advance lets time pass.
func (f *fixture) advance(d time.Duration) { f.clock.SetTime(f.clock.Now().Add(d)) }

// try runs a pod through PreFilter.
func (f *fixture) try(pod *corev1.Pod) (fwk.CycleState, *fwk.PreFilterResult) {
	state := framework.NewCycleState()
	result, _ := f.plugin.PreFilter(f.Ctx, state, pod, nil)
	return state, result
}

// reserve runs a pod through PreFilter and Reserve.
func (f *fixture) reserve(tb testing.TB, pod *corev1.Pod, node string) fwk.CycleState {
	tb.Helper()
	state, _ := f.try(pod)
	require.True(tb, f.plugin.Reserve(f.Ctx, state, pod, node).IsSuccess())
	return state
}

// owned are the nodes where capacity is held for a pod.
func (f *fixture) owned(pod *corev1.Pod) (nodes []string) {
	if a, _ := f.plugin.holdings.Attempt(pod, f.clock.Now()); a != nil {
		nodes = a.Nodes().UnsortedList()
	}
	return nodes
}

func pod(app, name string) *corev1.Pod {
	p := builders.Pod(app, name, builders.CPU("1"))
	p.Namespace, p.UID = "shop", types.UID(name)
	return p
}

// node has two CPUs.
func node(name string) fwk.NodeInfo {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Allocatable = builders.Requests("2", "4Gi")
	n.Status.Allocatable[corev1.ResourcePods] = *apiresource.NewQuantity(110, apiresource.DecimalSI)
	i := framework.NewNodeInfo()
	i.SetNode(n)
	return i
}
