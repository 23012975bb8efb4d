// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/split"
)

// Under another mix, slots require what that mix requires, pods are where they are, and the workload itself stays as it is.
func TestSlotsUnderAnotherMixRequireItsTypes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := Workload{}
		for i := range rapid.IntRange(0, 30).Draw(t, "slots") {
			w.Slots = append(w.Slots, Slot{
				Slot: i, Type: "spot", NodeType: rapid.SampledFrom([]string{"spot", "on-demand", "unknown", ""}).Draw(t, "node"),
				State: rapid.SampledFrom([]State{InPlace, Borrowed, Pending, Departing, NoPod, Unknown}).Draw(t, "state"),
			})
		}
		m := split.New(rapid.Int32Range(0, 100).Draw(t, "spot"), rapid.Int32Range(0, 10).Draw(t, "floor"))
		for i, s := range w.Under(m).Slots {
			before := w.Slots[i]
			require.Equal(t, "spot", before.Type)
			require.Equal(t, m.TypeOf(i).String(), s.Type)
			require.Equal(t, before.NodeType, s.NodeType)
			placed := (before.State == InPlace || before.State == Borrowed) && (s.NodeType == "spot" || s.NodeType == "on-demand")
			switch {
			case !placed:
				require.Equal(t, before.State, s.State)
			case s.NodeType == s.Type:
				require.Equal(t, InPlace, s.State)
			default:
				require.Equal(t, Borrowed, s.State)
			}
		}
	})
}
