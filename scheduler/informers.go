// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/internal/budget"
)

// boundInformers limits what the caches keep of annotations to those that are read: tenants write those of pods and of their
// controllers, up to 256 KiB each, and all of them are in memory. Call it before the start of the informers.
func boundInformers(factory informers.SharedInformerFactory) error {
	for _, informer := range []cache.SharedIndexInformer{
		factory.Core().V1().Pods().Informer(), factory.Apps().V1().ReplicaSets().Informer(), factory.Apps().V1().StatefulSets().Informer(),
		factory.Batch().V1().Jobs().Informer(), factory.Core().V1().ReplicationControllers().Informer(),
	} {
		if err := informer.SetTransform(budget.BoundObject); err != nil {
			return fmt.Errorf("bound what informers keep: %w", err)
		}
	}
	return nil
}
