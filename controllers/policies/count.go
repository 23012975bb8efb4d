// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
)

const (
	// together is how long changes of a namespace are collected before it is counted.
	together = time.Second
	// share is how many times as long as its last count a namespace waits for the next one. Who may write there decides how many
	// selectors are matched with how many different pods, and all namespaces are counted one after the other.
	share = 20
	// syncedEvery is how often Synced is called until it returns true.
	syncedEvery = 100 * time.Millisecond
)

// Pods is the part of the cluster state that the controller reads.
type Pods interface {
	AllPods(namespace string) []*clusterstate.Pod
}

// Set adds or replaces a policy, which must not be changed afterwards.
func (c *Controller) Set(policy *v1alpha1.SchedulingPolicy) {
	if c.policies.Set(policy) {
		c.enqueue(policy.Namespace)
	}
}

// Delete removes a policy.
func (c *Controller) Delete(namespace, name string) {
	c.policies.Delete(namespace, name)
	c.enqueue(namespace)
}

// PodsChanged counts the pods of a namespace again, after a delay, if it has policies.
func (c *Controller) PodsChanged(namespace string) {
	if len(c.policies.In(namespace)) > 0 {
		c.enqueue(namespace)
	}
}

// enqueue adds a namespace to the queue. A namespace that waits already is not delayed further.
func (c *Controller) enqueue(namespace string) {
	if c.manages(namespace) {
		c.queue.AddAfter(namespace, c.delay(namespace))
	}
}

// delay is how long changes of a namespace are collected before it is counted.
func (c *Controller) delay(namespace string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(together, share*c.took[namespace])
}

// count counts the namespaces of the queue until the context ends. The queue has every namespace with policies from the start:
// the informer has called Set for each.
func (c *Controller) count(ctx context.Context) error {
	synced := func(context.Context) (bool, error) { return c.Synced(), nil }
	if err := wait.PollUntilContextCancel(ctx, syncedEvery, true, synced); err != nil {
		return nil // the context has ended, which is no failure
	}
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	for {
		namespace, end := c.queue.Get()
		if end {
			return nil
		}
		for _, name := range c.recount(namespace) {
			policy := &v1alpha1.SchedulingPolicy{}
			policy.Namespace, policy.Name = namespace, name
			select {
			case c.differs <- event.GenericEvent{Object: policy}:
			case <-ctx.Done():
				return nil
			}
		}
		c.queue.Done(namespace)
	}
}

// recount counts a namespace and returns the names of the policies that are not as in the last count.
func (c *Controller) recount(namespace string) (differ []string) {
	began := c.Clock.Now()
	now := tally(c.policies.In(namespace), c.Pods.AllPods(namespace))
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.counted[namespace]
	if len(now) == 0 {
		delete(c.counted, namespace)
		delete(c.took, namespace)
	} else {
		c.counted[namespace], c.took[namespace] = now, c.Clock.Now().Sub(began)
	}
	for name, u := range now {
		if before[name] != u {
			differ = append(differ, name)
		}
	}
	return differ
}

// usage returns what the last count found about a policy; false if it was not counted, or only another version of it.
func (c *Controller) usage(policy *v1alpha1.SchedulingPolicy) (usage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, counted := c.counted[policy.Namespace][policy.Name]
	return u, counted && u.policy.Object.UID == policy.UID && u.policy.Object.Generation == policy.Generation
}
