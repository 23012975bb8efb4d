// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"strings"
	"testing"
)

// mixWith is the spec of a mix with more fields.
func mixWith(fields string) string { return "{selector: {}, spotPercent: 50, " + fields + "}" }

// groupCases has the rules of the units and roles of a CapacityMix.
var groupCases = merged(ruleCases{
	"labelKey is required with type Label, and must be unset with other types": {
		accepted: []string{
			mixWith("unit: {type: Label, labelKey: app.kubernetes.io/instance}"), mixWith("unit: {type: Pod}"), mixWith("unit: {type: SchedulingGroup}"),
			mixWith("unit: {type: Pod, labelKey: ''}"),
		},
		rejected: []rejected{
			{mixWith("unit: {type: Label}"), "spec.unit.labelKey: Invalid value: labelKey is required with type Label, and must be unset with other types"},
			{mixWith("unit: {type: Label, labelKey: ''}"), "spec.unit.labelKey: Invalid value: labelKey is required with type Label, and must be unset with other types"},
			{mixWith("unit: {type: Pod, labelKey: a}"), "spec.unit.labelKey: Invalid value: labelKey is required with type Label, and must be unset with other types"},
			{mixWith("unit: {type: SchedulingGroup, labelKey: a}"), "spec.unit.labelKey: Invalid value: labelKey is required with type Label, and must be unset with other types"},
		},
	},
	"labelKey must be a label key: " + labelKey: {
		accepted: []string{mixWith("unit: {type: Label, labelKey: " + longestPrefix + "/" + longestName + "}")},
		rejected: refuses(func(key string) string { return mixWith("unit: {type: Label, labelKey: " + key + "}") },
			badLabel("spec.unit.labelKey", "string", "labelKey must be a label key", labelKey), "a unit", "/a", "a"+longestPrefix+"/a", "a"+longestName),
	},
	"name must be at most 63 lower-case letters, digits or '-', with a letter or digit at both ends": {
		accepted: []string{mixWith("roles: [" + role("driver") + ", " + role(longestName) + ", " + role("0-a") + "]")},
		rejected: refuses(func(name string) string { return mixWith("roles: [" + role(name) + "]") }, func(name string) string {
			return fmt.Sprintf("spec.roles[0].name: Invalid value: %q: name must be at most 63 lower-case letters, digits or '-', with a letter or digit at both ends, not '%[1]s'", name)
		}, "Driver", "the driver", "-a", "a-", "a.b"),
	},
}, selectorCases("roles[0].selector", func(selector string) string {
	return mixWith("roles: [{name: driver, capacityType: spot, selector: " + selector + "}]")
}))

// role is a role of a name.
func role(name string) string { return "{name: " + name + ", selector: {}, capacityType: on-demand}" }

// TestSchemaOfGroups has what the schema itself refuses of groups, units and roles.
func TestSchemaOfGroups(t *testing.T) {
	t.Parallel()
	several := func(n int) string {
		roles := make([]string, n)
		for i := range roles {
			roles[i] = role(fmt.Sprint("r", i))
		}
		return mixWith("roles: [" + strings.Join(roles, ", ") + "]")
	}
	checkSchema(t, capacityMix, map[string]schemaCase{
		"groups by controller are accepted":      {mixWith("group: Controller"), ""},
		"a group of all pods is accepted":        {mixWith("group: Selector"), ""},
		"groups by the highest owner, too":       {mixWith("group: Top"), ""},
		"a name of a group is refused":           {mixWith("group: builds"), `spec.group: Unsupported value: "builds": supported values: "Controller", "Selector", "Top"`},
		"a unit without a type is refused":       {mixWith("unit: {}"), "spec.unit.type: Required value"},
		"a unit of nodes is refused":             {mixWith("unit: {type: Node}"), `spec.unit.type: Unsupported value: "Node": supported values: "Pod", "Label", "SchedulingGroup"`},
		"a label key that is too long":           {mixWith("unit: {type: Label, labelKey: a" + longestPrefix + "/" + longestName + "}"), "spec.unit.labelKey: Too long: may not be more than 317 bytes"},
		"8 roles are accepted":                   {several(8), ""},
		"a ninth role is refused":                {several(9), "spec.roles: Too many: 9: must have at most 8 items"},
		"a name of two roles is refused":         {mixWith("roles: [" + role("a") + ", " + role("a") + "]"), `spec.roles[1]: Duplicate value: {"name":"a"}`},
		"a role without a name is refused":       {mixWith("roles: [{selector: {}, capacityType: spot}]"), "spec.roles[0].name: Required value"},
		"a name of a role that is too long":      {mixWith("roles: [" + role("a"+longestName) + "]"), "spec.roles[0].name: Too long: may not be more than 63 bytes"},
		"a role without a selector is refused":   {mixWith("roles: [{name: a, capacityType: spot}]"), "spec.roles[0].selector: Required value"},
		"a role without a type is refused":       {mixWith("roles: [{name: a, selector: {}}]"), "spec.roles[0].capacityType: Required value"},
		"a role with a type of nodes that is no": {mixWith("roles: [{name: a, selector: {}, capacityType: Spot}]"), `spec.roles[0].capacityType: Unsupported value: "Spot": supported values: "spot", "on-demand"`},
	})
}
