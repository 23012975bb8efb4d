// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/rebalance"
)

// A workload that is on target is looked at again as well: a later look uses the settings that are found then.
func TestARetunedControllerLooksAtEverythingByTheNewTuning(t *testing.T) {
	p := testPass(t, capacityMix())
	p.State.SetOwner(setOfOne())
	p.State.SetPod(podOfSet("old", "spot"))
	var decided []workloads.Decision
	p.Decided = func(d workloads.Decision) { decided = append(decided, d) }
	p.Changed(everything)
	p.Look(t.Context())
	e, _ := p.Workloads.Get(keyOfSet)
	require.Equal(t, rebalance.ReasonOnTarget, e.Verdict.Reason)
	require.Equal(t, rebalance.Evict, e.Settings.Mode)

	decided = nil
	p.Changed(everything)
	p.Look(t.Context())
	require.Len(t, decided, 1)
	require.Empty(t, decided[0].Groups, "nothing changed")

	tuning := p.Tuning
	tuning.Defaults.Mode, tuning.Defaults.Stabilization = rebalance.Report, time.Hour
	p.Retune(tuning)
	assert.Equal(t, rebalance.Evict, p.Defaults.Mode, "not in the middle of a look")
	assert.Len(t, p.wake, 1, "a look is requested")
	decided = nil
	p.Look(t.Context())
	e, _ = p.Workloads.Get(keyOfSet)
	assert.Equal(t, rebalance.Report, e.Settings.Mode)
	assert.Equal(t, time.Hour, e.Settings.Stabilization)
	require.Len(t, decided, 1)
	assert.Equal(t, []policy.GroupKey{keyOfSet}, decided[0].Groups)

	decided = nil
	p.Changed(everything)
	p.Look(t.Context())
	require.Len(t, decided, 1)
	assert.Empty(t, decided[0].Groups, "once")
}

// A dry run that begins while placeholders are there leaves them alone, and takes none for lost.
func TestADryRunThatBeginsLaterLeavesPlaceholdersAlone(t *testing.T) {
	w, s := spotScene()
	p := podOf("a", sceneOwners[1], 0, 0)
	p.Spec.NodeName = "n1"
	w.setPod(p)
	s.lookUntilDone(t)
	require.Len(t, s.created, 1)
	for _, h := range s.created {
		h.Spec.NodeName, h.Status.Phase = "n0", corev1.PodPending
		w.setPod(h)
	}
	s.lookUntilDone(t)

	tuning := s.controller.Tuning
	tuning.DryRun = true
	s.controller.Retune(tuning)
	s.lookUntilDone(t)
	e, _ := s.controller.Workloads.Get(policy.GroupKey{Namespace: "a", ID: "a-other"})
	assert.Empty(t, e.Placeholders)
	assert.Zero(t, e.Failures)
	assert.Len(t, s.created, 1, "it is there")

	tuning.DryRun = false
	s.controller.Retune(tuning)
	s.lookUntilDone(t)
	e, _ = s.controller.Workloads.Get(policy.GroupKey{Namespace: "a", ID: "a-other"})
	assert.Len(t, e.Placeholders, 1, "and taken up again")
	assert.Len(t, s.created, 1)
	for _, h := range s.created {
		assert.NotEmpty(t, h.Labels[v1alpha1.PlaceholderLabel])
	}
}
