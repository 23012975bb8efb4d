// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/robustness/judge"
)

// A second controller that elects no leader is active beside the leader, as after a mistake in an installation: only one writer is a
// promise that this breaks. The two agree: both stay silent once the mixes are exact.
func TestTwoActiveControllers(t *testing.T) {
	r := begun(t, split.New(60, 1))
	r.startController(replicas[1]+"-active", func(c *controller.Configuration) { c.LeaderElection.Enabled = false })
	for i := range 4 {
		before := len(r.moved())
		r.remixAll(split.New(int32(20+60*(i%2)), 1))
		r.Reaches("moves are in hand", before+1, func() int { return len(r.moved()) })
		r.waitAllSettled(time.Now().Add(settle))
	}
	h := r.judged(judge.OneLeaderWrites(&history.History{}).Promise)
	require.NotEmpty(t, judge.OneLeaderWrites(h).Violations, "both were active")
}
