// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/robustness/history"
)

// ofUnit makes a pod one of a unit of a group.
func ofUnit(unit string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "units", GroupLabel: "units", UnitLabel: unit}
		p.OwnerReferences[0].UID = "owner-" + p.UID
	}
}

func (s *scribe) typedNode(name, capacityType string) {
	s.write(history.Change{Key: history.Nodes + name, Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{capacityTypeLabel: capacityType},
	}}})
}

func TestUnitsAreJudged(t *testing.T) {
	mix := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "units"}}
	mix.Spec.Selector.MatchLabels = map[string]string{"app": "units"}
	for name, c := range map[string]struct {
		write func(s *scribe)
		want  int
	}{
		"a unit on one type": {func(s *scribe) {
			s.pod(pod("a", "spot", "1", ofUnit("u")))
			s.pod(pod("b", "spot", "1", ofUnit("u")))
		}, 0},
		"a unit on both types": {func(s *scribe) {
			s.pod(pod("a", "spot", "1", ofUnit("u")))
			s.after(time.Minute)
			s.pod(pod("b", "on-demand", "1", ofUnit("u")))
		}, 1},
		"units on different types": {func(s *scribe) {
			s.pod(pod("a", "spot", "1", ofUnit("u")))
			s.after(time.Minute)
			s.pod(pod("b", "on-demand", "0", ofUnit("v")))
		}, 0},
		"a unit whose other pod ends": {func(s *scribe) {
			s.pod(pod("a", "spot", "1", ofUnit("u")))
			s.after(time.Minute)
			s.pod(pod("a", "spot", "1", ofUnit("u"), ending))
			s.pod(pod("b", "on-demand", "0", ofUnit("u")))
		}, 0},
		"no mix": {func(s *scribe) {
			s.write(history.Change{Key: history.Mixes + "shop/units"})
			s.pod(pod("a", "spot", "", ofUnit("u")))
			s.after(time.Minute)
			s.pod(pod("b", "on-demand", "", ofUnit("u")))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var s scribe
			s.typedNode("spot", "spot")
			s.typedNode("on-demand", "on-demand")
			s.write(history.Change{Key: history.Mixes + "shop/units", Mix: mix})
			c.write(&s)
			v := WholeUnits(&s.h)
			assert.Equal(t, 2, v.Facts)
			assert.Len(t, v.Violations, c.want, "%s", v)
		})
	}
}

func TestTheSlotsOfAGroupOfManyOwnersAreJudged(t *testing.T) {
	single := func(p *corev1.Pod) {
		p.Labels = map[string]string{GroupLabel: "singles"}
		p.OwnerReferences[0].UID = "owner-" + p.UID
	}
	var s scribe
	s.pod(pod("a", "n1", "0", single))
	s.pod(pod("b", "n1", "0", single))
	assert.Len(t, OneSlotOnePod(&s.h).Violations, 1)

	var whole scribe
	whole.pod(pod("a", "n1", "0", ofUnit("u")))
	whole.pod(pod("b", "n1", "0", ofUnit("u")))
	assert.Empty(t, OneSlotOnePod(&whole.h).Violations)
	whole.pod(pod("c", "n1", "0", ofUnit("v")))
	assert.Len(t, OneSlotOnePod(&whole.h).Violations, 1)
}
