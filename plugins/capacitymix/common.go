// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/capacitymix/nodesample"
	"berth.dev/berth/plugins/internal/cyclestate"
)

// preFilterStateKey finds the preFilterState in CycleState.
const preFilterStateKey = cyclestate.MixKey

// preFilterState is what PreFilter decided for a pod, for the rest of its
// scheduling cycle. Filter and Score only read it.
type preFilterState struct {
	governing *governing.Mix
	group     governing.GroupKey
	slot      int
	slotType  capacity.Type
	attempt   ledger.Attempt
	// ungated: slot and type were given to the pod before, by the ungater.
	ungated bool
	// fixed: other pods of its unit determine the type.
	fixed bool
	// elsewhere: the pod is tried on nodes of the other type only, which need free capacity for all pods of its unit.
	elsewhere bool
	// nominated: preemption frees capacity for the pod on a node of its type.
	nominated bool
	// limited is nil where no domain is limited.
	limited *limited
	// avoids is nil where the pod avoids no interruption domain.
	avoids *avoidance
	// wrongType is the reason that Filter gives for nodes of the other type, written when it is first needed.
	wrongType atomic.Pointer[string]
	// spread is that of the group over the sample, or set by PreScore.
	spread nodesample.Spread
	// member is what a member of a pod group requests of the ledger, nil for other pods and for ungated ones; tried are the members
	// that it was tried with.
	member *ledger.Claim
	tried  *tried
	// sampler sampled the nodes, nil where all nodes are tried.
	sampler *nodesample.Sampler
	// finalists are the best of the sample, where only those are tried.
	finalists sets.Set[string]
	// plugin is the one that placed the pod. changes are those of mixes that it had seen when Reserve confirmed the slot.
	plugin  *CapacityMix
	changes uint64
	// node is the one for which Reserve confirmed it.
	node string
}

// Clone implements fwk.StateData. The state itself is returned: preemption, which clones, changes nothing in it.
func (s *preFilterState) Clone() fwk.StateData { return s }

// readState returns the state of a pod's cycle, nil for a pod without a slot.
func readState(cycleState fwk.CycleState) *preFilterState {
	data, err := cycleState.Read(preFilterStateKey)
	if err != nil {
		return nil
	}
	s, _ := data.(*preFilterState)
	return s
}

// skip is the status for pods without a slot. The framework does not change a
// skip status, so it can be shared, and costs no pod without a mix an allocation.
var skip = fwk.NewStatus(fwk.Skip)
