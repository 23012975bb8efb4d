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
	cheap, solid := in("pool", spot, "cheap"), in("pool", onDemand, "solid")
	rules := func(all ...config.NodeRule) config.CapacityMixArgs { return config.CapacityMixArgs{NodeRules: all} }
	label := func(l gate.Label, all ...config.NodeRule) config.CapacityMixArgs {
		own := config.CapacityTypeLabel(l)
		return config.CapacityMixArgs{NodeRules: all, CapacityTypeLabel: &own}
	}
	karpenter := gate.Label{Key: "karpenter.sh/capacity-type", Spot: "spot", OnDemand: "on-demand"}
	pools := gate.Label{Key: "pool", Spot: "cheap", OnDemand: "solid"}
	gke := gate.Label{Key: "cloud.google.com/gke-spot", Spot: "true"}
	reserved := gate.Label{Key: karpenter.Key, Spot: "spot", OnDemand: "reserved"}
	onlyCheap := gate.Label{Key: "pool", Spot: "cheap"}
	off := rules(cheap)
	off.BuiltinNodeRules = config.BuiltinNodeRulesOff
	for name, tc := range map[string]struct {
		args    config.CapacityMixArgs
		want    gate.Label
		wantNo  bool
		wantErr string
	}{
		"none is set":                   {rules(), karpenter, false, ""},
		"by its own key":                {label(gke), gke, false, ""},
		"set in spite of rules":         {label(reserved, cheap, solid), reserved, false, ""},
		"of two rules":                  {rules(in("pool", spot, "cheap", "other"), solid), pools, false, ""},
		"of two rules, on-demand first": {rules(solid, cheap), pools, false, ""},
		"of two rules that are not next": {
			rules(absent, in("x", spot, "1"), cheap, in("pool", spot, "more"), solid), pools, false, "",
		},
		"of two rules that require another label":      {rules(guarded(cheap), guarded(solid)), pools, false, ""},
		"not of an empty value, which is no value":     {rules(in("pool", spot, "", "cheap"), solid), pools, false, ""},
		"not of rules of one type":                     {rules(cheap, in("pool", spot, "more")), karpenter, false, ""},
		"not of another operator":                      {rules(cheap, exists), karpenter, false, ""},
		"not of another key":                           {rules(cheap, in("tier", onDemand, "solid")), karpenter, false, ""},
		"none without rules that know it":              {off, karpenter, true, ""},
		"none where an earlier rule decides otherwise": {rules(exists, cheap, solid), pools, true, ""},
		"a value for the wrong type": {
			label(gate.Label{Key: karpenter.Key, Spot: "on-demand", OnDemand: "spot"}),
			gate.Label{},
			false,
			`capacityTypeLabel.spot "on-demand": the node rules classify a node with karpenter.sh/capacity-type=on-demand as on-demand`,
		},
		"a value without a rule": {
			label(gate.Label{Key: karpenter.Key, Spot: "spot", OnDemand: "solid"}),
			gate.Label{},
			false,
			`capacityTypeLabel.onDemand "solid": the node rules classify a node with karpenter.sh/capacity-type=solid as unknown`,
		},
		"a key without a rule": {
			label(onlyCheap), gate.Label{}, false, `capacityTypeLabel.spot "cheap": the node rules classify a node with pool=cheap as unknown`,
		},
		"a value that requires another label is known": {label(onlyCheap, guarded(cheap)), onlyCheap, false, ""},
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
