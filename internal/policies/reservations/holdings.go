// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
)

// Holdings keeps what Reservations hold, and which pods use it. Safe for concurrent use.
//
// The leading scheduler changes what is held, and writes it to the status of the Reservations; every other process reads it
// there. Which pod uses what is on the pod, written by its Binding. So a process that is killed at any moment loses no more
// than what it had not begun to bind.
type Holdings struct {
	mu sync.Mutex
	// leads is set in the process that decides what is held.
	leads bool
	// entries are all Reservations.
	entries map[types.NamespacedName]*entry
	// of are the Reservations of a namespace, oldest first.
	of map[string][]*entry
	// nodes are the nodes that exist. exceeded are those whose pods and held capacity exceed them, and since when.
	nodes    map[string]*corev1.Node
	exceeded map[string]time.Time
	// unswept is set if what is held may not have followed the pods and the nodes.
	unswept bool
	// claims are the pods that run, or are being started, with the annotation of a Reservation, users the same by Reservation.
	claims map[types.UID]claim
	users  map[types.NamespacedName]sets.Set[types.UID]
	// view is what is held, nil if it has to be determined again, and active the Reservations of a namespace that hold it.
	view   *View
	active map[string][]*entry
	// until is when the first active Reservation expires, the zero value for none.
	until time.Time
	// freed counts how often capacity was released or came to be held, in by namespace of the Reservation.
	freed int64
	in    map[string]int64
	// changed receives a value when there may be something to place or to write.
	changed chan struct{}
}

// entry is a Reservation and what it holds.
type entry struct {
	r     *Reservation
	holds []hold
	// known is the status that holds come from or were written to.
	known []v1alpha1.Hold
	// message is why no node was found, and when to try again.
	message string
	retry   time.Time
	tries   int
	// lost are the causes why capacity is not held any more, until it is held again. pinned is why the node that the Reservation
	// names cannot hold it.
	lost   []string
	pinned string
	// released are the causes why capacity was released on a node since the last Updates.
	released []string
}

// hold is capacity for one pod on a node. It is free if there is no pod.
type hold struct {
	v1alpha1.Hold
	// binding is set while the pod is not known to be bound.
	binding bool
	// cause is why the pod of free capacity cannot run on the node, "" if it can. It is kept there until it is held elsewhere.
	cause string
}

func (h hold) free() bool { return h.PodUID == "" }

// claim is a pod on a node that uses the capacity of a Reservation.
type claim struct {
	of        types.NamespacedName
	node, pod string
	labels    map[string]string
	// bound is when the pod was bound, the zero value if that is unknown.
	bound time.Time
}

// NewHoldings returns a Holdings without Reservations.
func NewHoldings() *Holdings {
	return &Holdings{
		entries: map[types.NamespacedName]*entry{}, of: map[string][]*entry{}, nodes: map[string]*corev1.Node{}, in: map[string]int64{},
		claims: map[types.UID]claim{}, users: map[types.NamespacedName]sets.Set[types.UID]{}, changed: make(chan struct{}, 1),
	}
}

// Changed returns a channel that receives a value after changes.
func (l *Holdings) Changed() <-chan struct{} { return l.changed }

// touch discards the view. Guarded by mu.
func (l *Holdings) touch() {
	l.view, l.unswept = nil, true
	l.signal()
}

func (l *Holdings) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Lead has the process decide what is held from now on.
func (l *Holdings) Lead() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leads = true
	l.touch()
}

// Set adds or replaces a Reservation, which must not be changed afterwards.
func (l *Holdings) Set(object *v1alpha1.Reservation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.touch()
	e := l.entries[keyOf(object)]
	if e != nil && e.r.Object.UID != object.UID {
		l.remove(e) // its deletion was missed
		e = nil
	}
	switch {
	case e == nil:
		e = &entry{r: Compile(object)}
		l.entries[keyOf(object)] = e
		l.of[object.Namespace] = insert(l.of[object.Namespace], e)
		l.adopt(e)
	case older(object, e.r.Object):
		return
	default:
		e.r = Compile(object)
		if !l.leads || !slices.Equal(e.known, object.Status.Holds) {
			l.adopt(e) // a scheduler that led before wrote it
		}
	}
	l.mark(e)
	if e.shrink() {
		l.count(e)
	}
}

// older reports whether an event is of an older version than one that is known, which this process wrote.
func older(object, known *v1alpha1.Reservation) bool {
	order, err := resourceversion.CompareResourceVersion(object.ResourceVersion, known.ResourceVersion)
	return err == nil && order < 0
}

// adopt takes over what the status of a Reservation has, and which pods are known to use it.
func (l *Holdings) adopt(e *entry) {
	e.known = e.r.Object.Status.Holds
	before := e.holds
	e.holds = make([]hold, 0, len(e.known)+1)
	for _, h := range e.known {
		e.holds = append(e.holds, hold{Hold: h})
	}
	for _, h := range before {
		if h.binding {
			e.use(types.UID(h.PodUID), claim{node: h.NodeName, pod: h.PodName}, true)
		}
	}
	for uid := range l.users[keyOf(e.r.Object)] {
		if c := l.claims[uid]; e.r.owns(c) {
			e.use(uid, c, false)
		}
	}
	same := func(a, b hold) bool { return a.Hold == b.Hold && a.binding == b.binding }
	if !slices.EqualFunc(before, e.holds, same) {
		l.count(e)
	}
}

// owns reports whether a pod uses this Reservation, and neither has an annotation that was written by hand nor was bound to
// the capacity of an older Reservation with the same name.
func (r *Reservation) owns(c claim) bool {
	return r.selects(c.of.Namespace, c.pod, c.labels) && (c.bound.IsZero() || !c.bound.Before(r.Object.CreationTimestamp.Time))
}

// shrink drops capacity that is free and above the number of replicas, first where no pod can run, and reports whether there was
// some.
func (e *entry) shrink() (dropped bool) {
	for _, usable := range []bool{false, true} {
		for i := len(e.holds) - 1; i >= 0 && len(e.holds) > e.r.Replicas; i-- {
			if e.holds[i].free() && (usable || e.holds[i].cause != "") {
				e.holds = slices.Delete(e.holds, i, i+1)
				dropped = true
			}
		}
	}
	return dropped
}

// release drops the capacity that is free, and reports whether there was some.
func (e *entry) release() bool {
	before := len(e.holds)
	e.holds = slices.DeleteFunc(e.holds, hold.free)
	return len(e.holds) < before
}

// use has a pod use free capacity on its node, and reports whether there was some.
func (e *entry) use(uid types.UID, c claim, binding bool) bool {
	at := e.usedBy(uid)
	if at < 0 {
		at = slices.IndexFunc(e.holds, func(h hold) bool { return h.free() && h.NodeName == c.node })
	}
	if at < 0 && !binding && len(e.holds) < e.r.Replicas { // a scheduler that was killed had not written that it held it
		at, e.holds = len(e.holds), append(e.holds, hold{Hold: v1alpha1.Hold{NodeName: c.node}})
	}
	if at < 0 || e.holds[at].NodeName != c.node {
		return false
	}
	e.holds[at] = hold{Hold: v1alpha1.Hold{NodeName: c.node, PodName: c.pod, PodUID: string(uid)}, binding: binding}
	return true
}

func (e *entry) usedBy(uid types.UID) int {
	return slices.IndexFunc(e.holds, func(h hold) bool { return h.PodUID == string(uid) })
}

// Delete removes a Reservation.
func (l *Holdings) Delete(namespace, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[types.NamespacedName{Namespace: namespace, Name: name}]; e != nil {
		l.remove(e)
		l.touch()
	}
}

func (l *Holdings) remove(e *entry) {
	namespace := e.r.Object.Namespace
	delete(l.entries, keyOf(e.r.Object))
	at, _ := slices.BinarySearchFunc(l.of[namespace], e, oldest)
	if l.of[namespace] = slices.Delete(l.of[namespace], at, at+1); len(l.of[namespace]) == 0 {
		delete(l.of, namespace)
	}
	// The pod of a group is bound, or gives its node back: the scheduler's queue has an event for that.
	if e.r.Group() == "" && slices.ContainsFunc(e.holds, hold.free) {
		l.count(e)
	}
}

// count notes that capacity of a Reservation was released or came to be held. Guarded by mu.
func (l *Holdings) count(e *entry) {
	l.freed++
	l.in[e.r.Object.Namespace]++
}

func keyOf(r *v1alpha1.Reservation) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// SetPod takes over what is known of a pod that has a node.
func (l *Holdings) SetPod(pod *corev1.Pod) {
	name := pod.Annotations[v1alpha1.ReservationAnnotation]
	if name == "" || pod.Spec.NodeName == "" {
		return
	}
	if pods.Finished(pod) {
		l.DeletePod(pod.UID)
		return
	}
	c := claim{
		of: types.NamespacedName{Namespace: pod.Namespace, Name: name}, node: pod.Spec.NodeName, pod: pod.Name, labels: pod.Labels,
	}
	for i := range pod.Status.Conditions {
		if scheduled := &pod.Status.Conditions[i]; scheduled.Type == corev1.PodScheduled {
			c.bound = scheduled.LastTransitionTime.Time
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.claims[pod.UID]; known {
		return // the scheduler wrote it once; what is changed by hand later is ignored
	}
	l.claims[pod.UID] = c
	if l.users[c.of] == nil {
		l.users[c.of] = sets.Set[types.UID]{}
	}
	l.users[c.of].Insert(pod.UID)
	if e := l.entries[c.of]; e != nil && e.r.owns(c) && e.use(pod.UID, c, false) {
		l.touch()
	}
}

// DeletePod takes over that a pod has ended.
func (l *Holdings) DeletePod(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.claims[uid]
	if !ok {
		return
	}
	delete(l.claims, uid)
	if l.users[c.of].Delete(uid); len(l.users[c.of]) == 0 {
		delete(l.users, c.of)
	}
	if e := l.entries[c.of]; e != nil && !e.r.Once {
		l.free(e, uid)
	}
}

// free has capacity that a pod used held again, or released if there is enough without it.
func (l *Holdings) free(e *entry, uid types.UID) {
	if at := e.usedBy(uid); at >= 0 {
		e.holds[at] = hold{Hold: v1alpha1.Hold{NodeName: e.holds[at].NodeName}}
		l.mark(e)
		e.shrink()
		l.count(e)
		l.touch()
	}
}

// Prepared returns the names of the pods of a group for which capacity is held or used, so that they can be bound.
func (l *Holdings) Prepared(namespace, group string, now time.Time) (pods []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh(now)
	for _, e := range l.active[namespace] {
		if e.r.Group() == group && len(e.holds) > 0 {
			pods = append(pods, e.r.Object.Spec.PodName)
		}
	}
	return pods
}

// Take has a pod use the capacity of a Reservation on a node, and reports whether it is still there. The pod is not bound yet.
func (l *Holdings) Take(pod *corev1.Pod, r *Reservation, node string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[keyOf(r.Object)]
	if e == nil || e.r.Object.UID != r.Object.UID || !now.Before(e.r.Expires) {
		return false
	}
	if !e.use(pod.UID, claim{node: node, pod: pod.Name}, true) {
		return false
	}
	l.touch()
	return true
}

// Return gives back what a pod took that was not bound. It can be called twice, and without Take.
func (l *Holdings) Return(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.of[pod.Namespace] {
		if at := e.usedBy(pod.UID); at >= 0 && e.holds[at].binding {
			l.free(e, pod.UID)
		}
	}
}

// finished reports whether a Reservation has expired, or all of its capacity was used for good.
func (e *entry) finished(now time.Time) bool { return !now.Before(e.r.Expires) || e.usedUp() }

func (e *entry) usedUp() bool {
	unused := func(h hold) bool { return h.free() || h.binding }
	return e.r.Once && len(e.holds) >= e.r.Replicas && !slices.ContainsFunc(e.holds, unused)
}
