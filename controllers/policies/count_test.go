// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/utils/clock"

	"berth.dev/berth/internal/mix/clusterstate"
)

// countedPods are pods of every namespace that count how often they are read.
type countedPods struct {
	pods  []*clusterstate.Pod
	reads atomic.Int32
	// takes is how long a read takes.
	takes time.Duration
}

func (p *countedPods) AllPods(string) []*clusterstate.Pod {
	p.reads.Add(1)
	time.Sleep(p.takes)
	return p.pods
}

// counting runs a test while a controller counts, in a bubble in which time passes only while all wait.
func counting(t *testing.T, o Options, test func(t *testing.T, c *Controller, pods *countedPods)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		pods := &countedPods{pods: pods(3, "app=web")}
		o.Pods, o.Clock = pods, clock.RealClock{} // that of the bubble
		if o.Synced == nil {
			o.Synced = func() bool { return true }
		}
		c := New(o)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.count(ctx) }()
		test(t, c, pods)
		cancel()
		c.queue.ShutDown() // also of one that never counted
		assert.NoError(t, <-ended)
	})
}

// differing are the policies that were requeued so far.
func differing(c *Controller) (names []string) {
	synctest.Wait()
	for {
		select {
		case e := <-c.differs:
			names = append(names, e.Object.GetName())
		default:
			slices.Sort(names)
			return names
		}
	}
}

func TestPodsAreCountedOnceASecondHoweverOftenTheyChange(t *testing.T) {
	counting(t, Options{}, func(t *testing.T, c *Controller, pods *countedPods) {
		c.Set(policy("web", 1, "app=web"))
		for range 5000 { // a change a millisecond
			c.PodsChanged(namespace)
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		assert.InDelta(t, 5, pods.reads.Load(), 1)
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, pods.reads.Load(), int32(6), "nothing is counted while nothing changes")
	})
}

// One tenant's pods and selectors do not keep the policies of the others from being counted.
func TestANamespaceThatTakesLongIsCountedRarely(t *testing.T) {
	counting(t, Options{}, func(t *testing.T, c *Controller, pods *countedPods) {
		pods.takes = 3 * time.Second
		c.Set(policy("web", 1, "app=web"))
		for range 10 * 60 {
			time.Sleep(time.Second)
			c.PodsChanged(namespace)
		}
		assert.InDelta(t, 11, pods.reads.Load(), 2, "once a minute, and at first: about a twentieth of the time")
	})
}

func TestOnlyPoliciesThatDifferAreRequeued(t *testing.T) {
	counting(t, Options{}, func(t *testing.T, c *Controller, pods *countedPods) {
		c.Set(policy("web", 3, "app=web"))
		c.Set(policy("all", 2, ""))
		c.Set(policy("db", 1, "app=db"))
		time.Sleep(together)
		assert.Equal(t, []string{"all", "db", "web"}, differing(c))
		assert.Equal(t, int32(1), pods.reads.Load(), "one count for all")

		c.Set(policy("web", 3, "app=web"))
		time.Sleep(2 * together)
		assert.Equal(t, int32(1), pods.reads.Load(), "a new status changes no count")

		pods.pods = append(pods.pods, &clusterstate.Pod{Namespace: namespace})
		c.PodsChanged(namespace)
		time.Sleep(together)
		assert.Equal(t, []string{"all"}, differing(c), "the pod is its own")

		changed := policy("db", 1, "app=web")
		changed.Generation++
		c.Set(changed)
		time.Sleep(together)
		assert.Equal(t, []string{"db"}, differing(c))

		c.Delete(namespace, "web")
		time.Sleep(together)
		assert.Equal(t, []string{"all", "db"}, differing(c), "its pods are those of another")
		for _, name := range []string{"all", "db"} {
			c.Delete(namespace, name)
		}
		time.Sleep(together)
		synctest.Wait()
		assert.Empty(t, c.counted, "nothing is kept of a namespace without policies")
		assert.Empty(t, c.took)
	})
}

func TestNamespacesWithoutPoliciesAreNotCounted(t *testing.T) {
	counting(t, Options{Namespaces: []string{namespace}}, func(t *testing.T, c *Controller, pods *countedPods) {
		other := policy("web", 1, "app=web")
		other.Namespace = "elsewhere"
		c.Set(other)
		for _, name := range []string{"", namespace, "elsewhere"} {
			c.PodsChanged(name)
		}
		time.Sleep(time.Minute)
		assert.Zero(t, pods.reads.Load(), "the configuration does not name the other namespace")
		c.Set(policy("web", 1, "app=web"))
		time.Sleep(together)
		synctest.Wait()
		assert.Equal(t, int32(1), pods.reads.Load())
	})
}

func TestNothingIsCountedBeforeTheInformersHaveSynced(t *testing.T) {
	var synced atomic.Bool
	counting(t, Options{Synced: synced.Load}, func(t *testing.T, c *Controller, pods *countedPods) {
		c.Set(policy("web", 1, "app=web"))
		time.Sleep(time.Minute)
		assert.Zero(t, pods.reads.Load())
		synced.Store(true)
		time.Sleep(syncedEvery)
		assert.Equal(t, []string{"web"}, differing(c))
	})
}
