// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/interruptions"
)

func TestAnExplanationHasTheDomainsThatAPodAvoids(t *testing.T) {
	q := &interruptions.Quarantine{Until: map[string]time.Time{}}
	var failure error
	pod := &corev1.Pod{}
	e := &explainer{PodQuestion: PodQuestion{Pod: pod, Quarantine: func() (*interruptions.Quarantine, error) { return q, failure }}}
	g := &clusterstate.Group{Governing: &governing.Mix{AvoidInterrupted: true}}
	spot := SlotFacts{Type: "spot"}
	assert.Equal(t, "none is in quarantine", e.interrupted(g, spot).text())
	q.Until["a/m5"] = time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)
	assert.Equal(t, "no spot node is used of 1 domain in quarantine, while others are left: a/m5 until 2100-01-02T03:04:05Z",
		e.interrupted(g, spot).text())
	for i := range 20 {
		q.Until[fmt.Sprintf("b/%02d", i)] = q.Until["a/m5"]
	}
	many := e.interrupted(g, spot)
	assert.Len(t, many.InQuarantine, maxFull)
	assert.Equal(t, Known(21), many.Count)
	assert.Contains(t, many.text(), "of 21 domains in quarantine")
	assert.Contains(t, many.text(), ", …")
	failure = errors.New("forbidden")
	assert.Equal(t, "<unknown>", e.interrupted(g, spot).text())

	assert.Empty(t, e.interrupted(g, SlotFacts{Type: "on-demand"}).text())
	assert.Nil(t, e.interrupted(&clusterstate.Group{Governing: &governing.Mix{}}, spot), "a preference")
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
	assert.Nil(t, e.interrupted(g, spot), "its node affinity excludes them")
	pod.Spec.SchedulingGates, pod.UID, failure = nil, "uid", nil
	gate.Release(pod)
	assert.NotNil(t, e.interrupted(g, spot), "without a leader, its gate was removed without a slot, and Filter refuses it nodes")
	pod.Annotations = map[string]string{v1alpha1.ClaimAnnotation: gate.ClaimOf(pod, capacity.Spot)}
	assert.Nil(t, e.interrupted(g, spot), "it is limited to spot, and Filter refuses it no node")
}
