// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/handler"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/internal/metrics"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// watch registers the event handlers, whose first lists Startup waits for.
func (s *State) watch(factory informers.SharedInformerFactory) error {
	if err := indexByNamespace(factory.Core().V1().Pods().Informer()); err != nil {
		return err
	}
	for _, src := range []struct {
		name     string
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{"nodes", factory.Core().V1().Nodes().Informer(), s.NodeHandler()},
		{"pods", factory.Core().V1().Pods().Informer(), s.PodHandler()},
		{"replicasets", factory.Apps().V1().ReplicaSets().Informer(), s.OwnerHandler()},
		{"statefulsets", factory.Apps().V1().StatefulSets().Informer(), s.OwnerHandler()},
		{"jobs", factory.Batch().V1().Jobs().Informer(), s.OwnerHandler()},
	} {
		if err := s.Startup.Handle(src.name, src.informer, src.handler); err != nil {
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

// NodeHandler updates the nodes of the ledger.
func (s *State) NodeHandler() cache.ResourceEventHandler {
	return handler.Funcs[*corev1.Node]{
		Add: func(node *corev1.Node) { s.Ledger.SetNode(node) },
		Update: func(_, node *corev1.Node) {
			// The scheduling queue gets the change by a handler of its own
			// and may try a pod before the ledger is updated.
			if s.Ledger.SetNode(node) {
				s.Activate(s.logger, perscheduler.Pods(s.Ledger.Pending("")...))
			}
		},
		Delete: func(node *corev1.Node) { s.Ledger.DeleteNode(node.Name) },
	}
}

// PodHandler updates the ledger and the ungater.
func (s *State) PodHandler() cache.ResourceEventHandler {
	return handler.Funcs[*corev1.Pod]{
		Add: func(pod *corev1.Pod) {
			s.updateUngater(pod)
			s.updateLedger(pod)
			s.Progress.Advance(pod.ResourceVersion)
		},
		Update: func(old, pod *corev1.Pod) {
			if old.UID != pod.UID { // a deletion was missed
				s.deletePod(old)
			}
			s.updateUngater(pod)
			if !sameInLedger(old, pod) {
				s.updateLedger(pod)
			}
			s.Progress.Advance(pod.ResourceVersion)
		},
		Delete: func(pod *corev1.Pod) {
			s.deletePod(pod)
			s.Progress.Advance(pod.ResourceVersion)
		},
	}
}

func (s *State) deletePod(pod *corev1.Pod) {
	s.ungater.PodGone(pod.UID)
	s.forget(pod)
}

// sameInLedger reports whether an update, most of which are of the status,
// leaves a pod as it is in the ledger.
func sameInLedger(old, pod *corev1.Pod) bool {
	return old.UID == pod.UID &&
		old.Spec.NodeName == pod.Spec.NodeName &&
		len(old.Spec.SchedulingGates) == len(pod.Spec.SchedulingGates) &&
		ledger.Active(old) == ledger.Active(pod) &&
		len(old.OwnerReferences) == len(pod.OwnerReferences) &&
		maps.Equal(old.Annotations, pod.Annotations) &&
		maps.Equal(old.Labels, pod.Labels)
}

func (s *State) updateUngater(pod *corev1.Pod) {
	if ledger.Active(pod) {
		s.ungater.PodUpdated(pod)
	} else {
		s.ungater.PodGone(pod.UID)
	}
}

// updateLedger records a pod as the API server has it. A pod that is not bound
// is not in the ledger until it is scheduled or ungated.
func (s *State) updateLedger(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" {
		s.Timers.Stop(pod.UID)
	}
	_, ungated := gate.LimitedTo(pod)
	switch {
	case !ledger.Active(pod):
		s.forget(pod)
	case pod.Spec.NodeName != "", ungated:
		s.observe(pod)
	case gate.Has(pod):
		s.ungater.Add(pod)
	}
}

func (s *State) observe(pod *corev1.Pod) {
	if !governing.Governable(pod) {
		return
	}
	p, _ := s.resolver.Resolve(pod)
	member, ok := s.Member(pod, p)
	if !ok {
		s.forget(pod)
		return
	}
	b := ledger.Bound{UID: pod.UID, Member: member, Created: pod.CreationTimestamp.UnixNano(), Node: pod.Spec.NodeName, Pending: pod}
	b.Limited, _ = gate.LimitedTo(pod)
	b.Claimed, _ = governing.ClaimedSlot(pod)
	observed := s.Ledger.Observe(b)
	if len(observed.Wake) > 0 {
		s.Activate(s.logger, perscheduler.Pods(observed.Wake...))
	}
	if observed.ClaimedBefore && b.Slot == split.NoSlot && b.Claimed == split.NoSlot {
		metrics.PodsWithoutSlot.Inc()
		s.logger.Error(nil, "A pod was bound without the slot it held: does CapacityMix stand before DefaultBinder under bind?",
			"pod", klog.KObj(pod))
	}
}

func (s *State) forget(pod *corev1.Pod) {
	s.Timers.Stop(pod.UID)
	s.Searches.Forget(pod)
	if next := s.Ledger.Forget(pod.UID); len(next) > 0 {
		s.Activate(s.logger, perscheduler.Pods(next...))
	}
}

// OwnerHandler handles ReplicaSets, StatefulSets and Jobs whose mix annotations
// change, and StatefulSets whose first ordinal changes.
func (s *State) OwnerHandler() cache.ResourceEventHandler {
	return handler.Funcs[metav1.Object]{
		Add: func(owner metav1.Object) {
			s.Owners.Forget(owner)
			if firstOrdinal(owner) != 0 || s.regroups(owner) {
				s.updatePodsOf(owner.GetNamespace(), owner.GetUID())
			}
		},
		Update: func(old, owner metav1.Object) {
			if firstOrdinal(old) != firstOrdinal(owner) {
				s.updatePodsOf(owner.GetNamespace(), owner.GetUID())
			}
			if !maps.Equal(old.GetAnnotations(), owner.GetAnnotations()) {
				s.changes.Add(1)
				s.throttle.Changed(owner.GetNamespace(), governing.GroupKey{Namespace: owner.GetNamespace(), ID: string(owner.GetUID())})
			}
		},
		Delete: s.Owners.Forget,
	}
}

func firstOrdinal(owner metav1.Object) int32 {
	if set, ok := owner.(*appsv1.StatefulSet); ok && set.Spec.Ordinals != nil {
		return set.Spec.Ordinals.Start
	}
	return 0
}

// regroups reports whether pods were seen before their owner, whose group depends on it.
func (s *State) regroups(owner metav1.Object) bool {
	_, named := owner.GetAnnotations()[v1alpha1.GroupAnnotation]
	return (named || !s.Mixes.Plain(owner.GetNamespace())) &&
		s.Ledger.Has(governing.GroupKey{Namespace: owner.GetNamespace(), ID: string(owner.GetUID())})
}

// updatePodsOf updates the pods of an owner in the ledger.
func (s *State) updatePodsOf(namespace string, owner types.UID) {
	s.eachPod(namespace, func(pod *corev1.Pod) {
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.UID == owner {
			s.update(pod)
		}
	})
}

// update is updateLedger for a pod of a list. PodHandler may have had a newer version of the pod, or its deletion, before: the ledger
// would go back to the older one. The cache has each version before PodHandler has it.
func (s *State) update(pod *corev1.Pod) {
	for {
		s.updateLedger(pod)
		current := s.current(pod)
		switch {
		case current == nil:
			s.forget(pod)
			return
		case current.ResourceVersion == pod.ResourceVersion:
			return
		}
		pod = current
	}
}

func (s *State) eachPod(namespace string, f func(*corev1.Pod)) {
	pods, err := s.Pods.Pods(namespace).List(labels.Everything())
	if err != nil { // reads a cache; cannot fail
		s.logger.Error(err, "List pods", "namespace", namespace)
		return
	}
	for _, pod := range pods {
		f(pod)
	}
}

// MixHandler updates the mixes.
func (s *State) MixHandler() cache.ResourceEventHandler {
	return handler.Funcs[*v1alpha1.CapacityMix]{
		Add: s.setMix,
		Update: func(old, cm *v1alpha1.CapacityMix) {
			if old.UID != cm.UID || old.Generation != cm.Generation {
				s.setMix(cm)
			}
		},
		Delete: func(cm *v1alpha1.CapacityMix) {
			s.Mixes.Delete(cm.Namespace, cm.Name)
			s.mixesChanged(cm.Namespace)
			s.Lookups.MixDeleted(cm)
		},
	}
}

func (s *State) setMix(cm *v1alpha1.CapacityMix) {
	if err := s.Mixes.Set(cm); err != nil {
		s.Events.InvalidCapacityMix(cm, err)
	}
	if ignored := s.Mixes.Ignored(cm); len(ignored) > 0 {
		s.Events.TolerationsIgnored(cm, ignored)
	}
	s.mixesChanged(cm.Namespace)
	s.Lookups.MixUpdated(cm)
}

// mixesChanged updates the pods of a namespace whose mixes changed. Slots keep
// their numbers, so only pods whose group depends on the mix, and pods that wait,
// are affected.
func (s *State) mixesChanged(namespace string) {
	s.changes.Add(1)
	s.eachPod(namespace, func(pod *corev1.Pod) {
		s.ungater.MixChanged(pod)
		if s.resolver.GroupedByMix(pod) {
			s.update(pod)
		}
	})
	s.throttle.NamespaceChanged(namespace)
}

// regroup updates all pods of a namespace that has, or had, a mix with settings for groups, and returns how many there are.
func (s *State) regroup(namespace string) (pods int) {
	plain := s.Mixes.Plain(namespace)
	if !s.grouped.change(namespace, !plain) && plain {
		return 0
	}
	s.eachPod(namespace, func(pod *corev1.Pod) {
		pods++
		s.update(pod)
	})
	return pods
}

// firstGroups has the pods that were seen at the start, before their mixes and owners, updated once.
type firstGroups struct {
	begin sync.Once
	ended atomic.Bool
}

// regrouped reports whether the pods that were seen at the start are in their groups, and begins to update them. The scheduling queue
// calls it under its lock.
func (s *State) regrouped() bool {
	s.first.begin.Do(func() {
		namespaces := s.Mixes.Grouped()
		if len(namespaces) == 0 {
			s.first.ended.Store(true)
			return
		}
		go func() {
			for _, namespace := range namespaces {
				s.regroup(namespace)
			}
			s.first.ended.Store(true)
		}()
	})
	return s.first.ended.Load()
}

// namespaces is a set of namespaces.
type namespaces struct {
	mu  sync.Mutex
	set sets.Set[string]
}

// change adds or removes a namespace, and reports whether it was in the set.
func (n *namespaces) change(namespace string, in bool) (was bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if was = n.set.Has(namespace); in {
		n.set.Insert(namespace)
	} else {
		n.set.Delete(namespace)
	}
	return was
}

// regroupedPerPod is how many pods that are updated in the ledger count as one that is activated.
const regroupedPerPod = 64

// activateChanged activates the pending pods that changes in a namespace concern.
func (s *State) activateChanged(namespace string, c budget.Changes[governing.GroupKey]) int {
	var pods []*corev1.Pod
	updated := 0
	if c.All {
		updated = s.regroup(namespace)
		pods = s.Ledger.Pending(namespace)
	}
	for key := range c.Keys {
		s.updatePodsOf(namespace, key.Owner())
		pods = append(pods, s.Ledger.PendingOf(key)...)
	}
	s.Activate(s.logger, perscheduler.Pods(pods...))
	return len(pods) + updated/regroupedPerPod
}
