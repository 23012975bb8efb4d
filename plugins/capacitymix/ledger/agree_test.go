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
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// agreement has a ledger and a cluster state see the same pods, in different orders.
type agreement struct {
	ledger *ledger.Ledger
	state  *clusterstate.State
	mix    *governing.Mix
	of     governing.Resolver
}

func newAgreement(t *rapid.T) *agreement {
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m"}}
	cm.Spec.SpotPercent, cm.Spec.MinOnDemand = rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 2).Draw(t, "floor")
	cm.Spec.Group, cm.Spec.Unit = v1alpha1.PodGroupingSelector, &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: "unit"}
	mixes := governing.NewRegistry()
	require.NoError(t, mixes.Set(cm))
	a := &agreement{
		ledger: ledger.New(classifier, nil), state: clusterstate.New(clusterstate.Options{Classifier: classifier, Mixes: mixes}),
		mix: mixes.Match("shop", nil), of: governing.Resolver{Mixes: mixes},
	}
	for name, t := range map[string]string{"s": "spot", "o": "on-demand", "u": ""} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{typeLabel: t}}}
		a.ledger.SetNode(n)
		a.state.SetNode(n)
	}
	return a
}

func drawSettled(t *rapid.T, i int) *corev1.Pod {
	name := fmt.Sprint("p", i)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{}, Annotations: map[string]string{},
		CreationTimestamp: metav1.Unix(rapid.Int64Range(0, 3).Draw(t, "age"), 0),
	}}
	if unit := rapid.SampledFrom([]string{"", "", "x", "y", "z"}).Draw(t, "unit"); unit != "" {
		p.Labels["unit"] = unit
	}
	if slot := rapid.IntRange(-1, 5).Draw(t, "slot"); slot >= 0 {
		p.Annotations[v1alpha1.SlotAnnotation] = fmt.Sprint(slot)
	}
	if p.Spec.NodeName = rapid.SampledFrom([]string{"", "s", "o", "u"}).Draw(t, "node"); p.Spec.NodeName == "" {
		limit := rapid.SampledFrom([]capacity.Type{capacity.Spot, capacity.OnDemand}).Draw(t, "limit")
		p.Annotations[v1alpha1.ClaimAnnotation] = gate.ClaimOf(p, limit)
		gate.Label{Key: typeLabel, Spot: "spot", OnDemand: "on-demand"}.Limit(&p.Spec, limit)
	}
	return p
}

func (a *agreement) observe(p *corev1.Pod) {
	member, _ := a.of.Member(p, a.mix)
	limited, _ := gate.LimitedTo(p)
	claimed, _ := governing.ClaimedSlot(p)
	a.ledger.Observe(ledger.Bound{
		UID: p.UID, Member: member, Created: p.CreationTimestamp.UnixNano(), Node: p.Spec.NodeName, Limited: limited, Pending: p, Claimed: claimed,
	})
}

// The slots of pods and units, and the types that units run on, are the same to the scheduler and to the controller, in any order in
// which the pods come and go.
func TestTheClusterStateHasTheSlotsOfTheLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newAgreement(t)
		var all []*corev1.Pod
		for i := range rapid.IntRange(1, 9).Draw(t, "pods") {
			all = append(all, drawSettled(t, i))
		}
		for _, p := range rapid.Permutation(all).Draw(t, "seen by the scheduler") {
			a.observe(p)
		}
		for _, p := range rapid.Permutation(all).Draw(t, "seen by the controller") {
			a.state.SetPod(p)
		}
		for _, p := range all {
			if rapid.IntRange(0, 3).Draw(t, "goes") == 0 {
				a.ledger.Forget(p.UID)
				a.state.DeletePod(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, p.UID)
			}
		}
		slots := map[string]int{}
		groups := a.state.Groups("shop")
		for i := range groups {
			for j := range groups[i].Assignments {
				s := &groups[i].Assignments[j]
				for _, p := range s.Members() {
					slots[string(p.UID)] = s.Slot
				}
				a.sameType(t, groups[i].Key, s)
			}
		}
		want := map[string]int{}
		for _, e := range a.ledger.Entries(governing.GroupKey{Namespace: "shop", ID: a.mix.Source}, a.mix) {
			want[e.UID] = e.Slot
		}
		require.Equal(t, want, slots)
	})
}

// sameType demands that one more pod of a unit has the type that the cluster state has of the unit.
func (a *agreement) sameType(t *rapid.T, key governing.GroupKey, s *clusterstate.Assignment) {
	if s.Unit == "" {
		return
	}
	more := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "more", UID: "more"}}
	hold := a.ledger.Next(ledger.Claim{
		Pod: more, Governing: a.mix, Member: governing.Member{Group: key, Unit: s.Unit, Slot: split.NoSlot, AnyOrder: true},
	})
	require.Equal(t, s.Slot, hold.Slot, "slot of unit %s", s.Unit)
	if hold.Fixed {
		require.Equal(t, s.On, hold.Type, "type of unit %s", s.Unit)
	}
}
