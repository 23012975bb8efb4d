// SPDX-License-Identifier: Apache-2.0

package deploymentrecord

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// groups knows which API groups are served. An extension may come and go while
// this runs, and nothing says so: it is asked for.
type groups struct {
	// list asks the API server.
	list func() (*metav1.APIGroupList, error)
	// appeared is called once Knative is served, until it returns true, and changed whenever the groups are others.
	appeared func() bool
	changed  func()
	every    time.Duration

	mu    sync.RWMutex
	known map[string]bool
	watch bool
}

func (g *groups) served(group string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.known[group]
}

// watched reports whether the children of the group are in the cache.
func (g *groups) watched() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.watch
}

// settled reports whether it is known what is served, and everything that is can be
// listed. A record that was looked at before would be rendered without Knative.
func (g *groups) settled() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.known != nil && (g.watch || !g.known[knativeGroup])
}

// Start implements manager.Runnable.
func (g *groups) Start(ctx context.Context) error {
	ticker := time.NewTicker(g.every)
	defer ticker.Stop()
	for {
		g.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look asks once. What cannot be asked stays as it was.
func (g *groups) look(ctx context.Context) {
	list, err := g.list()
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot ask which API groups are served")
		return
	}
	now := map[string]bool{}
	for i := range list.Groups {
		now[list.Groups[i].Name] = true
	}
	g.mu.Lock()
	changed := g.known[knativeGroup] != now[knativeGroup]
	g.known = now
	watch := g.watch
	g.mu.Unlock()
	if now[knativeGroup] && !watch && g.appeared() {
		g.mu.Lock()
		g.watch = true
		g.mu.Unlock()
		changed = true
	}
	if changed {
		g.changed()
	}
}
