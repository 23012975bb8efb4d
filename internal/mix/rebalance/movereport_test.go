// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/rebalance"
)

func TestAMoveReportIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z.-]{1,253}`)
		at := rapid.Custom(func(t *rapid.T) time.Time { return time.Unix(rapid.Int64Range(1, 4e9).Draw(t, "seconds"), 0).UTC() })
		r := rebalance.MoveReport{
			Pod: name.Draw(t, "pod"), UID: types.UID(name.Draw(t, "uid")), Revision: name.Draw(t, "revision"), From: name.Draw(t, "from"),
			FromNode: name.Draw(t, "from node"), Node: name.Draw(t, "node"), Slot: new(rapid.Int().Draw(t, "slot")),
			Since: at.Draw(t, "since"), Decided: at.Draw(t, "decided"),
		}
		read, ok := rebalance.MoveReportOf(r.String())
		require.True(t, ok, r)
		require.Equal(t, r, read)
	})
}

func TestWhatAnotherClientWroteIsNoMoveReport(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "no JSON": "{", "a list": "[]", "without a pod": `{"uid":"a"}`, "without a UID": `{"pod":"a"}`,
		"a slot that is no number": `{"pod":"a","uid":"b","slot":"c"}`, "no time": `{"pod":"a","uid":"b","decided":"c"}`,
		"too long": `{"uid":"a","pod":"` + strings.Repeat("a", 1<<20) + `"}`,
	} {
		_, ok := rebalance.MoveReportOf(text)
		assert.False(t, ok, name)
	}
}
