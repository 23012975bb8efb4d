// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/internal/crdinformer"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// mixResource is the resource that must be known before a pod is placed.
var mixResource = crdinformer.Resource{Name: "capacitymixes", Object: &v1alpha1.CapacityMix{}}

// watcher feeds the ledger from the scheduler's informers, and wakes pods for
// which something changed that the scheduling queue has no event for.
type watcher struct {
	*shared
	resolver *policy.Resolver
	logger   klog.Logger
	activate func(klog.Logger, map[string]*corev1.Pod)
	pacer    *pacer
}

func newWatcher(sh *shared, logger klog.Logger, activate func(klog.Logger, map[string]*corev1.Pod)) *watcher {
	w := &watcher{shared: sh, resolver: sh.unhurried, logger: logger, activate: activate}
	w.pacer = newPacer(w.activateChanged)
	return w
}

// watch registers the event handlers, which the gate then waits for, and for
// the watch of CapacityMixes.
func (w *watcher) watch(factory informers.SharedInformerFactory, kubeConfig *rest.Config, timeout time.Duration) error {
	type source struct {
		name     string
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}
	sources := []source{
		{"nodes", factory.Core().V1().Nodes().Informer(), w.nodeHandler()},
		{"pods", factory.Core().V1().Pods().Informer(), w.podHandler()},
		{"replicasets", factory.Apps().V1().ReplicaSets().Informer(), w.ownerHandler()},
		{"statefulsets", factory.Apps().V1().StatefulSets().Informer(), w.ownerHandler()},
		{"jobs", factory.Batch().V1().Jobs().Informer(), w.ownerHandler()},
	}
	if kubeConfig != nil {
		informer, watched, err := crdinformer.New(factory, kubeConfig, w.logger, mixResource, timeout)
		if err != nil {
			return err
		}
		w.gate.Add(watched)
		sources = append(sources, source{mixResource.Name, informer, w.mixHandler()})
	}
	if err := indexByNamespace(factory.Core().V1().Pods().Informer()); err != nil {
		return err
	}
	for _, s := range sources {
		if err := w.gate.Handle(s.name, s.informer, s.handler); err != nil {
			return err
		}
	}
	return nil
}

// indexByNamespace makes the pods of a namespace cheap to list, which the
// scheduler's own informer does not.
func indexByNamespace(pods cache.SharedIndexInformer) error {
	if _, indexed := pods.GetIndexer().GetIndexers()[cache.NamespaceIndex]; indexed {
		return nil
	}
	if err := pods.AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}); err != nil {
		return fmt.Errorf("index pods by namespace: %w", err)
	}
	return nil
}

func (w *watcher) nodeHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { w.ledger.SetNode(obj.(*corev1.Node)) },
		UpdateFunc: func(_, obj any) {
			// The scheduling queue hears of the change by a handler of its own
			// and may try a pod before the ledger knows.
			if w.ledger.SetNode(obj.(*corev1.Node)) {
				w.activate(w.logger, podsToActivate(w.ledger.Pending("")...))
			}
		},
		DeleteFunc: func(obj any) {
			if node, ok := perscheduler.Deleted(obj).(*corev1.Node); ok {
				w.ledger.DeleteNode(node.Name)
			}
		},
	}
}

func (w *watcher) podHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			w.fallback(obj.(*corev1.Pod))
			w.pod(obj.(*corev1.Pod))
		},
		UpdateFunc: func(before, after any) {
			old, pod := before.(*corev1.Pod), after.(*corev1.Pod)
			if old.UID != pod.UID { // a deletion was missed
				w.opener.fallbacks.gone(old.UID)
				w.forget(old)
			}
			w.fallback(pod)
			if !seatUnchanged(old, pod) {
				w.pod(pod)
			}
		},
		DeleteFunc: func(obj any) {
			if pod, ok := perscheduler.Deleted(obj).(*corev1.Pod); ok {
				w.opener.fallbacks.gone(pod.UID)
				w.forget(pod)
			}
		},
	}
}

// seatUnchanged reports whether an update, most of which are of the status,
// leaves a pod where it is in the ledger.
func seatUnchanged(old, pod *corev1.Pod) bool {
	return old.UID == pod.UID &&
		old.Spec.NodeName == pod.Spec.NodeName &&
		len(old.Spec.SchedulingGates) == len(pod.Spec.SchedulingGates) &&
		live(old) == live(pod) &&
		len(old.OwnerReferences) == len(pod.OwnerReferences) &&
		maps.Equal(old.Annotations, pod.Annotations) &&
		maps.Equal(old.Labels, pod.Labels)
}

// live reports whether a pod holds its slot: terminating and finished pods do not.
func live(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// fallback tells what became of a pod that may wait for spot. It comes before the ledger hears of it, which may
// have the pod's successor opened.
func (w *watcher) fallback(pod *corev1.Pod) {
	if live(pod) {
		w.opener.fallbacks.see(pod)
	} else {
		w.opener.fallbacks.gone(pod.UID)
	}
}

// pod takes over what the API server says of a pod. A pod that is not bound yet
// is none of the ledger's business until it is scheduled, or its gate was opened.
func (w *watcher) pod(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" {
		w.wakeups.stop(pod.UID)
	}
	switch {
	case !live(pod):
		w.forget(pod)
	case pod.Spec.NodeName != "", settled(pod):
		w.observe(pod)
	case gate.Has(pod):
		w.opener.Add(pod)
	}
}

// settled reports whether a pod was given its slot and its type for good.
func settled(pod *corev1.Pod) bool {
	_, ok := gate.Opened(pod)
	return ok
}

func (w *watcher) observe(pod *corev1.Pod) {
	if !policy.Governable(pod) {
		return
	}
	var p *policy.Policy
	if metav1.GetControllerOfNoCopy(pod) == nil {
		p, _ = w.resolver.Resolve(pod)
	}
	group, ok := policy.GroupOf(pod, p)
	if !ok {
		w.forget(pod)
		return
	}
	b := ledger.Bound{UID: pod.UID, Group: group, Created: pod.CreationTimestamp.UnixNano(), Node: pod.Spec.NodeName, Pending: pod}
	b.Limited, _ = gate.Opened(pod)
	if b.Slot, b.Identity = policy.IdentitySlot(pod, w.resolver.Controllers); !b.Identity {
		b.Slot, _ = policy.ClaimedSlot(pod)
	}
	if w.ledger.Observe(b) && b.Slot == split.NoSlot {
		unmarkedPods.Inc()
		w.logger.Error(nil, "A pod was bound without the slot it held: does CapacityMix stand before DefaultBinder under bind?", "pod", klog.KObj(pod))
	}
}

func (w *watcher) forget(pod *corev1.Pod) {
	w.wakeups.stop(pod.UID)
	if next := w.ledger.Forget(pod.UID); next != nil {
		w.activate(w.logger, podsToActivate(next))
	}
}

// ownerHandler reacts to ReplicaSets, StatefulSets and Jobs that come to carry
// another mix, and to StatefulSets that count their ordinals from elsewhere.
func (w *watcher) ownerHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			owner := obj.(metav1.Object)
			w.controllers.forget(owner)
			if ordinalStart(owner) != 0 {
				w.reobserve(owner)
			}
		},
		UpdateFunc: func(before, after any) {
			old, owner := before.(metav1.Object), after.(metav1.Object)
			if ordinalStart(old) != ordinalStart(owner) {
				w.reobserve(owner)
			}
			if !maps.Equal(old.GetAnnotations(), owner.GetAnnotations()) {
				w.pacer.groupChanged(policy.GroupKey{Namespace: owner.GetNamespace(), ID: string(owner.GetUID())})
			}
		},
		DeleteFunc: func(obj any) {
			if owner, ok := perscheduler.Deleted(obj).(metav1.Object); ok {
				w.controllers.forget(owner)
			}
		},
	}
}

func ordinalStart(owner metav1.Object) int32 {
	if set, ok := owner.(*appsv1.StatefulSet); ok && set.Spec.Ordinals != nil {
		return set.Spec.Ordinals.Start
	}
	return 0
}

// reobserve takes the pods of an owner into the ledger again.
func (w *watcher) reobserve(owner metav1.Object) {
	w.eachPod(owner.GetNamespace(), func(pod *corev1.Pod) {
		if metav1.IsControlledBy(pod, owner) {
			w.pod(pod)
		}
	})
}

func (w *watcher) eachPod(namespace string, f func(*corev1.Pod)) {
	pods, err := w.pods.Pods(namespace).List(labels.Everything())
	if err != nil { // reads a cache; cannot fail
		w.logger.Error(err, "List pods", "namespace", namespace)
		return
	}
	for _, pod := range pods {
		f(pod)
	}
}

func (w *watcher) mixHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { w.mixChanged(obj.(*v1alpha1.CapacityMix)) },
		UpdateFunc: func(before, after any) {
			old, cm := before.(*v1alpha1.CapacityMix), after.(*v1alpha1.CapacityMix)
			if old.UID != cm.UID || old.Generation != cm.Generation {
				w.mixChanged(cm)
			}
		},
		DeleteFunc: func(obj any) {
			if cm, ok := perscheduler.Deleted(obj).(*v1alpha1.CapacityMix); ok {
				w.mixes.Delete(cm.Namespace, cm.Name)
				w.regroup(cm.Namespace)
				w.inquiry.forget(cm)
			}
		},
	}
}

func (w *watcher) mixChanged(cm *v1alpha1.CapacityMix) {
	if err := w.mixes.Set(cm); err != nil {
		w.reports.invalidCapacityMix(cm, err)
	}
	w.regroup(cm.Namespace)
	w.inquiry.hear(cm)
}

// regroup follows a change of the mixes of a namespace. Slots keep their
// numbers, so only pods without a controller, whose group is named by the mix,
// and pods that wait are concerned.
func (w *watcher) regroup(namespace string) {
	w.eachPod(namespace, func(pod *corev1.Pod) {
		w.opener.fallbacks.recheck(pod)
		if metav1.GetControllerOfNoCopy(pod) == nil {
			w.pod(pod)
		}
	})
	w.pacer.namespaceChanged(namespace)
}

// activateChanged wakes the pods that wait of what changed in a namespace.
func (w *watcher) activateChanged(namespace string, of changes) int {
	var pods []*corev1.Pod
	if of.everything {
		pods = w.ledger.Pending(namespace)
	}
	for key := range of.groups {
		pods = append(pods, w.ledger.PendingOf(key)...)
	}
	w.activate(w.logger, podsToActivate(pods...))
	return len(pods)
}
