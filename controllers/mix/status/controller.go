// SPDX-License-Identifier: Apache-2.0

// Package status writes the status of CapacityMixes, and repairs the slot
// annotations of pods.
package status

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/mix/autoscaler"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/floor"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// exceedsDelay is how long a mix whose namespace has too many waits until it is checked again.
const exceedsDelay = time.Minute

// FieldOwner is the field manager of the status in server-side apply.
const FieldOwner = "berth-controller"

// Options configure the controller. Every field is required.
type Options struct {
	Client    client.Client
	Kube      kubernetes.Interface
	Workloads *workloads.Store
	Mixes     *governing.Registry
	Recorder  record.EventRecorder
	Clock     clock.PassiveClock
	// SchedulerNames are the scheduler profiles that place by the mix.
	SchedulerNames []string
	// RepairsPerMinute bounds how many pods are patched; 0 repairs none. SetRepairs changes it.
	RepairsPerMinute int
	// Residents returns a node, and how many pods stay on it. ScaleIn is whether replicas exchange their slots where that empties nodes;
	// SetScaleIn changes it.
	Residents func(node string) (n clusterstate.Node, pods int)
	ScaleIn   controller.ScaleIn
	// FindAutoscalersEvery is the time between two readings of which autoscalers launch nodes.
	FindAutoscalersEvery time.Duration
	// Floors returns what was decided about the floors of the groups of a mix.
	Floors func(namespace, mix string) []floor.Report
}

// Controller writes the status of one mix per request. A request without a name
// is for the annotations of the pods of the namespace.
type Controller struct {
	Options
	repairs *rate.Limiter // with a limit of 0 nothing is repaired
	costs   *costRate     // of restored deletion costs
	contest *contest
	packing packing
	// reported are the workloads about whose contested annotations an event was recorded.
	reported *lru.Cache
	// warned are the conditions of mixes that have been False.
	warned  *lru.Cache
	decided chan event.GenericEvent

	mu sync.Mutex // guards what follows
	// current are the versions of the mixes that have the status that they should have, as long as nothing else is decided.
	current map[types.NamespacedName]string
	// found are the autoscalers that were found last; it is replaced rather than changed. nil: none was looked for yet.
	found *autoscaler.Found
	// specs are those that were read last, with what is wrong with them.
	specs map[types.NamespacedName]spec
	// leads is since when this process leads, zero before its first reconcile.
	leads time.Time
	// staleGroups are the workloads of a namespace that have annotations to be repaired.
	staleGroups map[string]map[governing.GroupKey]bool
}

// spec is one version of a mix, and why it cannot be used, nil if it can.
type spec struct {
	rebalance.Version
	invalid error
}

var _ reconcile.Reconciler = &Controller{}

// New returns a controller; SetupWithManager adds it to a manager.
func New(o Options) *Controller {
	return &Controller{
		Options: o,
		repairs: rate.NewLimiter(pace(o.RepairsPerMinute)), costs: newCostRate(o.RepairsPerMinute),
		contest: newContest(), packing: newPacking(o.ScaleIn),
		reported: lru.New(remembered), warned: lru.New(remembered),
		decided: make(chan event.GenericEvent, 1024),
		current: map[types.NamespacedName]string{}, specs: map[types.NamespacedName]spec{},
		staleGroups: map[string]map[governing.GroupKey]bool{},
	}
}

// SetRepairs bounds how many pods are patched in a minute from now on; 0 repairs none. What a decision finds stale while it
// is 0 is repaired after the next decision about it.
func (r *Controller) SetRepairs(perMinute int) {
	limit, burst := pace(perMinute)
	r.repairs.SetLimit(limit)
	r.repairs.SetBurst(burst)
	r.costs.set(perMinute)
}

func pace(perMinute int) (rate.Limit, int) {
	return rate.Limit(float64(perMinute) / 60), max(1, perMinute/10)
}

// SetupWithManager adds the controller to a manager, and the metrics of the mixes to the registry.
func (r *Controller) SetupWithManager(mgr manager.Manager) error {
	if err := metrics.Registry.Register(&Collector{Workloads: r.Workloads, Clock: r.Clock}); err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(r.findAutoscalers)); err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(r.wakePacking)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("capacitymix").
		// One write takes some milliseconds; a new leader of a large cluster has a thousand to make.
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: 4}).
		WatchesRawSource(source.Channel(r.decided, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Decided queues the reconciles that follow from a decision.
func (r *Controller) Decided(d workloads.Decision) {
	for _, req := range r.Wanted(d) {
		cm := &v1alpha1.CapacityMix{}
		cm.Namespace, cm.Name = req.Namespace, req.Name
		r.decided <- event.GenericEvent{Object: cm}
	}
}

// Wanted returns the requests that a decision makes: for the mixes that it
// concerns, and after a reconcile of everything also for those whose status another
// client has written.
func (r *Controller) Wanted(d workloads.Decision) (list []reconcile.Request) {
	ask := func(name string) { list = append(list, reconcile.Request{NamespacedName: key(d.Namespace, name)}) }
	for name := range d.Mixes {
		ask(name)
	}
	for name, cm := range d.All {
		if !d.Mixes[name] && !r.isCurrent(cm) {
			ask(name)
		}
	}
	if r.note(d) {
		ask("")
	}
	return list
}

func (r *Controller) isCurrent(cm *v1alpha1.CapacityMix) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	version, known := r.current[key(cm.Namespace, cm.Name)]
	return known && version == cm.ResourceVersion
}

// setCurrent notes that a mix has its status, as long as that was composed with the autoscalers that are there.
func (r *Controller) setCurrent(name types.NamespacedName, version string, found *autoscaler.Found) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.found == found {
		r.current[name] = version
	}
}

// Reconcile implements reconcile.Reconciler.
func (r *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Name == "" {
		wait := r.repair(ctx, req.Namespace)
		r.pack(ctx, req.Namespace)
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	cm := &v1alpha1.CapacityMix{}
	if err := r.Client.Get(ctx, req.NamespacedName, cm, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if cm.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	r.leadsSince() // from the first reconcile on
	mine, others := r.Workloads.OfMix(cm.Namespace, cm.Name), r.Workloads.Others(cm.Namespace, cm.Name)
	found, invalid, now := r.autoscalers(), r.invalid(cm), r.Clock.Now()
	late, next := r.lateCosts(mine, now)
	if invalid == nil && r.Mixes.Exceeds(cm.Namespace, cm.Name) {
		invalid, next = errTooMany, workloads.Earliest(next, exceedsDelay)
	}
	status := compose(cm, invalid, mine, others, found, late, now)
	r.addFloor(cm, &status, len(mine) > 0 && invalid == nil)
	return reconcile.Result{RequeueAfter: next}, r.write(ctx, cm, status, found)
}

// addFloor adds the condition of spec.protectFloor. Until something was decided about a floor, the condition stays as it is.
func (r *Controller) addFloor(cm *v1alpha1.CapacityMix, s *v1alpha1.CapacityMixStatus, governs bool) {
	if !cm.Spec.ProtectFloor || !governs {
		if meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionFloorProtected) != nil {
			meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionFloorProtected)
		}
		return
	}
	if c, decided := floor.Condition(cm.Spec.MinOnDemand, r.Floors(cm.Namespace, cm.Name)); decided {
		set(s, cm, c, r.Clock.Now())
	}
}

func (r *Controller) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.current, name)
	delete(r.specs, name)
}

// invalid returns why the spec of a mix cannot be used, nil if it can.
func (r *Controller) invalid(cm *v1alpha1.CapacityMix) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, version := client.ObjectKeyFromObject(cm), rebalance.Version{UID: cm.UID, Generation: cm.Generation}
	known, there := r.specs[name]
	if !there || known.Version != version {
		_, _, err := governing.FromCapacityMix(cm)
		known = spec{version, err}
		r.specs[name] = known
	}
	return known.invalid
}

// write applies a status, which was composed with these autoscalers, unless it is there already. The mix is the cache's and
// must not be changed.
func (r *Controller) write(
	ctx context.Context, cm *v1alpha1.CapacityMix, status v1alpha1.CapacityMixStatus, found *autoscaler.Found,
) error {
	name := client.ObjectKeyFromObject(cm)
	if sameStatus(&cm.Status, &status) {
		r.setCurrent(name, cm.ResourceVersion, found)
		return nil
	}
	version, err := applyset.Status(ctx, r.Client, v1alpha1.SchemeGroupVersion.WithKind("CapacityMix"), cm, &status, FieldOwner)
	if version == "" {
		return err
	}
	r.setCurrent(name, version, found)
	statusWrites.Inc()
	r.warn(cm, status.Conditions)
	log.FromContext(ctx).V(2).Info("Wrote the status", "mix", cm.Name, "namespace", cm.Namespace, "satisfied", status.SatisfiedCount,
		"workloads", status.WorkloadCount)
	return nil
}

// key is the name of a pod in logs.
func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}
