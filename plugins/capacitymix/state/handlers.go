// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/handler"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/capacitymix/lookup"
	"berth.dev/berth/plugins/capacitymix/stages"
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
		Add: func(node *corev1.Node) {
			s.Ledger.SetNode(node)
			s.Quarantine.NodesChanged()
		},
		Update: func(_, node *corev1.Node) {
			// The scheduling queue gets the change by a handler of its own
			// and may try a pod before the ledger is updated.
			if s.Ledger.SetNode(node) {
				s.Activate(s.logger, perscheduler.Pods(s.Ledger.Pending("")...))
			}
			s.Quarantine.NodesChanged()
		},
		Delete: func(node *corev1.Node) {
			s.Ledger.DeleteNode(node.Name)
			s.Quarantine.NodesChanged()
		},
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
		s.follow(pod)
		s.ungater.Add(pod)
	default:
		s.follow(pod)
	}
}

// follow has a pod whose slot is being written, by a Binding or as it is ungated, hold the slot in the group that it is in now. Others of
// that group would take the slot until the result is seen.
func (s *State) follow(pod *corev1.Pod) {
	if !s.Ledger.Writing(pod.UID) {
		return
	}
	v := s.Version(pod.Namespace)
	p, _ := s.ResolverOf(pod).Resolve(pod)
	if member, ok := s.Member(pod, p); ok {
		if others := s.Ledger.Follow(pod.UID, member, v); len(others) > 0 {
			s.Activate(s.logger, perscheduler.Pods(others...))
		}
	}
}

// observe records a pod in the group of its mix, of now: one that changes meanwhile has the pod resolved again. The update of the pods
// after that change may have had this pod before.
func (s *State) observe(pod *corev1.Pod) {
	if !governing.Governable(pod) {
		s.forget(pod) // it may have been governable before
		return
	}
	for {
		v := s.Version(pod.Namespace)
		p, _ := s.ResolverOf(pod).Resolve(pod)
		member, ok := s.Member(pod, p)
		if ok && s.observeAs(pod, member, v) {
			return
		}
		if !ok {
			s.forget(pod)
			if v == s.Version(pod.Namespace) {
				return
			}
		}
	}
}

// observeAs records a pod in a group. It returns false if the version is outdated by which the pod was resolved.
func (s *State) observeAs(pod *corev1.Pod, member governing.Member, v ledger.Version) bool {
	b := ledger.Bound{
		UID: pod.UID, Member: member, Version: v, Created: pod.CreationTimestamp.UnixNano(), Node: pod.Spec.NodeName, Pending: pod,
	}
	b.Limited, _ = gate.LimitedTo(pod)
	b.Claimed, _ = governing.ClaimedSlot(pod)
	b.Confined = domains.ConfinedBy(gate.Required(pod))
	observed := s.Ledger.Observe(b)
	if observed.Outdated {
		return false
	}
	if len(observed.Wake) > 0 {
		s.Activate(s.logger, perscheduler.Pods(observed.Wake...))
	}
	if observed.ClaimedBefore && b.Slot == split.NoSlot && b.Claimed == split.NoSlot {
		metrics.PodsWithoutSlot.Inc()
		s.logger.Error(nil, "A pod was bound without the slot it held: does CapacityMix stand before DefaultBinder under bind?",
			"pod", klog.KObj(pod))
	}
	return true
}

func (s *State) forget(pod *corev1.Pod) {
	s.Timers.Stop(pod.UID)
	s.Searches.Forget(pod)
	if next := s.Ledger.Forget(pod.UID); len(next) > 0 {
		s.Activate(s.logger, perscheduler.Pods(next...))
	}
}

// OwnerHandler handles ReplicaSets, StatefulSets and Jobs whose annotations change, and StatefulSets whose first ordinal changes.
func (s *State) OwnerHandler() cache.ResourceEventHandler {
	return handler.Funcs[metav1.Object]{
		Add: func(owner metav1.Object) {
			s.Owners.Forget(owner)
			if firstOrdinal(owner) != 0 || s.lateOwner(owner) {
				s.changes.Add(1)
				s.regroups.Changed(owner.GetNamespace(), owner.GetUID())
			}
		},
		Update: s.ownerUpdated,
		Delete: s.Owners.Forget,
	}
}

func (s *State) ownerUpdated(old, owner metav1.Object) {
	sameMix := s.resolver.SameMix(old.GetAnnotations(), owner.GetAnnotations())
	if !sameMix || firstOrdinal(old) != firstOrdinal(owner) {
		s.changes.Add(1)
		s.regroups.Changed(owner.GetNamespace(), owner.GetUID())
	}
	// Other annotations, or the owner itself, have the size that a rollout grows to. No list of pods is made for them: each scaling of a
	// Deployment writes them.
	if sameMix && (!maps.Equal(old.GetAnnotations(), owner.GetAnnotations()) || lookup.Requested(old) != lookup.Requested(owner)) {
		s.throttle.Changed(owner.GetNamespace(), owner.GetUID())
	}
}

func firstOrdinal(owner metav1.Object) int32 {
	if set, ok := owner.(*appsv1.StatefulSet); ok && set.Spec.Ordinals != nil {
		return set.Spec.Ordinals.Start
	}
	return 0
}

// lateOwner reports whether pods were seen before their owner, which may have another group.
func (s *State) lateOwner(owner metav1.Object) bool {
	key := governing.GroupKey{Namespace: owner.GetNamespace(), ID: string(owner.GetUID())}
	return s.Ledger.Has(key) ||
		slices.ContainsFunc(s.Mixes.Tops(nil, key.Namespace), func(mix string) bool { return s.Ledger.Has(key.Under(mix)) })
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

// eachPod calls a function for each pod of a namespace, and returns how many there are.
func (s *State) eachPod(namespace string, f func(*corev1.Pod)) int {
	pods, err := s.Pods.Pods(namespace).List(labels.Everything())
	if err != nil { // reads a cache; cannot fail
		s.logger.Error(err, "List pods", "namespace", namespace)
	}
	for _, pod := range pods {
		f(pod)
	}
	return len(pods)
}

// MixHandler updates the mixes.
func (s *State) MixHandler() cache.ResourceEventHandler {
	return handler.Funcs[*v1alpha1.CapacityMix]{
		Add: func(cm *v1alpha1.CapacityMix) { s.setMix(cm, false) },
		Update: func(old, cm *v1alpha1.CapacityMix) {
			if old.UID != cm.UID || old.Generation != cm.Generation {
				s.setMix(cm, governing.SameGroups(old, cm))
			}
		},
		Delete: func(cm *v1alpha1.CapacityMix) {
			s.groupings.begin(cm.Namespace)
			s.Mixes.Delete(cm.Namespace, cm.Name)
			s.mixesChanged(cm.Namespace, false)
			s.Lookups.MixDeleted(cm)
		},
	}
}

func (s *State) setMix(cm *v1alpha1.CapacityMix, sameGroups bool) {
	if !sameGroups {
		s.groupings.begin(cm.Namespace)
	}
	if err := s.Mixes.Set(cm); err != nil {
		s.Events.InvalidCapacityMix(cm, err)
	}
	if ignored := s.Mixes.Ignored(cm); len(ignored) > 0 {
		s.Events.TolerationsIgnored(cm, ignored)
	}
	s.mixesChanged(cm.Namespace, sameGroups)
	s.Lookups.MixUpdated(cm)
}

// mixesChanged updates the pods of a namespace whose mixes changed. Slots keep their numbers, so only pods whose group changes, and
// pods that wait, are affected.
func (s *State) mixesChanged(namespace string, sameGroups bool) {
	s.changes.Add(1)
	if !sameGroups {
		s.groupings.set(namespace)
		s.regroups.NamespaceChanged(namespace)
	}
	s.eachPod(namespace, s.ungater.MixChanged)
	s.throttle.NamespaceChanged(namespace)
}

// visitedPerPod is how many pods of a list count as one that is activated.
const visitedPerPod = 64

// regroup updates the pods of a namespace, or those of some owners, in the ledger: their groups may have changed. It has a throttle of
// its own. New pods are in the new group from now on, and would take the slots of pods that are not updated yet; so it does not
// wait because pods were activated. It activates the pods of the owners that wait, whatever their groups were.
func (s *State) regroup(namespace string, c budget.Changes[types.UID]) int {
	var waiting []*corev1.Pod
	made := s.groupings.made(namespace)
	visited := s.eachPod(namespace, func(pod *corev1.Pod) {
		changed := false
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
			_, changed = c.Keys[ref.UID]
		}
		if c.All || changed {
			s.update(pod)
		}
		if changed && pod.Spec.NodeName == "" && ledger.Active(pod) {
			waiting = append(waiting, pod)
		}
	})
	if c.All {
		s.endRegrouping(namespace, made)
	}
	s.Activate(s.logger, perscheduler.Pods(waiting...))
	return len(waiting) + visited/visitedPerPod
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
		s.regroups.Release(func() { s.first.ended.Store(true) })
	})
	return s.first.ended.Load()
}

// waitingGroups returns a pod without a node of each pod group of a namespace that has one. It is enough to activate the group.
func (s *State) waitingGroups(namespace string) []*corev1.Pod {
	groups := map[string]*corev1.Pod{}
	s.eachPod(namespace, func(pod *corev1.Pod) {
		if pod.Spec.SchedulingGroup != nil && pod.Spec.NodeName == "" && ledger.Active(pod) && !gate.Has(pod) {
			groups[stages.GroupOf(pod).Name] = pod
		}
	})
	return slices.Collect(maps.Values(groups))
}

// activateChanged activates the pending pods that changes in a namespace concern.
func (s *State) activateChanged(namespace string, c budget.Changes[types.UID]) int {
	var pods []*corev1.Pod
	if c.All {
		pods, c.Keys = s.Ledger.Pending(namespace), nil
		if s.Quarantine.takeGrouped(namespace) {
			pods = append(pods, s.waitingGroups(namespace)...)
		}
	}
	for owner := range c.Keys {
		pods = append(pods, s.Ledger.PendingOf(governing.GroupKey{Namespace: namespace, ID: string(owner)})...)
	}
	s.Activate(s.logger, perscheduler.Pods(pods...))
	return len(pods)
}
