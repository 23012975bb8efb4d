// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

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

// Any number of objects may have the labels of an environment.
func TestASearchReportsABoundedNumberOfOrphans(t *testing.T) {
	var all []orphans.Orphan
	for i := range 250 {
		all = append(all, orphans.Orphan{UID: types.UID(strconv.Itoa(i)), State: orphans.Unused})
	}
	k, reported := known{}, map[types.UID]bool{}
	for _, want := range []int{100, 100, 50, 0} {
		added, _ := k.next(all, time.Unix(1000, 0), 0)
		assert.Len(t, added, want)
		for _, o := range added {
			reported[o.UID] = true
		}
	}
	assert.Len(t, reported, 250)
}
