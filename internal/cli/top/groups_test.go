// SPDX-License-Identifier: Apache-2.0

package top

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/test/clitest"
)

// groupData is the overview of a shop with units, roles and sets.
func groupData(t *testing.T) *data {
	t.Helper()
	c := clitest.GroupShop().Cluster(t)
	return &data{overview: overview.Of(overview.Input{State: c.State, Pods: c.Pods, Nodes: c.Nodes, Mixes: c.Mixes}), at: clitest.Now}
}

func TestUnitsAreBlocksAndRolesHaveNames(t *testing.T) {
	clitest.Golden(t, "groups.txt", plain(groupData(t), "shop", 120))
	m := newModel("", 2*time.Second, false, clitest.Now)
	m.update(tea.WindowSizeMsg{Width: 120, Height: 30})
	m.update(readMsg{data: groupData(t)})
	m.update(clockMsg(clitest.Now))
	for m.rows[m.table.cursor].Name != "llm" {
		press(&m, "down")
	}
	press(&m, "enter")
	clitest.Golden(t, "groups-workload.txt", m.frame()+"\n")
}

func TestARibbonOfUnitsHasItsWidthAndCountsAllSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &overview.Workload{HiddenSlots: rapid.IntRange(0, 3).Draw(t, "hidden")}
		for i := range rapid.IntRange(0, 12).Draw(t, "slots") {
			s := overview.Slot{Slot: i, Type: "spot", State: overview.InPlace}
			if rapid.Bool().Draw(t, "is a unit") {
				s.Unit, s.Pods = "u", make([]overview.UnitPod, rapid.IntRange(1, 120).Draw(t, "pods"))
				w.Units++
			}
			w.Slots = append(w.Slots, s)
		}
		width := rapid.IntRange(3, 60).Draw(t, "width")
		text := theme{}.ribbon(w, width)
		require.Equal(t, width, ansi.StringWidth(text))
		shown := strings.Count(text, "s")
		total := len(w.Slots) + w.HiddenSlots
		if shown < total {
			assert.Contains(t, text, more(total-shown))
		}
	})
}
