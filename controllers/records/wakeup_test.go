// SPDX-License-Identifier: Apache-2.0

package records

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
)

// enqueued counts the requests that are added, by namespace.
type enqueued struct {
	applyset.Queue
	mu sync.Mutex
	by map[string]int
}

func (q *enqueued) Add(r reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.by[r.Namespace]++
}

// counts returns a copy of the counts: a throttle adds requests later, by a timer.
func (q *enqueued) counts() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.by)
}

// withRecords is a controller with a number of records in each namespace, and a queue.
func withRecords(t *testing.T, n int, namespaces ...string) (*Controller, *enqueued) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	b := fake.NewClientBuilder().WithScheme(scheme)
	for _, namespace := range namespaces {
		for i := range n {
			rec := &v1alpha1.DeploymentRecord{}
			rec.Namespace, rec.Name = namespace, fmt.Sprint("r", i)
			b = b.WithObjects(rec)
		}
	}
	limiter := workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()
	q := &enqueued{Queue: workqueue.NewTypedRateLimitingQueue(limiter), by: map[string]int{}}
	t.Cleanup(q.ShutDown)
	return New(Options{Client: b.Build(), TemplateNamespace: "berth-system"}), q
}

func templateIn(namespace string) *v1alpha1.DeploymentTemplate {
	o := &v1alpha1.DeploymentTemplate{}
	o.Namespace, o.Name = namespace, "web"
	return o
}

func TestATemplateConcernsTheRecordsOfItsNamespace(t *testing.T) {
	for namespace, want := range map[string]map[string]int{
		"shop":         {"shop": 3},
		"berth-system": {"shop": 3, "blog": 3},
		"empty":        {},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, q := withRecords(t, 3, "shop", "blog")
			c.ofTemplate().Create(t.Context(), event.CreateEvent{Object: templateIn(namespace)}, q)
			assert.Equal(t, want, q.counts(), namespace)
			time.Sleep(time.Minute) // the pause ends
		})
	}
}

func TestATemplateThatChangesAllTheTimeIsThrottled(t *testing.T) {
	const records, changes = 10, 995
	synctest.Test(t, func(t *testing.T) {
		c, q := withRecords(t, records, "shop", "blog")
		h := c.ofTemplate()
		for range changes { // in almost ten seconds
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: templateIn("shop"), ObjectNew: templateIn("shop")}, q)
			time.Sleep(10 * time.Millisecond)
		}
		assert.LessOrEqual(t, q.counts()["shop"], 11*records, "a second of pause for 10 records")
		h.Delete(t.Context(), event.DeleteEvent{Object: templateIn("blog")}, q)
		assert.Equal(t, records, q.counts()["blog"], "a namespace delays no other one")
		before := q.counts()["shop"]
		time.Sleep(time.Minute)
		assert.Equal(t, before+records, q.counts()["shop"], "the last change is not lost")
	})
}
