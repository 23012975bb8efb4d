// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// Object returns the object of a record from a Store. It belongs to the pod, with which it is deleted.
func Object(r *Record) *v1alpha1.SchedulingDecision {
	o := &v1alpha1.SchedulingDecision{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "SchedulingDecision"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: r.Pod,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: r.Pod, UID: r.UID}},
		},
		ExpirationTime: new(metav1.NewTime(r.Expires)),
	}
	a := &o.Attempt
	*a = v1alpha1.SchedulingAttempt{
		ID: r.ID, Time: metav1.NewMicroTime(r.Time), Outcome: v1alpha1.AttemptOutcome(r.Outcome), Message: r.Message,
		SchedulerName: r.SchedulerName, PolicyName: r.Policy, NodeName: r.Node, ReservationName: r.Reservation,
		FeasibleCount: count(r.Feasible), TieBreaker: v1alpha1.TieBreaker(r.TieBreaker), TiedCount: count(r.Tied),
	}
	for _, f := range r.Functions {
		a.Functions = append(a.Functions, v1alpha1.AttemptFunction{Name: f.Name, Priority: f.Priority, Coefficient: decimal(f.Coefficient)})
	}
	for _, c := range r.Candidates {
		candidate := v1alpha1.AttemptCandidate{NodeName: c.Node, Score: decimal(c.Score), Demoted: c.Demoted}
		for _, v := range c.Values {
			candidate.Values = append(candidate.Values, decimal(v))
		}
		a.Candidates = append(a.Candidates, candidate)
	}
	for _, n := range r.Rejections {
		a.Rejections = append(a.Rejections, v1alpha1.AttemptRejection{
			Reason: string(n.Reason), NodeCount: count(n.Nodes), ExampleNodeName: n.Example, Message: n.Message, TaintKey: n.Key,
			Requested: n.Requested, Available: n.Available,
		})
	}
	return o
}

// FromObject returns the record of an object. A number that is not one is 0.
func FromObject(o *v1alpha1.SchedulingDecision) *Record {
	a := &o.Attempt
	r := &Record{
		ID: a.ID, Time: a.Time.Time, Namespace: o.Namespace, Pod: o.Name, SchedulerName: a.SchedulerName, Policy: a.PolicyName,
		Outcome: Outcome(a.Outcome), Message: a.Message, Feasible: int(a.FeasibleCount), Node: a.NodeName,
		TieBreaker: string(a.TieBreaker), Tied: int(a.TiedCount), Reservation: a.ReservationName,
	}
	if owner := podOwner(o); owner != nil {
		r.UID = owner.UID
	}
	if o.ExpirationTime != nil {
		r.Expires = o.ExpirationTime.Time
	}
	for _, f := range a.Functions {
		r.Functions = append(r.Functions, Function{Name: f.Name, Priority: f.Priority, Coefficient: number(f.Coefficient)})
	}
	for _, c := range a.Candidates {
		candidate := Candidate{Node: c.NodeName, Score: number(c.Score), Demoted: c.Demoted}
		for _, v := range c.Values {
			candidate.Values = append(candidate.Values, number(v))
		}
		r.Candidates = append(r.Candidates, candidate)
	}
	for _, n := range a.Rejections {
		r.Rejections = append(r.Rejections, Rejection{
			Reason: Reason(n.Reason), Nodes: int(n.NodeCount), Example: n.ExampleNodeName, Message: n.Message, Key: n.TaintKey,
			Requested: n.Requested, Available: n.Available,
		})
	}
	return r
}

// podOwner is the reference to the pod of an object, nil if it has none.
func podOwner(o *v1alpha1.SchedulingDecision) *metav1.OwnerReference {
	for i := range o.OwnerReferences {
		if ref := &o.OwnerReferences[i]; ref.Kind == "Pod" && ref.APIVersion == corev1.SchemeGroupVersion.String() {
			return ref
		}
	}
	return nil
}

func count(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// decimal writes a number so that it can be read again without loss.
func decimal(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func number(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
