// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// The scores of a pod are read from the pod of the scheduler that leads, whose port a kubelet forwards.
func TestTheScoresOfAPodAreRead(t *testing.T) {
	w := testenv.New(t)
	w.Create(builders.SchedulingPolicy("all", func(s *v1alpha1.SchedulingPolicySpec) {
		s.Score = &v1alpha1.ScoreRules{Preset: v1alpha1.ScorePresetSpread}
		s.Decisions = &v1alpha1.DecisionRules{Record: v1alpha1.RecordAlways, Objects: true}
	}), builders.Pod("web", "web-0", probed))
	pod := w.WaitReady("web", 1)[0]
	out := berth(w, "explain", pod.Name, "--scores")
	t.Log(out)
	assert.Regexp(t, `(?m)^Outcome: +Bound$`, out)
	assert.Regexp(t, `(?m)^Policy: +all$`, out)
	assert.Regexp(t, `(?m)^NODE +SCORE +Spreading\*3`, out)
	assert.Regexp(t, `(?m)^`+pod.Spec.NodeName+` +[0-9.]+ +100 `, out, "no sibling is there")
	d := testenv.WaitFor(w, pod.Name, "its decision is written", func(d *v1alpha1.SchedulingDecision) bool { return d.Attempt.NodeName == pod.Spec.NodeName })
	assert.Contains(t, out, d.Attempt.ID)
}
