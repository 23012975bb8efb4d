// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/placeholder"
	"berth.dev/berth/internal/mix/rebalance"
)

// holderFor is a placeholder as the watch shows it.
func holderFor(replica types.UID, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: placeholder.Name(replica), UID: "holder-of-" + replica, CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute)),
		Labels: map[string]string{v1alpha1.PlaceholderLabel: string(replica)}, Annotations: map[string]string{v1alpha1.CapacityTypeAnnotation: "spot"},
	}}
	for _, c := range change {
		c(p)
	}
	return p
}

func runs(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "spot", corev1.PodRunning }

// shown are the records of placeholders.
func shown(t *testing.T, pods ...*corev1.Pod) []*clusterstate.Pod {
	t.Helper()
	p := testController(t)
	for _, o := range pods {
		p.State.SetPod(o)
	}
	return p.holders.placeholdersIn("shop")
}

func TestPlaceholdersOfAnEarlierLeaderAreAdopted(t *testing.T) {
	known := rebalance.Placeholder{
		UID: "holder-of-web-2", Namespace: "shop", Name: placeholder.Name("web-2"), Replica: "web-2", ReplicaName: "web-2",
		Holder: rebalance.Holder{Target: sp, Created: noon.Add(-rebalance.Unseen)},
	}
	changed := func(change func(*rebalance.Placeholder)) rebalance.Placeholder {
		h := known
		change(&h)
		return h
	}
	found := changed(func(h *rebalance.Placeholder) { h.Seen, h.Created = true, noon.Add(-time.Minute) })
	tests := map[string]struct {
		known *rebalance.Placeholder
		moves []rebalance.Move
		there []*corev1.Pod
		want  []rebalance.Placeholder
	}{
		"none": {},
		"it is pending": {
			known: &known, there: []*corev1.Pod{holderFor("web-2")},
			want: []rebalance.Placeholder{changed(func(h *rebalance.Placeholder) { h.Seen = true })},
		},
		"it runs": {
			known: &known, there: []*corev1.Pod{holderFor("web-2", runs)},
			want: []rebalance.Placeholder{changed(func(h *rebalance.Placeholder) { h.Seen, h.Running = true, true })},
		},
		"it failed": {
			known: &known, there: []*corev1.Pod{holderFor("web-2", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })},
			want: []rebalance.Placeholder{changed(func(h *rebalance.Placeholder) { h.Seen, h.Lost = true, true })},
		},
		"it is about to go": {
			known: &known, there: []*corev1.Pod{holderFor("web-2", runs, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} })},
			want: []rebalance.Placeholder{changed(func(h *rebalance.Placeholder) { h.Seen, h.Running, h.Lost = true, true, true })},
		},
		"it was seen, and is gone": {
			known: new(changed(func(h *rebalance.Placeholder) { h.Seen, h.Created = true, noon })),
			want:  []rebalance.Placeholder{changed(func(h *rebalance.Placeholder) { h.Seen, h.Lost, h.Created = true, true, noon })},
		},
		"the watch has not shown it yet": {
			known: new(changed(func(h *rebalance.Placeholder) { h.Created = noon.Add(-rebalance.Unseen + 1) })),
			want:  []rebalance.Placeholder{changed(func(h *rebalance.Placeholder) { h.Created = noon.Add(-rebalance.Unseen + 1) })},
		},
		"the watch never showed it": {known: &known, want: []rebalance.Placeholder{changed(func(h *rebalance.Placeholder) { h.Lost = true })}},
		"an earlier leader's":       {there: []*corev1.Pod{holderFor("web-2")}, want: []rebalance.Placeholder{found}},
		"an earlier leader's runs": {
			there: []*corev1.Pod{holderFor("web-2", runs)},
			want:  []rebalance.Placeholder{func() rebalance.Placeholder { h := found; h.Running = true; return h }()},
		},
		"an earlier leader's goes": {there: []*corev1.Pod{holderFor("web-2", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} })}},
		"another workload's":       {there: []*corev1.Pod{holderFor("db-0")}},
		"that of a replica which was evicted": {
			moves: []rebalance.Move{moveOf("web-2", time.Second)}, there: []*corev1.Pod{holderFor("web-2")},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := rebalance.Entry{Group: group(od, od, od, sp, sp), Moves: tc.moves}
			if tc.known != nil {
				e.Placeholders = []rebalance.Placeholder{*tc.known}
			}
			got := rebalance.Adopt(&e, shown(t, tc.there...), noon)
			for i := range got {
				got[i].Created = got[i].Created.UTC()
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestAPodThatOnlyHasTheLabelIsNoPlaceholder(t *testing.T) {
	assert.Empty(t, shown(t, holderFor("web-2", func(p *corev1.Pod) { p.Name = "mine" })))
	assert.Len(t, shown(t, holderFor("web-2")), 1)
}

// The watch may show a placeholder for a while that was deleted: it must not be
// treated as one of an earlier leader, and its end not for a failure.
func TestAPlaceholderThatWasDeletedIsNotFoundAgain(t *testing.T) {
	p := testController(t)
	held := holderFor("web-2", runs)
	p.Client = fake.NewClientset(held)
	p.State.SetPod(held)
	require.Len(t, p.holders.placeholdersIn("shop"), 1)
	require.True(t, p.holders.release(t.Context(), "shop", held.Name, held.UID, holderUsed))
	p.holders.forgetReleased(noon.Add(rebalance.Unseen - 1))
	assert.Empty(t, p.holders.placeholdersIn("shop"))
	p.holders.forgetReleased(noon.Add(rebalance.Unseen))
	assert.Len(t, p.holders.placeholdersIn("shop"), 1, "the memory has an end")
}

func TestSweepDeletesPlaceholdersThatNoReplicaNeeds(t *testing.T) {
	p := testController(t)
	client := fake.NewClientset()
	p.Client = client
	for _, replica := range []types.UID{"web-2", "evicted", "gone", "left-behind"} {
		held := holderFor(replica, runs)
		p.State.SetPod(held)
		require.NoError(t, client.Tracker().Add(held))
	}
	old := podOfSet("evicted", "on-demand") // still terminates
	p.State.SetPod(old)
	p.Workloads.Put(rebalance.Entry{
		Group:        group(od, od, od, sp, sp),
		Placeholders: []rebalance.Placeholder{{UID: "holder-of-web-2"}},
		Moves: []rebalance.Move{
			{UID: "evicted", Namespace: "shop", Name: old.Name, Placeholder: "holder-of-evicted"},
			{UID: "gone", Namespace: "shop", Name: "db-1", Placeholder: "holder-of-gone"},
		},
	})
	p.holders.sweep(t.Context(), governing.GroupKey{Namespace: "shop"})
	left, err := client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var names []string
	for _, held := range left.Items {
		names = append(names, held.Name)
	}
	assert.ElementsMatch(t, []string{placeholder.Name("web-2"), placeholder.Name("evicted")}, names)
}

func TestADryRunLeavesPlaceholdersAlone(t *testing.T) {
	p := testController(t)
	p.State.SetPod(holderFor("left-behind"))
	p.DryRun = true
	assert.Empty(t, p.holders.placeholdersIn("shop"))
}
