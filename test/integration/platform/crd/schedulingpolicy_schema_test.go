// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// TestSchedulingPolicySchema has what the schema itself refuses, without a CEL rule.
func TestSchedulingPolicySchema(t *testing.T) {
	t.Parallel()
	functions := supported("ResourceBalance", "Spreading", "Binpacking", "PreferredAffinity", "AntiAffinity", "TopologySpread")
	all := "{name: ResourceBalance}, {name: Spreading}, {name: Binpacking}, {name: PreferredAffinity}, {name: AntiAffinity}, {name: TopologySpread}"
	decisions := func(fields string) string { return "{podSelector: {}, decisions: {" + fields + "}}" }
	outOf := func(field, value, bound string) string {
		return "spec." + field + ": Invalid value: " + value + ": spec." + field + " in body should be " + bound
	}
	checkSchema(t, schedulingPolicy, map[string]schemaCase{
		"a policy with defaults is accepted":     {"{podSelector: {}}", ""},
		"all six functions are accepted":         {scored("{functions: [" + all + "]}"), ""},
		"the least values are accepted":          {decisions("record: Never, candidates: 1, ttlSeconds: 60"), ""},
		"the greatest values are accepted":       {decisions("record: Always, candidates: 50, ttlSeconds: 86400, events: true"), ""},
		"a policy without a selector is refused": {"{}", "spec.podSelector: Required value"},
		"an unknown preset is refused":           {scored("{preset: Fast}"), `spec.score.preset: Unsupported value: "Fast": ` + supported("Balanced", "Spread", "Pack", "Locality", "Cost")},
		"an unknown function is refused":         {scored("{functions: [{name: Cheapest}]}"), `spec.score.functions[0].name: Unsupported value: "Cheapest": ` + functions},
		"a function without a name is refused":   {scored("{functions: [{weight: High}]}"), "spec.score.functions[0].name: Required value"},
		"a function twice is refused":            {scored("{functions: [{name: Spreading}, {name: Spreading}]}"), `spec.score.functions[1]: Duplicate value: {"name":"Spreading"}`},
		"an unknown weight is refused":           {function("weight: Highest"), `spec.score.functions[0].weight: Unsupported value: "Highest": ` + supported("Default", "High", "Low")},
		"a priority of 101 is refused":           {function("priority: 101"), outOf("score.functions[0].priority", "101", "less than or equal to 100")},
		"a priority below 0 is refused":          {function("priority: -1"), outOf("score.functions[0].priority", "-1", "greater than or equal to 0")},
		"a fraction without quotes is refused":   {function("coefficient: 0.5"), `spec.score.functions[0].coefficient: Invalid value: "number": spec.score.functions[0].coefficient in body must be of type integer,string: "number"`},
		"an unknown tie-breaker is refused":      {"{podSelector: {}, select: {tieBreaker: Coin}}", `spec.select.tieBreaker: Unsupported value: "Coin": ` + supported("Name", "Random", "LeastLoaded", "RoundRobin", "WeightedRandom", "AffinityBased")},
		"a seed below 0 is refused":              {"{podSelector: {}, select: {tieBreaker: Random, seed: -1}}", outOf("select.seed", "-1", "greater than or equal to 0")},
		"a seed above 2^53-1 is refused":         {"{podSelector: {}, select: {tieBreaker: Random, seed: 9007199254740992}}", outOf("select.seed", "9007199254740992", "less than or equal to 9007199254740991")},
		"an unknown record mode is refused":      {decisions("record: Sometimes"), `spec.decisions.record: Unsupported value: "Sometimes": ` + supported("Never", "OnFailure", "Always")},
		"an unknown bind mode is refused":        {"{podSelector: {}, bind: {mode: Hopeful}}", `spec.bind.mode: Unsupported value: "Hopeful": ` + supported("Optimistic", "Pessimistic", "TwoPhase")},
		"the least group is accepted":            {bound("mode: TwoPhase, groupSize: 2, reservationSeconds: 1"), ""},
		"the greatest group is accepted":         {bound("mode: TwoPhase, groupSize: 100, reservationSeconds: 900"), ""},
		"a time to bind needs no group":          {bound("mode: Pessimistic, reservationSeconds: 900"), ""},
		"no time to bind is refused":             {bound("reservationSeconds: 0"), outOf("bind.reservationSeconds", "0", "greater than or equal to 1")},
		"901 seconds to bind are refused":        {bound("reservationSeconds: 901"), outOf("bind.reservationSeconds", "901", "less than or equal to 900")},
		"a group of one is refused":              {bound("mode: TwoPhase, groupSize: 1"), outOf("bind.groupSize", "1", "greater than or equal to 2")},
		"a group of 101 is refused":              {bound("mode: TwoPhase, groupSize: 101"), outOf("bind.groupSize", "101", "less than or equal to 100")},
		"an empty group label is refused":        {bound("mode: TwoPhase, groupSize: 2, groupLabelKey: ''"), `spec.bind.groupLabelKey: Invalid value: "": spec.bind.groupLabelKey in body should be at least 1 chars long`},
		"a long group label is refused":          {bound("mode: TwoPhase, groupSize: 2, groupLabelKey: k" + longestPrefix + "/" + longestName), "spec.bind.groupLabelKey: Too long: may not be more than 317 bytes"},
		"no time for a lock is refused":          {"{podSelector: {}, bind: {mode: Pessimistic, lockTimeoutSeconds: 0}}", outOf("bind.lockTimeoutSeconds", "0", "greater than or equal to 1")},
		"61 seconds for a lock are refused":      {"{podSelector: {}, bind: {mode: Pessimistic, lockTimeoutSeconds: 61}}", outOf("bind.lockTimeoutSeconds", "61", "less than or equal to 60")},
		"0 candidates are refused":               {decisions("candidates: 0"), outOf("decisions.candidates", "0", "greater than or equal to 1")},
		"51 candidates are refused":              {decisions("candidates: 51"), outOf("decisions.candidates", "51", "less than or equal to 50")},
		"59 seconds are refused":                 {decisions("ttlSeconds: 59"), outOf("decisions.ttlSeconds", "59", "greater than or equal to 60")},
		"more than a day is refused":             {decisions("ttlSeconds: 86401"), outOf("decisions.ttlSeconds", "86401", "less than or equal to 86400")},
		"a misspelt field is refused":            {decisions("ttl: 60"), `strict decoding error: unknown field "spec.decisions.ttl"`},
	})
}

// The schema fills in nothing: what a field means when it is absent is the controller's and the scheduler's to decide.
func TestSchedulingPolicyHasNoDefaults(t *testing.T) {
	t.Parallel()
	got, err := create(t, schedulingPolicy, "{podSelector: {}, score: {functions: [{name: Spreading}]}, select: {}, decisions: {}}")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{
		"podSelector": map[string]any{}, "score": map[string]any{"functions": []any{map[string]any{"name": "Spreading"}}},
		"select": map[string]any{}, "decisions": map[string]any{},
	}, got.Object["spec"])
}

func TestSchedulingPolicyGoTypesKeepEveryField(t *testing.T) {
	t.Parallel()
	c := typed(t)
	spec := v1alpha1.SchedulingPolicySpec{
		PodSelector: v1alpha1.PodSelector{MatchLabels: map[string]string{"tier": "batch"}},
		SchedulingRules: v1alpha1.SchedulingRules{
			Score: &v1alpha1.ScoreRules{
				Functions: []v1alpha1.ScoreFunction{
					{Name: v1alpha1.ScoreSpreading, Weight: v1alpha1.ScoreWeightHigh},
					{Name: v1alpha1.ScoreBinpacking, Priority: new(int32(0)), Coefficient: new(resource.MustParse("500m"))},
				},
				FailureDomainKey: "example.com/rack",
			},
			Select: &v1alpha1.SelectRules{TieBreaker: v1alpha1.TieBreakerRandom, Seed: new(int64(0))},
			Bind: &v1alpha1.BindRules{
				Mode: v1alpha1.BindTwoPhase, GroupSize: new(int32(8)), GroupLabelKey: "example.com/job", ReservationSeconds: new(int32(90)),
			},
			Decisions: &v1alpha1.DecisionRules{Record: v1alpha1.RecordAlways, Candidates: new(int32(10)), TTLSeconds: new(int32(600)), Events: true},
		},
	}
	sent := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "typed", Namespace: namespace}, Spec: spec}
	require.NoError(t, c.Create(t.Context(), sent.DeepCopy()))

	got := &v1alpha1.SchedulingPolicy{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(sent), got))
	assert.Equal(t, spec, got.Spec)
	assert.Equal(t, int64(1), got.Generation)
}

func TestSchedulingPolicyStatusIsASubresource(t *testing.T) {
	t.Parallel()
	c := typed(t)
	object := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "status", Namespace: namespace}}
	object.Status.PodCount = 7
	require.NoError(t, c.Create(t.Context(), object))
	assert.Zero(t, object.Status, "a create takes no status")

	object.Spec.Score = &v1alpha1.ScoreRules{Preset: v1alpha1.ScorePresetPack}
	object.Status = v1alpha1.SchedulingPolicyStatus{ObservedGeneration: 1, PodCount: 3, Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonTooMany, LastTransitionTime: metav1.Now(),
	}}}
	want := object.Status.DeepCopy()
	require.NoError(t, c.Status().Update(t.Context(), object))

	got := &v1alpha1.SchedulingPolicy{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), got))
	got.Status.Conditions[0].LastTransitionTime = want.Conditions[0].LastTransitionTime // the server keeps whole seconds
	assert.Equal(t, *want, got.Status)
	assert.Nil(t, got.Spec.Score, "a status update changes no spec")
	assert.Equal(t, int64(1), got.Generation)
}

func TestTableShowsTheSchedulingPolicy(t *testing.T) {
	t.Parallel()
	normal, wide, cells := tableOf(t, schedulingPolicy, "{podSelector: {}, score: {preset: Pack}, select: {tieBreaker: RoundRobin}, decisions: {record: Always}}")
	assert.Equal(t, []string{"Name", "Preset", "Tie-Breaker", "Pods", "Accepted", "Age"}, normal)
	assert.Equal(t, []string{"Record"}, wide)
	// No controller has written a status here.
	assert.Equal(t, []any{"table", "Pack", "RoundRobin", nil, nil, "Always"}, cells[:6])
	assert.NotEmpty(t, cells[6], "age")
}

// Each function is a field of its own: two owners can set different ones.
func TestFunctionsOfTwoOwnersAreMerged(t *testing.T) {
	t.Parallel()
	apply := func(owner, functions string) error {
		spec := scored("{functions: [" + functions + "]}")
		_, err := objects(t, schedulingPolicy).Apply(t.Context(), "applied", object(t, schedulingPolicy, "applied", spec), metav1.ApplyOptions{FieldManager: owner})

		return err
	}
	require.NoError(t, apply("team", "{name: Spreading, coefficient: 3}"))
	require.NoError(t, apply("platform", "{name: Binpacking}"))
	assert.ErrorContains(t, apply("platform", "{name: Spreading, coefficient: 2}"), `conflict with "team": .spec.score.functions[name="Spreading"].coefficient`)
	got := &v1alpha1.SchedulingPolicy{}
	require.NoError(t, typed(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "applied"}, got))
	assert.Len(t, got.Spec.Score.Functions, 2)
}
