// SPDX-License-Identifier: Apache-2.0

package governing

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/apis/v1alpha1"
)

// Grouping is which pods of a mix form one group: one sequence of slots.
type Grouping struct {
	By By
	// Name is that of a group of annotations, with ByName.
	Name string
}

// By is what the pods of a group have in common.
type By uint8

const (
	// ByDefault is the direct controller, except for pods of kinds whose set is known (kinds.go).
	ByDefault By = iota
	// ByController is the direct controller, whatever its kind.
	ByController
	// BySelector is the CapacityMix.
	BySelector
	// ByTop is the highest owner that the caches name.
	ByTop
	// ByName is a name in an annotation, and the mix in the annotations beside it.
	ByName
)

var groupings = map[v1alpha1.PodGrouping]By{
	v1alpha1.PodGroupingController: ByController,
	v1alpha1.PodGroupingSelector:   BySelector,
	v1alpha1.PodGroupingTop:        ByTop,
}

// parseGrouping parses the annotation of a group. Annotations have no selector, so BySelector is none of its values.
func parseGrouping(text string) (g Grouping, problem string) {
	if by := groupings[v1alpha1.PodGrouping(text)]; by == ByController || by == ByTop {
		return Grouping{By: by}, ""
	}
	if isKeyword(text) || len(text) > validation.DNS1123LabelMaxLength || len(validation.IsDNS1123Label(text)) > 0 {
		return g, "it must be Controller, Top or a name: at most 63 lower-case letters, digits or '-', with a letter or digit at both ends"
	}
	return Grouping{By: ByName, Name: text}, ""
}

// isKeyword reports whether a name is that of a grouping in lower case, which is a typing error.
func isKeyword(name string) bool {
	for keyword := range groupings {
		if strings.EqualFold(name, string(keyword)) {
			return true
		}
	}
	return false
}

// Unit is which pods of a group hold one slot together, and so run on one capacity type.
type Unit struct {
	By UnitBy
	// Label is the key of the label whose value identifies the unit, with UnitByLabel.
	Label string
}

// UnitBy is what the pods of a unit have in common.
type UnitBy uint8

const (
	// UnitByDefault is what the kind of the set defines (kinds.go), otherwise each pod is a unit.
	UnitByDefault UnitBy = iota
	// UnitIsPod has each pod hold a slot of its own, whatever its kind.
	UnitIsPod
	// UnitByLabel is the value of a label.
	UnitByLabel
	// UnitBySchedulingGroup is the PodGroup in spec.schedulingGroup of the pods.
	UnitBySchedulingGroup
)

// Role is a rule for some of a mix's pods, such as the driver of an application: they form a group of their own.
type Role struct {
	Name string
	// Mix is that of the pods, which all have the same type.
	Mix *Mix

	selects func(map[string]string) bool
}

// role returns the mix of a pod's role, or the mix itself if the pod has none. The first role that selects the pod counts.
func (m *Mix) role(podLabels map[string]string) *Mix {
	for i := range m.Roles {
		if m.Roles[i].selects(podLabels) {
			return m.Roles[i].Mix
		}
	}
	return m
}
