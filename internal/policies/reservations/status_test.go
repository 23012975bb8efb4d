// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

func TestConditions(t *testing.T) {
	invalid := reservation("r")
	invalid.Spec.PodSelector = &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: "app", Operator: "x"}}}
	none, held := func(*Holdings) {}, func(l *Holdings) { l.hold("r", began, "n1", "n2") }
	use := func(l *Holdings, pods ...string) {
		for i, p := range pods {
			node := []string{"n1", "n2"}[i]
			l.Take(pod(p), l.named("r").r, node, began)
			l.SetPod(bound(pod(p), "r", node, began))
		}
	}
	for name, tc := range map[string]struct {
		object                  *v1alpha1.Reservation
		do                      func(*Holdings)
		after                   time.Duration
		wantReason, wantMessage string
		wantHeld, wantUsed      int32
	}{
		"all is held": {do: held, wantReason: "Reserved", wantMessage: "capacity for all replicas is held or used", wantHeld: 2},
		"all is held or used": {
			do:         func(l *Holdings) { held(l); use(l, "a") },
			wantReason: "Reserved", wantMessage: "capacity for all replicas is held or used", wantHeld: 1, wantUsed: 1,
		},
		"a pod that is not bound yet does not use it": {
			do:         func(l *Holdings) { held(l); l.Take(pod("a"), l.named("r").r, "n1", began) },
			wantReason: "Reserved", wantMessage: "capacity for all replicas is held or used", wantHeld: 2,
		},
		"no node was looked for": {do: none, wantReason: "Unschedulable", wantMessage: "capacity for 0 of 2 replicas is held or used"},
		"no node was found": {
			do:         func(l *Holdings) { l.hold("r", began, "n1"); l.NotHeld(l.named("r").r, "0/3 nodes", began) },
			wantReason: "Unschedulable", wantMessage: "capacity for 1 of 2 replicas is held or used: 0/3 nodes", wantHeld: 1,
		},
		"a fault keeps the message": {
			do: func(l *Holdings) {
				l.NotHeld(l.named("r").r, "0/3 nodes", began)
				l.NotHeld(l.named("r").r, "", began)
			},
			wantReason: "Unschedulable", wantMessage: "capacity for 0 of 2 replicas is held or used: 0/3 nodes",
		},
		"a node was found after all": {
			do:         func(l *Holdings) { l.NotHeld(l.named("r").r, "0/3 nodes", began); l.hold("r", began, "n1") },
			wantReason: "Unschedulable", wantMessage: "capacity for 1 of 2 replicas is held or used", wantHeld: 1,
		},
		"it is invalid": {object: invalid, do: none, wantReason: "Invalid", wantMessage: `spec.podSelector: "x" is not a valid label selector operator`},
		"it has expired": {
			do: func(l *Holdings) { held(l); use(l, "a") }, after: time.Hour,
			wantReason: "Expired", wantMessage: "the capacity is released", wantUsed: 1,
		},
		"all was used": {do: func(l *Holdings) { held(l); use(l, "a", "b") }, wantReason: "Used", wantMessage: "pods have used the capacity", wantUsed: 2},
		"all is used for good after the pods and the expiration": {
			do: func(l *Holdings) {
				held(l)
				use(l, "a", "b")
				l.DeletePod("a")
			},
			after: 2 * time.Hour, wantReason: "Used", wantMessage: "pods have used the capacity", wantUsed: 2,
		},
		"all is in use, and held again later": {
			object: reservation("r", repeatedly), do: func(l *Holdings) { held(l); use(l, "a", "b") },
			wantReason: "Reserved", wantMessage: "capacity for all replicas is held or used", wantUsed: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := tc.object
			if object == nil {
				object = reservation("r")
			}
			l := leader(object)
			tc.do(l)
			updates := l.Updates(at(tc.after))
			require.Len(t, updates, 1)
			assert.Equal(t, tc.wantReason, updates[0].Reason, "it is another one than before")
			s := updates[0].Object.Status
			c := condition(updates[0].Object)
			assert.Equal(t, []string{tc.wantReason, tc.wantMessage}, []string{c.Reason, c.Message})
			assert.Equal(t, tc.wantReason == v1alpha1.ReasonReserved, c.Status == metav1.ConditionTrue)
			assert.Equal(t, []int32{tc.wantHeld, tc.wantUsed}, []int32{s.HeldCount, s.UsedCount})
			assert.Len(t, s.Holds, int(tc.wantHeld+tc.wantUsed))
			assert.Equal(t, at(time.Hour), s.ExpirationTime.Time)
			assert.Equal(t, []int64{1, 1}, []int64{s.ObservedGeneration, c.ObservedGeneration})
			assert.Empty(t, object.Status, "the object of the cache is not changed")
		})
	}
}

func TestTotalsAreThoseOfTheStatuses(t *testing.T) {
	invalid := reservation("invalid")
	invalid.Spec.PodSelector = &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: "app", Operator: "x"}}}
	l := leader(invalid, reservation("full", replicas(2), repeatedly), reservation("part", replicas(3)), reservation("short", expires(60)),
		reservation("used", replicas(1)))
	l.hold("full", began, "n1", "n2")
	l.hold("part", began, "n1")
	l.hold("used", began, "n1")
	l.hold("short", began, "n1")
	l.SetPod(bound(pod("a"), "full", "n1", began))
	l.SetPod(bound(pod("b"), "used", "n1", began))
	now := at(time.Minute)
	want := Totals{Reservations: map[string]int{}}
	for _, r := range l.write(now) {
		reason := condition(r).Reason
		want.Reservations[reason]++
		if reason != v1alpha1.ReasonUsed && reason != v1alpha1.ReasonExpired {
			want.Held, want.Used = want.Held+int(r.Status.HeldCount), want.Used+int(r.Status.UsedCount)
		}
	}
	assert.Equal(t, map[string]int{"Invalid": 1, "Reserved": 1, "Unschedulable": 1, "Expired": 1, "Used": 1}, want.Reservations)
	want.Missing = 2 + l.named("invalid").r.Replicas
	assert.Equal(t, want, l.Totals(now))
}

func TestOnlyTheOldestReservationsOfANamespaceHoldCapacity(t *testing.T) {
	l := leader()
	for i := range MaxPerNamespace + 1 {
		r := reservation(fmt.Sprintf("r%03d", i), replicas(1), expires(int32(3600+i)))
		r.CreationTimestamp = metav1.NewTime(began.Add(time.Duration(i) * time.Second))
		l.Set(r)
	}
	elsewhere := reservation("other", replicas(1))
	elsewhere.Namespace = "else"
	l.Set(elsewhere)
	for range MaxPerNamespace + 1 {
		r := l.Next(began)
		require.NotNil(t, r)
		assert.NotEqual(t, "r100", r.Object.Name)
		l.Hold(r, "n1", began)
	}
	assert.Nil(t, l.Next(began))
	l.hold("r100", began, "n2") // the node was found when it was one of the oldest
	assert.NotContains(t, l.View(began).nodes, "n2")
	attempt, _ := l.Attempt(pod("a"), began)
	require.NotNil(t, attempt)
	assert.NotContains(t, attempt.Nodes(), "n2")
	assert.Empty(t, l.freeOn("r100"), "others may use it now")
	all := l.write(began)
	assert.Equal(t, []string{"TooMany", "only the 100 oldest Reservations of a namespace that are not finished hold capacity"},
		[]string{condition(all["r100"]).Reason, condition(all["r100"]).Message})
	assert.Equal(t, "Reserved", condition(all["r099"]).Reason)
	assert.Equal(t, "Reserved", condition(all["other"]).Reason)

	now := at(time.Hour) // the oldest expires, and others later
	r := l.Next(now)
	require.NotNil(t, r, "there is room for the next one")
	assert.Equal(t, "r100", r.Object.Name)
}

func TestOnlyWhatChangedIsWritten(t *testing.T) {
	l := leader(reservation("a"), reservation("b"))
	all := l.write(began)
	assert.Empty(t, l.Updates(at(time.Minute)))
	l.hold("b", at(time.Minute), "n1")
	updates := l.Updates(at(time.Minute))
	require.Len(t, updates, 1)
	assert.Equal(t, "b", updates[0].Object.Name)
	assert.Empty(t, updates[0].Reason, "it is still Unschedulable")
	assert.Equal(t, condition(all["b"]).LastTransitionTime, condition(updates[0].Object).LastTransitionTime)
	assert.Len(t, l.Updates(at(time.Minute)), 1, "until it is written")
}

func TestAFinishedReservationIsDeletedAfterItsTTL(t *testing.T) {
	for name, tc := range map[string]struct {
		use bool
		end time.Duration
	}{
		"expired": {end: time.Minute},
		"used":    {use: true, end: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			l := leader(reservation("r", replicas(1), expires(60), ttl(30)))
			l.hold("r", began, "n1")
			l.write(began)
			if tc.use {
				l.SetPod(bound(pod("a"), "r", "n1", at(tc.end)))
			}
			updates := l.Updates(at(tc.end + 500*time.Millisecond))
			require.Len(t, updates, 1)
			assert.False(t, updates[0].Delete)
			l.Written(next(updates[0].Object))
			assert.Empty(t, l.Updates(at(tc.end+30*time.Second-1)))
			updates = l.Updates(at(tc.end + 30*time.Second))
			require.Len(t, updates, 1)
			assert.True(t, updates[0].Delete)
			assert.Equal(t, "r", updates[0].Object.Name)
		})
	}
}

// The status was False for long before, for another reason: that is not the time since the end.
func TestTheTTLBeginsWithTheEnd(t *testing.T) {
	l := leader(reservation("r", expires(60), ttl(30)))
	l.write(began)
	all := l.write(at(time.Minute))
	assert.Equal(t, "Expired", condition(all["r"]).Reason)
	assert.Equal(t, at(time.Minute), condition(all["r"]).LastTransitionTime.Time)
}

func TestATTLOfZeroDeletesAtOnce(t *testing.T) {
	l := leader(reservation("r", expires(60), ttl(0)))
	updates := l.Updates(at(time.Minute))
	require.Len(t, updates, 1)
	assert.True(t, updates[0].Delete)
}
