// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// slowBindings is a fixture whose API server answers bindings when it is told to.
func slowBindings(t *testing.T, pods []*corev1.Pod) (f *fixture, asked *atomic.Int32, answer chan struct{}) {
	t.Helper()
	f = newFixture(t, defaultArgs(), twoNodes, objects(pods...)...)
	f.mix(t, capacityMix("web", 100, 0))
	asked, answer = &atomic.Int32{}, make(chan struct{})
	f.plugin.underway.patience = time.Hour
	f.client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked.Add(1)
		<-answer
		return true, nil, nil
	})
	for _, pod := range pods {
		state, _ := f.filter(t, pod)
		require.Nil(t, f.plugin.Reserve(f.ctx, state, pod, "s"))
		go f.plugin.Bind(f.ctx, state, pod, "s")
	}
	return f, asked, answer
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, 10*time.Second, time.Millisecond, what)
}

func TestBindingsUnderWayAreBounded(t *testing.T) {
	var pods []*corev1.Pod
	for i := range maxBindings {
		pods = append(pods, testPod("web", i))
	}
	f, asked, answer := slowBindings(t, pods)
	// The fake client makes one call at a time; the others wait in it.
	eventually(t, "all have their turn", func() bool { return len(f.plugin.underway.seats) == maxBindings })

	started := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		close(started)
		ended <- f.plugin.underway.bind(f.ctx, func() error { return nil })
	}()
	<-started
	decided := make(chan bool, 1)
	go func() {
		_, status := f.plugin.PreFilter(f.ctx, framework.NewCycleState(), pods[0], f.infos)
		decided <- status.IsSuccess()
	}()
	select {
	case <-ended:
		t.Fatal("one binding more than there may be")
	case <-decided:
		t.Fatal("a pod was taken on although no more bindings can be made")
	case <-time.After(20 * time.Millisecond): // there is nothing to wait for
	}
	answer <- struct{}{}
	answer <- struct{}{}
	require.NoError(t, <-ended)
	assert.True(t, <-decided)
	close(answer)
	eventually(t, "every binding was made", func() bool { return asked.Load() == maxBindings && len(f.plugin.underway.seats) == 0 })
}

func TestAHangingAPIServerHoldsUpNoCycleForEver(t *testing.T) {
	u := newUnderway(1, time.Millisecond)
	hang := make(chan struct{})
	go func() { _ = u.bind(t.Context(), func() error { <-hang; return nil }) }()
	eventually(t, "it hangs", func() bool { return len(u.seats) == 1 })
	u.wait(t.Context()) // returns

	u.patience = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u.wait(ctx)
	require.ErrorIs(t, u.bind(ctx, func() error { return nil }), context.Canceled)
	close(hang)
}
