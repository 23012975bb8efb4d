// SPDX-License-Identifier: Apache-2.0

package render

import (
	"time"

	"berth.dev/berth/internal/environments/stack"
)

// RestartOf returns the restart that the pods of each component should belong to: the one that was requested last, up to the
// first stage that has not come through it yet; the components after it stay with theirs.
func (s *Situation) RestartOf() map[string]string {
	asked := ""
	if at := s.Environment.Spec.RestartedAt; at != nil {
		asked = at.UTC().Format(time.RFC3339)
	}
	out := map[string]string{}
	through := true
	for stage := int32(1); stage <= stack.Stages; stage++ {
		next := through
		for i := range s.Components {
			c := &s.Components[i]
			if c.Stage != stage {
				continue
			}
			o := s.Observed[c.Name]
			if out[c.Name] = o.RestartedAt; through || o.Replicas == 0 {
				out[c.Name] = asked
			}
			next = next && o.RestartedAt == asked && o.ready(c)
		}
		// What is not started yet starts as it should be.
		through = next || s.Environment.Status.OpenStages < stack.Stages
	}
	return out
}
