// SPDX-License-Identifier: Apache-2.0

// Package ungate is the controller inside the scheduler that gives pods with
// Berth's scheduling gate their slot and removes the gate (docs/decisions/0009).
package ungate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/events"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/capacitymix/state"
	"berth.dev/berth/plugins/internal/admission"
	"berth.dev/berth/plugins/internal/metrics"
)

const (
	// parallelPatches is how many patches are sent at the same time.
	parallelPatches = 16
	// requestTimeout bounds one request.
	requestTimeout = 10 * time.Second
	// A patch that failed is retried after minRetry, then twice as long each time, up to maxRetry.
	minRetry, maxRetry = 50 * time.Millisecond, 10 * time.Second
	// unitRetry is when a pod is tried again whose unit is being deleted.
	unitRetry = 200 * time.Millisecond
	// domainRetry is when a pod is tried again that no event has tried meanwhile: others that have no node may fill its domains.
	domainRetry = 5 * time.Second
)

// errDomainsTaken is the error for a pod of which the domains may be filled by others of its group that have no node yet.
var errDomainsTaken = errors.New("others of the group may fill the domains")

// errUnitFallsBack is the error for a pod whose unit is being deleted, to go to on-demand.
var errUnitFallsBack = errors.New("other pods of the unit are being deleted")

// errUnitChanged is the error for a pod of which another one of its unit got the other type meanwhile.
var errUnitChanged = errors.New("another pod of the unit got a type meanwhile")

// Ungater gives pods with the scheduling gate their slot, from the ledger that
// Filter uses too. Slots are claimed by one goroutine, in the order of arrival;
// patches are sent in parallel. Only the process that leads has a queue.
type Ungater struct {
	*state.State
	client clientset.Interface
	label  *gate.Label // nil: no node label limits pods to a capacity type

	// spotFallback decides which pods with a spot slot are limited to on-demand.
	spotFallback *spotFallback

	leading atomic.Bool
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

// New returns an Ungater that limits pods to their capacity type by a node
// label; without one it removes gates without a slot.
func New(ctx context.Context, s *state.State, client clientset.Interface, label *gate.Label, check admission.Check) *Ungater {
	u := &Ungater{
		State:  s,
		client: client,
		label:  label,
		queue:  newQueue(minRetry, maxRetry),
	}
	u.spotFallback = newSpotFallback(s, client, label, check, func(pod *corev1.Pod) *governing.Mix {
		p, _ := u.ResolverOf(pod).Resolve(pod)
		return p
	})
	// The queues have goroutines from here on, also in a process that never leads.
	context.AfterFunc(ctx, func() {
		u.queue.ShutDown()
		u.spotFallback.queue.ShutDown()
	})
	return u
}

func newQueue(minRetry, maxRetry time.Duration) workqueue.TypedRateLimitingInterface[types.NamespacedName] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](minRetry,
		maxRetry))
}

// Add requests that a pod is ungated. It does nothing in a process that does not lead.
func (u *Ungater) Add(pod *corev1.Pod) {
	if u.leading.Load() {
		u.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
}

// PodUpdated implements state.Ungater.
func (u *Ungater) PodUpdated(pod *corev1.Pod) { u.spotFallback.podUpdated(pod) }

// PodGone implements state.Ungater.
func (u *Ungater) PodGone(uid types.UID) { u.spotFallback.podGone(uid) }

// MixChanged implements state.Ungater.
func (u *Ungater) MixChanged(pod *corev1.Pod) {
	if waitsForSpot(pod) {
		u.spotFallback.podUpdated(pod)
	}
}

// Run ungates pods from when the process leads until the context ends.
func (u *Ungater) Run(ctx context.Context, leads <-chan struct{}) {
	logger := klog.FromContext(ctx)
	if u.label == nil {
		logger.Info("No node label is known by which pods could be limited to a capacity type: "+
			"scheduling gates are removed without a slot. Set capacityTypeLabel",
			"plugin", "CapacityMix")
	}
	select {
	case <-ctx.Done():
		return
	case <-leads:
	}
	for u.Startup.Wait(ctx) != nil { // the ledger must have every pod that holds a slot
		if ctx.Err() != nil {
			return
		}
		logger.Error(nil, "No scheduling gate is removed until nodes, pods and CapacityMixes are read", "plugin", "CapacityMix")
	}
	u.spotFallback.run(ctx)
	u.leading.Store(true)
	u.addGated(logger)
	patches := make(chan struct{}, parallelPatches)
	for {
		key, shutdown := u.queue.Get()
		if shutdown {
			return
		}
		next := u.prepare(ctx, key)
		if next == nil {
			u.queue.Done(key)
			continue
		}
		patches <- struct{}{}
		go func() {
			defer func() { <-patches }()
			u.send(ctx, key, next)
		}()
	}
}

// addGated adds the pods that are gated already, the oldest first.
func (u *Ungater) addGated(logger klog.Logger) {
	pods, err := u.Pods.List(labels.Everything())
	if err != nil { // reads a cache; cannot fail
		logger.Error(err, "List pods")
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return !gate.Has(p) })
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, pod := range pods {
		u.Add(pod)
	}
}

// ungating is a patch that is ready to be sent.
type ungating struct {
	pod   *corev1.Pod
	patch []byte
	// capacityType is the label of the metric.
	capacityType string
}

// prepare claims the slot of a pod; nil if there is nothing to patch, or not yet: the removal of another gate adds the pod again.
func (u *Ungater) prepare(ctx context.Context, key types.NamespacedName) *ungating {
	pod, err := u.Pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || !ledger.Active(pod) || !gate.Last(pod) {
		u.queue.Forget(key)
		return nil
	}
	if u.Lookups.Required(pod) {
		u.Lookups.Enqueue(pod) // which activates it, and so adds it again
		return nil
	}
	patch, capacityType, err := u.Patch(pod)
	if errors.Is(err, errUnitFallsBack) || errors.Is(err, errUnitChanged) || errors.Is(err, ledger.ErrOutdated) {
		u.queue.AddAfter(key, unitRetry)
		return nil
	}
	if errors.Is(err, errDomainsTaken) {
		u.queue.AddAfter(key, domainRetry)
		return nil
	}
	if err != nil {
		if !errors.Is(err, ledger.ErrGone) {
			klog.FromContext(ctx).Error(err, "Prepare the patch of a gated pod", "pod", klog.KObj(pod))
		}
		return nil
	}
	return &ungating{pod: pod, patch: patch, capacityType: capacityType}
}

// Patch claims the slot of a pod and returns the patch that ungates it, with the
// capacity type that the pod is limited to.
func (u *Ungater) Patch(pod *corev1.Pod) (patch []byte, capacityType string, err error) {
	change, capacityType, err := u.decide(pod)
	if err != nil {
		return nil, "", err
	}
	if patch, err = gate.Patch(pod, change); err != nil {
		return nil, "", fmt.Errorf("patch that removes a scheduling gate: %w", err)
	}
	return patch, capacityType, nil
}

// decide returns what the patch changes.
func (u *Ungater) decide(pod *corev1.Pod) (change func(*corev1.Pod), capacityType string, err error) {
	version := u.Version(pod.Namespace)
	p, invalid := u.ResolverOf(pod).Resolve(pod)
	if len(invalid) > 0 {
		u.Events.InvalidAnnotations(pod, invalid)
	}
	switch {
	case p == nil:
		u.Ledger.Drop(pod.UID)
		return withoutSlot(v1alpha1.UngateReasonNoMix), "none", nil
	case u.label == nil:
		return withoutSlot(v1alpha1.UngateReasonNoLabel), "none", nil
	case u.Classifier.Pins(&pod.Spec):
		u.Ledger.Drop(pod.UID)
		return withoutSlot(v1alpha1.UngateReasonPinned), "none", nil
	}
	if u.Regrouping(pod) { // which adds it again
		return nil, "", ledger.ErrOutdated
	}
	member, _ := u.Member(pod, p)
	if u.spotFallback.units.has(member, u.Ledger.Gone) {
		return nil, "", errUnitFallsBack
	}
	hold, err := u.Claim(pod, member, p, version, true)
	if err != nil {
		return nil, "", err
	}
	verdict, within, err := u.choose(pod, member, p, hold)
	if err != nil {
		return nil, "", err
	}
	if !u.Ledger.Lean(pod.UID, verdict.Type) {
		return nil, "", errUnitChanged
	}
	if !u.Ledger.Confine(pod.UID, within.to) {
		return nil, "", u.holdBack(pod)
	}
	return u.limited(pod, p, hold, verdict, within), verdict.Type.String(), nil
}

// choose decides the type and the domains of a pod with a slot. One whose domains of spot are only taken may still fall back.
func (u *Ungater) choose(
	pod *corev1.Pod, member governing.Member, p *governing.Mix, hold ledger.Hold,
) (verdict fallback.Verdict, within confines, err error) {
	choice := p
	if hold.Fixed {
		choice = p.WithoutBorrowing()
	}
	within, err = u.within(pod, hold.Type) // before the type is chosen: that counts the pod as one that waits for a node
	within.avoids = u.avoids(pod, choice, hold.Type, within)
	verdict = u.spotFallback.chooseType(pod, member.Group, hold.Type, choice, func() *corev1.Pod {
		if err != nil {
			return nil
		}
		return u.onSpot(pod, p, within)
	})
	if verdict.Type != hold.Type {
		within, err = u.within(pod, verdict.Type)
	}
	if err != nil {
		err = u.holdBack(pod)
	}
	return verdict, within, err
}

// holdBack has a pod keep its gate: it waits for its domains, and not for a node of its type.
func (u *Ungater) holdBack(pod *corev1.Pod) error {
	u.Ledger.Refused(pod.UID)
	u.spotFallback.held(pod.UID)
	return errDomainsTaken
}

// limited is the change of a pod that is limited to a type and to domains.
func (u *Ungater) limited(
	pod *corev1.Pod, p *governing.Mix, hold ledger.Hold, verdict fallback.Verdict, within confines,
) func(*corev1.Pod) {
	t, slotType, ungatedAt := verdict.Type, p.Mix.TypeOf(hold.Slot), u.spotFallback.clock.Now()
	return func(after *corev1.Pod) {
		gate.Avoid(after, within.avoids)
		u.label.Limit(&after.Spec, t)
		gate.Require(after, within.requires)
		gate.Tolerate(&after.Spec, p.Tolerations[t])
		gate.Annotate(after, ledger.Annotations(pod, hold.Slot, slotType, p))
		gate.Annotate(after, map[string]string{v1alpha1.ClaimAnnotation: gate.ClaimOf(pod, t)})
		delete(after.Annotations, v1alpha1.FallbackAnnotation) // a copy of another pod's
		delete(after.Annotations, v1alpha1.UngatedAtAnnotation)
		if t == capacity.Spot {
			gate.Annotate(after, map[string]string{v1alpha1.UngatedAtAnnotation: ungatedAt.UTC().Format(time.RFC3339)})
		}
		if t != hold.Type {
			gate.Annotate(after, map[string]string{v1alpha1.FallbackAnnotation: verdict.Mark.String()})
		}
	}
}

// withoutSlot is the change of a pod that is ungated without a slot.
func withoutSlot(reason string) func(*corev1.Pod) {
	return func(after *corev1.Pod) {
		gate.Annotate(after, map[string]string{v1alpha1.UngateReasonAnnotation: reason})
	}
}

// send sends a patch. Its effect comes from the watch of pods; until then the pod
// keeps its claim, so that a lost response changes nothing.
func (u *Ungater) send(ctx context.Context, key types.NamespacedName, next *ungating) {
	defer u.queue.Done(key)
	if u.WaitIfFenced(ctx) != nil {
		return
	}
	logger := klog.FromContext(ctx)
	timed, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := u.client.CoreV1().Pods(key.Namespace).Patch(timed, key.Name, types.StrategicMergePatchType, next.patch,
		metav1.PatchOptions{FieldManager: "berth-scheduler"})
	switch {
	case err == nil:
		metrics.UngatedPods.WithLabelValues(next.capacityType).Inc()
		logger.V(3).Info("Ungated a pod", "pod", klog.KObj(next.pod), "capacityType", next.capacityType)
		u.queue.Forget(key)
	case apierrors.IsNotFound(err):
		u.queue.Forget(key)
	default:
		metrics.UngateFailures.Inc()
		u.queue.AddRateLimited(key)
		if !apierrors.IsConflict(err) {
			// The error may quote the whole spec.
			logger.Error(nil, "Cannot ungate a pod", "pod", klog.KObj(next.pod), "err", events.Truncate(err.Error()))
		}
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			u.Events.UngateFailed(next.pod, fmt.Sprint(err))
		}
	}
}
