// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/plugins/capacitymix/ledger"
)

func TestMembersOfAGroupTakeSlotsOneAfterTheOtherAndReturnAll(t *testing.T) {
	l := newLedger(t)
	claim(t, l, "single")
	place := func(want int, name string) {
		t.Helper()
		assert.Equal(t, want, l.Next(claimOf(name)).Slot)
		require.NoError(t, l.Take(claimOf(name), want, "n"))
	}
	for range 2 {
		place(1, "a")
		place(2, "b")
		assert.Equal(t, 3, l.Next(claimOf("c")).Slot, "what is not taken stays free")
		assert.Empty(t, l.Pending("none"))
		for _, name := range []string{"b", "a", "a"} {
			l.Return(claimOf(name).Pod.UID)
		}
		assert.Equal(t, []ledger.Entry{{UID: "single", Slot: 0, Pending: true}}, l.Entries(webKey, webMix))
	}
	place(1, "a")
	l.Observe(ledger.Bound{UID: "a", Member: in(webKey), Node: "n", Claimed: 1})
	l.Return("a")
	assert.Len(t, l.Entries(webKey, webMix), 2, "a pod that is bound keeps its slot")
}

func TestASlotIsTakenOnlyWhileItIsFree(t *testing.T) {
	l := newLedger(t)
	assert.Equal(t, 0, l.Next(claimOf("a")).Slot, "of a group that has no pods yet")
	claim(t, l, "other")
	require.ErrorIs(t, l.Take(claimOf("a"), 0, "n"), ledger.ErrNoClaim)
	require.NoError(t, l.Take(claimOf("a"), 1, "n"))
	require.ErrorIs(t, l.Take(claimOf("a"), 2, "n"), ledger.ErrNoClaim, "it has one")
	gone := claimOf("gone")
	gone.Exists = func() bool { return false }
	require.ErrorIs(t, l.Take(gone, 2, "n"), ledger.ErrNoClaim)
	fixed := claimOf("fixed")
	fixed.Slot = 1
	assert.Equal(t, 1, l.Next(fixed).Slot)
	require.NoError(t, l.Take(fixed, 1, "n"), "the slot of an identity is not exclusive")
	assert.Len(t, l.Entries(webKey, webMix), 3)
	l.Return("a")
	assert.Equal(t, 1, l.Next(claimOf("b")).Slot)
}

// The group of a pod is that of a mix. What was resolved before the mix changed is not written after it.
func TestWhatWasResolvedByAFormerVersionIsRefused(t *testing.T) {
	l := newLedger(t)
	l.Versions = func(namespace string) ledger.Version {
		assert.Equal(t, "shop", namespace)
		return ledger.Version{Mixes: 2}
	}
	former := claimOf("a")
	former.Version.Mixes = 1
	_, err := l.Claim(former)
	require.ErrorIs(t, err, ledger.ErrOutdated)
	require.ErrorIs(t, l.Take(former, 0, "n"), ledger.ErrNoClaim)
	assert.True(t, l.Observe(ledger.Bound{UID: "a", Member: in(webKey), Version: former.Version, Node: "n", Claimed: 0}).Outdated)
	_, pods := l.Size()
	require.Zero(t, pods)
	former.Version.Mixes = 2
	assert.Zero(t, held(t, l, former).Slot)
}
