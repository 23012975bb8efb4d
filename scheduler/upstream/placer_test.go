// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestThePlacerSelectsANodeAsTheSchedulerDoes(t *testing.T) {
	t.Parallel()
	r, p := newRunning(t, node("small", "1"), node("large", "8")), &Placer{}
	p.Attach(r.Scheduler)
	r.start()
	unknown := pod("x", "1")
	unknown.Spec.SchedulerName = "other"
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		node string
		code fwk.Code
		why  string
	}{
		"a pod that fits one node":      {pod("x", "8"), "large", fwk.Success, ""},
		"a pod that fits no node":       {pod("x", "9"), "", fwk.Unschedulable, "0/2 nodes are available: 2 Insufficient cpu"},
		"a profile that does not exist": {unknown, "", fwk.UnschedulableAndUnresolvable, `spec.schedulerName: the scheduler has no such profile: "other"`},
	} {
		got, status := p.Place(r.ctx, test.pod)
		assert.Equal(t, test.node, got, name)
		assert.Equal(t, test.code, status.Code(), name)
		assert.Contains(t, status.Message(), test.why, name)
	}
	pods, err := r.client.CoreV1().Pods("").List(r.ctx, metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, pods.Items, "it creates no pod")
	require.NoError(t, p.Nodes(r.ctx, func(nodes fwk.NodeInfoLister) {
		large, err := nodes.Get("large")
		require.NoError(t, err)
		assert.Empty(t, large.GetPods(), "it assumes no pod")
	}))
}

func TestThePlacerRejectsAPodWhereNoNodeExists(t *testing.T) {
	t.Parallel()
	r, p := newRunning(t), &Placer{}
	p.Attach(r.Scheduler)
	r.start()
	_, status := p.Place(r.ctx, pod("x", "1"))
	assert.Equal(t, fwk.Unschedulable, status.Code())
	assert.Equal(t, "no nodes available to schedule pods", status.Message())
}

// A cycle lasts from the return of NextEntity to its next call.
func TestThePlacerWorksBetweenTwoCyclesOnly(t *testing.T) {
	t.Parallel()
	r, p := newRunning(t, node("n", "1")), &Placer{}
	placed := make(chan struct{})
	calls := 0
	r.NextEntity = func(klog.Logger) (framework.QueuedEntityInfo, error) {
		if calls++; calls == 2 {
			select {
			case <-placed:
			case <-time.After(30 * time.Second):
				return nil, errors.New("the Placer does not work between two cycles")
			}
		}
		return nil, nil
	}
	p.Attach(r.Scheduler)
	for range 2 {
		_, err := r.NextEntity(klog.Background())
		require.NoError(t, err)
		assert.False(t, p.cycle.TryLock(), "a cycle runs")
		if calls == 1 {
			go func() {
				assert.NoError(t, p.Nodes(r.ctx, func(fwk.NodeInfoLister) { close(placed) }))
			}()
		}
	}
}
