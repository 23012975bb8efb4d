// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/test/builders"
)

// Bounds of what one hostile object may cost: heap, and time in one call, which holds the lock throughout. The time is
// that of the worst call with a wide margin for a busy machine; BenchmarkHostile has the figures.
const (
	hostileHeap = 10 << 20
	hostileTime = 5 * time.Second
)

// bounded runs f and fails where it takes more than a hostile object may.
func bounded(t *testing.T, f func()) {
	t.Helper()
	before := builders.Heap()
	start := time.Now()
	f()
	took := time.Since(start)
	grown := int64(builders.Heap()) - int64(before)
	assert.Less(t, grown, int64(hostileHeap), "heap")
	assert.Less(t, took, hostileTime, "time")
}

// A rollout that announces more replicas than there can be, under a floor as high: the first slot of the
// other type is out of range.
func TestASlotAheadIsOneThatASetCanHold(t *testing.T) {
	for _, below := range []int{math.MaxInt32, math.MaxInt, -1, math.MinInt} {
		for _, floor := range []int32{0, 1_000_000, math.MaxInt32} {
			t.Run(fmt.Sprintf("below %d, floor %d", below, floor), func(t *testing.T) {
				l := newLedger(t)
				c := claimOf("a")
				c.Policy = &policy.Policy{Mix: split.New(100, floor)}
				hold := held(t, l, c)
				l.SetAttempt("a", hold.Slot, ledger.Attempt{Stage: ledger.StageAhead, Below: below})
				bounded(t, func() { hold = held(t, l, c) })
				assert.LessOrEqual(t, hold.Slot, split.MaxSlot)
				require.NoError(t, l.Reserve("a", hold.Slot, "n"), "the pod holds the slot")
				l.Unreserve("a")
				l.Forget("a")
				requireEmpty(t, l)
			})
		}
	}
}

// Pods that carry the highest slot, each a group of its own.
func TestHighSlotsOfManyGroupsCostLittle(t *testing.T) {
	l := newLedger(t)
	bounded(t, func() {
		for i := range 500 {
			key := policy.GroupKey{Namespace: "ns", ID: fmt.Sprint(i)}
			l.Observe(ledger.Bound{UID: types.UID(fmt.Sprint("a", i)), Group: key, Slot: split.MaxSlot, Node: "n"})
			l.Observe(ledger.Bound{UID: types.UID(fmt.Sprint("b", i)), Group: key, Slot: split.NoSlot, Node: "n"})
			c := claimOf(fmt.Sprint("c", i))
			c.Group = key
			held(t, l, c)
		}
	})
	groups, pods := l.Size()
	assert.Equal(t, 500, groups)
	assert.Equal(t, 1500, pods)
}

// A mix whose list of labels changes again and again costs as much as its last list.
func TestListsOfSpreadLabelsLeaveNothingBehind(t *testing.T) {
	l := newLedger(t)
	for i := range 1000 {
		l.SetNode(node(fmt.Sprint("node-", i), "spot", fmt.Sprint("zone-", i%3)))
	}
	l.Observe(ledger.Bound{UID: "bound", Group: webKey, Slot: 0, Node: "node-0"})
	c := claimOf("pending")
	bounded(t, func() {
		for i := range 2000 {
			c.Policy = &policy.Policy{Mix: webPolicy.Mix, SpreadSpotOver: []string{fmt.Sprint("a.example/", i)}}
			held(t, l, c)
		}
	})
	assert.EqualValues(t, 1, domainOf(l, "node-0"))
}

// Nodes come and go, each with a host name of its own.
func TestLabelValuesOfDeletedNodesLeaveNothingBehind(t *testing.T) {
	c, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	l := ledger.New(c, []string{corev1.LabelHostname})
	own := claimOf("pending")
	own.Group.ID, own.Policy = "own", &policy.Policy{Mix: webPolicy.Mix, SpreadSpotOver: []string{corev1.LabelHostname, corev1.LabelTopologyZone}}
	held(t, l, own)
	bounded(t, func() {
		for i := range 10_000 {
			n := node(fmt.Sprintf("node-%d", i), "spot", fmt.Sprintf("zone-%d", i))
			n.Labels[corev1.LabelHostname] = n.Name
			l.SetNode(n)
			l.Observe(ledger.Bound{UID: "bound", Group: webKey, Slot: 0, Node: n.Name})
			l.Observe(ledger.Bound{UID: "own", Group: own.Group, Slot: 0, Node: n.Name})
			l.DeleteNode(fmt.Sprintf("node-%d", i-1))
		}
	})
	assert.EqualValues(t, 1, domainOf(l, "node-9999"))
	for name, size := range l.Sizes() {
		assert.LessOrEqual(t, size, 4, name)
	}
	for _, uid := range []types.UID{"bound", "own", "pending"} {
		l.Forget(uid)
	}
	l.DeleteNode("node-9999")
	requireEmpty(t, l)
}

func requireEmpty(t require.TestingT, l *ledger.Ledger) {
	require.Empty(t, l.Sizes(), "what is left")
}
