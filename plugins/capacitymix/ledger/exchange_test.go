// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/scalein"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// The companion controller exchanges slots of running pods, with one write for each pod. After each write, also of a scheduler that starts
// then, all slots are held once and by pods on their type, the controller agrees, and the next pod gets the next slot.
func TestAnExchangeOfSlotsTakesNoSlotFromTheGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newAgreement(t)
		key := governing.GroupKey{Namespace: "shop", ID: a.mix.Source}
		pods, sides := runningPods(t, a.mix.Mix)
		for _, p := range pods {
			a.observe(p)
			a.state.SetPod(p)
		}
		for i, s := range scalein.Swaps(sides, func(string) scalein.Node { return scalein.Node{} }, rapid.IntRange(1, 8).Draw(t, "exchanges")) {
			for _, c := range []scalein.Change{s.First, s.Second} {
				p := pods[c.ID].DeepCopy()
				p.Annotations[v1alpha1.SlotAnnotation] = fmt.Sprint(c.To)
				pods[c.ID] = p
				a.observe(p)
				a.state.SetPod(p)
				entries := a.ledger.Entries(key, a.mix)
				a.requireWhole(t, entries, pods)
				require.Equal(t, entries, a.afterRestart(t, pods).Entries(key, a.mix), "after a restart")
				name := fmt.Sprint("next-", i, c.ID)
				next, err := a.ledger.Claim(ledger.Claim{Pod: podNamed(name), Member: in(key), Governing: a.mix, Exists: func() bool { return true }})
				require.NoError(t, err)
				require.Equal(t, len(pods), next.Slot, "the slot of one more pod")
				a.ledger.Forget(types.UID(name))
			}
			for _, c := range []scalein.Change{s.First, s.Second} {
				require.True(t, a.ledger.Holds(types.UID(c.ID), c.To), "pod %s holds slot %d as its own", c.ID, c.To)
			}
		}
	})
}

// runningPods are pods with the slots below their number, on nodes of the types of these.
func runningPods(t *rapid.T, m split.Mix) (map[string]*corev1.Pod, []scalein.Pod) {
	pods, sides := map[string]*corev1.Pod{}, []scalein.Pod(nil)
	for slot := range rapid.IntRange(2, 14).Draw(t, "pods") {
		p := podNamed(fmt.Sprint("p", slot))
		p.CreationTimestamp = metav1.Unix(rapid.Int64Range(0, 3).Draw(t, "age"), 0)
		p.Annotations = map[string]string{v1alpha1.SlotAnnotation: fmt.Sprint(slot)}
		p.Spec.NodeName = map[capacity.Type]string{capacity.Spot: "s", capacity.OnDemand: "o"}[m.TypeOf(slot)]
		pods[p.Name] = p
		// To the ledger, nodes of one type are alike.
		host := fmt.Sprint(p.Spec.NodeName, rapid.IntRange(0, 3).Draw(t, "host"))
		sides = append(sides, scalein.Pod{ID: p.Name, Slot: slot, Type: m.TypeOf(slot), Node: host})
	}
	return pods, sides
}

func (a *agreement) requireWhole(t *rapid.T, entries []ledger.Entry, pods map[string]*corev1.Pod) {
	require.Len(t, entries, len(pods))
	for slot, e := range entries {
		require.Equal(t, slot, e.Slot)
		on := map[string]capacity.Type{"s": capacity.Spot, "o": capacity.OnDemand}[e.Node]
		require.Equal(t, a.mix.Mix.TypeOf(slot), on, "the type of the node of slot %d", slot)
	}
	for _, s := range a.state.Groups("shop")[0].Assignments {
		require.Equal(t, entries[s.Slot].UID, s.ID, "the controller has slot %d", s.Slot)
	}
}

// afterRestart is a ledger that sees all pods for the first time.
func (a *agreement) afterRestart(t *rapid.T, pods map[string]*corev1.Pod) *ledger.Ledger {
	again := *a
	again.ledger = newLedger(t)
	for name, on := range map[string]string{"s": "spot", "o": "on-demand"} {
		again.ledger.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{typeLabel: on}}})
	}
	for _, p := range pods { // in any order
		again.observe(p)
	}
	return again.ledger
}
