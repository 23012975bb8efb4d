// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"sync"
	"testing"
)

// Together is what tests of a package share that run in parallel, such as a world with a controller. The zero value is ready for use.
type Together[S any] struct {
	mu    sync.Mutex
	host  *S
	users sync.WaitGroup
}

// Join has the test run in parallel with the others that call it, and returns what they share. The first of them starts it, and
// ends after all others.
func (g *Together[S]) Join(t *testing.T, start func() S) S {
	t.Helper()
	g.users.Add(1) // each has done so before one of them goes on
	t.Parallel()
	done := sync.OnceFunc(g.users.Done)
	t.Cleanup(done)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.host == nil {
		host := start()
		g.host = &host
		t.Cleanup(func() {
			done()
			g.users.Wait()
			g.host = nil
		})
	}
	return *g.host
}
