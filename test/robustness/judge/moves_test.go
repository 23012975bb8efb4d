// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/robustness/history"
)

// stage is a workload whose replicas are moved as Berth promises, unless a test does otherwise.
type stage struct {
	h   history.History
	now time.Time
	mix split.Mix
	// pods are the live replicas by slot, on is the node of each.
	pods   map[int]*corev1.Pod
	free   map[string]int
	n      int
	leader string
}

const moveTimeout, graceOfStage = time.Minute, 5 * time.Second

// begin is a workload of some replicas, each on the type of its slot, with a node of each type that takes a number of pods.
func begin(mix split.Mix, replicas, nodes int) *stage {
	s := &stage{
		now: time.Unix(1e9, 0), mix: mix, pods: map[int]*corev1.Pod{}, free: map[string]int{"spot": nodes, "on-demand": nodes},
	}
	s.h.Grace, s.h.MoveTimeout = graceOfStage, moveTimeout
	for _, t := range []string{"spot", "on-demand"} {
		s.node(t, t, false)
	}
	s.remix(mix)
	s.budget(1)
	s.write(history.Change{Key: "/registry/replicasets/shop/web", Owner: &history.Owner{UID: "web", Replicas: int32(replicas)}})
	for slot := range replicas {
		s.place(slot, mix.TypeOf(slot).String())
	}
	s.lease("a")
	s.later(graceOfStage + view)
	return s
}

func (s *stage) later(d time.Duration) { s.now = s.now.Add(d) }

func (s *stage) write(c history.Change) {
	s.later(time.Millisecond)
	c.Revision, c.At = int64(len(s.h.Changes)+1), s.now
	s.h.Changes = append(s.h.Changes, c)
}

// node writes a node that takes as many pods as there are of it.
func (s *stage) node(name, capacityType string, cordoned bool) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{capacityTypeLabel: capacityType}}}
	n.Spec.Unschedulable = cordoned
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(int64(s.free[capacityType]), resource.DecimalSI), corev1.ResourcePods: resource.MustParse("99"),
	}
	s.write(history.Change{Key: history.Nodes + name, Node: n})
}

func (s *stage) remix(mix split.Mix) {
	s.mix = mix
	m := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	m.Spec.Selector.MatchLabels = map[string]string{"app": "web"}
	m.Spec.SpotPercent, m.Spec.MinOnDemand = mix.SpotPercent, mix.MinOnDemand
	s.write(history.Change{Key: history.Mixes + "shop/web", Mix: m})
}

func (s *stage) budget(allowed int32) {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	b.Status.DisruptionsAllowed = allowed
	s.write(history.Change{Key: history.Budgets + "shop/web", Budget: b})
}

// create writes a pod without a node.
func (s *stage) create() *corev1.Pod {
	s.n++
	p := pod(fmt.Sprintf("m%d", s.n), "", "")
	p.Labels = map[string]string{"app": "web"}
	s.pod(p)
	return p
}

func (s *stage) pod(p *corev1.Pod) { s.write(history.Change{Key: podKey(p), Pod: p.DeepCopy()}) }

// place creates a pod that gets a slot and a node.
func (s *stage) place(slot int, node string) *corev1.Pod {
	p := s.create()
	p.Annotations = map[string]string{
		v1alpha1.SlotAnnotation: fmt.Sprint(slot), v1alpha1.CapacityTypeAnnotation: s.mix.TypeOf(slot).String(),
	}
	p.Spec.NodeName = node
	s.request("create", "pods/binding", p, history.Scheduler)
	s.pod(p)
	s.free[node]--
	s.pods[slot] = p
	s.ready(p, corev1.ConditionTrue)
	return p
}

func (s *stage) ready(p *corev1.Pod, is corev1.ConditionStatus) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is}}
	s.pod(p)
}

func (s *stage) request(verb, resource string, p *corev1.Pod, by history.Program) {
	s.later(time.Millisecond)
	replica := s.leader
	if by == history.Scheduler {
		replica = "scheduler"
	}
	s.h.Requests = append(s.h.Requests, history.Request{
		Program: by, Replica: replica, Verb: verb, Resource: resource, Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Code: 201,
		At: s.now, Done: s.now.Add(time.Millisecond / 2),
	})
}

func (s *stage) lease(replica string) {
	s.leader = replica
	s.request("update", "leases", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-controller"}}, history.Controller)
}

// take has the controller take the pod of a slot away.
func (s *stage) take(verb string, slot int) {
	p := s.pods[slot]
	s.request(verb, map[string]string{"create": "pods/eviction", "delete": "pods"}[verb], p, history.Controller)
	s.write(history.Change{Key: podKey(p)})
	s.free[p.Spec.NodeName]++
	delete(s.pods, slot)
}

func (s *stage) evict(slot int) { s.take("create", slot) }

// move evicts the pod of a slot, whose replacement runs on the type of the slot.
func (s *stage) move(slot int) {
	s.evict(slot)
	s.place(slot, s.mix.TypeOf(slot).String())
}

// half has four replicas, two on each type; wrong is the same after the mix has changed to no spot: slots 1 and 3 move.
func half() *stage { return begin(split.New(50, 0), 4, 9) }

func wrong() *stage {
	s := half()
	s.remix(split.New(0, 0))
	s.later(time.Second)
	return s
}

// tightened is a workload of which on-demand replicas move to spot, with two that must stay.
func tightened() *stage {
	s := begin(split.New(0, 0), 4, 9)
	s.remix(split.New(50, 2))
	s.later(2 * view)
	return s
}

func TestMovesAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		judge     func(*history.History) *Verdict
		stage     *stage
		do        func(*stage)
		violation string // "" for none
	}{
		"a move leaves the floor": {FloorKept, tightened(), func(s *stage) { s.move(2); s.move(3) }, ""},
		"a move breaks the floor": {FloorKept, tightened(), func(s *stage) {
			s.move(2)
			s.move(3)
			s.later(2 * view)
			s.evict(0)
		}, "1 Ready replicas stayed on on-demand, and 2 must"},
		"a move breaks the floor, since another replica is not Ready": {FloorKept, tightened(), func(s *stage) {
			s.ready(s.pods[0], corev1.ConditionFalse)
			s.ready(s.pods[2], corev1.ConditionFalse)
			s.later(2 * view)
			s.evict(1)
		}, "1 Ready replicas stayed on on-demand, and 2 must"},
		"a move from spot breaks no floor": {FloorKept, tightened(), func(s *stage) { s.move(2); s.evict(2) }, ""},

		"moves one after the other": {OneMoveAtATime, wrong(), func(s *stage) { s.move(1); s.move(3) }, ""},
		"two moves at once": {OneMoveAtATime, wrong(), func(s *stage) {
			s.evict(1)
			s.evict(3)
		}, "the replacement of the one before was not Ready yet"},
		"the second move begins while the replacement begins": {OneMoveAtATime, wrong(), func(s *stage) {
			s.evict(1)
			s.ready(s.place(1, "on-demand"), corev1.ConditionFalse)
			s.h.Changes = slices.Delete(s.h.Changes, len(s.h.Changes)-2, len(s.h.Changes)-1) // it was never Ready
			s.evict(3)
		}, "the replacement of the one before was not Ready yet"},
		"the next move follows one that has failed": {OneMoveAtATime, wrong(), func(s *stage) {
			s.evict(1)
			s.create()
			s.later(moveTimeout)
			s.evict(3)
		}, ""},
		"a replica has not been Ready for long": {OneMoveAtATime, wrong(), func(s *stage) {
			s.ready(s.pods[0], corev1.ConditionFalse)
			s.later(2 * view)
			s.evict(1)
		}, "another replica of the workload was missing or not Ready"},
		"a replica has been missing for long": {OneMoveAtATime, wrong(), func(s *stage) {
			s.write(history.Change{Key: podKey(s.pods[0])})
			s.later(2 * view)
			s.evict(1)
		}, "another replica of the workload was missing or not Ready"},
		"a replica has just become unready": {OneMoveAtATime, wrong(), func(s *stage) {
			s.ready(s.pods[0], corev1.ConditionFalse)
			s.evict(1)
		}, ""},

		"an eviction within the budget": {BudgetsKept, wrong(), func(s *stage) { s.move(1) }, ""},
		"a deletion":                    {BudgetsKept, wrong(), func(s *stage) { s.take("delete", 1) }, "a pod was deleted, not evicted"},
		"an eviction against the budget": {BudgetsKept, wrong(), func(s *stage) {
			s.budget(0)
			s.later(2 * view)
			s.evict(1)
		}, "the disruption budget of the pod did not allow it"},

		"a move to the mix":      {TowardsTheMix, wrong(), func(s *stage) { s.move(1); s.move(3) }, ""},
		"a move of an exact mix": {TowardsTheMix, half(), func(s *stage) { s.evict(1) }, "its type had no more replicas"},
		"a move of the wrong type": {TowardsTheMix, wrong(), func(s *stage) {
			s.later(2 * view)
			s.evict(0)
		}, "its type had no more replicas"},
		"a move by the mix of a moment ago": {TowardsTheMix, wrong(), func(s *stage) {
			s.remix(split.New(50, 0))
			s.move(1)
		}, ""},

		"a move to a free node": {BetterPlace, wrong(), func(s *stage) { s.move(1) }, ""},
		"a move to a full type": {BetterPlace, begin(split.New(50, 0), 4, 2), func(s *stage) {
			s.remix(split.New(0, 0))
			s.evict(1)
		}, "no node of the other type had free capacity"},
		"a move to a cordoned node": {BetterPlace, wrong(), func(s *stage) {
			s.node("on-demand", "on-demand", true)
			s.later(2 * view)
			s.evict(1)
		}, "no node of the other type had free capacity"},

		"a replica that is back": {EvictedIsBack, wrong(), func(s *stage) { s.move(1); s.later(2 * longestAbsence); s.move(3) }, ""},
		"a replica whose replacement gets no node": {EvictedIsBack, wrong(), func(s *stage) {
			s.evict(1)
			s.create()
			s.later(2 * longestAbsence)
			s.lease("a")
			s.budget(1)
		}, "lacked the replica for"},
		"a replica that its owner does not request any more": {EvictedIsBack, wrong(), func(s *stage) {
			s.evict(1)
			s.write(history.Change{Key: "/registry/replicasets/shop/web", Owner: &history.Owner{UID: "web", Replicas: 3}})
			s.later(2 * longestAbsence)
			s.budget(1)
		}, ""},
		"a replica for which the capacity went away": {EvictedIsBack, wrong(), func(s *stage) {
			s.evict(1)
			s.create()
			s.node("on-demand", "on-demand", true)
			s.later(2 * longestAbsence)
			s.budget(1)
		}, ""},
		"a replica that is not back in a fault": {EvictedIsBack, wrong(), func(s *stage) {
			s.evict(1)
			s.create()
			s.h.Steps = append(s.h.Steps, history.Step{Fault: true, Began: s.now, Ended: s.now.Add(2 * longestAbsence)})
			s.later(2 * longestAbsence)
			s.place(1, "on-demand")
		}, ""},

		"a move after the grace": {NothingInTheGrace, wrong(), func(s *stage) { s.move(1) }, ""},
		"a move just after an outage": {NothingInTheGrace, wrong(), func(s *stage) {
			s.h.Steps = append(s.h.Steps, history.Step{Outage: true, Began: s.now.Add(-time.Second), Ended: s.now})
			s.later(graceOfStage - 2*time.Second)
			s.move(1)
		}, "after an outage or a start"},
		"a move in time, of an API server that answered before it was ready": {NothingInTheGrace, wrong(), func(s *stage) {
			began := s.now
			s.later(3 * time.Second)
			s.lease("a")
			s.later(2 * time.Second)
			s.h.Steps = append(s.h.Steps, history.Step{Outage: true, Began: began, Ended: s.now})
			s.later(graceOfStage - 2*time.Second)
			s.move(1)
		}, ""},
		"a move just after the leader has changed": {NothingInTheGrace, wrong(), func(s *stage) {
			s.lease("b")
			s.later(graceOfStage - time.Second)
			s.move(1)
		}, "after an outage or a start"},
		"a move just after a renewal": {NothingInTheGrace, wrong(), func(s *stage) {
			s.lease("a")
			s.move(1)
		}, ""},

		"a write of the leader": {OneLeaderWrites, wrong(), func(s *stage) { s.lease("b"); s.move(1) }, ""},
		"a write of the leader before": {OneLeaderWrites, wrong(), func(s *stage) {
			s.lease("b")
			s.leader = "a"
			s.move(1)
		}, `the lease was that of "b"`},
		"a write of a replica before it leads": {OneLeaderWrites, wrong(), func(s *stage) {
			s.leader = "b"
			s.move(1)
			s.lease("b")
		}, `the lease was that of "a"`},

		"a write before the rest": {QuietAtRest, wrong(), func(s *stage) {
			s.move(1)
			s.later(time.Second)
			s.h.Steps = append(s.h.Steps, history.Step{Rest: true, Began: s.now, Ended: s.now.Add(view)})
			s.lease("a")
		}, ""},
		"a write at rest": {QuietAtRest, wrong(), func(s *stage) {
			s.h.Steps = append(s.h.Steps, history.Step{Rest: true, Began: s.now, Ended: s.now.Add(view)})
			s.evict(1)
		}, "at rest"},

		"a request that is forbidden": {NothingForbidden, wrong(), func(s *stage) {
			s.request("get", "secrets", s.pods[0], history.Controller)
			s.h.Requests[len(s.h.Requests)-1].Code = 403
		}, "forbidden"},
		"a request that an API server forbids before it is ready": {NothingForbidden, wrong(), func(s *stage) {
			s.request("get", "secrets", s.pods[0], history.Controller)
			s.h.Requests[len(s.h.Requests)-1].Code = 403
			s.h.Steps = append(s.h.Steps, history.Step{Down: true, Began: s.now.Add(-time.Second), Ended: s.now.Add(time.Second)})
		}, ""},
		"an object that is forbidden while its CustomResourceDefinition is removed": {NothingForbidden, wrong(), func(s *stage) {
			s.request("patch", "capacitymixes", s.pods[0], history.Controller)
			s.h.Requests[len(s.h.Requests)-1].Code = 403
			s.h.Steps = append(s.h.Steps, history.Step{Removed: "capacitymixes", Began: s.now.Add(-time.Second), Ended: s.now.Add(time.Second)})
		}, ""},
		"a pod is preempted by its name once more": {NothingForbidden, wrong(), func(s *stage) {
			s.request("delete", "pods", s.pods[0], history.Scheduler)
			s.request("delete", "pods", s.pods[0], history.Scheduler)
			s.h.Requests[len(s.h.Requests)-1].Code = 403
		}, ""},
		"a pod may not be deleted": {NothingForbidden, wrong(), func(s *stage) {
			s.request("delete", "pods", s.pods[1], history.Scheduler)
			s.request("delete", "pods", s.pods[0], history.Scheduler)
			s.h.Requests[len(s.h.Requests)-1].Code = 403
		}, "forbidden"},
		"another object that is forbidden meanwhile": {NothingForbidden, wrong(), func(s *stage) {
			s.request("patch", "configmaps", s.pods[0], history.Controller)
			s.h.Requests[len(s.h.Requests)-1].Code = 403
			s.h.Steps = append(s.h.Steps, history.Step{Removed: "capacitymixes", Began: s.now.Add(-time.Second), Ended: s.now.Add(time.Second)})
		}, "forbidden"},
		"a new replica moves while another one has not been Ready for long": {OneMoveAtATime, wrong(), func(s *stage) {
			s.ready(s.pods[0], corev1.ConditionFalse)
			s.write(history.Change{Key: podKey(s.pods[1])})
			s.later(2 * view)
			s.place(1, "spot")
			s.evict(1)
		}, "another replica of the workload was missing or not Ready"},
		"requests that are not": {NothingForbidden, wrong(), func(s *stage) { s.move(1) }, ""},

		"a second Binding": {BoundOnce, half(), func(s *stage) {
			s.request("create", "pods/binding", s.pods[0], history.Scheduler)
		}, "a second Binding of the pod succeeded"},
		"a pod of an on-demand slot on spot": {PlacedByItsSlot, half(), func(s *stage) { s.place(4, "spot") }, "of an on-demand slot is bound to node spot"},
		"a pod of a spot slot on on-demand":  {PlacedByItsSlot, half(), func(s *stage) { s.place(5, "on-demand") }, ""},
		"a pod that had its slot before the recording began": {PlacedByItsSlot, half(), func(s *stage) {
			s.pod(pod("old", "spot", "0"))
			s.h.Changes[len(s.h.Changes)-1].Listed = true
		}, ""},
		"a pod by the mix of a moment ago": {PlacedByItsSlot, half(), func(s *stage) {
			old := s.mix
			s.remix(split.New(0, 0))
			s.mix = old
			s.place(5, "spot")
		}, ""},
		"a pod by the mix of a while ago": {PlacedByItsSlot, half(), func(s *stage) {
			old := s.mix
			s.remix(split.New(0, 0))
			s.mix = old
			s.later(2 * view)
			s.place(5, "spot")
		}, "which its mix does not give it"},
		"a pod on a node that has just changed its type": {PlacedByItsSlot, half(), func(s *stage) {
			s.node("on-demand", "spot", false)
			s.place(4, "on-demand")
		}, ""},

		"a pod without a mix has no slot": {NoCapture, half(), func(s *stage) { s.stranger("") }, ""},
		"a pod without a mix has a slot": {NoCapture, half(), func(s *stage) {
			s.stranger("0")
		}, "has no mix, and slot 0"},
		"a pod without a mix is moved": {NoCapture, half(), func(s *stage) {
			s.pods[9] = s.stranger("")
			s.evict(9)
		}, "no mix governs the pod"},
	} {
		t.Run(name, func(t *testing.T) {
			c.do(c.stage)
			v := c.judge(&c.stage.h)
			assert.NotZero(t, v.Facts)
			if c.violation == "" {
				assert.Empty(t, v.Violations)
				return
			}
			require.Len(t, v.Violations, 1, "%s", v)
			assert.Contains(t, v.Violations[0], c.violation)
		})
	}
}

// stranger is a pod that no mix selects.
func (s *stage) stranger(slot string) *corev1.Pod {
	p := pod("stranger", "spot", slot)
	p.Labels = map[string]string{"app": "other"}
	p.OwnerReferences[0].UID = types.UID("other")
	s.pod(p)
	return p
}

// misplaced is a pod that has to move, false if the mix is exact.
func (s *stage) misplaced() (int, bool) {
	on := map[string]int{}
	for _, p := range s.pods {
		on[p.Spec.NodeName]++
	}
	wanted := map[string]int{"spot": s.mix.Spot(len(s.pods)), "on-demand": s.mix.OnDemand(len(s.pods))}
	for slot := len(s.pods) - 1; slot >= 0; slot-- {
		is := s.pods[slot].Spec.NodeName
		if t := s.mix.TypeOf(slot); t.String() != is && on[is] > wanted[is] {
			return slot, true
		}
	}
	return 0, false
}

// act is one thing that happens in a good run.
func (s *stage) act(t *rapid.T) {
	s.later(time.Duration(rapid.IntRange(1, 3000).Draw(t, "pause")) * time.Millisecond)
	switch rapid.IntRange(0, 6).Draw(t, "act") {
	case 0:
		s.remix(split.New(rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 3).Draw(t, "least")))
	case 1:
		s.lease(map[string]string{"a": "b", "b": "a"}[s.leader])
		s.later(graceOfStage)
	case 2:
		s.h.Steps = append(s.h.Steps, history.Step{Outage: true, Began: s.now.Add(-time.Second), Ended: s.now})
		s.later(graceOfStage)
	case 3:
		slot := rapid.IntRange(0, len(s.pods)-1).Draw(t, "unready")
		s.ready(s.pods[slot], corev1.ConditionFalse)
		s.ready(s.pods[slot], corev1.ConditionTrue)
	default:
		if slot, is := s.misplaced(); is {
			s.move(slot)
		}
	}
}

func TestAGoodRunHasNoViolationAndABrokenOneHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.IntRange(2, 6).Draw(t, "replicas")
		s := begin(split.New(rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 3).Draw(t, "least")), replicas, 99)
		for range rapid.IntRange(0, 20).Draw(t, "acts") {
			s.act(t)
		}
		for _, judge := range Validators {
			v := judge(&s.h)
			assert.Empty(t, v.Violations, v.Promise)
		}
		for more := true; more; {
			slot, is := s.misplaced()
			if more = is; is {
				s.move(slot)
			}
		}
		s.later(2 * view)
		slot := rapid.IntRange(0, len(s.pods)-1).Draw(t, "slot")
		s.evict(slot)
		assert.Len(t, TowardsTheMix(&s.h).Violations, 1)
		other := (slot + 1) % replicas
		s.evict(other)
		assert.NotEmpty(t, OneMoveAtATime(&s.h).Violations)
		if s.mix.TypeOf(slot) == capacity.OnDemand {
			s.place(slot, "spot")
			assert.Len(t, PlacedByItsSlot(&s.h).Violations, 1)
		}
	})
}
