// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/applyset"
)

const (
	workers = 4
	// eventDelay is how long an environment waits for more events of its objects, which come in bursts.
	eventDelay = 200 * time.Millisecond
)

// Labelled are the kinds of which only objects with ComponentLabel have to be kept in memory: all but those of which other
// controllers need all.
func Labelled() []client.Object {
	return append(slices.DeleteFunc(watched(), func(kind client.Object) bool {
		switch kind.(type) {
		case *policyv1.PodDisruptionBudget, *v1alpha1.CapacityMix, *v1alpha1.ResourceLimit:
			return true
		}
		return false
	}), &corev1.Pod{})
}

// Options configure the controller.
type Options struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client   client.Client
	Live     client.Reader
	Recorder record.EventRecorder
	Clock    clock.PassiveClock
	Settings render.Settings
	// OwnNamespaces gives each environment a namespace of its own, whose name begins with Prefix.
	OwnNamespaces bool
	Prefix        string
	// NamespaceLabels are labels of those namespaces. CopiedLabels are the keys of labels that are copied from the namespace of
	// the Environment, which override them.
	NamespaceLabels map[string]string
	CopiedLabels    []string
	Ports           stack.PortRange
	// Tuning is the initial one; Retune changes it.
	Tuning Tuning
	// OpenLog reads logs of pods.
	OpenLog OpenLog
	// Namespaces are the only ones whose environments are reconciled; empty means all.
	Namespaces []string
}

// Tuning is what can be changed while the controller runs.
type Tuning struct {
	// StartTimeout is how long a start may take. CleanUp is how long after that the objects of an environment that did not start
	// are removed, 0 for never.
	StartTimeout, CleanUp time.Duration
	// History is how many specs are kept.
	History int
	// EndedLogLines is how many lines are kept of a container that ended, 0 for none.
	EndedLogLines int
	// OrphanInterval is how often objects of environments that no longer exist are searched. DeleteOrphansAfter is how long they must
	// have been found before they are deleted, 0 for never.
	OrphanInterval, DeleteOrphansAfter time.Duration
}

// Controller reconciles Environments.
type Controller struct {
	Options
	tuning atomic.Pointer[Tuning]
	// requeueAll requeues every environment.
	requeueAll chan event.GenericEvent
	// ports are those that were allocated and that the cache does not have yet. The lock makes it one environment at a time.
	ports struct {
		sync.Mutex
		given map[client.ObjectKey][]v1alpha1.AllocatedPort
	}
	restarts restartCounts
	ended    *endedLogs
	// routeless are the keys of the environments without HTTPRoutes, where there is no Gateway.
	routeless sync.Map
	// labeled is when the labels of the namespace of an environment were last compared, by the key of the environment.
	labeled sync.Map
}

var _ reconcile.Reconciler = &Controller{}

// New returns a controller. SetupWithManager adds it to a manager.
func New(o Options) *Controller {
	c := &Controller{Options: o, requeueAll: make(chan event.GenericEvent, 1), ended: newEndedLogs(o.Client, o.Live, o.OpenLog)}
	c.tuning.Store(&o.Tuning)
	return c
}

// SetupWithManager adds the controller to a manager that is not started yet. The manager's cache must have no others of the kinds
// of Labelled than those with ComponentLabel.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("environment").
		For(&v1alpha1.Environment{}, builder.WithPredicates(applyset.SpecOrMetadataChanged(v1alpha1.EnvironmentFinalizer))).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: workers})
	for _, kind := range append(watched(), &corev1.Pod{}) {
		b = b.Watches(kind, toEnvironment())
	}
	if c.Settings.Gateway.Name != "" {
		routes, err := watchRoutes(mgr, c.enqueueAll)
		if err != nil {
			return err
		}
		b = b.WatchesRawSource(routes)
	}
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return applyset.Requests(ctx, c.Client, &v1alpha1.EnvironmentList{})
	})
	b = b.WatchesRawSource(source.Channel(c.requeueAll, all))
	if err := b.Complete(c); err != nil {
		return fmt.Errorf("add the controller of Environments: %w", err)
	}
	if len(c.Namespaces) == 0 { // else it has no right to search
		if err := mgr.Add(&search{c, known{}}); err != nil {
			return fmt.Errorf("add the search for orphans: %w", err)
		}
	}
	usage := NewUsageCollector(mgr.GetClient(), c.Live, c.Clock)
	return errors.Join(metrics.Registry.Register(NewCollector(mgr.GetClient())), metrics.Registry.Register(usage))
}

// Retune applies another tuning to all environments. It never blocks.
func (c *Controller) Retune(t Tuning) {
	c.tuning.Store(&t)
	c.enqueueAll()
}

func (c *Controller) enqueueAll() {
	select {
	case c.requeueAll <- event.GenericEvent{Object: &v1alpha1.Environment{}}:
	default: // it is pending already
	}
}

// History is another kind of which the cache has the objects with ComponentLabel. It is not watched, because only the controller
// writes it.
func History() client.Object { return &appsv1.ControllerRevision{} }

// toEnvironment enqueues the environment that an object was made for, after eventDelay.
func toEnvironment() handler.EventHandler {
	return applyset.Delayed(handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		name, namespace := o.GetLabels()[v1alpha1.EnvironmentLabel], o.GetLabels()[v1alpha1.EnvironmentNamespaceLabel]
		if name == "" || namespace == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
	}), eventDelay)
}

func compare(a, b client.ObjectKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
