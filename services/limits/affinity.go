// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"bytes"
	"encoding/json"
	"fmt"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

const (
	selectorField = "spec.nodeSelector"
	affinityField = "spec.nodeAffinity"
	// maxRules bounds the JSON of a selector or an affinity, in bytes. The largest that the CRD takes is less.
	maxRules = 1 << 20
)

// affinity is a Kubernetes Affinity, or its nodeAffinity without what is around it.
type affinity struct {
	affinityRules

	Inner           *affinityRules  `json:"nodeAffinity,omitempty"`
	PodAffinity     json.RawMessage `json:"podAffinity,omitempty"`
	PodAntiAffinity json.RawMessage `json:"podAntiAffinity,omitempty"`
}

type affinityRules = v1alpha1.NodeAffinity

// parseAffinity reads JSON text. An affinity without rules is none, nil. What a limit cannot have is refused by its name.
func parseAffinity(b []byte) (*v1alpha1.NodeAffinity, error) {
	if len(b) > maxRules {
		return nil, server.InvalidField(affinityField, fmt.Sprintf("has %d bytes, and must have at most %d", len(b), maxRules))
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, server.InvalidField(affinityField, "is empty, and must be JSON text")
	}
	var a affinity
	if err := server.Unmarshal(affinityField, b, &a); err != nil {
		return nil, err
	}
	for name, member := range map[string]json.RawMessage{"podAffinity": a.PodAffinity, "podAntiAffinity": a.PodAntiAffinity} {
		if len(member) > 0 && string(member) != "null" {
			return nil, server.InvalidField(affinityField+"."+name, "a limit can have nodeAffinity only")
		}
	}
	inner, bare := a.Inner, hasRules(&a.affinityRules)
	switch {
	case inner != nil && bare:
		return nil, server.InvalidField(affinityField, "has rules within nodeAffinity and beside it")
	case bare:
		inner = &a.affinityRules
	case inner == nil || !hasRules(inner):
		return nil, nil //nolint:nilnil // no rules are no affinity
	}
	complete(inner)
	return inner, nil
}

func hasRules(a *v1alpha1.NodeAffinity) bool {
	return a.RequiredDuringSchedulingIgnoredDuringExecution != nil || len(a.PreferredDuringSchedulingIgnoredDuringExecution) > 0
}

// complete turns lists that are missing into empty ones, which the API server refuses with the field's name.
func complete(a *v1alpha1.NodeAffinity) {
	terms := func(t *v1alpha1.NodeTerm) {
		for i := range t.MatchFields {
			if t.MatchFields[i].Values == nil {
				t.MatchFields[i].Values = []string{}
			}
		}
	}
	if r := a.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		if r.NodeSelectorTerms == nil {
			r.NodeSelectorTerms = []v1alpha1.NodeTerm{}
		}
		for i := range r.NodeSelectorTerms {
			terms(&r.NodeSelectorTerms[i])
		}
	}
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		terms(&a.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
	}
}

// parseSelector reads JSON text: an object of strings. An empty one is none.
func parseSelector(b []byte) (map[string]string, error) {
	if len(b) > maxRules {
		return nil, server.InvalidField(selectorField, fmt.Sprintf("has %d bytes, and must have at most %d", len(b), maxRules))
	}
	var m map[string]string
	if err := server.Unmarshal(selectorField, b, &m); err != nil {
		return nil, err
	}
	if len(m) == 0 {
		return nil, nil
	}
	return m, nil
}

// affinityJSON writes an Affinity. Equal rules are equal bytes.
func affinityJSON(a *v1alpha1.NodeAffinity) ([]byte, error) {
	return json.Marshal(struct {
		NodeAffinity *v1alpha1.NodeAffinity `json:"nodeAffinity"`
	}{a})
}
