// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

const (
	// ReasonUnsatisfied is the reason where the controller has reported none.
	ReasonUnsatisfied = "MixNotSatisfied"
	// ReasonUnknown is the reason of a workload of which it is unknown whether it satisfies its mix.
	ReasonUnknown = "Unknown"
)

// reasonOf is why a group does not satisfy its mix: what the controller reported, else what is missing.
func reasonOf(m *v1alpha1.CapacityMix, g *clusterstate.Group, s *Standing, unread Unread) (reason, message string) {
	if report := Report(m, g); report != nil && report.Blocked != nil {
		return Inert(report.Blocked.Reason, maxName), Inert(report.Blocked.Message, maxMessage)
	}
	return ReasonUnsatisfied, missing(g, s, unread)
}

// Report is what the controller reported about a group, nil if it reported nothing about the current spec of its mix.
func Report(m *v1alpha1.CapacityMix, g *clusterstate.Group) *v1alpha1.WorkloadMix {
	if m == nil || m.Status.ObservedGeneration == 0 || m.Status.ObservedGeneration < m.Generation {
		return nil
	}
	i := slices.IndexFunc(m.Status.Workloads, func(w v1alpha1.WorkloadMix) bool {
		return w.Kind == g.Workload.Kind && w.Name == g.Workload.Name && w.Revision == g.Workload.Revision &&
			w.Role == g.Governing.RoleName
	})
	if i < 0 {
		return nil
	}
	return &m.Status.Workloads[i]
}

// missing names all that a group lacks, as far as it is known.
func missing(g *clusterstate.Group, s *Standing, unread Unread) string {
	var parts []string
	add := func(n Maybe[int], what string) {
		if n, _ := n.Get(); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	if unread.Nodes {
		add(s.Borrowed, "borrowed")
	} else {
		add(Known(len(g.WrongSide())), "on the wrong type")
	}
	add(s.Pending, "pending")
	add(s.Departing, "on departing nodes")
	if actual, known := s.Actual.Get(); known {
		add(Known(split.Count(actual).Total()-g.Replicas), "too many")
	}
	if g.Rollout.Rolling {
		parts = append(parts, "rolling out")
	}
	return strings.Join(parts, ", ")
}

// cutSource is the name of the CapacityMix that a source names.
func cutSource(source string) (name string, ok bool) {
	return strings.CutPrefix(source, governing.SourceCapacityMix)
}
