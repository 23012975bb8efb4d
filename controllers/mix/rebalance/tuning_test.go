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
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// A workload that is on target is reconciled again, too: a later reconcile uses the settings that are found then.
func TestANewTuningHasEverythingReconciled(t *testing.T) {
	p := testController(t, capacityMix())
	p.State.SetOwner(setOfOne())
	p.State.SetPod(podOfSet("old", "spot"))
	var decided []workloads.Decision
	p.Decided = func(d workloads.Decision) { decided = append(decided, d) }
	groups := func() (all []governing.GroupKey) {
		for _, d := range decided {
			all = append(all, d.Groups...)
		}
		return all
	}
	p.Changed(everything)
	p.drain(t)
	e, _ := p.Workloads.Get(keyOfSet)
	require.Equal(t, rebalance.ReasonOnTarget, e.Verdict.Reason)
	require.Equal(t, rebalance.Evict, e.Settings.Mode)

	decided = nil
	p.Changed(everything)
	p.drain(t)
	require.Len(t, decided, 1)
	require.Empty(t, groups(), "nothing changed")

	tuning := p.Tuning
	tuning.Defaults.Mode, tuning.Defaults.Stabilization = rebalance.Report, time.Hour
	p.Retune(tuning)
	assert.Equal(t, rebalance.Evict, p.Defaults.Mode, "not in the middle of a reconcile")
	assert.True(t, p.queue.Busy(), "a reconcile is queued")
	decided = nil
	p.drain(t)
	e, _ = p.Workloads.Get(keyOfSet)
	assert.Equal(t, rebalance.Report, e.Settings.Mode)
	assert.Equal(t, time.Hour, e.Settings.Stabilization)
	assert.Equal(t, []governing.GroupKey{keyOfSet}, groups())

	decided = nil
	p.Changed(everything)
	p.drain(t)
	require.Len(t, decided, 1)
	assert.Empty(t, groups(), "once")
}

// A dry run that begins while placeholders are there leaves them alone, and takes none for lost.
func TestADryRunThatBeginsLaterLeavesPlaceholdersAlone(t *testing.T) {
	w, s := spotScene()
	p := podOf("a", sceneOwners[1], 0, 0)
	p.Spec.NodeName = "n1"
	w.setPod(p)
	s.drain(t)
	require.Len(t, s.created, 1)
	for _, h := range s.created {
		h.Spec.NodeName, h.Status.Phase = "n0", corev1.PodPending
		w.setPod(h)
	}
	s.drain(t)

	tuning := s.controller.Tuning
	tuning.DryRun = true
	s.controller.Retune(tuning)
	s.drain(t)
	e, _ := s.controller.Workloads.Get(governing.GroupKey{Namespace: "a", ID: "a-other"})
	assert.Empty(t, e.Placeholders)
	assert.Zero(t, e.Failures)
	assert.Len(t, s.created, 1, "it is there")

	tuning.DryRun = false
	s.controller.Retune(tuning)
	s.drain(t)
	e, _ = s.controller.Workloads.Get(governing.GroupKey{Namespace: "a", ID: "a-other"})
	assert.Len(t, e.Placeholders, 1, "and taken up again")
	assert.Len(t, s.created, 1)
	for _, h := range s.created {
		assert.NotEmpty(t, h.Labels[v1alpha1.PlaceholderLabel])
	}
}
