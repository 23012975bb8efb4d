// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

type group struct{ namespace, id string }

func TestAChangeWakesAtOnceAndMoreOfThemAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		woken := map[string]int{}
		p := NewThrottle(func(namespace string, _ Changes[string]) int {
			mu.Lock()
			defer mu.Unlock()
			woken[namespace]++
			return 5000
		})
		seen := func(namespace string) int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return woken[namespace]
		}
		for range 595 { // ten times a second, for a minute
			p.NamespaceChanged("shop")
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, 6, seen("shop"))
		p.NamespaceChanged("other")
		assert.Equal(t, 1, seen("other"), "another namespace does not pause")
		time.Sleep(time.Minute)
		assert.Equal(t, [2]int{7, 1}, [2]int{seen("shop"), seen("other")}, "the last change is not lost")
		assert.Zero(t, p.Pausing())
		p.NamespaceChanged("shop")
		assert.Equal(t, 8, seen("shop"), "at once again")
		time.Sleep(time.Minute)
	})
}

// Whatever the order of changes, each one is followed by a wake-up of what it
// concerns, within the pause, and no namespace is woken for more than it may be.
func TestNoWakeUpIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(*testing.T) {
			pods := rapid.IntRange(0, 1000).Draw(rt, "pods")
			changed, woken := map[group]time.Time{}, map[group]time.Time{}
			groups := []group{{"a", "1"}, {"a", "2"}, {"b", "1"}}
			begun, calls := time.Now(), map[string]int{}
			var mu sync.Mutex
			p := NewThrottle(func(namespace string, of Changes[group]) int {
				mu.Lock()
				defer mu.Unlock()
				calls[namespace]++
				for _, key := range groups {
					if key.namespace == namespace && of.Has(key) {
						woken[key] = time.Now()
					}
				}
				return pods
			})
			for range rapid.IntRange(1, 50).Draw(rt, "changes") {
				key := rapid.SampledFrom(groups).Draw(rt, "group")
				if rapid.Bool().Draw(rt, "all") {
					p.NamespaceChanged(key.namespace)
					for _, k := range groups {
						if k.namespace == key.namespace {
							changed[k] = time.Now()
						}
					}
				} else {
					p.Changed(key.namespace, key)
					changed[key] = time.Now()
				}
				time.Sleep(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "ms")) * time.Millisecond)
			}
			lasted := time.Since(begun)
			time.Sleep(MaxPause)
			synctest.Wait()
			mu.Lock()
			for key, at := range changed {
				assert.False(rt, woken[key].Before(at), "%v", key)
			}
			if pause := min(time.Duration(pods)*pausePerPod, MaxPause); pause > 0 {
				for namespace, n := range calls {
					assert.LessOrEqual(rt, n, int(lasted/pause)+2, namespace)
				}
			}
			mu.Unlock()
			time.Sleep(2 * MaxPause)
			synctest.Wait()
			assert.Zero(rt, p.Pausing())
		})
	})
}

func TestChangesBeforeTheReleaseAreActivatedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		all := map[string][]Changes[string]{}
		p := NewHeldThrottle(func(namespace string, c Changes[string]) int {
			mu.Lock()
			defer mu.Unlock()
			all[namespace] = append(all[namespace], c)
			return 0
		})
		for range 100 {
			p.NamespaceChanged("shop")
			p.Changed("other", "a")
			p.Changed("other", "b")
			p.NamespaceChanged("other")
		}
		synctest.Wait()
		assert.Empty(t, all)
		released := false
		p.Release(func() { released = true })
		synctest.Wait()
		assert.True(t, released)
		assert.Equal(t, map[string][]Changes[string]{
			"shop": {{All: true}}, "other": {{All: true, Keys: map[string]struct{}{"a": {}, "b": {}}}},
		}, all)
		p.NamespaceChanged("shop")
		assert.Len(t, all["shop"], 2, "at once from now on")
	})
}

func TestNothingWaitsForAReleaseWithoutChanges(t *testing.T) {
	released := false
	NewHeldThrottle(func(string, Changes[string]) int { return 0 }).Release(func() { released = true })
	assert.True(t, released)
}
