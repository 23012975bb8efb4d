// SPDX-License-Identifier: Apache-2.0

package records

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/records/render"
)

// The message names which of the two is missing.
func TestWhyKnativeCannotBeUsed(t *testing.T) {
	for _, tc := range []struct {
		feature, served bool
		want            string
	}{
		{true, true, ""},
		{false, true, "and records.features.knative is off"},
		{true, false, "which the API server does not serve"},
		{false, false, "which the API server does not serve, and records.features.knative is off"},
	} {
		c := New(Options{Features: render.Features{Knative: tc.feature}})
		known := sets.New("apps")
		if tc.served {
			known.Insert(knativeGroup)
		}
		c.capabilities.known.Store(&known)
		assert.Equal(t, tc.want, c.missing(knativeGroup))
		assert.Empty(t, c.missing("apps"))
		assert.Equal(t, "which the API server does not serve", c.missing("example.com"))
	}
}

// The condition follows what is rendered, and stays while nothing is.
func TestTheConditionAboutTheRequestedTemplate(t *testing.T) {
	rec := &v1alpha1.DeploymentRecord{Spec: v1alpha1.DeploymentRecordSpec{TemplateHint: "knative"}}
	now := time.Unix(1_700_000_000, 0)
	next := func(v observation) *metav1.Condition {
		before := rec.Status
		rec.Status = compose(rec, v, now)
		events := fallback(&before, &rec.Status)
		c := meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionTemplateAsRequested)
		was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionTemplateAsRequested)
		fresh := c != nil && c.Status == metav1.ConditionFalse && (was == nil || was.Message != c.Message)
		assert.Len(t, events, map[bool]int{true: 1}[fresh])
		return c
	}
	out := &render.Rendered{}
	c := next(observation{template: "edge", rendered: out, instead: "it needs an API"})
	require.NotNil(t, c)
	assert.Equal(t, []any{metav1.ConditionFalse, v1alpha1.ReasonTemplateUnusable, "it needs an API; template edge is used instead"},
		[]any{c.Status, c.Reason, c.Message})
	assert.Equal(t, c, next(observation{template: "edge", rendered: out, instead: "it needs an API"}))
	assert.Equal(t, metav1.ConditionFalse, next(observation{refused: &render.Error{Reason: v1alpha1.ReasonNoTemplate, Err: assert.AnError}}).Status)
	assert.Equal(t, metav1.ConditionTrue, next(observation{template: "knative", rendered: out}).Status)
	rec.Spec.TemplateHint = ""
	assert.Nil(t, next(observation{template: "edge", rendered: out}))
}
