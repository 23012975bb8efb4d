// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
)

var began = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return began.Add(d) }

// reservation holds a CPU for each of two pods of the app web, for an hour.
func reservation(name string, changes ...func(*v1alpha1.ReservationSpec)) *v1alpha1.Reservation {
	r := builders.Reservation(name, "web", "1", append([]func(*v1alpha1.ReservationSpec){replicas(2)}, changes...)...)
	r.Namespace, r.UID, r.ResourceVersion, r.Generation = "shop", types.UID(name+"-1"), "1", 1
	r.CreationTimestamp = metav1.NewTime(began)
	return r
}

func replicas(n int32) func(*v1alpha1.ReservationSpec) {
	return func(s *v1alpha1.ReservationSpec) { s.Replicas = &n }
}

func expires(seconds int32) func(*v1alpha1.ReservationSpec) {
	return func(s *v1alpha1.ReservationSpec) { s.ExpirationSeconds = &seconds }
}

func ttl(seconds int32) func(*v1alpha1.ReservationSpec) {
	return func(s *v1alpha1.ReservationSpec) { s.TTLSecondsAfterFinished = &seconds }
}

func repeatedly(s *v1alpha1.ReservationSpec) { s.AllocateOnce = new(false) }

func forPod(name string) func(*v1alpha1.ReservationSpec) {
	return func(s *v1alpha1.ReservationSpec) { s.PodSelector, s.PodName, s.Replicas = nil, name, nil }
}

// next is the next version of a Reservation.
func next(r *v1alpha1.Reservation, changes ...func(*v1alpha1.ReservationSpec)) *v1alpha1.Reservation {
	r = r.DeepCopy()
	r.ResourceVersion = following(r.ResourceVersion)
	for _, change := range changes {
		change(&r.Spec)
		r.Generation++
	}
	return r
}

func following(version string) string {
	n, err := strconv.Atoi(version)
	if err != nil {
		panic(err)
	}
	return strconv.Itoa(n + 1)
}

// pod is one of the app web.
func pod(name string) *corev1.Pod {
	p := builders.Pod("web", name)
	p.Namespace, p.UID = "shop", types.UID(name)
	return p
}

// bound is a pod as the Binding leaves it.
func bound(p *corev1.Pod, reservation, node string, when time.Time) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	p.Annotations[v1alpha1.ReservationAnnotation] = reservation
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(when)},
	}
	return p
}

// leader is the Holdings of a process that leads, in a cluster with some nodes.
func leader(all ...*v1alpha1.Reservation) *Holdings {
	l := NewHoldings()
	for _, n := range []string{"n1", "n2", "n3"} {
		l.SetNode(roomy(n))
	}
	for _, r := range all {
		l.Set(r)
	}
	l.Lead()
	return l
}

// roomy is a node with capacity for all that is held there.
func roomy(name string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Allocatable = list("1000", "1000Gi", "1000Gi", "1000")
	for _, change := range changes {
		change(n)
	}
	return n
}

func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

// hold holds capacity on nodes, as the Holder does.
func (l *Holdings) hold(name string, now time.Time, nodes ...string) {
	for _, n := range nodes {
		l.Hold(l.named(name).r, n, now)
	}
}

func (l *Holdings) named(name string) *entry {
	return l.entries[types.NamespacedName{Namespace: "shop", Name: name}]
}

// write writes all statuses as the API server would, and returns them by name.
func (l *Holdings) write(now time.Time) map[string]*v1alpha1.Reservation {
	all := map[string]*v1alpha1.Reservation{}
	for _, u := range l.Updates(now) {
		if u.Delete {
			l.Delete(u.Object.Namespace, u.Object.Name)
			continue
		}
		l.Written(next(u.Object))
	}
	for key, e := range l.entries {
		all[key.Name] = e.r.Object
	}
	return all
}

func (l *Holdings) freeOn(name string) (nodes []string) {
	for _, h := range l.named(name).holds {
		if h.PodUID == "" {
			nodes = append(nodes, h.NodeName)
		}
	}
	return nodes
}

func condition(r *v1alpha1.Reservation) *metav1.Condition {
	return meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReserved)
}
