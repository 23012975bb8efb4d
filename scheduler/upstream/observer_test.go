// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// failure is a call of Failed.
type failure struct {
	profile, pod string
	status       *fwk.Status
	nodes        fwk.NodeToStatusReader
}

// observations are the calls of an Observer.
type observations struct {
	failed chan failure

	mu sync.Mutex
	// rejected has the names of nodes that filters rejected.
	rejected []string
}

func (o *observations) Failed(profile string, pod *corev1.Pod, status *fwk.Status, nodes fwk.NodeToStatusReader, _ time.Time) {
	o.failed <- failure{profile, pod.Name, status, nodes}
}

func (o *observations) Rejected(_ fwk.CycleState, node fwk.NodeInfo, _ *fwk.Status) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rejected = append(o.rejected, node.Node().Name)
}

func TestAnObserverGetsWhyNodesAreRejected(t *testing.T) {
	t.Parallel()
	r, o := newRunning(t, node("small", "1"), node("large", "8")), &observations{failed: make(chan failure, 10)}
	Observe(r.Scheduler, o)
	r.start()
	create := func(p *corev1.Pod) {
		_, err := r.client.CoreV1().Pods(p.Namespace).Create(r.ctx, p, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	create(pod("fits", "4"))
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.rejected) == 1 && o.rejected[0] == "small"
	}, 30*time.Second, 5*time.Millisecond, "of a pod that gets a node, too")

	create(pod("unfit", "9"))
	select {
	case got := <-o.failed:
		assert.Equal(t, []string{corev1.DefaultSchedulerName, "unfit"}, []string{got.profile, got.pod})
		assert.Contains(t, got.status.Message(), "0/2 nodes are available")
		require.NotNil(t, got.nodes)
		for _, name := range []string{"small", "large"} {
			assert.Equal(t, "NodeResourcesFit", got.nodes.Get(name).Plugin(), name)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("no attempt fails")
	}
}
