// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/mix/savings"
	"berth.dev/berth/internal/mix/suggest"
)

// How problems call the lists of volumes.
const (
	ClaimsResource  = "persistentvolumeclaims"
	VolumesResource = "persistentvolumes"
)

// SuggestInput is what suggestions are made of.
type SuggestInput struct {
	*Cluster
	// Selector chooses workloads by the labels of their pods; nil chooses all.
	Selector labels.Selector
	Claims   []*corev1.PersistentVolumeClaim
	Volumes  []*corev1.PersistentVolume
	Book     *prices.Book
	// Interruptions are those that were counted, nil where they are unknown.
	Interruptions *interruptions.Table
	Now           time.Time
}

// Suggestions are what `suggest` shows.
type Suggestions struct {
	Suggestions []suggest.Suggestion `json:"suggestions"`
	// Sources are those of the prices, and Bands those of the interruption bands.
	Sources []savings.Used  `json:"sources"`
	Bands   []prices.Source `json:"bands"`
	// Unpriced are the reasons why pods have no price.
	Unpriced []savings.Unpriced `json:"unpriced,omitempty"`
	// OfNodes is how many pods belong to their node, as those of DaemonSets do: they are in no workload.
	OfNodes int `json:"podsOfNodes"`
}

// Suggest returns what the mix of each workload could be, in the order of adoption.
func Suggest(in SuggestInput) *Suggestions {
	g := gather(&in)
	g.budgets()
	out := &Suggestions{Suggestions: []suggest.Suggestion{}, Sources: []savings.Used{}, OfNodes: g.ofNodes}
	report := g.money()
	out.Sources, out.Unpriced = report.Sources, report.Unpriced
	for _, s := range g.list {
		if !s.selected {
			continue
		}
		one := suggest.Of(&s.Workload)
		for i := range one.Findings {
			f := &one.Findings[i]
			for _, text := range []*string{&f.Message, &f.Field, &f.Change} {
				*text = display.Inert(*text, maxMessage)
			}
		}
		out.Suggestions = append(out.Suggestions, one)
	}
	suggest.Sort(out.Suggestions)
	taken := map[[2]string]bool{}
	for _, m := range in.Mixes {
		taken[[2]string{m.Namespace, m.Name}] = true
	}
	suggest.Name(out.Suggestions, taken)
	out.Bands = g.bandSources()
	return out
}

// Notes are what the suggestions are made of, and what is unknown, a sentence each.
func (s *Suggestions) Notes(now time.Time) (lines []string) {
	report := savings.Report{Sources: s.Sources, Unpriced: s.Unpriced}
	lines = report.Notes(now)
	for _, b := range s.Bands {
		lines = append(lines, fmt.Sprintf("Interruption bands: %s, %s.", b.Name, b.Date.Format(time.DateOnly)))
	}
	if s.OfNodes > 0 {
		lines = append(lines, fmt.Sprintf("Left out: %s of DaemonSets or static, as they belong to their node.",
			display.Count(s.OfNodes, "pod")))
	}
	return lines
}
