// SPDX-License-Identifier: Apache-2.0

package arguments_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/gate"
)

func TestCapacityTypeLabel(t *testing.T) {
	in := func(key string, typ config.CapacityType, values ...string) config.NodeRule {
		return config.NodeRule{Key: key, Operator: config.NodeRuleIn, Values: values, CapacityType: typ}
	}
	const spot, onDemand = config.CapacityTypeSpot, config.CapacityTypeOnDemand
	exists := config.NodeRule{Key: "pool", Operator: config.NodeRuleExists, CapacityType: onDemand}
	absent := config.NodeRule{Key: "bare", Operator: config.NodeRuleAbsent, Requires: config.RequiresNothing, CapacityType: onDemand}
	guarded := func(r config.NodeRule) config.NodeRule {
		r.Requires = "cloud"
		return r
	}
	karpenter := gate.Label{Key: "karpenter.sh/capacity-type", Spot: "spot", OnDemand: "on-demand"}
	pools := gate.Label{Key: "pool", Spot: "cheap", OnDemand: "solid"}
	for name, tc := range map[string]struct {
		args    config.CapacityMixArgs
		want    gate.Label
		wantNo  bool
		wantErr string
	}{
		"none is set": {config.CapacityMixArgs{}, karpenter, false, ""},
		"by its own key": {
			config.CapacityMixArgs{CapacityTypeLabel: &config.CapacityTypeLabel{Key: "cloud.google.com/gke-spot", Spot: "true"}},
			gate.Label{Key: "cloud.google.com/gke-spot", Spot: "true"},
			false, "",
		},
		"set in spite of rules": {
			config.CapacityMixArgs{
				NodeRules:         []config.NodeRule{in("pool", spot, "cheap"), in("pool", onDemand, "solid")},
				CapacityTypeLabel: &config.CapacityTypeLabel{Key: karpenter.Key, Spot: "spot", OnDemand: "reserved"},
			},
			gate.Label{Key: karpenter.Key, Spot: "spot", OnDemand: "reserved"},
			false, "",
		},
		"of two rules": {
			config.CapacityMixArgs{NodeRules: []config.NodeRule{in("pool", spot, "cheap", "other"), in("pool", onDemand, "solid")}},
			pools, false, "",
		},
		"of two rules, on-demand first": {
			config.CapacityMixArgs{NodeRules: []config.NodeRule{in("pool", onDemand, "solid"), in("pool", spot, "cheap")}},
			pools, false, "",
		},
		"of two rules that are not next": {
			config.CapacityMixArgs{
				NodeRules: []config.NodeRule{
					absent, in("x", spot, "1"), in("pool", spot, "cheap"), in("pool", spot, "more"),
					in("pool", onDemand, "solid"),
				},
			},
			pools, false, "",
		},
		"of two rules that require another label": {
			config.CapacityMixArgs{
				NodeRules: []config.NodeRule{guarded(in("pool", spot, "cheap")), guarded(in("pool", onDemand, "solid"))},
			}, pools, false, "",
		},
		"not of an empty value, which is no value": {
			config.CapacityMixArgs{NodeRules: []config.NodeRule{in("pool", spot, "", "cheap"), in("pool", onDemand, "solid")}},
			pools, false, "",
		},
		"not of rules of one type": {
			config.CapacityMixArgs{NodeRules: []config.NodeRule{in("pool", spot, "cheap"), in("pool", spot, "more")}},
			karpenter, false, "",
		},
		"not of another operator": {
			config.CapacityMixArgs{NodeRules: []config.NodeRule{in("pool", spot, "cheap"), exists}},
			karpenter, false,
			"",
		},
		"not of another key": {
			config.CapacityMixArgs{NodeRules: []config.NodeRule{in("pool", spot, "cheap"), in("tier", onDemand, "solid")}},
			karpenter, false, "",
		},
		"none without rules that know it": {
			config.CapacityMixArgs{NodeRules: []config.NodeRule{in("pool", spot, "cheap")}, BuiltinNodeRules: config.BuiltinNodeRulesOff},
			karpenter, true, "",
		},
		"none where an earlier rule decides otherwise": {
			config.CapacityMixArgs{NodeRules: []config.NodeRule{exists, in("pool", spot, "cheap"), in("pool", onDemand, "solid")}},
			pools, true, "",
		},
		"a value for the wrong type": {
			config.CapacityMixArgs{CapacityTypeLabel: &config.CapacityTypeLabel{Key: karpenter.Key, Spot: "on-demand", OnDemand: "spot"}},
			gate.Label{},
			false,
			`capacityTypeLabel.spot "on-demand": the node rules classify a node with karpenter.sh/capacity-type=on-demand as on-demand`,
		},
		"a value that no rule knows": {
			config.CapacityMixArgs{CapacityTypeLabel: &config.CapacityTypeLabel{Key: karpenter.Key, Spot: "spot", OnDemand: "solid"}},
			gate.Label{},
			false,
			`capacityTypeLabel.onDemand "solid": the node rules classify a node with karpenter.sh/capacity-type=solid as unknown`,
		},
		"a key that no rule knows": {
			config.CapacityMixArgs{CapacityTypeLabel: &config.CapacityTypeLabel{Key: "pool", Spot: "cheap"}},
			gate.Label{},
			false,
			`capacityTypeLabel.spot "cheap": the node rules classify a node with pool=cheap as unknown`,
		},
		"a value that requires another label is known": {
			config.CapacityMixArgs{
				NodeRules:         []config.NodeRule{guarded(in("pool", spot, "cheap"))},
				CapacityTypeLabel: &config.CapacityTypeLabel{Key: "pool", Spot: "cheap"},
			},
			gate.Label{Key: "pool", Spot: "cheap"},
			false, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := arguments.Classifier(&tc.args)
			require.NoError(t, err)
			got, ok, err := arguments.CapacityTypeLabel(&tc.args, c)
			if tc.wantErr != "" {
				require.EqualError(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, !tc.wantNo, ok)
			if ok {
				assert.Equal(t, tc.want, got)
			}
		})
	}
}
