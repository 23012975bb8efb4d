// SPDX-License-Identifier: Apache-2.0

package arguments_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

var pool = config.NodeRule{Key: "pool", Operator: config.NodeRuleIn, Values: []string{"cheap"}, CapacityType: config.CapacityTypeSpot}

func TestConfiguredRulesComeBeforeTheShippedOnes(t *testing.T) {
	args := &config.CapacityMixArgs{NodeRules: []config.NodeRule{pool}}
	rules := arguments.NodeRules(args)
	assert.Len(t, rules, 1+len(capacity.DefaultRules()))
	assert.Equal(
		t,
		capacity.Rule{Name: "nodeRules[0]", Key: "pool", Operator: capacity.In, Values: []string{"cheap"}, Type: capacity.Spot},
		rules[0],
	)

	c, err := arguments.Classifier(args)
	require.NoError(t, err)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "cheap", "karpenter.sh/capacity-type": "on-demand"}},
	}
	typ, rule := c.Classify(node)
	assert.Equal(t, capacity.Spot, typ)
	assert.Equal(t, "nodeRules[0]", rule)

	args.BuiltinNodeRules = config.BuiltinNodeRulesOff
	assert.Len(t, arguments.NodeRules(args), 1)
}

func TestRulesThatDoNotCompileAreAnError(t *testing.T) {
	named := pool
	named.Name = "twice"
	_, err := arguments.Classifier(&config.CapacityMixArgs{NodeRules: []config.NodeRule{named, named}})
	require.ErrorContains(t, err, "nodeRules: ")
	require.ErrorContains(t, err, "twice")
}

func TestDefaultPolicy(t *testing.T) {
	assert.Nil(t, arguments.DefaultMix(&config.CapacityMixArgs{}))
	tests := map[string]struct {
		spec config.MixSpec
		want governing.Mix
	}{
		"unset fields": {
			config.MixSpec{SpotPercent: 70, MinOnDemand: 2},
			governing.Mix{Mix: split.New(70, 2), BorrowOnDemand: true, GatedSpotWait: governing.DefaultGatedSpotWait},
		},
		"everything": {
			config.MixSpec{
				SpotPercent: 50, MaxSpot: new(int32(9)), SpotWaitSeconds: new(int32(30)),
				WhenSpotUnavailable:     config.WhenSpotUnavailableOnDemand,
				WhenOnDemandUnavailable: config.WhenOnDemandUnavailableSpot,
			},
			governing.Mix{
				Mix: split.Mix{SpotPercent: 50, MaxSpot: 9}, BorrowOnDemand: true, SpotWait: 30 * time.Second,
				GatedSpotWait: 30 * time.Second, BorrowSpot: true,
			},
		},
		"no borrowing": {
			config.MixSpec{
				WhenSpotUnavailable:     config.WhenSpotUnavailableWait,
				WhenOnDemandUnavailable: config.WhenOnDemandUnavailableWait,
			},
			governing.Mix{Mix: split.New(0, 0), GatedSpotWait: governing.DefaultGatedSpotWait},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.want.Source = governing.SourceDefault
			assert.Equal(t, &tc.want, arguments.DefaultMix(&config.CapacityMixArgs{DefaultMix: &tc.spec}))
		})
	}
}
