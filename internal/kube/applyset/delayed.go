// SPDX-License-Identifier: Apache-2.0

package applyset

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is the work queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Delayed returns a handler that enqueues after a delay: the events of a parent's objects come in bursts.
func Delayed(h handler.EventHandler, delay time.Duration) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q Queue) { h.Create(ctx, e, delayingQueue{q, delay}) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q Queue) { h.Update(ctx, e, delayingQueue{q, delay}) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q Queue) { h.Delete(ctx, e, delayingQueue{q, delay}) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q Queue) {
			h.Generic(ctx, e, delayingQueue{q, delay})
		},
	}
}

type delayingQueue struct {
	Queue
	delay time.Duration
}

// Add implements workqueue.TypedInterface.
func (q delayingQueue) Add(r reconcile.Request) { q.AddAfter(r, q.delay) }
