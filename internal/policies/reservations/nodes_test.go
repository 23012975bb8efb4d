// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
)

func onSpot(s *v1alpha1.ReservationSpec) { s.NodeSelector = map[string]string{"type": "spot"} }

func spot(n *corev1.Node) { n.Labels = map[string]string{"type": "spot"} }

func tainted(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{
		{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}, {Key: "gpu", Value: "only", Effect: corev1.TaintEffectNoSchedule},
	}
}

func small(n *corev1.Node) { n.Status.Allocatable = list("500m", "1Gi", "", "") }

// Each case begins with a Reservation that holds a CPU on n1, which changes, and is the only node that it can be held on.
func TestAReservationFollowsItsNode(t *testing.T) {
	for name, tc := range map[string]struct {
		spec  []func(*v1alpha1.ReservationSpec)
		after []func(*corev1.Node)
		gone  bool
		// message is that of the condition, "" if it is Reserved.
		message string
		// held is whether others may not use the capacity.
		held bool
	}{
		"it does not change": {held: true},
		"it is cordoned":     {after: []func(*corev1.Node){cordoned}, message: `node "n1" is cordoned`, held: true},
		"it is tainted": {
			after: []func(*corev1.Node){tainted}, held: true,
			message: `spec.tolerations: node "n1" has the taint gpu=only:NoSchedule`,
		},
		"its taint is tolerated": {
			spec: []func(*v1alpha1.ReservationSpec){func(s *v1alpha1.ReservationSpec) {
				s.Tolerations = []v1alpha1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
			}},
			after: []func(*corev1.Node){tainted}, held: true,
		},
		"it loses a label": {
			spec: []func(*v1alpha1.ReservationSpec){onSpot}, message: `spec.nodeSelector: node "n1" does not have the label type=spot`,
		},
		"it shrinks": {after: []func(*corev1.Node){small}, message: `spec.cpu: node "n1" has 500m allocatable, less than 1`},
		"it goes":    {gone: true, message: `node "n1" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			l := leader(reservation("r", append(tc.spec, replicas(1))...))
			l.SetNode(roomy("n1", spot))
			l.hold("r", began, "n1")
			require.Equal(t, v1alpha1.ReasonReserved, condition(l.write(began)["r"]).Reason)
			if tc.gone {
				l.DeleteNode("n1")
			} else {
				l.SetNode(roomy("n1", tc.after...))
			}
			r := l.write(began)["r"]
			assert.Equal(t, tc.held, !l.View(began).Empty())
			if tc.message == "" {
				assert.Equal(t, metav1.ConditionTrue, condition(r).Status)
				return
			}
			assert.Equal(t, v1alpha1.ReasonUnschedulable, condition(r).Reason)
			assert.Equal(t, "capacity for 0 of 1 replicas is held or used: "+tc.message, condition(r).Message)
			assert.Zero(t, r.Status.HeldCount)
			require.NotNil(t, l.Next(began), "another node is looked for")

			l.SetNode(roomy("n1", spot))
			if !tc.held {
				l.hold("r", began, "n1")
			}
			assert.Equal(t, metav1.ConditionTrue, condition(l.write(began)["r"]).Status, "it can be used again")
			assert.Nil(t, l.Next(began))
		})
	}
}

// What was held on a node that was cordoned is held there until it is held elsewhere.
func TestCapacityMovesOffANodeThatIsCordoned(t *testing.T) {
	l := leader(reservation("r", replicas(2)))
	l.hold("r", began, "n1", "n2")
	l.write(began)
	l.SetNode(roomy("n1", cordoned))
	require.NotNil(t, l.Next(began))
	l.hold("r", began, "n3")
	updates := l.Updates(began)
	require.Len(t, updates, 1)
	assert.Equal(t, []string{`node "n1" is cordoned`}, updates[0].Released)
	assert.Equal(t, []string{"n2", "n3"}, l.freeOn("r"))
	assert.Equal(t, v1alpha1.ReasonReserved, condition(updates[0].Object).Reason)
	l.hold("r", began, "n1")
	assert.Equal(t, []string{"n2", "n3"}, l.freeOn("r"), "nothing is held on a node that is known not to be usable")
}

// A Reservation names a node that does not have so much: it holds nothing, and what others hold there stays.
func TestAReservationLargerThanItsNodeHoldsNothing(t *testing.T) {
	for name, spec := range map[string]func(*v1alpha1.ReservationSpec){
		"memory":                                func(s *v1alpha1.ReservationSpec) { s.CPU, s.Memory = nil, quantity("7Ei") },
		"cpu":                                   func(s *v1alpha1.ReservationSpec) { s.CPU = quantity("9P") },
		"more cpu than the scheduler can count": func(s *v1alpha1.ReservationSpec) { s.CPU = quantity("9E") },
		"gpus":                                  func(s *v1alpha1.ReservationSpec) { s.ExtendedResources = map[string]int64{string(gpu): 1001} },
	} {
		t.Run(name, func(t *testing.T) {
			l := leader(reservation("held", replicas(1)))
			l.hold("held", began, "n1")
			for _, of := range []string{"a", "b", "c", "d"} {
				l.Set(reservation(of, replicas(1), spec, func(s *v1alpha1.ReservationSpec) { s.NodeName = "n1" }))
				require.NotNil(t, l.Next(began))
				l.hold(of, began, "n1")
			}
			all := l.write(began)
			assert.Regexp(t, `^capacity for 0 of 1 replicas is held or used: spec\..*: node "n1" has (1k|1000Gi) allocatable, less than [0-9A-Za-z]+$`, condition(all["a"]).Message)
			assert.Equal(t, v1alpha1.ReasonReserved, condition(all["held"]).Reason)
			assert.Equal(t, Amounts{MilliCPU: 1000}, l.View(began).nodes["n1"].total)
		})
	}
}

// A pod is resized in place, or another scheduler places one: the youngest Reservation loses what is not there any more.
func TestCapacityThatPodsTookIsReleased(t *testing.T) {
	older := reservation("older", replicas(2))
	older.CreationTimestamp = metav1.NewTime(began.Add(-time.Second))
	l := leader(older, reservation("younger", replicas(2)))
	l.hold("older", began, "n1", "n1")
	l.hold("younger", began, "n1", "n1")
	l.write(began)
	snapshot := func(requests string) func(string) fwk.NodeInfo {
		return func(string) fwk.NodeInfo { return sized("n1", requests) }
	}
	l.Verify(snapshot("4"), began)
	l.Verify(snapshot("4"), at(time.Minute))
	assert.Len(t, l.freeOn("younger"), 2, "all fit")
	l.Verify(snapshot("5"), at(time.Minute))
	l.Verify(snapshot("4"), at(time.Minute+time.Second))
	l.Verify(snapshot("5"), at(time.Minute+exceededFor))
	assert.Len(t, l.freeOn("younger"), 2, "the pod may be gone in a moment")
	l.Verify(func(string) fwk.NodeInfo { return nil }, at(time.Minute))
	l.Verify(snapshot("5"), at(time.Minute))
	l.Verify(snapshot("5"), at(time.Minute+exceededFor))
	assert.Len(t, l.freeOn("older"), 2)
	assert.Len(t, l.freeOn("younger"), 1)
	younger := condition(l.write(at(time.Minute))["younger"])
	assert.Equal(t, `capacity for 1 of 2 replicas is held or used: node "n1" has no cpu left that can be held: its pods request more than before`, younger.Message)
	assert.NotNil(t, l.Next(at(time.Minute)))
}

// The next scheduler holds what was prepared for a pod without looking for a node, and this one does not look for a second.
func TestWhatIsPreparedForAPodIsHeldByItsStatus(t *testing.T) {
	prepared := reservation("prepared", forPod("train-0"), func(s *v1alpha1.ReservationSpec) { s.NodeName = "n1" })
	prepared.Labels = map[string]string{v1alpha1.BindGroupLabel: "g"}
	l := leader(prepared)
	assert.Nil(t, l.Next(began))
	assert.Empty(t, l.Updates(began), "its status is about to be written")
	assert.Empty(t, l.Prepared("shop", "g", began))
	held := next(prepared)
	held.Status.Holds = []v1alpha1.Hold{{NodeName: "n1"}}
	l.Set(held)
	assert.Equal(t, []string{"train-0"}, l.Prepared("shop", "g", began))
	l.SetNode(roomy("n1", cordoned))
	assert.Equal(t, v1alpha1.ReasonReserved, condition(l.write(began)["prepared"]).Reason)
	l.Verify(func(string) fwk.NodeInfo { return sized("n1", "8") }, began)
	l.Verify(func(string) fwk.NodeInfo { return sized("n1", "8") }, at(time.Minute))
	assert.Equal(t, []string{"n1"}, l.freeOn("prepared"), "its pod is assumed on the node")
	l.DeleteNode("n1")
	l.write(at(time.Minute))
	assert.Empty(t, l.freeOn("prepared"))
}
