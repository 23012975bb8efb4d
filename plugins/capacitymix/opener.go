// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
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
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/policy"
)

const (
	// openAtOnce is how many gates are opened beside one another.
	openAtOnce = 16
	// openTimeout bounds one patch.
	openTimeout = 10 * time.Second
	// A patch that failed is made again after retryFirst, then twice as long each time, up to retryMost.
	retryFirst, retryMost = 50 * time.Millisecond, 10 * time.Second
)

// opener gives pods with the scheduling gate their slot, from the ledger that
// Filter uses too, and opens their gates (docs/decisions/0009). Slots are
// claimed by one goroutine, in the order of arrival; patches are sent beside one
// another. Only the process that leads has a queue.
type opener struct {
	*shared
	label gate.Label
	// limits: the cluster has a label to limit pods by.
	limits bool
	client clientset.Interface
	// wake is the scheduling queue's, for pods without the gate.
	wake      func(klog.Logger, map[string]*corev1.Pod)
	resolvers map[string]*policy.Resolver // by profile; written before the start only
	foreign   *policy.Resolver            // for the pods of other schedulers

	// fallbacks says which spot slots are opened to on-demand.
	fallbacks *fallbacks

	leading atomic.Bool
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

func newOpener(ctx context.Context, sh *shared, handle framework.Handle, leads <-chan struct{}) (*opener, error) {
	o := &opener{
		shared: sh, client: handle.ClientSet(), wake: handle.Activate, resolvers: map[string]*policy.Resolver{},
		foreign: &policy.Resolver{Prefixes: sh.args.AnnotationPrefixes, Mixes: sh.mixes, Controllers: sh.controllers},
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryFirst, retryMost)),
	}
	o.fallbacks = newFallbacks(sh, o.client, func(pod *corev1.Pod) *policy.Policy {
		p, _ := o.resolver(pod).Resolve(pod)
		return p
	})
	// The queues run from here on, also in a process that never leads.
	context.AfterFunc(ctx, func() {
		o.queue.ShutDown()
		o.fallbacks.queue.ShutDown()
	})
	var err error
	o.label, o.limits, err = arguments.CapacityTypeLabel(sh.args, sh.classifier)
	if err == nil && !o.limits && leads != nil {
		klog.FromContext(ctx).Info("No node label is known by which pods could be limited to a capacity type: gates are opened without a slot. Set capacityTypeLabel", "plugin", Name)
	}
	return o, err
}

// Add requests the gate of a pod to be opened. It does nothing in a process that does not lead.
func (o *opener) Add(pod *corev1.Pod) {
	if o.leading.Load() {
		o.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
}

// activate has pods looked at again: by the scheduling queue, or here.
func (o *opener) activate(logger klog.Logger, pods map[string]*corev1.Pod) {
	for name, pod := range pods {
		if gate.Has(pod) {
			o.Add(pod)
			delete(pods, name)
		}
	}
	if len(pods) > 0 {
		o.wake(logger, pods)
	}
}

// run opens gates from when the process leads until the context ends.
func (o *opener) run(ctx context.Context, leads <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-leads:
	}
	logger := klog.FromContext(ctx)
	for o.wait(ctx) != nil { // the ledger must know every pod that holds a slot
		if ctx.Err() != nil {
			return
		}
		logger.Error(nil, "No gates are opened until nodes, pods and CapacityMixes are read", "plugin", Name)
	}
	o.fallbacks.lead(ctx)
	o.leading.Store(true)
	o.begin(logger)
	atOnce := make(chan struct{}, openAtOnce)
	for {
		key, over := o.queue.Get()
		if over {
			return
		}
		patch := o.decide(ctx, key)
		if patch == nil {
			o.queue.Done(key)
			continue
		}
		atOnce <- struct{}{}
		go func() {
			defer func() { <-atOnce }()
			o.send(ctx, key, patch)
		}()
	}
}

// begin takes the pods that wait already, the oldest first.
func (o *opener) begin(logger klog.Logger) {
	pods, err := o.pods.List(labels.Everything())
	if err != nil { // reads a cache; cannot fail
		logger.Error(err, "List pods")
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return !gate.Has(p) })
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, pod := range pods {
		o.Add(pod)
	}
}

// opening is a patch that is ready to be sent.
type opening struct {
	pod   *corev1.Pod
	patch []byte
	// limitedTo stands in the metric.
	limitedTo string
}

// decide claims the slot of a pod; nil if there is nothing to open, or not yet.
func (o *opener) decide(ctx context.Context, key types.NamespacedName) *opening {
	pod, err := o.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || !live(pod) || !gate.Has(pod) {
		o.queue.Forget(key)
		return nil
	}
	if o.uncertain(pod) {
		o.inquiry.hold(pod) // comes back here by activate
		return nil
	}
	change, limitedTo, err := o.change(pod)
	if err != nil {
		return nil // it is gone
	}
	patch, err := gate.Patch(pod, change)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Make the patch that opens a gate", "pod", klog.KObj(pod))
		return nil
	}
	return &opening{pod: pod, patch: patch, limitedTo: limitedTo}
}

// resolver is that of the pod's profile.
func (o *opener) resolver(pod *corev1.Pod) *policy.Resolver {
	if r := o.resolvers[pod.Spec.SchedulerName]; r != nil {
		return r
	}
	return o.foreign
}

// change says what the patch makes of a pod.
func (o *opener) change(pod *corev1.Pod) (change func(*corev1.Pod), limitedTo string, err error) {
	p, invalid := o.resolver(pod).Resolve(pod)
	if len(invalid) > 0 {
		o.reports.invalidAnnotations(pod, invalid)
	}
	as := func(reason string) func(*corev1.Pod) {
		return func(after *corev1.Pod) {
			gate.Annotate(after, map[string]string{v1alpha1.GateOpenedAnnotation: reason})
		}
	}
	switch {
	case p == nil:
		o.ledger.Drop(pod.UID)
		return as(v1alpha1.GateOpenedNoMix), "none", nil
	case !o.limits:
		return as(v1alpha1.GateOpenedNoLabel), "none", nil
	case o.classifier.Pins(&pod.Spec):
		o.ledger.Drop(pod.UID)
		return as(v1alpha1.GateOpenedPinned), "none", nil
	}
	hold, err := o.hold(pod, p, true)
	if err != nil {
		return nil, "", err
	}
	slotType := p.Mix.TypeOf(hold.Slot)
	verdict := o.fallbacks.choose(pod, slotType, p)
	t := verdict.Type
	return func(after *corev1.Pod) {
		o.label.Limit(&after.Spec, t)
		gate.Tolerate(&after.Spec, p.Tolerations[t])
		gate.Annotate(after, claimAnnotations(pod, hold.Slot, slotType, p))
		gate.Annotate(after, map[string]string{v1alpha1.ClaimAnnotation: gate.ClaimOf(pod, t)})
		delete(after.Annotations, v1alpha1.FallbackAnnotation) // a copy of another pod's
		if t != slotType {
			gate.Annotate(after, map[string]string{v1alpha1.FallbackAnnotation: verdict.Mark.String()})
		}
	}, t.String(), nil
}

// send opens a gate. What comes of it is learnt from the watch of pods; until
// then the pod keeps its claim, so that an answer that got lost changes nothing.
func (o *opener) send(ctx context.Context, key types.NamespacedName, next *opening) {
	defer o.queue.Done(key)
	if o.fenced(ctx) != nil {
		return
	}
	logger := klog.FromContext(ctx)
	timed, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	_, err := o.client.CoreV1().Pods(key.Namespace).Patch(timed, key.Name, types.StrategicMergePatchType, next.patch, metav1.PatchOptions{FieldManager: "berth-scheduler"})
	switch {
	case err == nil:
		gatesOpened.WithLabelValues(next.limitedTo).Inc()
		logger.V(3).Info("Opened the gate of a pod", "pod", klog.KObj(next.pod), "limitedTo", next.limitedTo)
		o.queue.Forget(key)
	case apierrors.IsNotFound(err):
		o.queue.Forget(key)
	default:
		gateFailures.Inc()
		o.queue.AddRateLimited(key)
		if !apierrors.IsConflict(err) {
			logger.Error(nil, "Open the gate of a pod", "pod", klog.KObj(next.pod), "err", shortened(err.Error(), maxNote)) // it may quote the whole spec
		}
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			o.reports.closedGate(next.pod, fmt.Sprint(err))
		}
	}
}
