// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// of returns the nodes of a type, sorted.
func of(nodes map[string]capacity.Type, t capacity.Type) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if nodes[name] == t {
			names = append(names, name)
		}
	}
	return names
}

// Leaders and workers are deleted, groups come and go, nodes are full and free again, and the scheduler restarts: a group may have to
// wait, and to borrow, but it is on one type at every moment.
func TestAGroupIsOnOneTypeWhateverHappens(t *testing.T) {
	for seed := range uint64(testenv.Length(2, 20)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { chaos(t, rand.New(rand.NewPCG(seed, 4))) })
	}
}

func chaos(t *testing.T, random *rand.Rand) {
	// Eight groups of three fit only just, and parts of groups do where a whole one does not.
	w := testenv.New(t, room("spot-0", "spot", 7), room("spot-1", "spot", 7), room("on-demand-0", "on-demand", 5), room("on-demand-1", "on-demand", 5))
	m := split.New(60, 1)
	w.Create(builders.CapacityMix("lws", 60, 1))
	o := newLeaderWorkers(w, "lws", 3, builders.TerminatesFor(time.Second))
	record, nodes := w.Record("lws"), w.Types()
	o.scaleTo(6, m)
	pick := func() *corev1.Pod {
		live := w.Live("lws")
		if len(live) == 0 {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "none"}}
		}
		return &live[random.IntN(len(live))]
	}
	lose := func(name string) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
		require.NoError(t, client.IgnoreNotFound(w.Client.Delete(w.Ctx, p)))
	}
	steps := []func(){
		func() { lose(pick().Name) },
		func() { lose(fmt.Sprintf("lws-%d", random.IntN(8))) },
		func() {
			testenv.Patch(w, o.leaders, func(s *appsv1.StatefulSet) { *s.Spec.Replicas = int32(2 + random.IntN(7)) })
		},
		func() { w.Cordon(random.IntN(2) == 0, of(nodes, capacity.Spot)[random.IntN(2):]...) },
		func() { w.Cordon(random.IntN(2) == 0, of(nodes, capacity.OnDemand)[1:]...) },
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for range 40 {
		<-tick.C
		steps[random.IntN(len(steps))]()
		if random.IntN(20) == 0 {
			restart(w, testenv.SchedulerOptions(testenv.SecondScheduler), func() { lose(pick().Name) })
		}
	}
	w.Cordon(false, slices.Sorted(maps.Keys(nodes))...)
	for name, t := range map[string]capacity.Type{"spot-more": capacity.Spot, "on-demand-more": capacity.OnDemand} {
		w.AddNodes(room(name, t.String(), 50))
		nodes[name] = t
	}
	testenv.Patch(w, o.leaders, func(s *appsv1.StatefulSet) { *s.Spec.Replicas = 8 })
	w.WaitReady("lws", 24)
	requireUnitsWhole(w, record, nodes, groupKey)
	for _, p := range w.Live("lws") {
		require.Equal(t, p.Labels[groupKey], groupKeyOf("lws", slotOf(t, &p)), "the slot of pod %s is the index of its group", p.Name)
	}
	// Once each group has been created again as a whole, it is where it belongs.
	for slot := range 8 {
		group := having(w.Live("lws"), groupKey, groupKeyOf("lws", slot))
		evictFirstItsWorkers(w, fmt.Sprintf("lws-%d", slot))
		w.WaitGone(group)
	}
	o.waitUnits(8, m)
	requireUnitsWhole(w, record, nodes, groupKey)
}

// The pods of a node that is gone without a drain are there until the garbage collector has found them.
func TestAGroupIsOnOneTypeWhenItsNodeVanishes(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	w.Create(builders.CapacityMix("lws", 70, 2))
	o := newLeaderWorkers(w, "lws", 4)
	record, nodes := w.Record("lws"), w.Types()
	before := o.scaleTo(10, m)
	var lost []corev1.Pod
	for _, name := range []string{"spot-1", "spot-2", "on-demand-1"} {
		lost = append(lost, testenv.Where(w.Live("lws"), func(p *corev1.Pod) bool { return p.Spec.NodeName == name })...)
		w.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	require.NotEmpty(t, lost)
	w.WaitGone(lost)
	require.Equal(t, before, o.waitUnits(10, m))
	requireUnitsWhole(w, record, nodes, groupKey)
}
