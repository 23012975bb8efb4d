// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
)

func compile(t *testing.T, r *v1alpha1.SchedulingRules) *Rules {
	t.Helper()
	out, err := Compile(r)
	require.NoError(t, err)
	return out
}

func TestRulesWithoutFieldsAreBalanced(t *testing.T) {
	t.Parallel()
	assert.Equal(t, &Rules{
		Functions:        []Function{{Name: v1alpha1.ScoreResourceBalance, Priority: 1, Coefficient: 1}},
		FailureDomainKey: "node.kubernetes.io/instance-type",
		TieBreaker:       v1alpha1.TieBreakerLeastLoaded,
		Record:           v1alpha1.RecordOnFailure, Candidates: 5, TTL: time.Hour,
	}, compile(t, &v1alpha1.SchedulingRules{}))
}

func TestNamedWeights(t *testing.T) {
	t.Parallel()
	r := compile(t, &v1alpha1.SchedulingRules{Score: &v1alpha1.ScoreRules{Functions: []v1alpha1.ScoreFunction{
		{Name: v1alpha1.ScoreBinpacking, Weight: v1alpha1.ScoreWeightLow},
		{Name: v1alpha1.ScoreSpreading, Weight: v1alpha1.ScoreWeightHigh},
		{Name: v1alpha1.ScoreAntiAffinity, Weight: v1alpha1.ScoreWeightDefault},
		{Name: v1alpha1.ScoreResourceBalance, Priority: ptr.To[int32](99), Coefficient: new(resource.MustParse("0.25"))},
		{Name: v1alpha1.ScoreTopologySpread, Coefficient: new(resource.MustParse("0"))},
	}}})
	assert.Equal(t, []Function{
		{Name: v1alpha1.ScoreResourceBalance, Priority: 99, Coefficient: 0.25},
		{Name: v1alpha1.ScoreSpreading, Priority: 10, Coefficient: 3},
		{Name: v1alpha1.ScoreAntiAffinity, Priority: 1, Coefficient: 1},
		{Name: v1alpha1.ScoreBinpacking, Priority: 1, Coefficient: 0.5},
	}, r.Functions, "by priority, then by name, without those that count nothing")
	assert.True(t, r.Has(v1alpha1.ScoreSpreading))
	assert.False(t, r.Has(v1alpha1.ScoreTopologySpread))
}

func TestPresets(t *testing.T) {
	t.Parallel()
	for preset, first := range map[v1alpha1.ScorePreset]v1alpha1.ScoreFunctionName{
		v1alpha1.ScorePresetBalanced: v1alpha1.ScoreResourceBalance,
		v1alpha1.ScorePresetSpread:   v1alpha1.ScoreSpreading,
		v1alpha1.ScorePresetPack:     v1alpha1.ScoreBinpacking,
		v1alpha1.ScorePresetLocality: v1alpha1.ScorePreferredAffinity,
		v1alpha1.ScorePresetCost:     v1alpha1.ScorePreferredAffinity,
	} {
		r := compile(t, &v1alpha1.SchedulingRules{Score: &v1alpha1.ScoreRules{Preset: preset}})
		assert.Equal(t, first, r.Functions[0].Name, preset)
		assert.Equal(t, preset == v1alpha1.ScorePresetCost, r.PreferSpot, preset)
	}
}

func TestBindModes(t *testing.T) {
	t.Parallel()
	type bind struct {
		lock, reservation time.Duration
		size              int
		label             string
	}
	for name, test := range map[string]struct {
		rules *v1alpha1.BindRules
		want  bind
	}{
		"no rules":                   {nil, bind{}},
		"no mode":                    {&v1alpha1.BindRules{}, bind{}},
		"optimistic":                 {&v1alpha1.BindRules{Mode: v1alpha1.BindOptimistic}, bind{}},
		"optimistic, with a maximum": {&v1alpha1.BindRules{ReservationSeconds: ptr.To[int32](900)}, bind{reservation: 15 * time.Minute}},
		"pessimistic":                {&v1alpha1.BindRules{Mode: v1alpha1.BindPessimistic}, bind{lock: 10 * time.Second}},
		"pessimistic, with its own lock": {
			&v1alpha1.BindRules{Mode: v1alpha1.BindPessimistic, LockTimeoutSeconds: ptr.To[int32](60), ReservationSeconds: ptr.To[int32](1)},
			bind{lock: time.Minute, reservation: time.Second},
		},
		"two phases": {
			&v1alpha1.BindRules{Mode: v1alpha1.BindTwoPhase, GroupSize: ptr.To[int32](2)}, bind{reservation: time.Minute, size: 2},
		},
		"two phases, with a label and a maximum": {
			&v1alpha1.BindRules{
				Mode: v1alpha1.BindTwoPhase, GroupSize: ptr.To[int32](100), GroupLabelKey: "team", ReservationSeconds: ptr.To[int32](5),
			},
			bind{reservation: 5 * time.Second, size: 100, label: "team"},
		},
		"a size without two phases": { // the definition of the resource rejects it, and it has no effect
			&v1alpha1.BindRules{GroupSize: ptr.To[int32](3), GroupLabelKey: "team"}, bind{},
		},
	} {
		r := compile(t, &v1alpha1.SchedulingRules{Bind: test.rules})
		assert.Equal(t, test.want, bind{r.LockTimeout, r.ReservationTimeout, r.GroupSize, r.GroupLabelKey}, name)
	}
}

// The definition of the resource rejects these as well. It can be older than the scheduler, and a scheduler's configuration
// has no definition.
func TestInvalidRulesNameFieldAndValue(t *testing.T) {
	t.Parallel()
	functions := func(f ...v1alpha1.ScoreFunction) *v1alpha1.ScoreRules { return &v1alpha1.ScoreRules{Functions: f} }
	for want, r := range map[string]v1alpha1.SchedulingRules{
		`score.preset: "Fast" is not supported: must be Balanced, Spread, Pack, Locality or Cost`: {Score: &v1alpha1.ScoreRules{Preset: "Fast"}},
		`score: must have exactly one of preset and functions`: {Score: &v1alpha1.ScoreRules{
			Preset: v1alpha1.ScorePresetPack, Functions: []v1alpha1.ScoreFunction{{Name: v1alpha1.ScoreBinpacking}},
		}},
		`score.functions[0].name: "Speed" is not supported`:     {Score: functions(v1alpha1.ScoreFunction{Name: "Speed"})},
		`score.functions[0].weight: "Huge" is not supported`:    {Score: functions(v1alpha1.ScoreFunction{Name: v1alpha1.ScoreBinpacking, Weight: "Huge"})},
		`score.functions[0].coefficient: -1 must be a number`:   {Score: functions(v1alpha1.ScoreFunction{Name: v1alpha1.ScoreBinpacking, Coefficient: new(resource.MustParse("-1"))})},
		`score.functions[0].coefficient: 1001 must be`:          {Score: functions(v1alpha1.ScoreFunction{Name: v1alpha1.ScoreBinpacking, Coefficient: new(resource.MustParse("1001"))})},
		`score.functions: must have at least one coefficient`:   {Score: functions(v1alpha1.ScoreFunction{Name: v1alpha1.ScoreBinpacking, Coefficient: new(resource.MustParse("0"))})},
		`select.tieBreaker: "Coin" is not supported`:            {Select: &v1alpha1.SelectRules{TieBreaker: "Coin"}},
		`bind.mode: "Hopeful" is not supported`:                 {Bind: &v1alpha1.BindRules{Mode: "Hopeful"}},
		`bind.lockTimeoutSeconds: 61 must be between 1 and 60`:  {Bind: &v1alpha1.BindRules{Mode: v1alpha1.BindPessimistic, LockTimeoutSeconds: ptr.To[int32](61)}},
		`bind.lockTimeoutSeconds: 0 must be between 1 and 60`:   {Bind: &v1alpha1.BindRules{Mode: v1alpha1.BindPessimistic, LockTimeoutSeconds: ptr.To[int32](0)}},
		`bind.reservationSeconds: 0 must be between 1 and 900`:  {Bind: &v1alpha1.BindRules{ReservationSeconds: ptr.To[int32](0)}},
		`bind.reservationSeconds: 901 must be`:                  {Bind: &v1alpha1.BindRules{Mode: v1alpha1.BindTwoPhase, GroupSize: ptr.To[int32](2), ReservationSeconds: ptr.To[int32](901)}},
		`bind.groupSize: 0 must be between 2 and 100`:           {Bind: &v1alpha1.BindRules{Mode: v1alpha1.BindTwoPhase}},
		`bind.groupSize: 1 must be between 2 and 100`:           {Bind: &v1alpha1.BindRules{Mode: v1alpha1.BindTwoPhase, GroupSize: ptr.To[int32](1)}},
		`bind.groupSize: 101 must be between 2 and 100`:         {Bind: &v1alpha1.BindRules{Mode: v1alpha1.BindTwoPhase, GroupSize: ptr.To[int32](101)}},
		`decisions.record: "Sometimes" is not supported`:        {Decisions: &v1alpha1.DecisionRules{Record: "Sometimes"}},
		`decisions.candidates: 51 must be between 1 and 50`:     {Decisions: &v1alpha1.DecisionRules{Candidates: ptr.To[int32](51)}},
		`decisions.ttlSeconds: 59 must be between 60 and 86400`: {Decisions: &v1alpha1.DecisionRules{TTLSeconds: ptr.To[int32](59)}},
	} {
		_, err := Compile(&r)
		assert.ErrorContains(t, err, want)
	}
}
