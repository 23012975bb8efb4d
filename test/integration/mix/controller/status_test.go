// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// A user edits the status of a mix: the controller reports what is true once more, and moves nothing because of it.
func TestAnEditedStatusIsCorrectedOnce(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", replicas))
	w.WaitReady("web", replicas)
	w.Controller(testenv.Impatient)
	right := w.WaitSatisfied("web").Status
	before := len(w.StatusWrites())
	m := w.Mix("web")
	old := m.DeepCopy()
	m.Status.SatisfiedCount, m.Status.Actual = 0, &v1alpha1.ReplicaSplit{Spot: 99}
	m.Status.Workloads = nil
	require.NoError(t, w.Client.Status().Patch(w.Ctx, m, client.MergeFrom(old)))
	w.WaitStatus("web", "it is right again", func(s *v1alpha1.CapacityMixStatus) bool {
		return s.SatisfiedCount == right.SatisfiedCount && s.Actual != nil && *s.Actual == *right.Actual && len(s.Workloads) == len(right.Workloads)
	})
	testenv.Stays(w, testenv.Holds, "writes of the status", before+1, func() int { return len(w.StatusWrites()) })
	assert.Zero(t, w.Evicted())
}
