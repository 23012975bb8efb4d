// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/placeholder"
	"berth.dev/berth/internal/mix/rebalance"
)

// spotScene has one controller, a node of each type, and in namespace a a mix
// whose mix is all spot and requests capacity.
func spotScene() (*scene, *side) {
	w := &scene{
		pods: map[types.NamespacedName]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, owners: map[types.UID]metav1.Object{},
		mixes: governing.NewRegistry(), clock: clocktesting.NewFakeClock(noon),
	}
	s := w.newSide(2)
	s.controller.State = w.newState()
	s.controller.State.Changed = s.controller.Changed
	w.some, w.all = s, s
	for name, typ := range map[string]string{"n0": "spot", "n1": "on-demand"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"karpenter.sh/capacity-type": typ}}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: cpu("10")} // no room
		w.setNode(n)
	}
	cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m"}}
	cm.Spec.SpotPercent = 100
	cm.Spec.Rebalance = &v1alpha1.RebalanceSpec{StabilizationSeconds: new(int32(0)), Provisioning: v1alpha1.ProvisioningPlaceholder}
	w.setMix(cm)
	return w, s
}

// drain reconciles until nothing is due.
func (s *side) drain(t *testing.T) {
	t.Helper()
	s.queue.Drain(t.Context(), s.controller)
}

func TestAPlaceholderReportsAtOnceThatItsReplicaIsHeld(t *testing.T) {
	w, s := spotScene()
	p := podOf("a", sceneOwners[1], 0, 0)
	for i := 0; chance(p.UID, 3) != 0; i++ { // the filters find no room for it
		p.UID = types.UID(strconv.Itoa(i))
	}
	p.Spec.NodeName = "n1"
	w.setPod(p)
	s.drain(t)
	require.Len(t, s.created, 1)

	for _, h := range s.created {
		h.Spec.NodeName, h.Status.Phase = "n0", corev1.PodRunning
		w.setPod(h)
	}
	s.drain(t)
	e, _ := s.controller.Workloads.Get(governing.GroupKey{Namespace: "a", ID: "a-other"})
	require.NotEmpty(t, e.Held)
	require.Len(t, e.Placeholders, 1)
	assert.Contains(t, e.Placeholders[0].Waits, "InsufficientCapacity")
}

// The later of two deletions is made good as well if it was lost.
func TestEachPlaceholderThatIsStillShownIsDeletedAgain(t *testing.T) {
	w, s := spotScene()
	left := func(replica types.UID) types.NamespacedName {
		w.setPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: placeholder.Name(replica), UID: "left-for-" + replica, CreationTimestamp: metav1.NewTime(noon),
			Labels: map[string]string{v1alpha1.PlaceholderLabel: string(replica)},
		}})
		s.drain(t)
		return types.NamespacedName{Namespace: "a", Name: placeholder.Name(replica)}
	}
	first := left("x")
	w.clock.Step(4 * time.Second)
	second := "delete " + left("y").String()
	require.Equal(t, []string{"delete " + first.String(), second}, s.asked)
	w.removePod(first)
	s.drain(t)

	w.clock.SetTime(noon.Add(rebalance.Unseen))
	s.drain(t)
	require.Len(t, s.asked, 2)
	next := s.queue.At(governing.GroupKey{Namespace: "a"})
	require.False(t, next.IsZero())
	w.clock.SetTime(next)
	s.drain(t)
	assert.Equal(t, second, s.asked[len(s.asked)-1])
	assert.Len(t, s.asked, 3)
}
