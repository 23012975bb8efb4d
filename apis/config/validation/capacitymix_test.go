// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/config/validation"
)

// validArgs returns arguments after defaulting, with every optional field set.
func validArgs() *config.CapacityMixArgs {
	return &config.CapacityMixArgs{
		NodeRules: []config.NodeRule{
			{
				Name: "spot pool", Key: "example.com/pool", Operator: config.NodeRuleIn, Values: []string{"spot", ""},
				CapacityType: config.CapacityTypeSpot,
			},
			{Key: "reserved", Operator: config.NodeRuleExists, Requires: "example.com/pool", CapacityType: config.CapacityTypeOnDemand},
			{
				Key: "example.com/pool", Operator: config.NodeRuleAbsent, Requires: config.RequiresNothing,
				CapacityType: config.CapacityTypeOnDemand,
			},
		},
		BuiltinNodeRules: config.BuiltinNodeRulesOff,
		DefaultMix: &config.MixSpec{
			SpotPercent: 70, MinOnDemand: 2, MaxSpot: ptr.To[int32](10),
			WhenSpotUnavailable: config.WhenSpotUnavailableOnDemand, SpotWaitSeconds: new(int32(30)),
			WhenOnDemandUnavailable: config.WhenOnDemandUnavailableWait,
		},
		AnnotationPrefixes: []string{"berth.dev", "spotalis.io"},
		SpreadSpotOver:     []string{"topology.kubernetes.io/zone", "rack"},
		NodeSampleSize:     100,
		RankSampleBy:       config.RankSampleByMostAllocated,
		SyncTimeoutSeconds: 60,
		CapacityTypeLabel:  &config.CapacityTypeLabel{Key: "example.com/pool", Spot: "spot", OnDemand: "solid"},
	}
}

type validationCase struct {
	mutate  func(*config.CapacityMixArgs)
	wantErr string
}

func runValidationCases(t *testing.T, cases map[string]validationCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			args := validArgs()
			tc.mutate(args)
			errs := validation.ValidateCapacityMixArgs(field.NewPath("args"), args)
			if tc.wantErr == "" {
				assert.Empty(t, errs)

				return
			}
			if assert.Len(t, errs, 1) {
				assert.Equal(t, tc.wantErr, errs[0].Error())
			}
		})
	}
}

func rule(mutate func(*config.NodeRule)) func(*config.CapacityMixArgs) {
	return func(args *config.CapacityMixArgs) { mutate(&args.NodeRules[0]) }
}

func mix(mutate func(*config.MixSpec)) func(*config.CapacityMixArgs) {
	return func(args *config.CapacityMixArgs) { mutate(args.DefaultMix) }
}

var nodeRuleCases = map[string]validationCase{
	"rules with every operator are accepted": {mutate: func(*config.CapacityMixArgs) {}},
	"no rules are accepted while the shipped ones apply": {
		mutate: func(a *config.CapacityMixArgs) { a.NodeRules, a.BuiltinNodeRules = nil, config.BuiltinNodeRulesAppend },
	},
	"no rules at all would leave every node without a type": {
		mutate: func(a *config.CapacityMixArgs) { a.NodeRules = nil },
		wantErr: `args.builtinNodeRules: Invalid value: "Off": ` +
			`requires at least one rule in nodeRules, otherwise no node has a capacity type`,
	},
	"an unknown mode for the shipped rules is refused": {
		mutate:  func(a *config.CapacityMixArgs) { a.BuiltinNodeRules = "Prepend" },
		wantErr: `args.builtinNodeRules: Unsupported value: "Prepend": supported values: "Append", "Off"`,
	},
	"more rules than a node can be matched against cheaply are refused": {
		mutate: func(a *config.CapacityMixArgs) {
			a.NodeRules = slices.Repeat([]config.NodeRule{a.NodeRules[1]}, 65)
		},
		wantErr: `args.nodeRules: Too many: 65: must have at most 64 items`,
	},
	"a name that is used twice is refused": {
		mutate:  func(a *config.CapacityMixArgs) { a.NodeRules[2].Name = "spot pool" },
		wantErr: `args.nodeRules[2].name: Duplicate value: "spot pool"`,
	},
	"a name that is too long is refused": {
		mutate:  rule(func(r *config.NodeRule) { r.Name = strings.Repeat("n", 64) }),
		wantErr: `args.nodeRules[0].name: Too long: may not be more than 63 bytes`,
	},
	"a rule without a key is refused": {
		mutate:  rule(func(r *config.NodeRule) { r.Key = "" }),
		wantErr: `args.nodeRules[0].key: Required value: must be a node label key`,
	},
	"a rule without an operator is refused": {
		mutate:  rule(func(r *config.NodeRule) { r.Operator, r.Values = "", nil }),
		wantErr: `args.nodeRules[0].operator: Required value: must be one of ["In" "Exists" "Absent"]`,
	},
	"an operator of a selector is refused": {
		mutate:  rule(func(r *config.NodeRule) { r.Operator, r.Values = "DoesNotExist", nil }),
		wantErr: `args.nodeRules[0].operator: Unsupported value: "DoesNotExist": supported values: "In", "Exists", "Absent"`,
	},
	"an unknown capacity type is refused": {
		mutate:  rule(func(r *config.NodeRule) { r.CapacityType = "Spot" }),
		wantErr: `args.nodeRules[0].capacityType: Unsupported value: "Spot": supported values: "spot", "on-demand"`,
	},
	"In without values is refused": {
		mutate:  rule(func(r *config.NodeRule) { r.Values = nil }),
		wantErr: `args.nodeRules[0].values: Required value: operator In requires at least one value`,
	},
	"In with a value twice is refused": {
		mutate:  rule(func(r *config.NodeRule) { r.Values = []string{"a", "b", "a"} }),
		wantErr: `args.nodeRules[0].values[2]: Duplicate value: "a"`,
	},
	"Exists with values is refused": {
		mutate:  func(a *config.CapacityMixArgs) { a.NodeRules[1].Values = []string{"true"} },
		wantErr: `args.nodeRules[1].values: Invalid value: ["true"]: must be empty with operator Exists, only In compares values`,
	},
	"Absent without saying which nodes it is about is refused": {
		mutate: func(a *config.CapacityMixArgs) { a.NodeRules[2].Requires = "" },
		wantErr: `args.nodeRules[2].requires: Required value: operator Absent matches most nodes: ` +
			`set it to a label that the nodes must have, or to "*" for every node`,
	},
	"Absent that requires the label itself is refused": {
		mutate: func(a *config.CapacityMixArgs) { a.NodeRules[2].Requires = a.NodeRules[2].Key },
		wantErr: `args.nodeRules[2].requires: Invalid value: "example.com/pool": ` +
			`is the label that must be absent, so the rule never matches`,
	},
	"a star is refused where a rule needs no such opt-in": {
		mutate:  rule(func(r *config.NodeRule) { r.Requires = "*" }),
		wantErr: `args.nodeRules[0].requires: Invalid value: "*": is valid with operator Absent only`,
	},
}

func TestNodeRules(t *testing.T) {
	t.Parallel()
	runValidationCases(t, nodeRuleCases)
}

func TestLabelSyntax(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		mutate   func(*config.CapacityMixArgs)
		wantPath string
		wantBad  string
	}{
		"a bad key of a node rule": {rule(func(r *config.NodeRule) { r.Key = "a b" }), "args.nodeRules[0].key", "a b"},
		"a bad value of a node rule": {
			rule(func(r *config.NodeRule) { r.Values = []string{"x", "-y"} }), "args.nodeRules[0].values[1]", "-y",
		},
		"a bad required key of a node rule": {
			rule(func(r *config.NodeRule) { r.Requires = "a/b/c" }), "args.nodeRules[0].requires", "a/b/c",
		},
		"a bad spread key": {
			func(a *config.CapacityMixArgs) { a.SpreadSpotOver[1] = "zone!" }, "args.spreadSpotOver[1]", "zone!",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := validArgs()
			tc.mutate(args)
			errs := validation.ValidateCapacityMixArgs(field.NewPath("args"), args)
			if assert.Len(t, errs, 1) {
				assert.True(
					t,
					strings.HasPrefix(errs[0].Error(), fmt.Sprintf("%s: Invalid value: %q: ", tc.wantPath, tc.wantBad)),
					errs[0].Error(),
				)
			}
		})
	}
}

func TestDefaultMix(t *testing.T) {
	t.Parallel()
	runValidationCases(t, map[string]validationCase{
		"no default mix is accepted":        {mutate: func(a *config.CapacityMixArgs) { a.DefaultMix = nil }},
		"a mix without a bound is accepted": {mutate: mix(func(m *config.MixSpec) { m.MaxSpot = nil })},
		"all spot is accepted":              {mutate: mix(func(m *config.MixSpec) { m.SpotPercent, m.MinOnDemand = 100, 0 })},
		"a mix that waits is accepted": {
			mutate: mix(func(m *config.MixSpec) { m.WhenSpotUnavailable, m.SpotWaitSeconds = "Wait", new(int32(0)) }),
		},
		"more than every replica is refused": {
			mutate:  mix(func(m *config.MixSpec) { m.SpotPercent = 101 }),
			wantErr: `args.defaultMix.spotPercent: Invalid value: 101: must be between 0 and 100`,
		},
		"a negative share is refused": {
			mutate:  mix(func(m *config.MixSpec) { m.SpotPercent = -1 }),
			wantErr: `args.defaultMix.spotPercent: Invalid value: -1: must be between 0 and 100`,
		},
		"a negative floor is refused": {
			mutate:  mix(func(m *config.MixSpec) { m.MinOnDemand = -1 }),
			wantErr: `args.defaultMix.minOnDemand: Invalid value: -1: must be between 0 and 1000000`,
		},
		"a negative ceiling is refused": {
			mutate:  mix(func(m *config.MixSpec) { m.MaxSpot = ptr.To[int32](-1) }),
			wantErr: `args.defaultMix.maxSpot: Invalid value: -1: must be between 0 and 1000000`,
		},
		"a wait of more than a day is refused": {
			mutate:  mix(func(m *config.MixSpec) { m.SpotWaitSeconds = new(int32(86401)) }),
			wantErr: `args.defaultMix.spotWaitSeconds: Invalid value: 86401: must be between 0 and 86400`,
		},
		"a wait before something that never happens is refused": {
			mutate: mix(func(m *config.MixSpec) { m.WhenSpotUnavailable = config.WhenSpotUnavailableWait }),
			wantErr: `args.defaultMix.spotWaitSeconds: Invalid value: 30: ` +
				`has no effect with whenSpotUnavailable Wait: remove it or use OnDemand`,
		},
		"an unknown spot fallback is refused": {
			mutate:  mix(func(m *config.MixSpec) { m.WhenSpotUnavailable = "Spot" }),
			wantErr: `args.defaultMix.whenSpotUnavailable: Unsupported value: "Spot": supported values: "OnDemand", "Wait"`,
		},
		"an unknown on-demand fallback is refused": {
			mutate:  mix(func(m *config.MixSpec) { m.WhenOnDemandUnavailable = "OnDemand" }),
			wantErr: `args.defaultMix.whenOnDemandUnavailable: Unsupported value: "OnDemand": supported values: "Wait", "Spot"`,
		},
	})
}

var listAndBoundCases = map[string]validationCase{
	"a foreign annotation prefix is refused": {
		mutate:  func(a *config.CapacityMixArgs) { a.AnnotationPrefixes = []string{"berth.dev", "example.com"} },
		wantErr: `args.annotationPrefixes[1]: Unsupported value: "example.com": supported values: "berth.dev", "spotalis.io"`,
	},
	"an annotation prefix twice is refused": {
		mutate:  func(a *config.CapacityMixArgs) { a.AnnotationPrefixes = []string{"berth.dev", "berth.dev"} },
		wantErr: `args.annotationPrefixes[1]: Duplicate value: "berth.dev"`,
	},
	"an empty list of annotation prefixes is refused": {
		mutate:  func(a *config.CapacityMixArgs) { a.AnnotationPrefixes = []string{} },
		wantErr: `args.annotationPrefixes: Required value: list at least one prefix, or remove the field to read berth.dev`,
	},
	"an empty list of spread keys is refused": {
		mutate: func(a *config.CapacityMixArgs) { a.SpreadSpotOver = []string{} },
		wantErr: `args.spreadSpotOver: Required value: list at least one node label key, or remove the field for the default; ` +
			`to disable spreading, disable the plugin at the score extension point`,
	},
	"a spread key twice is refused": {
		mutate:  func(a *config.CapacityMixArgs) { a.SpreadSpotOver = []string{"zone", "zone"} },
		wantErr: `args.spreadSpotOver[1]: Duplicate value: "zone"`,
	},
	"more than four spread keys are refused": {
		mutate:  func(a *config.CapacityMixArgs) { a.SpreadSpotOver = []string{"a", "b", "c", "d", "e"} },
		wantErr: `args.spreadSpotOver: Too many: 5: must have at most 4 items`,
	},
	"an unknown rank is refused": {
		mutate:  func(a *config.CapacityMixArgs) { a.RankSampleBy = "Emptiest" },
		wantErr: `args.rankSampleBy: Unsupported value: "Emptiest": supported values: "LeastAllocated", "MostAllocated", "Off"`,
	},
	"no sampling is accepted":         {mutate: func(a *config.CapacityMixArgs) { a.NodeSampleSize = 0 }},
	"the smallest sample is accepted": {mutate: func(a *config.CapacityMixArgs) { a.NodeSampleSize = 16 }},
	"the largest sample is accepted":  {mutate: func(a *config.CapacityMixArgs) { a.NodeSampleSize = 1000 }},
	"a sample that is no choice is refused": {
		mutate:  func(a *config.CapacityMixArgs) { a.NodeSampleSize = 15 },
		wantErr: `args.nodeSampleSize: Invalid value: 15: must be 0 (all nodes) or between 16 and 1000`,
	},
	"a sample that costs more than filtering is refused": {
		mutate:  func(a *config.CapacityMixArgs) { a.NodeSampleSize = 1001 },
		wantErr: `args.nodeSampleSize: Invalid value: 1001: must be 0 (all nodes) or between 16 and 1000`,
	},
	"no time to synchronise is refused": {
		mutate:  func(a *config.CapacityMixArgs) { a.SyncTimeoutSeconds = 0 },
		wantErr: `args.syncTimeoutSeconds: Invalid value: 0: must be between 1 and 600`,
	},
	"ten minutes to synchronise are the most": {
		mutate:  func(a *config.CapacityMixArgs) { a.SyncTimeoutSeconds = 601 },
		wantErr: `args.syncTimeoutSeconds: Invalid value: 601: must be between 1 and 600`,
	},
}

func TestListsAndBounds(t *testing.T) {
	t.Parallel()
	runValidationCases(t, listAndBoundCases)
}

func TestEveryErrorIsReported(t *testing.T) {
	t.Parallel()
	args := validArgs()
	args.NodeRules[0].Key = ""
	args.DefaultMix.SpotPercent = 101
	args.SyncTimeoutSeconds = 0

	err := validation.ValidateCapacityMixArgs(nil, args).ToAggregate()

	assert.EqualError(t, err, `[nodeRules[0].key: Required value: must be a node label key, `+
		`defaultMix.spotPercent: Invalid value: 101: must be between 0 and 100, `+
		`syncTimeoutSeconds: Invalid value: 0: must be between 1 and 600]`)
}

func TestCapacityTypeLabel(t *testing.T) {
	t.Parallel()
	label := func(key, spot, onDemand string) func(*config.CapacityMixArgs) {
		return func(a *config.CapacityMixArgs) {
			a.CapacityTypeLabel = &config.CapacityTypeLabel{Key: key, Spot: spot, OnDemand: onDemand}
		}
	}
	const syntax = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', ` +
		`and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', ` +
		`regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`
	runValidationCases(t, map[string]validationCase{
		"no label is accepted":        {mutate: func(a *config.CapacityMixArgs) { a.CapacityTypeLabel = nil }},
		"on-demand without the label": {mutate: label("cloud.google.com/gke-spot", "true", "")},
		"spot without the label":      {mutate: label("stays", "", "yes")},
		"a label without a key is refused": {
			label("", "a", "b"), "args.capacityTypeLabel.key: Required value: must be a node label key",
		},
		"a value that no label has is refused": {
			label("pool", "a b", "c"), `args.capacityTypeLabel.spot: Invalid value: "a b": ` + syntax,
		},
		"the same for the other type is refused": {
			label("pool", "a", "-"), `args.capacityTypeLabel.onDemand: Invalid value: "-": ` + syntax,
		},
		"one value for both is refused": {
			label("pool", "a", "a"), `args.capacityTypeLabel.onDemand: Invalid value: "a": must differ from spot`,
		},
		"no value for either is refused": {
			label("pool", "", ""), `args.capacityTypeLabel.onDemand: Invalid value: "": must differ from spot`,
		},
	})
}
