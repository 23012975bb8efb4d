// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestTheSchedulerWritesEachLineAsJSONIfItIsConfiguredTo(t *testing.T) {
	w := testenv.New(t, wide()...)
	o := testenv.SchedulerOptions(testenv.SecondScheduler)
	o.Name = "berth-scheduler-json" // with a log of its own
	o.Args = []string{"--logging-format=json", "-v=4"}
	s := w.RunScheduler(o)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 5))
	w.RequireExact("web", split.New(70, 2), 5)
	testenv.Kill(s)
	lines := slices.Collect(strings.Lines(testenv.ReadFile(t, s.LogPath())))
	require.NotEmpty(t, lines)
	for _, line := range lines {
		var entry struct {
			Message string `json:"msg"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
		require.NotEmpty(t, entry.Message, line)
	}
}
