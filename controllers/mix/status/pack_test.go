// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/autoscaler"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
)

// spread is a workload of twelve replicas, 70 % on spot and at least 2 on on-demand, whose slots alternate between three nodes of spot
// and two of on-demand.
func spread() rebalance.Entry {
	m := split.New(70, 2)
	var on []capacity.Type
	for slot := range 12 {
		on = append(on, m.TypeOf(slot))
	}
	e := entry("web", on...)
	e.Group.Counted = true
	seen := map[capacity.Type]int{}
	for i := range e.Group.Assignments {
		s := &e.Group.Assignments[i]
		nodes := map[capacity.Type]int{sp: 3, od: 2}[s.On]
		s.Pod.Node = fmt.Sprintf("%s-%d", s.On, seen[s.On]%nodes)
		seen[s.On]++
		s.Pod.Owner = &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d", UID: "uid-web"}
		s.Pod.SchedulerName = builders.Scheduler
		s.Pod.Annotations = annotationsOf(s.Slot, s.Wants)
	}
	return e
}

func annotationsOf(slot int, t capacity.Type) map[string]string {
	return map[string]string{
		slotKey: strconv.Itoa(slot), costKey: governing.DeletionCost(slot), typeKey: t.String(), mixKey: "capacitymix/web",
	}
}

// packer is a controller with an API server that has the pods of a workload.
type packer struct {
	*Controller
	kube  *fake.Clientset
	clock *clocktesting.FakePassiveClock
	// shown is what the watch has shown last.
	shown rebalance.Entry
}

func newPacker(t *testing.T, e rebalance.Entry) *packer {
	p := &packer{kube: fake.NewClientset(), clock: clocktesting.NewFakePassiveClock(noon), shown: e}
	for _, s := range e.Group.Assignments {
		require.NoError(t, p.kube.Tracker().Add(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: s.Pod.Name, UID: s.Pod.UID, ResourceVersion: "7", Annotations: s.Pod.Annotations},
			Spec:       corev1.PodSpec{NodeName: s.Pod.Node},
		}))
	}
	p.Controller = New(Options{
		Kube: p.kube, Workloads: workloads.NewStore(), Recorder: record.NewFakeRecorder(10), RepairsPerMinute: 60_000, Clock: p.clock,
		SchedulerNames: []string{builders.Scheduler}, ScaleIn: controller.ScaleInPack,
		Residents: func(name string) (clusterstate.Node, int) { return clusterstate.Node{Name: name, Accepting: true}, 0 },
	})
	p.decide(e)
	return p
}

// decide is a decision about a workload.
func (p *packer) decide(e rebalance.Entry) {
	p.Workloads.Put(e)
	p.note(workloads.Decision{Namespace: "shop", Groups: []governing.GroupKey{e.Group.Key}})
}

// later is what happens at a later time.
func (p *packer) later(t *testing.T, d time.Duration) {
	t.Helper()
	p.clock.SetTime(p.clock.Now().Add(d))
	_, err := p.Reconcile(t.Context(), reconcile.Request{NamespacedName: key("shop", "")})
	require.NoError(t, err)
}

// watch returns the workload as the API server has its pods, with the slots that clusterstate would give them. Behind are the slots of
// pods whose last change has not been delivered.
func (p *packer) watch(t *testing.T, behind ...map[string]int) rebalance.Entry {
	t.Helper()
	e := spread()
	pods := make([]split.Pod, 0, len(e.Group.Assignments))
	byID := map[string]*clusterstate.Pod{}
	for _, s := range e.Group.Assignments {
		live, err := p.kube.CoreV1().Pods("shop").Get(t.Context(), s.Pod.Name, metav1.GetOptions{})
		require.NoError(t, err)
		s.Pod.Annotations = live.Annotations
		for _, slots := range behind {
			if slot, is := slots[s.ID]; is {
				s.Pod.Annotations = annotationsOf(slot, s.Wants)
			}
		}
		s.Slot, err = strconv.Atoi(s.Pod.Annotations[slotKey])
		require.NoError(t, err)
		pods, byID[s.ID] = append(pods, s.Assignment.Pod), s.Pod
	}
	e.Group.Assignments = nil
	for _, s := range split.Assign(e.Group.Governing.Mix, pods) {
		e.Group.Assignments = append(e.Group.Assignments, clusterstate.Assignment{Assignment: s, Pod: byID[s.ID]})
	}
	return e
}

// undo has another client put the slots of all pods back, as the watch shows; or the workload is scaled again and again.
func (p *packer) undo(t *testing.T) {
	t.Helper()
	for _, s := range spread().Group.Assignments {
		pod, err := p.kube.CoreV1().Pods("shop").Get(t.Context(), s.Pod.Name, metav1.GetOptions{})
		require.NoError(t, err)
		pod.Annotations = annotationsOf(s.Slot, s.Wants)
		require.NoError(t, p.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, "shop"))
	}
	p.packing.written = map[governing.GroupKey]exchanged{}
}

// nodesBelow is on how many nodes the replicas with the lowest slots run.
func nodesBelow(e *rebalance.Entry, size int) int {
	nodes := map[string]bool{}
	for _, s := range e.Group.Assignments[:size] {
		nodes[s.Pod.Node] = true
	}
	return len(nodes)
}

func TestReplicasExchangeSlotsOnceNothingHappens(t *testing.T) {
	p := newPacker(t, spread())
	before, exchanged := p.watch(t), testutil.ToFloat64(exchanges)
	p.later(t, leastQuiet-time.Second)
	require.Empty(t, patches(p.kube), "an autoscaler may take another step")
	p.later(t, time.Second)
	written := patches(p.kube)
	require.NotEmpty(t, written)
	for _, w := range written {
		metadata := w["metadata"].(map[string]any)
		annotations := metadata["annotations"].(map[string]any)
		require.Len(t, annotations, 2)
		require.Equal(t, annotations[costKey], "-"+annotations[slotKey].(string), "slot and deletion cost are one write")
		require.Equal(t, "7", metadata["resourceVersion"])
		require.NotEmpty(t, metadata["uid"])
	}
	require.InDelta(t, exchanged+float64(len(written))/2, testutil.ToFloat64(exchanges), 0)

	after := p.watch(t)
	for slot, s := range after.Group.Assignments {
		require.Equal(t, slot, s.Slot)
		require.False(t, s.Borrowed(), "slot %d is of the type of its node", slot)
		require.Empty(t, p.stale(&after.Group, &after.Group.Assignments[slot], s.Pod), "nothing is left to repair")
	}
	require.Equal(t, []int{5, 4}, []int{nodesBelow(&before, 8), nodesBelow(&before, 4)})
	require.Equal(t, []int{4, 2}, []int{nodesBelow(&after, 8), nodesBelow(&after, 4)})

	p.decide(after)
	p.later(t, time.Hour)
	require.Len(t, patches(p.kube), len(written), "nothing more is written")
}

func TestReplicasExchangeSlotsByDefaultWithAnAutoscaler(t *testing.T) {
	p := newPacker(t, spread())
	p.SetScaleIn(controller.ScaleInAuto)
	p.setFound(autoscaler.Found{ClusterAutoscaler: true})
	p.later(t, leastQuiet)
	require.NotEmpty(t, patches(p.kube))
}

func TestASoftLimitInADomainKeepsNoSlots(t *testing.T) {
	e := spread()
	e.Group.Governing.MaxPerDomain = []domains.Limit{{Key: "zone", Percent: 60, Soft: true}}
	p := newPacker(t, e)
	p.later(t, leastQuiet)
	require.NotEmpty(t, patches(p.kube))
}

func TestReplicasExchangeSlotsAfterWhatDelaysThem(t *testing.T) {
	for name, x := range map[string]struct{ begin, end func(*packer) }{
		"a spot storm": {
			func(p *packer) { p.Workloads.SetStorm(true) }, func(p *packer) { p.Workloads.SetStorm(false) },
		},
		"no autoscaler was looked for yet": {
			func(p *packer) { p.SetScaleIn(controller.ScaleInAuto) },
			func(p *packer) { p.found = &autoscaler.Found{Karpenter: true} },
		},
		"no autoscaler was there": {
			func(p *packer) {
				p.SetScaleIn(controller.ScaleInAuto)
				p.setFound(autoscaler.Found{})
			},
			func(p *packer) { p.setFound(autoscaler.Found{Karpenter: true}) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPacker(t, spread())
			x.begin(p)
			p.later(t, leastQuiet)
			require.Empty(t, patches(p.kube))
			x.end(p)
			require.Empty(t, p.packing.namespaces(p.clock.Now().Add(soon)), "a decision delays it")
			require.NotEmpty(t, p.packing.namespaces(p.clock.Now().Add(leastQuiet)))
			p.later(t, leastQuiet)
			require.NotEmpty(t, patches(p.kube))
		})
	}
}

func TestMoreAutoscalersDelayNoExchange(t *testing.T) {
	p := newPacker(t, spread())
	p.SetScaleIn(controller.ScaleInAuto)
	p.setFound(autoscaler.Found{Karpenter: true})
	p.later(t, leastQuiet-time.Second)
	require.True(t, p.setFound(autoscaler.Found{Karpenter: true, ClusterAutoscaler: true}))
	p.later(t, time.Second)
	require.NotEmpty(t, patches(p.kube))
}

func TestExchangesOfADeletedWorkloadAreForgotten(t *testing.T) {
	p := newPacker(t, spread())
	p.later(t, leastQuiet)
	require.Len(t, p.packing.written, 1)
	p.Workloads.Delete(spread().Group.Key)
	p.packing.namespaces(p.clock.Now().Add(shownWithin - time.Second))
	require.Len(t, p.packing.written, 1, "the watch may still show it")
	p.packing.namespaces(p.clock.Now().Add(shownWithin))
	require.Empty(t, p.packing.written)
}

func TestReplicasKeepTheirSlotsWhileSomethingIsGoingOn(t *testing.T) {
	for name, change := range map[string]func(*packer, *rebalance.Entry){
		"a move is in flight":            func(_ *packer, e *rebalance.Entry) { e.Moves = make([]rebalance.Move, 1) },
		"the workload is out of its mix": func(_ *packer, e *rebalance.Entry) { e.Verdict.Reason = rebalance.ReasonStabilizing },
		"a rollout":                      func(_ *packer, e *rebalance.Entry) { e.Group.Rollout.Rolling = true },
		"a pod terminates":               func(_ *packer, e *rebalance.Entry) { e.Group.Terminating = 1 },
		"a released pod still runs":      func(_ *packer, e *rebalance.Entry) { e.Group.Leaving = []types.UID{"released"} },
		"a pod is missing":               func(_ *packer, e *rebalance.Entry) { e.Group.Replicas++ },
		"a pod waits":                    func(_ *packer, e *rebalance.Entry) { e.Group.Assignments[11].Place = clusterstate.Pending },
		"a node departs":                 func(_ *packer, e *rebalance.Entry) { e.Group.Assignments[11].Place = clusterstate.Departing },
		"a pod is not Ready":             func(_ *packer, e *rebalance.Entry) { e.Group.Assignments[3].Pod.Ready = false },
		"a pod is borrowed":              func(_ *packer, e *rebalance.Entry) { e.Group.Assignments[1].On, e.Group.Assignments[3].On = sp, od },
		"an annotation is stale":         func(_ *packer, e *rebalance.Entry) { e.Group.Assignments[3].Pod.Annotations[typeKey] = "" },
		"a slot is free": func(_ *packer, e *rebalance.Entry) {
			s := &e.Group.Assignments[11]
			s.Slot, s.Pod.Annotations = 12, annotationsOf(12, s.Wants)
		},
		"the user chose a deletion cost":            func(_ *packer, e *rebalance.Entry) { e.Group.Assignments[3].Pod.CostOrigin = clusterstate.CostOfUser },
		"a StatefulSet removes the highest ordinal": func(_ *packer, e *rebalance.Entry) { e.Group.Identity = true },
		"replicas go in any order":                  func(_ *packer, e *rebalance.Entry) { e.Group.AnyOrder = true },
		"the mix leaves costs to others": func(_ *packer, e *rebalance.Entry) {
			respects := *e.Group.Governing
			respects.RespectCosts = true
			e.Group.Governing = &respects
		},
		"units of pods":                         func(_ *packer, e *rebalance.Entry) { e.Group.Units = true },
		"the owner does not count its replicas": func(_ *packer, e *rebalance.Entry) { e.Group.Counted = false },
		"the owner ignores deletion costs": func(_ *packer, e *rebalance.Entry) {
			e.Group.Assignments[0].Pod.Owner = &metav1.OwnerReference{Kind: "CloneSet"}
		},
		"a hard limit in each domain": func(_ *packer, e *rebalance.Entry) {
			limits := []domains.Limit{{Key: "rack", Count: 1, Soft: true}, {Key: "zone", Percent: 60}}
			e.Group.Governing.MaxPerDomain = limits
		},
		"the setting is Keep": func(p *packer, _ *rebalance.Entry) { p.SetScaleIn(controller.ScaleInKeep) },
		"there is no autoscaler": func(p *packer, _ *rebalance.Entry) {
			p.SetScaleIn(controller.ScaleInAuto)
			p.setFound(autoscaler.Found{})
		},
		"nothing is annotated": func(p *packer, _ *rebalance.Entry) { p.SetRepairs(0) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPacker(t, spread())
			e := spread()
			change(p, &e)
			p.Workloads.Put(e) // what was decided last
			p.packing.goOn(&e, p.clock.Now(), p.clock.Now())
			p.pack(t.Context(), "shop")
			assert.Empty(t, patches(p.kube))
			assert.Empty(t, p.packing.namespaces(noon.Add(2*time.Hour)), "it waits for the next decision")
		})
	}
}

// What changed after the decision is read from the API server before the first of the two writes.
func TestAnExchangeReadsBothPodsFirst(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"another pod of the name":     func(pod *corev1.Pod) { pod.UID = "another" },
		"the pod terminates":          func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(noon)) },
		"the pod has another slot":    func(pod *corev1.Pod) { pod.Annotations[slotKey] = "99" },
		"the cost is of the template": func(pod *corev1.Pod) { pod.Annotations[costKey] = "7" },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPacker(t, spread())
			p.kube.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				o, err := p.kube.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), "shop", a.(clienttesting.GetAction).GetName())
				require.NoError(t, err)
				pod := o.(*corev1.Pod).DeepCopy()
				if pod.Name == "web-10" || pod.Name == "web-11" || pod.Name == "web-9" {
					change(pod)
				}
				return true, pod, nil
			})
			p.later(t, leastQuiet)
			assert.Empty(t, patches(p.kube))
		})
	}
}

func TestAnExchangeWaitsForTheRateOfRepairs(t *testing.T) {
	p := newPacker(t, spread())
	p.SetRepairs(10)
	p.later(t, leastQuiet)
	require.Len(t, patches(p.kube), 2, "an exchange is not left half done")
	require.Negative(t, p.repairs.Tokens(), "both writes count")
	e := p.watch(t)
	p.decide(e)
	p.repairs = rate.NewLimiter(pace(60_000))
	p.later(t, soon-time.Second)
	require.Len(t, patches(p.kube), 2)
	p.later(t, time.Second)
	require.Greater(t, len(patches(p.kube)), 2, "its own exchanges do not delay the others")
}

func TestExchangesLeaveHalfOfTheRateToRepairs(t *testing.T) {
	p := newPacker(t, spread())
	p.repairs = rate.NewLimiter(rate.Every(time.Hour), 6)
	p.later(t, leastQuiet)
	require.Len(t, patches(p.kube), 4, "of six")
	require.True(t, p.repairs.AllowN(time.Now(), 2))
}

func TestExchangesOfAWorkloadAreBoundedInAnHour(t *testing.T) {
	p := newPacker(t, spread())
	for range 100 {
		p.undo(t)
		p.contest = newContest()
		p.decide(spread())
		p.later(t, leastQuiet)
	}
	require.Len(t, patches(p.kube), 2*perReplica*12, "two writes for each exchange, in fifty minutes")
}

func TestAnExchangeThatIsUndoneBacksOff(t *testing.T) {
	p := newPacker(t, spread())
	p.later(t, leastQuiet)
	for _, delay := range []time.Duration{firstDelay, 2 * firstDelay, 4 * firstDelay} {
		written := len(patches(p.kube))
		p.undo(t)
		p.packing.goOn(new(spread()), p.clock.Now(), p.clock.Now())
		p.later(t, delay-time.Second)
		require.Len(t, patches(p.kube), written, delay)
		p.later(t, time.Second)
		require.Greater(t, len(patches(p.kube)), written, delay)
	}
}

func TestAnExchangeKeepsTheBackOffOfRepairs(t *testing.T) {
	c, repair := newContest(), map[string]string{typeKey: "spot"}
	c.note("p", repair, 3, noon)
	c.exchanged("p", slotted(7), noon.Add(time.Minute))
	at, undone := c.allow("p", repair, noon.Add(time.Minute))
	require.Equal(t, 4, undone)
	require.Equal(t, noon.Add(time.Minute+8*firstDelay), at)

	c.exchanged("p", slotted(8), noon.Add(time.Hour+3*maxDelay))
	_, undone = c.allow("p", repair, noon.Add(time.Hour+3*maxDelay))
	require.Equal(t, 1, undone, "what was long ago does not count")
}

// The repair of annotations must not take the slots back that the watch has not shown.
func TestARepairWaitsForTheWatchToShowAnExchange(t *testing.T) {
	p := newPacker(t, spread())
	p.later(t, leastQuiet)
	written := len(patches(p.kube))
	p.decide(p.watch(t, map[string]int{"web-11": 11})) // the first of two writes gave slot 11 to another pod
	require.Len(t, p.staleIn("shop"), 1)
	p.packing.goOn(new(spread()), p.clock.Now(), p.clock.Now())
	p.pack(t.Context(), "shop")
	require.NotEmpty(t, p.packing.namespaces(p.clock.Now().Add(packTick)), "it is considered again once that is shown")
	require.Equal(t, soon, p.repair(t.Context(), "shop"))
	require.Len(t, patches(p.kube), written)
	p.clock.SetTime(p.clock.Now().Add(shownWithin))
	p.decide(p.watch(t))
	require.Zero(t, p.repair(t.Context(), "shop"))
	require.Len(t, patches(p.kube), written, "all is as it should be")
}

// Where a controller ends between the two writes, or the second one fails, two pods have one slot. The others of the cluster agree which
// one has it, and the repair makes the annotations say so.
func TestAnExchangeThatEndsHalfwayIsRepaired(t *testing.T) {
	for name, err := range map[string]error{
		"no answer":  errors.New("timeout"),
		"it is gone": apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "x"),
	} {
		for older := range 2 {
			t.Run(fmt.Sprint(name, older), func(t *testing.T) {
				e := spread()
				for i := range e.Group.Assignments {
					e.Group.Assignments[i].Created = int64(i * (1 - 2*older))
				}
				p := newPacker(t, e)
				n := 0
				p.kube.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					n++
					return n == 2, nil, err
				})
				p.later(t, leastQuiet)
				half := p.watch(t)
				slots := map[string]bool{}
				for _, s := range half.Group.Assignments {
					slots[s.Pod.Annotations[slotKey]] = true
				}
				require.Len(t, slots, 11, "one slot is on two pods")
				for slot, s := range half.Group.Assignments {
					require.Equal(t, slot, s.Slot)
					require.False(t, s.Borrowed(), "the split is exact at every size")
				}
				p.Workloads.Put(half)
				p.note(workloads.Decision{Namespace: "shop", Groups: []governing.GroupKey{half.Group.Key}})
				require.Zero(t, p.repair(t.Context(), "shop"))
				whole := p.watch(t)
				for i, s := range whole.Group.Assignments {
					require.Empty(t, p.stale(&whole.Group, &whole.Group.Assignments[i], s.Pod))
				}
			})
		}
	}
}
