// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"testing"
	"time"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/cli/show"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/test/clitest"
)

func TestTheHistoryCountsRefusals(t *testing.T) {
	entry := func(ago time.Duration, message string) overview.Entry {
		return overview.Entry{
			Time: clitest.Ago(ago), From: "Event", Type: "Normal", Reason: "MoveBlocked", Blocked: "Paused", Message: message,
		}
	}
	clitest.Goldens(t, "", map[string]string{"history-refused.txt": printers.Text}, func(o *command.Options) error {
		return show.History(o, &overview.History{Namespace: "shop", Kind: "Deployment", Name: "web", Entries: []overview.Entry{
			entry(time.Hour, "Paused: moves are paused for mix web"), entry(time.Minute, "Paused: moves are paused for the cluster"),
		}})
	})
}
