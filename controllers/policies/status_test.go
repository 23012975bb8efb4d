// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/registry"
)

func TestTheConditionOfAPolicy(t *testing.T) {
	wrong := policy("p", 1, "")
	wrong.Spec.Score = &v1alpha1.ScoreRules{Functions: []v1alpha1.ScoreFunction{{Name: v1alpha1.ScoreSpreading, Coefficient: new(resource.MustParse("1001"))}}}
	wrong.Spec.Decisions = &v1alpha1.DecisionRules{Candidates: new(int32(51))}
	for name, tc := range map[string]struct {
		policy  *v1alpha1.SchedulingPolicy
		usage   usage
		reason  string
		message string
	}{
		"it governs pods": {policy("p", 1, ""), usage{pods: 3}, v1alpha1.ReasonAccepted, "the policy governs all pods that it selects"},
		"it selects none": {policy("p", 1, ""), usage{}, v1alpha1.ReasonAccepted, "the policy governs all pods that it selects"},
		"older ones have pods": {
			policy("p", 1, ""),
			usage{pods: 1, older: "a, b"},
			v1alpha1.ReasonConflict,
			"pods that spec.podSelector selects are governed by an older SchedulingPolicy: a, b",
		},
		"too many": {policy("p", 1, ""), usage{tooMany: true}, v1alpha1.ReasonTooMany, "only the 100 oldest SchedulingPolicies of a namespace govern pods, with at most 2048 label requirements in all"},
		"invalid": {
			wrong,
			usage{},
			v1alpha1.ReasonInvalid,
			"spec.score.functions[0].coefficient: 1001 must be a number from 0 to 1000; spec.decisions.candidates: 51 must be between 1 and 50",
		},
		"invalid and too many": {invalid(policy("p", 1, "")), usage{tooMany: true}, v1alpha1.ReasonInvalid, `spec.select.tieBreaker: "Coin" is not supported: must be `},
	} {
		t.Run(name, func(t *testing.T) {
			tc.policy.Generation = 4
			tc.usage.policy = registry.Compile(tc.policy)
			s := compose(tc.policy, tc.usage, began)
			require.Len(t, s.Conditions, 1)
			c := s.Conditions[0]
			assert.Equal(t, v1alpha1.ConditionAccepted, c.Type)
			assert.Equal(t, tc.reason, c.Reason)
			assert.Equal(t, tc.reason == v1alpha1.ReasonAccepted, c.Status == metav1.ConditionTrue)
			assert.True(t, strings.HasPrefix(c.Message, tc.message), c.Message)
			assert.Equal(t, []int64{4, 4}, []int64{s.ObservedGeneration, c.ObservedGeneration})
			assert.EqualValues(t, tc.usage.pods, s.PodCount)
		})
	}
}

func TestTheMessageOfAConditionIsBounded(t *testing.T) {
	p := policy("p", 1, "")
	s := compose(p, usage{policy: registry.Compile(p), older: strings.Repeat(strings.Repeat("n", 253)+", ", named)}, began)
	assert.Len(t, s.Conditions[0].Message, maxMessage)
}

// What was written is not written again, and the conditions of others stay.
func TestTheSameStateIsTheSameStatus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy("p", 1, "")
		p.Status.Conditions = []metav1.Condition{{Type: "Other", Status: metav1.ConditionTrue}}
		u := usage{
			policy: registry.Compile(p), pods: rapid.IntRange(0, 3).Draw(t, "pods"), older: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "older"),
			tooMany: rapid.Bool().Draw(t, "too many"),
		}
		p.Status = compose(p, u, began)
		require.NotNil(t, meta.FindStatusCondition(p.Status.Conditions, "Other"))
		require.Equal(t, p.Status, compose(p, u, began.Add(time.Hour)))
		u.tooMany, u.older = false, "c"
		require.NotEqual(t, p.Status, compose(p, u, began.Add(time.Hour)))
	})
}
