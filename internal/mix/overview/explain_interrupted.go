// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/gate"
)

// InterruptedFacts are the interruption domains whose spot nodes a pod avoids, by whenDomainInterrupted of its mix.
type InterruptedFacts struct {
	// InQuarantine are the first 8 domains in quarantine, of Count, which is null where the interruptions could not be read.
	InQuarantine []InterruptedDomain `json:"inQuarantine,omitempty"`
	Count        Maybe[int]          `json:"count"`
}

// InterruptedDomain is an interruption domain, and the end of its quarantine.
type InterruptedDomain struct {
	Domain string      `json:"domain"`
	Until  metav1.Time `json:"until"`
}

// interrupted is nil for a pod that avoids no domain.
func (e *explainer) interrupted(g *clusterstate.Group, slot SlotFacts) *InterruptedFacts {
	if !g.Governing.AvoidInterrupted || slot.Type != capacity.Spot.String() || gate.ByAffinity(e.Pod) || e.Quarantine == nil {
		return nil
	}
	q, err := e.Quarantine()
	if err != nil {
		return &InterruptedFacts{}
	}
	all := make([]InterruptedDomain, 0, len(q.Until))
	for _, name := range slices.Sorted(maps.Keys(q.Until)) {
		all = append(all, InterruptedDomain{Domain: display.Inert(name, maxName), Until: metav1.NewTime(q.Until[name])})
	}
	return &InterruptedFacts{InQuarantine: all[:min(len(all), maxFull)], Count: Known(len(all))}
}

// text is "" for a pod that avoids none.
func (f *InterruptedFacts) text() string {
	if f == nil {
		return ""
	}
	n, known := f.Count.Get()
	switch {
	case !known:
		return display.Unknown
	case n == 0:
		return "none is in quarantine"
	}
	texts := make([]string, 0, len(f.InQuarantine)+1)
	for _, d := range f.InQuarantine {
		texts = append(texts, d.Domain+" until "+d.Until.UTC().Format(time.RFC3339))
	}
	if n > len(f.InQuarantine) {
		texts = append(texts, "…")
	}
	return "no spot node is used of " + display.Count(n, "domain") + " in quarantine, while others are left: " + strings.Join(texts, ", ")
}
