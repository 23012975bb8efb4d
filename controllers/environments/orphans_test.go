// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/internal/environments/orphans"
)

func TestOrphansAreReportedOnceAndDeletedWhenDue(t *testing.T) {
	all := []orphans.Orphan{
		{UID: "unused", State: orphans.Unused},
		{UID: "volume", State: orphans.Retained},
		{UID: "foreign", State: orphans.Foreign},
		{UID: "going", State: orphans.Terminating},
		{UID: "data", State: orphans.Unused, Claims: 1},
	}
	now := time.Unix(1000, 0)
	k := known{}
	added, due := k.next(all, now, time.Hour)
	assert.Equal(t, append(slices.Clone(all[:3]), all[4]), added)
	assert.Empty(t, due)
	added, due = k.next(all, now.Add(time.Hour-1), time.Hour)
	assert.Empty(t, added, "each is reported once")
	assert.Empty(t, due)
	_, due = k.next(all, now.Add(time.Hour), 0)
	assert.Empty(t, due, "0 deletes none")
	_, due = k.next(all, now.Add(time.Hour), time.Hour)
	assert.Equal(t, all[:1], due, "no volume, no namespace of others")

	k.next(nil, now.Add(time.Hour), time.Hour)
	added, due = k.next(all[:1], now.Add(2*time.Hour), time.Hour)
	assert.Equal(t, all[:1], added, "its Environment existed in between")
	assert.Empty(t, due)
}
