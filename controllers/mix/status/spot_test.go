// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
)

func TestTheStatusSaysThatSpotIsNotAvailable(t *testing.T) {
	fell := func(e workloads.Entry, slot int, mark string) {
		p := e.Group.Assignments[slot].Pod
		p.Annotations = map[string]string{v1alpha1.ClaimAnnotation: string(p.UID) + "/on-demand", v1alpha1.FallbackAnnotation: mark}
	}
	one, other, gated := exact("one"), exact("other"), exact("web")
	fell(one, 2, "3/2026-06-01T12:10:00Z")
	fell(one, 3, "4/2026-06-01T12:30:00Z")
	fell(other, 4, "3/2026-06-01T12:20:00Z")
	gated.Group.Gated = true

	cm := mixOf()
	cm.Status = composeOf(cm, []workloads.Entry{exact("web")}, noon)
	assert.Nil(t, meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionSpotAvailable), "pods without the gate borrow")
	cm.Status = composeOf(cm, []workloads.Entry{gated}, noon)
	assert.True(t, meta.IsStatusConditionTrue(cm.Status.Conditions, v1alpha1.ConditionSpotAvailable))
	cm.Status = composeOf(cm, []workloads.Entry{gated, one, other}, noon)
	c := meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionSpotAvailable)
	require.NotNil(t, c)
	assert.EqualValues(t, "False", c.Status)
	assert.Equal(t, v1alpha1.ReasonFallback, c.Reason)
	assert.Equal(t, "spot nodes did not come; replicas limited to on-demand: 3; spot is tried again from 2026-06-01T12:30:00Z on", c.Message)
	cm.Status = composeOf(cm, []workloads.Entry{exact("web")}, noon)
	assert.Nil(t, meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionSpotAvailable), "and it does not stay")
}
