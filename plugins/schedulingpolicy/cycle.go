// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/internal/policies/score"
	"berth.dev/berth/plugins/internal/cyclestate"
)

// cycle is the state of the plugin in a pod's scheduling cycle.
type cycle struct {
	governor *governor
	// table has the scores of the feasible nodes, nil before PreScore and where only one node was feasible.
	table *table
	// rejected are the nodes that filters rejected, nil where they are not recorded for a pod that gets a node.
	rejected *rejected
	// record is that of the attempt, nil before Reserve and where it is not recorded.
	record *decision.Record
	// unlock unlocks the node, nil if it is not locked.
	unlock func()
	// began is when the cycle began, reserved when a node was reserved for the pod.
	began, reserved time.Time
	// group is the group that the pod is bound with, empty for none, and preparer what prepares its bindings. prepared is the
	// name of the Reservation that was made for the pod, empty for none.
	group, prepared string
	preparer        preparer
	// reservation is the name of the Reservation whose capacity the pod is to use, empty for none and before Permit.
	reservation string
	// expiry rejects the pod when its group was not complete in time, nil if it did not wait.
	expiry *time.Timer
}

var _ cyclestate.Policy = &cycle{}

// Clone implements fwk.StateData. Preemption and batching clone, and score other nodes: they get a cycle of their own.
func (c *cycle) Clone() fwk.StateData {
	clone := *c
	clone.rejected = nil
	return &clone
}

// Packs implements cyclestate.Policy.
func (c *cycle) Packs() bool { return c.governor.packs }

// noteReservation notes the Reservation that was made for the pod, or whose capacity it uses. It is called while the pod has its node:
// the plugin Reservation gives the capacity back before Unreserve of this one is called.
func (c *cycle) noteReservation(state fwk.CycleState) {
	if c.reservation = c.prepared; c.reservation == "" {
		if r := cyclestate.ReadReserved(state); r != nil {
			c.reservation = r.Annotations()[v1alpha1.ReservationAnnotation]
		}
	}
	if c.record != nil {
		c.record.Reservation = c.reservation
	}
}

func write(state fwk.CycleState, c *cycle) { state.Write(cyclestate.PolicyKey, c) }

// read returns the cycle of a pod that is governed, nil for other pods.
func read(state fwk.CycleState) *cycle {
	c, _ := cyclestate.ReadPolicy(state).(*cycle)
	return c
}

// table has the facts and the scores of nodes, in the order of PreScore.
type table struct {
	facts      []score.Facts
	candidates []score.Candidate
	// demoted are the reasons of demoted nodes, nil if no node is demoted.
	demoted map[string]string
	most    score.Most
	// selected is the index of the selected node, tied the number of nodes with its score.
	selected, tied int
}
