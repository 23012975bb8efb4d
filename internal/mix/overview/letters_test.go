// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachStateOfASlotHasALetterOfTheLegend(t *testing.T) {
	for want, s := range map[string]Slot{
		"s": {State: InPlace, Type: "spot"},
		"o": {State: InPlace, Type: "on-demand"},
		"O": {State: InPlace, Type: "on-demand", Floor: true},
		"!": {State: Borrowed, Type: "on-demand", Floor: true},
		"·": {State: Pending, Type: "spot"},
		"–": {State: NoPod, Type: "spot"},
		"×": {State: Departing, Type: "spot"},
		"?": {State: Unknown, Type: "spot"},
	} {
		assert.Equal(t, want, s.Letter(), s.State)
	}
	seen := map[string]bool{}
	for _, l := range Letters {
		assert.False(t, seen[l.Text], "%s is there twice", l.Text)
		seen[l.Text] = true
	}
	for _, letter := range letterOf {
		assert.True(t, seen[letter], letter)
	}
	assert.Len(t, seen, 8)
}

func TestARibbonCountsWhatItDoesNotShow(t *testing.T) {
	w := &Workload{HiddenSlots: 2, Slots: []Slot{
		{State: InPlace, Type: "on-demand", Floor: true}, {State: InPlace, Type: "spot"}, {State: NoPod, Type: "spot"},
	}}
	assert.Equal(t, "Os–+2", w.Ribbon(10))
	assert.Equal(t, "O+4", w.Ribbon(1))
	units := &Workload{Slots: []Slot{{State: InPlace, Type: "spot", Unit: "a", Pods: make([]UnitPod, 4)}, {State: Pending, Type: "spot", Unit: "b"}}}
	units.Units = 2
	assert.Equal(t, "s4 ·0", units.Ribbon(10))
}

func TestTheDocumentationHasEachLetter(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubectl-berth.md")
	require.NoError(t, err)
	for _, l := range Letters {
		assert.Contains(t, string(text), "| `"+l.Text+"` | "+l.Means+" |")
	}
}
