// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"berth.dev/berth/internal/kube/handler"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/internal/metrics"
)

// Quarantine has the ledger avoid the interruption domains that are in quarantine, and no longer than they are.
type Quarantine struct {
	// Wake has the pods of a namespace tried again that wait. It is called without a lock. Set before use; nil for none.
	Wake func(namespace string)

	ledger *ledger.Ledger
	keys   []string
	clock  clock.WithDelayedExecution
	logger klog.Logger

	mu    sync.Mutex // guards what follows
	table interruptions.Table
	// read is set once the object was read, or is known not to exist.
	read  bool
	timer clock.Timer
	// failed is the last error, so that it is logged once.
	failed string
	// refused are the namespaces of pods that domains in quarantine refused, and woken those that are woken as the lock is released.
	refused, woken sets.Set[string]
	// grouped are the namespaces of members of pod groups that were refused, which hold no slot in the ledger while they wait.
	grouped sets.Set[string]
	// changes are those of the ledger at which pods were woken last.
	changes uint64
}

// NewQuarantine returns one without a domain. The keys are those of the ledger.
func NewQuarantine(l *ledger.Ledger, keys []string, c clock.WithDelayedExecution, logger klog.Logger) *Quarantine {
	return &Quarantine{
		ledger: l, keys: keys, clock: c, logger: logger,
		refused: sets.Set[string]{}, woken: sets.Set[string]{}, grouped: sets.Set[string]{},
	}
}

// Refused notes that a domain in quarantine refused a pod of a namespace, which was tried after some changes of the ledger. The scheduling
// queue has no event for the end of a quarantine, and that of a deleted node comes before the node is gone. So the pods of the namespace
// are tried again at the next change. If there was one since, they are at once. grouped is set for a member of a pod group.
func (q *Quarantine) Refused(namespace string, changes uint64, grouped bool) {
	q.mu.Lock()
	defer q.unlock()
	if grouped {
		q.grouped.Insert(namespace)
	}
	if q.ledger.QuarantineChanges() != changes {
		q.woken.Insert(namespace)
		return
	}
	q.refused.Insert(namespace)
}

// NodesChanged has the pods tried again that domains in quarantine refused, if a node outside of these was lost.
func (q *Quarantine) NodesChanged() {
	if q.ledger.InQuarantine() == nil {
		return
	}
	q.mu.Lock()
	defer q.unlock()
	q.wakeRefused()
}

// takeGrouped reports whether members of pod groups of a namespace were refused since it was called last.
func (q *Quarantine) takeGrouped(namespace string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	grouped := q.grouped.Has(namespace)
	q.grouped.Delete(namespace)
	return grouped
}

// wakeRefused has the pods woken that were refused before the last change of the ledger. Under mu.
func (q *Quarantine) wakeRefused() {
	if changes := q.ledger.QuarantineChanges(); changes != q.changes {
		q.changes, q.woken, q.refused = changes, q.woken.Union(q.refused), sets.Set[string]{}
	}
}

// unlock releases the lock, and wakes pods after it: the scheduling queue has locks of its own. So does who refuses pods meanwhile: the
// set is not read without the lock.
func (q *Quarantine) unlock() {
	woken := q.woken.UnsortedList()
	q.woken.Clear()
	q.mu.Unlock()
	for _, namespace := range woken {
		if q.Wake != nil {
			q.Wake(namespace)
		}
	}
}

// Watch follows the ConfigMap. Nothing waits for its first list: without it, pods are placed as without interruptions.
func (q *Quarantine) Watch(ctx context.Context, client kubernetes.Interface, namespace string) error {
	informer := coreinformers.NewFilteredConfigMapInformer(client, namespace, 0, nil, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, interruptions.ConfigMap).String()
	})
	if err := informer.SetTransform(keepInterruptions); err != nil {
		return fmt.Errorf("watch ConfigMap %s: %w", interruptions.ConfigMap, err)
	}
	if err := informer.SetWatchErrorHandlerWithContext(q.failedWatch); err != nil {
		return fmt.Errorf("watch ConfigMap %s: %w", interruptions.ConfigMap, err)
	}
	set := func(o *corev1.ConfigMap) { q.Set(o.Data[interruptions.DataKey]) }
	registration, err := informer.AddEventHandler(handler.Funcs[*corev1.ConfigMap]{
		Add: set, Delete: func(*corev1.ConfigMap) { q.Set("") },
	})
	if err != nil {
		return fmt.Errorf("watch ConfigMap %s: %w", interruptions.ConfigMap, err)
	}
	go informer.RunWithContext(ctx)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			q.none()
		}
	}()
	return nil
}

// failedWatch logs once that the right is missing, which is so until someone grants it.
func (q *Quarantine) failedWatch(ctx context.Context, r *cache.Reflector, err error) {
	if !apierrors.IsForbidden(err) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.report(err)
}

// keepInterruptions keeps of a ConfigMap the text of its table.
func keepInterruptions(object any) (any, error) {
	o, is := object.(*corev1.ConfigMap)
	if !is {
		return object, nil // a deletion that was missed
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion},
		Data:       map[string]string{interruptions.DataKey: o.Data[interruptions.DataKey]},
	}, nil
}

// Synced reports whether the interruptions were read, or are known not to exist.
func (q *Quarantine) Synced() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.read
}

// Set replaces what is known of interruptions by the text of a table.
func (q *Quarantine) Set(text string) {
	q.mu.Lock()
	defer q.unlock()
	q.set(text)
}

// set is Set under mu.
func (q *Quarantine) set(text string) {
	table, err := interruptions.Decode(text, q.keys, q.clock.Now())
	q.report(err)
	q.table, q.read = table, true
	q.apply()
}

// report logs an error, unless it is the last one. Under mu.
func (q *Quarantine) report(err error) {
	failed := ""
	if err != nil {
		failed = err.Error()
	}
	if failed != "" && failed != q.failed {
		q.logger.Error(err, "No interruption domain is in quarantine", "configMap", interruptions.ConfigMap)
	}
	q.failed = failed
}

// none notes that there is no object, unless one was read.
func (q *Quarantine) none() {
	q.mu.Lock()
	defer q.unlock()
	if !q.read {
		q.set("")
	}
}

// apply has the ledger avoid what is in quarantine now, and is called again when that changes by time. Under mu.
func (q *Quarantine) apply() {
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
	now := q.clock.Now()
	until, next := q.table.Quarantined(now)
	q.ledger.Quarantine(until)
	q.wakeRefused()
	metrics.QuarantinedDomains.WithLabelValues().Set(float64(len(until)))
	if !next.IsZero() {
		q.timer = q.clock.AfterFunc(next.Sub(now), q.expire)
	}
}

func (q *Quarantine) expire() {
	q.mu.Lock()
	defer q.unlock()
	q.apply()
}
