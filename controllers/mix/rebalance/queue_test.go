// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

func TestKeysComeInTheOrderOfTheirWorkloads(t *testing.T) {
	names := map[string]string{"1": "zebra", "2": "ant", "3": "cat"} // by ID; other IDs have no pods
	group := func(key governing.GroupKey) *clusterstate.Group {
		if names[key.ID] == "" {
			return nil
		}
		return &clusterstate.Group{Key: key, Workload: clusterstate.Workload{Kind: "Deployment", Name: names[key.ID]}}
	}
	var sorted []governing.GroupKey
	for _, namespace := range []string{"", "a", "b"} {
		for _, id := range []string{"", "2", "3", "1", "8", "9"} {
			if namespace != "" || id == "" {
				sorted = append(sorted, governing.GroupKey{Namespace: namespace, ID: id})
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		q, queued := &byWorkload{group: group}, map[int]bool{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			if len(queued) > 0 && rapid.Bool().Draw(t, "pop") {
				first := slices.Min(slices.Collect(maps.Keys(queued)))
				require.Equal(t, sorted[first], q.Pop())
				delete(queued, first)
			} else if i := rapid.IntRange(0, len(sorted)-1).Draw(t, "key"); !queued[i] {
				q.Push(sorted[i])
				queued[i] = true
			}
			require.Equal(t, len(queued), q.Len())
		}
	})
}

// The queue that the manager gets: a key is queued once, and again if it changes while it is reconciled.
func TestTheQueueOfTheManagerHasEachKeyOnce(t *testing.T) {
	p := testController(t)
	q := p.newQueue("", workqueue.DefaultTypedControllerRateLimiter[governing.GroupKey]())
	defer q.ShutDown()
	p.Use(q)
	p.Namespaces = []string{"a", "b"}
	for range 3 {
		for _, namespace := range []string{"b", "a", "other"} {
			p.Changed(governing.GroupKey{Namespace: namespace, ID: "web"})
		}
	}
	require.Equal(t, 2, q.Len())
	first, _ := q.Get()
	second, _ := q.Get()
	assert.Equal(t, []string{"a", "b"}, []string{first.Namespace, second.Namespace})
	for _, key := range []governing.GroupKey{second, first} {
		p.Changed(key)
		q.Done(key)
	}
	require.Equal(t, 2, q.Len(), "each changed again")

	p.Debounce = holdChanged
	later := governing.GroupKey{Namespace: "a", ID: "later"}
	p.Changed(later)
	for range 2 {
		key, _ := q.Get()
		q.Done(key)
	}
	assert.Zero(t, q.Len(), "it waits for others that change with it")
	require.Eventually(t, func() bool {
		p.Clock.(*clocktesting.FakeClock).Step(holdChanged)
		return q.Len() == 1
	}, 10*time.Second, 10*time.Millisecond)
}
