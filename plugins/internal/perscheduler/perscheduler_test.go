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
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// profile is a profile of the scheduler with an informer factory.
type profile struct {
	framework.Handle
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
		assert.Same(t, first, p, "it is requested whether it agrees with the first")
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
	var empty Gate
	require.NoError(t, empty.Wait(t.Context(), "nothing to see"))

	var g Gate
	var nodes, pods atomic.Bool
	nodes.Store(true)
	g.Add(nodes.Load)
	g.Add(pods.Load)
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, g.Wait(impatient, "pods are not read"), "pods are not read within")

	opened := make(chan error, 1)
	go func() { opened <- g.Wait(t.Context(), "pods are not read") }()
	pods.Store(true)
	require.NoError(t, <-opened)
	pods.Store(false)
	require.NoError(t, g.Wait(impatient, "pods are not read"), "once open it stays open")
}

func TestADeletionThatWasMissedIsUnwrapped(t *testing.T) {
	assert.Equal(t, "pod", Deleted("pod"))
	assert.Equal(t, "pod", Deleted(cache.DeletedFinalStateUnknown{Key: "a/b", Obj: "pod"}))
}
