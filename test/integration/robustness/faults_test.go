// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"sync"
	"time"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/robustness/plan"
	"berth.dev/berth/test/testenv"
)

// pause waits for a time, or until a context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// slowDown lets etcd run for a fifth of the time while there is traffic: each answer takes up to 200 ms longer.
func (r *runner) slowDown(s *plan.Step) {
	const stopped, running = 200 * time.Millisecond, 50 * time.Millisecond
	etcd := r.Cluster.Component(cluster.Etcd)
	ctx, cancel := context.WithCancel(r.Ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			etcd.Pause()
			pause(ctx, stopped)
			etcd.Resume()
			pause(ctx, running)
		}
	})
	r.during(s)
	cancel()
	ended.Wait()
}

// mixes is the resource of the mixes.
const mixes = "capacitymixes"

// removeCRD removes the CustomResourceDefinition of the mixes, and all mixes with it, while there is traffic, and restores them.
func (r *runner) removeCRD(s *plan.Step) {
	r.RemoveCRD(mixes)
	r.during(s)
	r.ApplyFiles(testenv.CRDFile(mixes))
	restored := commonMixes()
	for _, name := range r.order {
		if w := r.workloads[name]; !w.NoMix && !w.Annotated {
			restored = append(restored, mixOf(w.Workload))
		}
	}
	r.Succeeds("the mixes are served again", func() error { return r.Client.List(r.Ctx, &v1alpha1.CapacityMixList{}) })
	for _, m := range restored {
		r.put(m)
	}
}
