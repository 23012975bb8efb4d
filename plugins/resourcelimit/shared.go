// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/plugins/internal/crdinformer"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// shared is what the profiles of one scheduler have in common.
type shared struct {
	// Startup has PreEnqueue hold pods back until all limits are known and their changes are watched.
	perscheduler.Startup

	args    *config.ResourceLimitArgs
	limits  *registry.Registry
	waiting *waiting
	pods    corelisters.PodLister
	logger  klog.Logger
}

// agree refuses a profile that would have pods of another size than another
// profile of the same scheduler: they share one registry.
func (sh *shared) agree(args *config.ResourceLimitArgs) error {
	if sh.args.DefaultNamespace != args.DefaultNamespace {
		return fmt.Errorf("pluginConfig.%s.args.defaultNamespace: must be the same in all profiles of a scheduler, not %q and %q", Name,
			sh.args.DefaultNamespace, args.DefaultNamespace)
	}
	return nil
}

func newShared(ctx context.Context, handle fwk.Handle, args *config.ResourceLimitArgs) (*shared, error) {
	factory := handle.SharedInformerFactory()
	sh := &shared{
		args:    args,
		limits:  registry.NewRegistry(args.DefaultNamespace),
		pods:    factory.Core().V1().Pods().Lister(),
		logger:  klog.FromContext(ctx),
		Startup: perscheduler.Startup{Reason: ErrReasonNotSynced, Unseen: "plugin " + Name + " has not seen all ResourceLimits"},
	}
	sh.waiting = newWaiting(func(pods map[string]*corev1.Pod) {
		sh.logger.V(2).Info("Trying pods again whose ResourceLimit changed", "pods", len(pods))
		handle.Activate(sh.logger, pods)
	}, sh.limits.For)
	if err := sh.Handle("pods", factory.Core().V1().Pods().Informer(), sh.podHandler()); err != nil {
		return nil, err
	}
	resource := crdinformer.Resource{Name: "resourcelimits", Object: &v1alpha1.ResourceLimit{}}
	if err := resource.Watch(ctx, handle, &sh.Startup, args.SyncTimeoutSeconds, sh.limitHandler()); err != nil {
		return nil, err
	}
	go sh.Release(ctx, handle.Activate)
	return sh, nil
}
