// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/scheduler"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
)

// running is a scheduler of Kubernetes with its default profile. The API server is a fake.
type running struct {
	*scheduler.Scheduler
	ctx    context.Context //nolint:containedctx // of the test
	client *fake.Clientset
	start  func()
}

func newRunning(t *testing.T, nodes ...*corev1.Node) *running {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	r := &running{ctx: ctx, client: fake.NewClientset()}
	for _, n := range nodes {
		require.NoError(t, r.client.Tracker().Add(n))
	}
	factory := scheduler.NewInformerFactory(r.client, 0, nil)
	var err error
	r.Scheduler, err = scheduler.New(ctx, r.client, factory, nil, func(string) events.EventRecorderLogger { return events.NewFakeRecorder(100) })
	require.NoError(t, err)
	r.start = func() {
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		require.NoError(t, r.WaitForHandlersSync(ctx))
		go r.Run(ctx)
	}
	return r
}

func node(name, cpu string) *corev1.Node {
	return st.MakeNode().Name(name).Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourcePods: "10"}).Obj()
}

func pod(name, cpu string) *corev1.Pod {
	return st.MakePod().Namespace("shop").Name(name).UID(name).SchedulerName(corev1.DefaultSchedulerName).
		Req(map[corev1.ResourceName]string{corev1.ResourceCPU: cpu}).Obj()
}
