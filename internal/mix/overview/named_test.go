// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAWorkloadIsExplainedByThePodThatNeedsItMost(t *testing.T) {
	all := []Workload{
		{Kind: "Deployment", Name: "web", Revision: "web-1", Source: "capacitymix/web", Slots: []Slot{
			{Slot: 0, Pod: "a", State: InPlace}, {Slot: 1, State: NoPod}, {Slot: 2, Pod: "b", State: Pending},
		}},
		{Kind: "Deployment", Name: "web", Revision: "web-2", Source: "capacitymix/web", Slots: []Slot{{Pod: "c", State: Borrowed}}},
		{Kind: "StatefulSet", Name: "web", Source: "annotations/pod"},
	}
	web := Named(all, "Deployment", "web")
	assert.Len(t, web, 2)
	pod, state, pods := Foremost(web)
	assert.Equal(t, "c", pod)
	assert.Equal(t, Borrowed, state)
	assert.Equal(t, 3, pods)
	pod, _, _ = Foremost(Named(all, "ReplicaSet", "web-1"))
	assert.Equal(t, "b", pod)
	assert.Equal(t, "capacitymix/web", web[0].Source)
	assert.Equal(t, "web", MixNameOf(web))
	assert.Empty(t, MixNameOf(Named(all, "StatefulSet", "web")), "annotations are no CapacityMix")
	assert.Empty(t, Named(all, "Job", "web"))
	all[1].Source = "capacitymix/other"
	assert.Empty(t, MixNameOf(web), "two mixes govern it")
}
