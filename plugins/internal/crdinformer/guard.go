// SPDX-License-Identifier: Apache-2.0

package crdinformer

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// startGuard ends the scheduler when a resource cannot be read at start, with a
// message that names the reason: to place pods without the resource would be
// worse, and to wait without a message worst. Once the resource has been read, the
// informer retries after failures, and the scheduler continues with its cache.
type startGuard struct {
	logger  klog.Logger
	crd     string
	timeout time.Duration
	synced  func() bool
	exit    func()

	mu    sync.Mutex
	first bool // the first failure has been seen
	last  error
}

func (g *startGuard) watchFailed(ctx context.Context, r *cache.Reflector, err error) {
	cache.DefaultWatchErrorHandler(ctx, r, err)
	if g.synced() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = err
	g.logger.Error(err, "Not ready: cannot list "+g.crd+". Is the CustomResourceDefinition installed, and may this scheduler list and watch it?")
	if g.first {
		return
	}
	g.first = true
	stop := time.AfterFunc(g.timeout, g.giveUp)
	context.AfterFunc(ctx, func() { stop.Stop() })
}

func (g *startGuard) giveUp() {
	if g.synced() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.logger.Error(g.last, "Giving up: "+g.crd+" could not be listed. Install the CustomResourceDefinition and the scheduler's ClusterRole, then start the scheduler again", "after", g.timeout)
	g.exit()
}
