// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	fwk "k8s.io/kube-scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/client"
	"berth.dev/berth/internal/kube/leaderguard"
)

// configured is a handle with the configuration of clients.
type configured struct {
	fwk.Handle
	config *rest.Config
}

func (h configured) KubeConfig() *rest.Config { return h.config }

// lease is one that can always be had.
type lease struct{ resourcelock.Interface }

func (lease) Identity() string { return "me" }

func (lease) Create(context.Context, resourcelock.LeaderElectionRecord) error { return nil }

// shut shuts a fence: its process led, and was stopped for too long.
func shut(t *testing.T, guard *leaderguard.Fence, clock *testingclock.FakeClock) {
	t.Helper()
	limits := leaderguard.Limits{Lease: 15 * time.Second, RenewDeadline: 10 * time.Second}
	require.NoError(t, guard.Lock(lease{}, limits).Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}))
	clock.Step(2 * limits.Lease)
}

// What plugins write: node locks are Leases, Reservations and decisions are Berth's own kinds, and pods are bound.
func TestNoClientOfAPluginWritesBehindAShutFence(t *testing.T) {
	var writes atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			writes.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	clock := testingclock.NewFakeClock(time.Now())
	guard := leaderguard.New(clock)
	h, err := newFencedHandle(guard, configured{config: &rest.Config{Host: server.URL}})
	require.NoError(t, err)
	own, err := client.New(h.KubeConfig())
	require.NoError(t, err)
	write := func() []error {
		_, locked := h.ClientSet().CoordinationV1().Leases("berth-system").Create(t.Context(), &coordinationv1.Lease{}, metav1.CreateOptions{})
		return []error{
			locked,
			h.ClientSet().CoreV1().Pods("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}),
			own.Post().Namespace("shop").Resource("reservations").Body(&v1alpha1.Reservation{}).Do(t.Context()).Error(),
		}
	}
	for _, err := range write() {
		require.NoError(t, err)
	}
	n := writes.Load()
	require.EqualValues(t, 3, n)
	shut(t, guard, clock)
	for _, err := range write() {
		require.ErrorIs(t, err, leaderguard.ErrShut)
	}
	assert.Equal(t, n, writes.Load())
}
