// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
)

// Unseen is how long a watch may take to show a pod.
const Unseen = 30 * time.Second

// ReplicaOf is the UID of the replica that a placeholder was created for.
func ReplicaOf(h *clusterstate.Pod) types.UID { return types.UID(h.Labels[v1alpha1.PlaceholderLabel]) }

// Adopt brings the placeholders of a workload up to what is there, and finds those that an earlier leader created.
func Adopt(e *Entry, there []*clusterstate.Pod, now time.Time) []Placeholder {
	if len(e.Placeholders) == 0 && len(there) == 0 {
		return nil
	}
	byUID := make(map[types.UID]*clusterstate.Pod, len(there))
	for _, h := range there {
		byUID[h.UID] = h
	}
	known := Moved(e.Moves)
	var list []Placeholder
	for _, h := range e.Placeholders {
		if o := byUID[h.UID]; o != nil {
			h.Seen, h.Running, h.Lost = true, o.Running, !o.Live()
		} else {
			h.Lost = h.Seen || now.Sub(h.Created) >= Unseen
		}
		h.Slow = now.Sub(h.Created) >= SlowAfter
		known[h.Replica] = true
		list = append(list, h)
	}
	names := make(map[types.UID]string, len(e.Group.Assignments))
	for _, s := range e.Group.Assignments {
		names[s.Pod.UID] = s.Pod.Name
	}
	for _, h := range there {
		replica := ReplicaOf(h)
		name, mine := names[replica]
		if !mine || known[replica] || h.Terminating {
			continue
		}
		target, _ := capacity.ParseType(h.Annotations[v1alpha1.CapacityTypeAnnotation]) // no slot has the type Unknown
		created := time.Unix(0, h.Created)
		list = append(list, Placeholder{
			UID: h.UID, Namespace: h.Namespace, Name: h.Name, Replica: replica, ReplicaName: name, Seen: true,
			Slow:   now.Sub(created) >= SlowAfter,
			Holder: Holder{Target: target, Created: created, Running: h.Running, Lost: !h.Live()},
		})
	}
	return list
}

// Waiting notes what keeps the replicas of placeholders.
func Waiting(list []Placeholder, verdict func(Placeholder) Verdict) []Placeholder {
	list = slices.Clone(list)
	for i := range list {
		v := verdict(list[i])
		if list[i].Waits = ""; v.Reason != ReasonMove {
			list[i].Waits = fmt.Sprintf("%s: %s", v.Reason, v.Message)
		}
	}
	return list
}

// Without returns placeholders but for one.
func Without(list []Placeholder, h Placeholder) []Placeholder {
	return slices.DeleteFunc(slices.Clone(list), func(o Placeholder) bool { return o.UID == h.UID })
}
