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
		OnePodKinds: []config.OnePodKind{
			{APIGroup: "actions.github.com", Kind: "EphemeralRunner", SetLabel: "actions.github.com/scale-set-name"},
			{APIGroup: "example.com", Kind: "Task"},
		},
		SpreadSpotOver:         []string{"topology.kubernetes.io/zone", "rack"},
		InterruptionsNamespace: "berth-system",
		NodeSampleSize:         100,
		RankSampleBy:           config.RankSampleByMostAllocated,
		SyncTimeoutSeconds:     60,
		CapacityTypeLabel:      &config.CapacityTypeLabel{Key: "example.com/pool", Spot: "spot", OnDemand: "solid"},
	}
}

type args = config.CapacityMixArgs

// validationCase is a change of valid arguments, and the only error that they have then; empty: none.
type validationCase struct {
	change func(*args)
	want   string
}

func runValidationCases(t *testing.T, cases map[string]validationCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := validArgs()
			tc.change(a)
			errs := validation.ValidateCapacityMixArgs(field.NewPath("args"), a)
			if tc.want == "" {
				assert.Empty(t, errs)
			} else if assert.Len(t, errs, 1) {
				assert.Equal(t, "args."+tc.want, errs[0].Error())
			}
		})
	}
}

func TestNodeRules(t *testing.T) {
	t.Parallel()
	runValidationCases(t, map[string]validationCase{
		"rules with every operator are accepted": {func(*args) {}, ""},
		"no rules are accepted while the shipped ones apply": {
			func(a *args) { a.NodeRules, a.BuiltinNodeRules = nil, config.BuiltinNodeRulesAppend }, "",
		},
		"no rules at all would leave every node without a type": {
			func(a *args) { a.NodeRules = nil },
			`builtinNodeRules: Invalid value: "Off": ` +
				`requires at least one rule in nodeRules, otherwise no node has a capacity type`,
		},
		"an unknown mode for the shipped rules is refused": {
			func(a *args) { a.BuiltinNodeRules = "Prepend" },
			`builtinNodeRules: Unsupported value: "Prepend": supported values: "Append", "Off"`,
		},
		"more rules than a node can be matched against cheaply are refused": {
			func(a *args) { a.NodeRules = slices.Repeat([]config.NodeRule{a.NodeRules[1]}, 65) },
			`nodeRules: Too many: 65: must have at most 64 items`,
		},
		"a name that is used twice is refused": {
			func(a *args) { a.NodeRules[2].Name = "spot pool" }, `nodeRules[2].name: Duplicate value: "spot pool"`,
		},
		"a name that is too long is refused": {
			func(a *args) { a.NodeRules[0].Name = strings.Repeat("n", 64) }, `nodeRules[0].name: Too long: may not be more than 63 bytes`,
		},
		"a rule without a key is refused": {
			func(a *args) { a.NodeRules[0].Key = "" }, `nodeRules[0].key: Required value: must be a node label key`,
		},
		"a rule without an operator is refused": {
			func(a *args) { a.NodeRules[0].Operator, a.NodeRules[0].Values = "", nil },
			`nodeRules[0].operator: Required value: must be one of ["In" "Exists" "Absent"]`,
		},
		"an operator of a selector is refused": {
			func(a *args) { a.NodeRules[0].Operator, a.NodeRules[0].Values = "DoesNotExist", nil },
			`nodeRules[0].operator: Unsupported value: "DoesNotExist": supported values: "In", "Exists", "Absent"`,
		},
		"an unknown capacity type is refused": {
			func(a *args) { a.NodeRules[0].CapacityType = "Spot" },
			`nodeRules[0].capacityType: Unsupported value: "Spot": supported values: "spot", "on-demand"`,
		},
		"In without values is refused": {
			func(a *args) { a.NodeRules[0].Values = nil }, `nodeRules[0].values: Required value: operator In requires at least one value`,
		},
		"In with a value twice is refused": {
			func(a *args) { a.NodeRules[0].Values = []string{"a", "b", "a"} }, `nodeRules[0].values[2]: Duplicate value: "a"`,
		},
		"Exists with values is refused": {
			func(a *args) { a.NodeRules[1].Values = []string{"true"} },
			`nodeRules[1].values: Invalid value: ["true"]: must be empty with operator Exists, only In compares values`,
		},
		"Absent without saying which nodes it is about is refused": {
			func(a *args) { a.NodeRules[2].Requires = "" },
			`nodeRules[2].requires: Required value: operator Absent matches most nodes: ` +
				`set it to a label that the nodes must have, or to "*" for every node`,
		},
		"Absent that requires the label itself is refused": {
			func(a *args) { a.NodeRules[2].Requires = a.NodeRules[2].Key },
			`nodeRules[2].requires: Invalid value: "example.com/pool": ` +
				`is the label that must be absent, so the rule never matches`,
		},
		"a star is refused where a rule needs no such opt-in": {
			func(a *args) { a.NodeRules[0].Requires = "*" }, `nodeRules[0].requires: Invalid value: "*": is valid with operator Absent only`,
		},
	})
}

func TestLabelSyntax(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]validationCase{
		"a bad key of a node rule": {func(a *args) { a.NodeRules[0].Key = "a b" }, `nodeRules[0].key: Invalid value: "a b": `},
		"a bad value of a node rule": {
			func(a *args) { a.NodeRules[0].Values = []string{"x", "-y"} }, `nodeRules[0].values[1]: Invalid value: "-y": `,
		},
		"a bad required key of a node rule": {
			func(a *args) { a.NodeRules[0].Requires = "a/b/c" }, `nodeRules[0].requires: Invalid value: "a/b/c": `,
		},
		"a group with a version": {
			func(a *args) { a.OnePodKinds[1].APIGroup = "example.com/v1" }, `onePodKinds[1].apiGroup: Invalid value: "example.com/v1": `,
		},
		"a kind with a space": {
			func(a *args) { a.OnePodKinds[1].Kind = "Task Run" }, `onePodKinds[1].kind: Invalid value: "Task Run": `,
		},
		"a set that is no label key": {
			func(a *args) { a.OnePodKinds[1].SetLabel = "a b" }, `onePodKinds[1].setLabel: Invalid value: "a b": `,
		},
		"a bad namespace": {
			func(a *args) { a.InterruptionsNamespace = "Berth" }, `interruptionsNamespace: Invalid value: "Berth": `,
		},
		"a bad spread key": {func(a *args) { a.SpreadSpotOver[1] = "zone!" }, `spreadSpotOver[1]: Invalid value: "zone!": `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := validArgs()
			tc.change(a)
			errs := validation.ValidateCapacityMixArgs(nil, a)
			if assert.Len(t, errs, 1) {
				assert.True(t, strings.HasPrefix(errs[0].Error(), tc.want), errs[0].Error())
			}
		})
	}
}

func TestDefaultMix(t *testing.T) {
	t.Parallel()
	runValidationCases(t, map[string]validationCase{
		"no default mix is accepted":        {func(a *args) { a.DefaultMix = nil }, ""},
		"a mix without a bound is accepted": {func(a *args) { a.DefaultMix.MaxSpot = nil }, ""},
		"all spot is accepted":              {func(a *args) { a.DefaultMix.SpotPercent, a.DefaultMix.MinOnDemand = 100, 0 }, ""},
		"a mix that waits is accepted": {
			func(a *args) { a.DefaultMix.WhenSpotUnavailable, a.DefaultMix.SpotWaitSeconds = "Wait", new(int32(0)) }, "",
		},
		"more than every replica is refused": {
			func(a *args) { a.DefaultMix.SpotPercent = 101 }, `defaultMix.spotPercent: Invalid value: 101: must be between 0 and 100`,
		},
		"a negative share is refused": {
			func(a *args) { a.DefaultMix.SpotPercent = -1 }, `defaultMix.spotPercent: Invalid value: -1: must be between 0 and 100`,
		},
		"a negative floor is refused": {
			func(a *args) { a.DefaultMix.MinOnDemand = -1 }, `defaultMix.minOnDemand: Invalid value: -1: must be between 0 and 1000000`,
		},
		"a negative ceiling is refused": {
			func(a *args) { a.DefaultMix.MaxSpot = ptr.To[int32](-1) },
			`defaultMix.maxSpot: Invalid value: -1: must be between 0 and 1000000`,
		},
		"a wait of more than a day is refused": {
			func(a *args) { a.DefaultMix.SpotWaitSeconds = new(int32(86401)) },
			`defaultMix.spotWaitSeconds: Invalid value: 86401: must be between 0 and 86400`,
		},
		"a wait before something that never happens is refused": {
			func(a *args) { a.DefaultMix.WhenSpotUnavailable = config.WhenSpotUnavailableWait },
			`defaultMix.spotWaitSeconds: Invalid value: 30: ` +
				`has no effect with whenSpotUnavailable Wait: remove it or use OnDemand`,
		},
		"an unknown spot fallback is refused": {
			func(a *args) { a.DefaultMix.WhenSpotUnavailable = "Spot" },
			`defaultMix.whenSpotUnavailable: Unsupported value: "Spot": supported values: "OnDemand", "Wait"`,
		},
		"an unknown on-demand fallback is refused": {
			func(a *args) { a.DefaultMix.WhenOnDemandUnavailable = "OnDemand" },
			`defaultMix.whenOnDemandUnavailable: Unsupported value: "OnDemand": supported values: "Wait", "Spot"`,
		},
	})
}

func TestListsAndBounds(t *testing.T) {
	t.Parallel()
	runValidationCases(t, map[string]validationCase{
		"a foreign annotation prefix is refused": {
			func(a *args) { a.AnnotationPrefixes = []string{"berth.dev", "example.com"} },
			`annotationPrefixes[1]: Unsupported value: "example.com": supported values: "berth.dev", "spotalis.io"`,
		},
		"an annotation prefix twice is refused": {
			func(a *args) { a.AnnotationPrefixes = []string{"berth.dev", "berth.dev"} },
			`annotationPrefixes[1]: Duplicate value: "berth.dev"`,
		},
		"an empty list of annotation prefixes is refused": {
			func(a *args) { a.AnnotationPrefixes = []string{} },
			`annotationPrefixes: Required value: list at least one prefix, or remove the field to read berth.dev`,
		},
		"namespaces of Spotalis are refused without its prefix": {
			func(a *args) { a.AnnotationPrefixes, a.SpotalisNamespaces = []string{"berth.dev"}, []string{"shop"} },
			`spotalisNamespaces: Forbidden: it has no effect unless annotationPrefixes contains spotalis.io`,
		},
		"an empty list of namespaces of Spotalis is refused": {
			func(a *args) { a.SpotalisNamespaces = []string{} },
			`spotalisNamespaces: Required value: list at least one namespace, or remove the field for all namespaces`,
		},
		"too many namespaces of Spotalis are refused": {
			func(a *args) { a.SpotalisNamespaces = make([]string, 1001) },
			`spotalisNamespaces: Too many: 1001: must have at most 1000 items`,
		},
		"a namespace of Spotalis twice is refused": {
			func(a *args) { a.SpotalisNamespaces = []string{"shop", "shop"} }, `spotalisNamespaces[1]: Duplicate value: "shop"`,
		},
		"a name that no namespace can have is refused": {
			func(a *args) { a.SpotalisNamespaces = []string{"Shop"} },
			`spotalisNamespaces[0]: Invalid value: "Shop": a lowercase RFC 1123 label must consist of lower case alphanumeric ` +
				`characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', ` +
				`regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
		},
		"an empty list of spread keys is refused": {
			func(a *args) { a.SpreadSpotOver = []string{} },
			`spreadSpotOver: Required value: list at least one node label key, or remove the field for the default; ` +
				`to disable spreading, disable the plugin at the score extension point`,
		},
		"a spread key twice is refused": {
			func(a *args) { a.SpreadSpotOver = []string{"zone", "zone"} }, `spreadSpotOver[1]: Duplicate value: "zone"`,
		},
		"more than four spread keys are refused": {
			func(a *args) { a.SpreadSpotOver = []string{"a", "b", "c", "d", "e"} }, `spreadSpotOver: Too many: 5: must have at most 4 items`,
		},
		"an unknown rank is refused": {
			func(a *args) { a.RankSampleBy = "Emptiest" },
			`rankSampleBy: Unsupported value: "Emptiest": supported values: "LeastAllocated", "MostAllocated", "Off"`,
		},
		"no sampling is accepted":         {func(a *args) { a.NodeSampleSize = 0 }, ""},
		"the smallest sample is accepted": {func(a *args) { a.NodeSampleSize = 16 }, ""},
		"the largest sample is accepted":  {func(a *args) { a.NodeSampleSize = 1000 }, ""},
		"a sample that is no choice is refused": {
			func(a *args) { a.NodeSampleSize = 15 }, `nodeSampleSize: Invalid value: 15: must be 0 (all nodes) or between 16 and 1000`,
		},
		"a sample that costs more than filtering is refused": {
			func(a *args) { a.NodeSampleSize = 1001 }, `nodeSampleSize: Invalid value: 1001: must be 0 (all nodes) or between 16 and 1000`,
		},
		"no time to synchronise is refused": {
			func(a *args) { a.SyncTimeoutSeconds = 0 }, `syncTimeoutSeconds: Invalid value: 0: must be between 1 and 600`,
		},
		"ten minutes to synchronise are the most": {
			func(a *args) { a.SyncTimeoutSeconds = 601 }, `syncTimeoutSeconds: Invalid value: 601: must be between 1 and 600`,
		},
	})
}

func TestOnePodKinds(t *testing.T) {
	t.Parallel()
	runValidationCases(t, map[string]validationCase{
		"no kind is accepted": {func(a *args) { a.OnePodKinds = []config.OnePodKind{} }, ""},
		"a kind of two groups is accepted": {
			func(a *args) { a.OnePodKinds[1].Kind = "EphemeralRunner" }, "",
		},
		"a list that is too long is refused": {
			func(a *args) {
				a.OnePodKinds = nil
				for i := range 65 {
					a.OnePodKinds = append(a.OnePodKinds, config.OnePodKind{APIGroup: "example.com", Kind: fmt.Sprint("Task", i)})
				}
			},
			`onePodKinds: Too many: 65: must have at most 64 items`,
		},
		"a kind without a group is refused": {
			func(a *args) { a.OnePodKinds[1].APIGroup = "" },
			`onePodKinds[1].apiGroup: Required value: must be an API group, such as actions.github.com`,
		},
		"a group without a kind is refused": {
			func(a *args) { a.OnePodKinds[1].Kind = "" }, `onePodKinds[1].kind: Required value: must be a kind, such as EphemeralRunner`,
		},
		"a kind that is too long is refused": {
			func(a *args) { a.OnePodKinds[1].Kind = strings.Repeat("k", 64) }, `onePodKinds[1].kind: Too long: may not be more than 63 bytes`,
		},
		"a kind that is listed twice is refused": {
			func(a *args) {
				a.OnePodKinds = append(a.OnePodKinds, config.OnePodKind{APIGroup: "example.com", Kind: "Task", SetLabel: "set"})
			},
			`onePodKinds[2].kind: Duplicate value: "Task"`,
		},
	})
}

func TestEveryErrorIsReported(t *testing.T) {
	t.Parallel()
	a := validArgs()
	a.NodeRules[0].Key, a.DefaultMix.SpotPercent, a.SyncTimeoutSeconds = "", 101, 0
	err := validation.ValidateCapacityMixArgs(nil, a).ToAggregate()
	assert.EqualError(t, err, `[nodeRules[0].key: Required value: must be a node label key, `+
		`defaultMix.spotPercent: Invalid value: 101: must be between 0 and 100, `+
		`syncTimeoutSeconds: Invalid value: 0: must be between 1 and 600]`)
}

func TestCapacityTypeLabel(t *testing.T) {
	t.Parallel()
	label := func(key, spot, onDemand string) func(*args) {
		return func(a *args) {
			a.CapacityTypeLabel = &config.CapacityTypeLabel{Key: key, Spot: spot, OnDemand: onDemand}
		}
	}
	const syntax = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', ` +
		`and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', ` +
		`regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`
	runValidationCases(t, map[string]validationCase{
		"no label is accepted":                   {func(a *args) { a.CapacityTypeLabel = nil }, ""},
		"on-demand without the label":            {label("cloud.google.com/gke-spot", "true", ""), ""},
		"spot without the label":                 {label("stays", "", "yes"), ""},
		"a label without a key is refused":       {label("", "a", "b"), "capacityTypeLabel.key: Required value: must be a node label key"},
		"a value that no label has is refused":   {label("pool", "a b", "c"), `capacityTypeLabel.spot: Invalid value: "a b": ` + syntax},
		"the same for the other type is refused": {label("pool", "a", "-"), `capacityTypeLabel.onDemand: Invalid value: "-": ` + syntax},
		"one value for both is refused": {
			label("pool", "a", "a"), `capacityTypeLabel.onDemand: Invalid value: "a": must differ from spot`,
		},
		"no value for either is refused": {label("pool", "", ""), `capacityTypeLabel.onDemand: Invalid value: "": must differ from spot`},
	})
}
