// SPDX-License-Identifier: Apache-2.0

package perscheduler

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// profile is a profile of the scheduler with an informer factory.
type profile struct {
	fwk.Handle
	factory informers.SharedInformerFactory
}

func (p profile) SharedInformerFactory() informers.SharedInformerFactory { return p.factory }

func factory() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(nil, 0)
}

func TestTheProfilesOfASchedulerShareAPart(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var parts Parts[*int]
	made := 0
	create := func() (*int, error) {
		made++
		return new(made), nil
	}
	agreed := func(*int) error { return nil }
	one := factory()
	first, err := parts.Join(ctx, profile{factory: one}, create, agreed)
	require.NoError(t, err)
	second, err := parts.Join(ctx, profile{factory: one}, create, agreed)
	require.NoError(t, err)
	assert.Same(t, first, second)
	assert.Equal(t, 1, made)

	refuse := errors.New("another setting")
	_, err = parts.Join(ctx, profile{factory: one}, create, func(p *int) error {
		assert.Same(t, first, p, "the second profile is compared with the first")
		return refuse
	})
	require.ErrorIs(t, err, refuse)

	other, err := parts.Join(ctx, profile{factory: factory()}, create, agreed)
	require.NoError(t, err)
	assert.NotSame(t, first, other, "another scheduler of the same process")

	end()
	assert.Eventually(t, func() bool {
		again, err := parts.Join(t.Context(), profile{factory: one}, create, agreed)
		return err == nil && again != first
	}, 10*time.Second, time.Millisecond, "it is forgotten with its scheduler")
}

func TestAPartThatCouldNotBeMadeIsNotKept(t *testing.T) {
	var parts Parts[int]
	broken := errors.New("no such informer")
	one := profile{factory: factory()}
	_, err := parts.Join(t.Context(), one, func() (int, error) { return 0, broken }, nil)
	require.ErrorIs(t, err, broken)
	part, err := parts.Join(t.Context(), one, func() (int, error) { return 7, nil }, nil)
	require.NoError(t, err)
	assert.Equal(t, 7, part)
}

func TestTheGateOpensWhenAllIsSeen(t *testing.T) {
	var empty Startup
	require.NoError(t, empty.Wait(t.Context()))

	g := Startup{Unseen: "pods are not read"}
	var nodes, pods atomic.Bool
	nodes.Store(true)
	g.Add(nodes.Load)
	g.Add(pods.Load)
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, g.Wait(impatient), "pods are not read within")

	opened := make(chan error, 1)
	go func() { opened <- g.Wait(t.Context()) }()
	pods.Store(true)
	require.NoError(t, <-opened)
	pods.Store(false)
	require.NoError(t, g.Wait(impatient), "once open it stays open")
}

func TestHeldPodsAreActivatedOnceAllIsSeen(t *testing.T) {
	var g Startup
	var seen atomic.Bool
	g.Add(seen.Load)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}}
	require.True(t, g.hold(pod))
	activated := make(chan map[string]*corev1.Pod, 1)
	go g.Release(t.Context(), func(_ klog.Logger, pods map[string]*corev1.Pod) { activated <- pods })
	assert.Empty(t, activated)
	seen.Store(true)
	assert.Equal(t, map[string]*corev1.Pod{"shop/web-0": pod}, <-activated)
	assert.False(t, g.hold(pod))

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	unsynced := Startup{Unseen: "pods are not read"}
	unsynced.Add(func() bool { return false })
	unsynced.Release(ended, nil) // returns, and activates none
}
