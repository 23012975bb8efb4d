// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/robustness/history"
)

// pending writes a pod of Berth's scheduler, which the mix of the stage governs unless other changes its labels.
func (s *stage) pending(uid string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := pod(uid, "", "", changes...)
	p.Spec.SchedulerName = string(history.Scheduler)
	s.pod(p)
	return p
}

func (s *stage) binds(p *corev1.Pod, node string) {
	p.Spec.NodeName = node
	s.pod(p)
}

func (s *stage) fault(d time.Duration) {
	began := s.now
	s.later(d)
	s.h.Steps = append(s.h.Steps, history.Step{Fault: true, Began: began, Ended: s.now})
}

func governed(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }

func gatedBy(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: name}} }
}

func invalid(p *corev1.Pod) {
	p.Annotations = map[string]string{v1alpha1.SpotPercentAnnotation: "most"}
}

func TestNothingWaits(t *testing.T) {
	const long = longestWait + time.Second
	for name, c := range map[string]struct {
		write             func(*stage)
		violations, facts int
	}{
		"a pod without a mix never gets a node": {func(s *stage) {
			s.pending("a")
			s.later(long)
			s.node("spot", "spot", false)
		}, 1, 1},
		"a pod without a mix gets a node too late": {func(s *stage) {
			p := s.pending("a")
			s.later(long)
			s.binds(p, "spot")
		}, 1, 1},
		"annotations that are invalid make a pod wait": {func(s *stage) {
			p := s.pending("a", invalid)
			s.later(long)
			s.binds(p, "spot")
		}, 1, 1},
		"the gate of Berth stays on a pod without a mix": {func(s *stage) {
			s.pending("a", gatedBy(v1alpha1.CapacityMixGate))
			s.later(long)
			s.node("spot", "spot", false)
		}, 1, 1},
		"a pod waits for a mix that was removed": {func(s *stage) {
			s.pending("a", governed)
			s.later(long)
			s.write(history.Change{Key: history.Mixes + "shop/web"})
			s.later(long)
			s.node("spot", "spot", false)
		}, 1, 1},
		"a run ends while a pod waits": {func(s *stage) {
			s.pending("a")
			s.h.Steps = append(s.h.Steps, history.Step{Began: s.now, Ended: s.now.Add(long)})
		}, 1, 1},
		"a pod gets a node in time": {func(s *stage) {
			p := s.pending("a")
			s.later(longestWait - time.Second)
			s.binds(p, "spot")
			s.later(time.Hour)
			s.node("spot", "spot", false)
		}, 0, 1},
		"a pod has a mix": {func(s *stage) {
			s.pending("a", governed)
			s.later(long)
			s.node("spot", "spot", false)
		}, 0, 0},
		"a pod waits for a gate of others": {func(s *stage) {
			s.pending("a", gatedBy("example.com/gate"))
			s.later(long)
			s.node("spot", "spot", false)
		}, 0, 0},
		"a pod is one of another scheduler": {func(s *stage) {
			s.pod(pod("a", "", ""))
			s.later(long)
			s.node("spot", "spot", false)
		}, 0, 0},
		"a pod is deleted": {func(s *stage) {
			s.pending("a", ending)
			s.later(long)
			s.node("spot", "spot", false)
		}, 0, 0},
		"there was free capacity for less than the bound": {func(s *stage) {
			p := s.pending("a")
			for range 3 {
				s.later(longestWait / 2)
				s.node("spot", "spot", true)
				s.node("on-demand", "on-demand", true)
				s.later(longestWait)
				s.node("spot", "spot", false)
			}
			s.binds(p, "spot")
		}, 0, 1},
		"there was a fault, or one just before": {func(s *stage) {
			p := s.pending("a")
			for range 3 {
				s.fault(longestWait)
				s.later(view + longestWait - time.Second)
			}
			s.binds(p, "spot")
		}, 0, 1},
		"a pod waits long after a fault": {func(s *stage) {
			p := s.pending("a")
			s.fault(time.Second)
			s.later(view + long)
			s.binds(p, "spot")
		}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(split.New(50, 0), 2, 4)
			c.write(s)
			v := NothingWaits(&s.h)
			assert.Equal(t, c.facts, v.Facts)
			require.Len(t, v.Violations, c.violations, "%s", v)
		})
	}
}

// No history in which every pod without a mix is bound in time has a violation, whatever the faults; and one that is late has.
func TestOnlyPodsThatWaitAreBlamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := begin(split.New(50, 0), 2, 40)
		for i := range rapid.IntRange(1, 8).Draw(t, "pods") {
			p := s.pending(string(rune('a' + i)))
			if rapid.Bool().Draw(t, "fault") {
				s.fault(time.Duration(rapid.IntRange(0, 60).Draw(t, "fault for")) * time.Second)
			}
			s.later(time.Duration(rapid.IntRange(0, int(longestWait.Seconds())-1).Draw(t, "waits")) * time.Second)
			s.binds(p, "on-demand")
		}
		require.Empty(t, NothingWaits(&s.h).Violations)
		p := s.pending("late")
		s.later(view + longestWait + time.Second)
		s.binds(p, "spot")
		require.Len(t, NothingWaits(&s.h).Violations, 1)
	})
}
