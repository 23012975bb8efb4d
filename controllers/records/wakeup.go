// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/applyset"
)

// renderCost is how many pods that are tried a record costs that is rendered again.
const renderCost = 5

// ofTemplate returns a handler that enqueues the records that may be rendered with a template: those of its namespace, or all for
// one of TemplateNamespace. Each is rendered again, so a namespace pauses after changes of its templates: a tenant who changes one
// all the time would keep the workers from the records of others.
func (c *Controller) ofTemplate() handler.EventHandler {
	var once sync.Once
	var throttle *budget.Throttle[struct{}]
	changed := func(ctx context.Context, template client.Object, q applyset.Queue) {
		once.Do(func() { // all events have the same queue
			throttle = budget.NewThrottle(func(namespace string, _ budget.Changes[struct{}]) int {
				var where []client.ListOption
				if namespace != c.TemplateNamespace {
					where = append(where, client.InNamespace(namespace))
				}
				requests := applyset.Requests(ctx, c.Client, &v1alpha1.DeploymentRecordList{}, where...)
				for _, r := range requests {
					q.Add(r)
				}
				return renderCost * len(requests)
			})
		})
		throttle.NamespaceChanged(template.GetNamespace())
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q applyset.Queue) { changed(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q applyset.Queue) { changed(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q applyset.Queue) { changed(ctx, e.Object, q) },
	}
}
