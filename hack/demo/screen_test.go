// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

func small() picture {
	return picture{
		nodes: []node{
			{name: "spot-0", is: capacity.Spot, podCapacity: 4, accepts: true},
			{name: "spot-1", is: capacity.Spot, podCapacity: 4, cordoned: true},
			{name: "on-demand-0", is: capacity.OnDemand, podCapacity: 4, accepts: true},
			{name: "unlabeled", is: capacity.Unknown, podCapacity: 1, accepts: true},
		},
		pods: []pod{
			{app: db, node: "on-demand-0", slot: 0, slotType: capacity.OnDemand, on: capacity.OnDemand},
			{app: "report", node: "on-demand-0", slot: split.NoSlot, on: capacity.OnDemand},
			{app: web, node: "spot-0", slot: 2, slotType: capacity.Spot, on: capacity.Spot},
			{app: web, node: "on-demand-0", slot: 14, slotType: capacity.Spot, on: capacity.OnDemand},
			{app: web, slot: split.NoSlot},
		},
	}
}

func TestTableHasARowPerNodeAndACellPerPodAndFreePlace(t *testing.T) {
	want := `node          type        pods
spot-0        spot        2      .      .      .
spot-1        spot        cordoned
on-demand-0   on-demand   db-0   report 14*    .
unlabeled     unknown     .`
	plain := screen{}
	require.Equal(t, want, strings.Join(plain.nodeTable(small()), "\n"))

	// Colors do not change columns.
	coloured := screen{colour: true}
	text := strings.Join(coloured.nodeTable(small()), "\n")
	require.Contains(t, text, "\x1b[")
	uncoloured := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(text, "")
	require.Equal(t, want, regexp.MustCompile(" +(\n|$)").ReplaceAllString(uncoloured, "$1"))
}

func TestTheLegendExplainsWhatIsThere(t *testing.T) {
	require.Equal(
		t,
		"7: slot 7 of web    db-0: slot 0 of db    7*: a spot slot, borrowed on-demand    .: free capacity",
		legend(small()),
	)
	require.Equal(t, "7: slot 7 of web    .: free capacity", legend(picture{}))
}

func TestTheRuleIsShownWithItsNumbers(t *testing.T) {
	for want, c := range map[string]struct {
		m split.Mix
		n int
	}{
		"min(70 % of 20, 20 - 2) = 14":           {split.New(70, 2), 20},
		"min(70 % of 1, 0) = 0":                  {split.New(70, 2), 1},
		"70 % of 5 = 3":                          {split.New(70, 0), 5},
		"min(80 % of 100, 100 - 1, max 60) = 60": {split.Mix{SpotPercent: 80, MinOnDemand: 1, MaxSpot: 60}, 100},
	} {
		require.Equal(t, want, ruleText(c.m, c.n))
	}
}

func TestASummaryFitsItsLine(t *testing.T) {
	line := (&screen{}).summary(web, split.New(70, 2), placed(split.New(70, 2), 30), "DIFFERS")
	require.Equal(t, "web  30 replicas: 21 spot /  9 on-demand   rule: min(70 % of 30, 30 - 2) = 21 spot   DIFFERS", line)
	require.LessOrEqual(t, len(line), width)
}

func TestTheEvidenceIsTheLabelThatTheRuleRead(t *testing.T) {
	rules := capacity.DefaultRules()
	for want, n := range map[string]node{
		"karpenter.sh/capacity-type=reserved": {
			labels: map[string]string{"karpenter.sh/capacity-type": "reserved"}, rule: "karpenter-reserved",
		},
		"cloud.google.com/gke-nodepool, no gke-spot": {labels: map[string]string{"cloud.google.com/gke-nodepool": "a"}, rule: "gke-not-spot"},
		"no label of a rule":                         {labels: map[string]string{"color": "blue"}},
	} {
		require.Equal(t, want, evidence(&n, rules))
	}
}

func TestTextIsWrappedAtSpaces(t *testing.T) {
	require.Equal(t, []string{"one two", "three"}, wrap("one two  three", 8))
	require.Equal(t, []string{"a", "verylongword", "b"}, wrap("a verylongword b", 5))
	require.Equal(t, []string{""}, wrap("", 5))
}

func TestColoursAreForTerminalsOnly(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer file.Close()
	require.False(t, newScreen(file, false).colour)

	var out bytes.Buffer
	s := screen{out: &out}
	s.title("Title")
	s.command("kubectl get %s", "pods")
	s.quote("text")
	require.NotContains(t, out.String(), "\x1b")
	require.Equal(t, "DIFFERS", s.verdict(false, "exact"))
	require.Equal(t, "exact", s.verdict(true, "exact"))
}

func TestOnlyThePartAboutNodesIsQuoted(t *testing.T) {
	require.Equal(t, "0/2 nodes are available: 2 node(s) are spot, slot 0 needs on-demand. ...",
		aboutNodes("0/2 nodes are available: 2 node(s) are spot, slot 0 needs on-demand. preemption: 0/2 nodes are available."))
	require.Equal(t, "no more than this.", aboutNodes("no more than this."))
}

func TestSpreadKeepsTheFirstAndTheLast(t *testing.T) {
	require.Equal(t, []int{1, 2, 3}, spread([]int{1, 2, 3}, 5))
	require.Equal(t, []int{0, 3, 6, 9}, spread([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 4))
}

func TestConsecutiveSlotsAreListedAsRanges(t *testing.T) {
	require.Empty(t, numbers(nil))
	require.Equal(t, "20", numbers([]int{20}))
	require.Equal(t, "20, 23 and 26", numbers([]int{20, 23, 26}))
}
