// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits"
	"berth.dev/berth/plugins/crdinformer"
)

// shared is what the profiles of one scheduler have in common.
type shared struct {
	args     *config.ResourceLimitArgs
	limits   *limits.Registry
	waiting  *waiting
	pods     corelisters.PodLister
	logger   klog.Logger
	activate func(klog.Logger, map[string]*corev1.Pod)

	// handlers are the event handlers that must have seen the first list
	// before a pod may be placed.
	handlers []cache.InformerSynced
	synced   atomic.Bool
}

// schedulers finds the shared part of a scheduler by its informer factory, the
// one thing that all its profiles get and no other scheduler does.
type schedulers struct {
	mu   sync.Mutex
	byID map[informers.SharedInformerFactory]*shared
}

func newSchedulers() *schedulers {
	return &schedulers{byID: map[informers.SharedInformerFactory]*shared{}}
}

// join returns the shared part for a profile, made for the scheduler's first.
func (s *schedulers) join(ctx context.Context, handle framework.Handle, args *config.ResourceLimitArgs) (*shared, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := handle.SharedInformerFactory()
	if sh := s.byID[id]; sh != nil {
		if sh.args.DefaultNamespace != args.DefaultNamespace {
			return nil, fmt.Errorf("pluginConfig.%s.args.defaultNamespace: must be the same in all profiles of a scheduler, not %q and %q", Name, sh.args.DefaultNamespace, args.DefaultNamespace)
		}
		return sh, nil
	}
	sh, err := newShared(ctx, handle, args)
	if err != nil {
		return nil, err
	}
	s.byID[id] = sh
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.byID, id)
	})
	return sh, nil
}

func newShared(ctx context.Context, handle framework.Handle, args *config.ResourceLimitArgs) (*shared, error) {
	factory := handle.SharedInformerFactory()
	sh := &shared{
		args:     args,
		limits:   limits.NewRegistry(args.DefaultNamespace),
		waiting:  newWaiting(),
		pods:     factory.Core().V1().Pods().Lister(),
		logger:   klog.FromContext(ctx),
		activate: handle.Activate,
	}
	if err := sh.handle("pods", factory.Core().V1().Pods().Informer(), sh.podHandler()); err != nil {
		return nil, err
	}
	// There is no API server in unit tests.
	if kubeConfig := handle.KubeConfig(); kubeConfig != nil {
		resource := crdinformer.Resource{Name: "resourcelimits", Object: &v1alpha1.ResourceLimit{}}
		informer, watched, err := crdinformer.New(factory, kubeConfig, sh.logger, resource, time.Duration(args.SyncTimeoutSeconds)*time.Second)
		if err != nil {
			return nil, err
		}
		sh.handlers = append(sh.handlers, watched)
		if err := sh.handle(resource.Name, informer, sh.limitHandler()); err != nil {
			return nil, err
		}
	}
	return sh, nil
}

func (sh *shared) handle(resource string, informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("watch %s: %w", resource, err)
	}
	sh.handlers = append(sh.handlers, registration.HasSynced)
	return nil
}

// wait returns once all limits are known, and changes to them are heard of.
// After the first time it costs nothing.
func (sh *shared) wait(ctx context.Context) error {
	if sh.synced.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, handlerSyncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), sh.handlers...) {
		return fmt.Errorf("plugin %s has not seen all ResourceLimits within %s", Name, handlerSyncTimeout)
	}
	sh.synced.Store(true)
	return nil
}

// handlerSyncTimeout bounds the wait for event handlers. The scheduler starts
// only after the caches behind them are complete, so they are behind by what is
// in their queues.
const handlerSyncTimeout = 30 * time.Second
