// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
)

const (
	slotKey = v1alpha1.SlotAnnotation
	typeKey = v1alpha1.CapacityTypeAnnotation
	mixKey  = v1alpha1.MixAnnotation
	costKey = v1alpha1.PodDeletionCostAnnotation
)

func TestStale(t *testing.T) {
	type assignment = clusterstate.Assignment
	type changes = []func(*assignment)
	good := func() map[string]string {
		return map[string]string{slotKey: "2", typeKey: "spot", mixKey: "capacitymix/web", costKey: "-2"}
	}
	all, allButCost := good(), good()
	delete(allButCost, costKey)
	set := func(key, value string) func(*assignment) {
		return func(s *assignment) { s.Pod.Annotations[key] = value }
	}
	noCost := func(s *assignment) { delete(s.Pod.Annotations, costKey) }
	bare := func(s *assignment) { clear(s.Pod.Annotations) }
	usersCost := func(value string) func(*assignment) {
		return func(s *assignment) { s.Pod.Annotations[costKey], s.Pod.CostOrigin = value, clusterstate.CostOfUser }
	}
	overwritten := func(value, owner string) func(*assignment) {
		return func(s *assignment) {
			s.Pod.Annotations[costKey], s.Pod.CostOrigin = value, clusterstate.CostOverwritten
			s.Pod.Owner = &metav1.OwnerReference{APIVersion: "apps/v1", Kind: owner, Name: "web"}
		}
	}
	elsewhere := func(s *assignment) { s.Pod.SchedulerName = "default-scheduler" }
	place := func(p clusterstate.Place) func(*assignment) { return func(s *assignment) { s.Place = p } }
	tests := map[string]struct {
		changes changes
		want    map[string]string
	}{
		"all is well":                      {},
		"an older pod holds the same slot": {changes{set(slotKey, "1"), set(costKey, "-1")}, map[string]string{slotKey: "2", costKey: "-2"}},
		"the slot was edited and the cost follows the slot that it had": {
			changes{set(slotKey, "1048575"), set(costKey, "-9")}, map[string]string{slotKey: "2", costKey: "-2"},
		},
		"the slot is wrong and the cost is the user's":  {changes{set(slotKey, "1"), usersCost("-1")}, map[string]string{slotKey: "2"}},
		"the slot is wrong and there is no cost":        {changes{set(slotKey, "1"), noCost}, map[string]string{slotKey: "2", costKey: "-2"}},
		"the cost was removed":                          {changes{noCost}, map[string]string{costKey: "-2"}},
		"only the cost differs":                         {changes{set(costKey, "5")}, map[string]string{costKey: "-2"}},
		"only the cost differs and it is the user's":    {changes{usersCost("5")}, nil},
		"another client overwrote the cost":             {changes{overwritten("-7", "ReplicaSet")}, map[string]string{costKey: "-2"}},
		"another client wrote the cost of the slot":     {changes{overwritten("-2", "ReplicaSet")}, nil},
		"another client wrote a cost that no one reads": {changes{overwritten("-7", "StatefulSet")}, nil},
		"the workload is older than its mix":            {changes{bare}, all},
		"the same, and the cost is the user's":          {changes{bare, usersCost("7")}, allButCost},
		"the gate was removed without a slot, whichever scheduler placed it": {
			changes{
				bare, set(v1alpha1.UngateReasonAnnotation, v1alpha1.UngateReasonNoLeader), elsewhere, func(s *assignment) { s.Pod.UsesGate = true },
			}, all,
		},
		"the pod names a capacity type itself": {changes{bare, func(s *assignment) { s.Pod.Pinned = true }}, nil},
		"another scheduler placed the pod":     {changes{bare, elsewhere}, nil},
		"the mix changed the type of the slot": {changes{set(typeKey, "on-demand")}, map[string]string{typeKey: "spot"}},
		"another mix governs by now":           {changes{set(mixKey, "default")}, map[string]string{mixKey: "capacitymix/web"}},
		"the pod is about to go":               {changes{set(slotKey, "9"), place(clusterstate.Departing)}, nil},
		"the pod has no node yet":              {changes{set(slotKey, "9"), place(clusterstate.Pending)}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, _ := reconciler(1000)
			e := exact("web")
			s := &e.Group.Assignments[2]
			s.Pod.Annotations, s.Pod.SchedulerName = good(), builders.Scheduler
			for _, change := range tc.changes {
				change(s)
			}
			assert.Equal(t, tc.want, r.stale(&e.Group, s, s.Pod))
		})
	}
}

func TestBerthWritesNoCostWhereTheMixRespectsThoseOfOthers(t *testing.T) {
	rs := &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web"}
	for name, tc := range map[string]struct {
		cost   string
		origin clusterstate.CostOrigin
		want   map[string]string
	}{
		"there is none":               {"", clusterstate.CostOfBerth, nil},
		"that of the slot is removed": {"-2", clusterstate.CostOfBerth, map[string]string{costKey: noCost}},
		"that of the user stays":      {"7", clusterstate.CostOfUser, nil},
		"that of Karpenter stays":     {"-7", clusterstate.CostOverwritten, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := reconciler(1000)
			e := exact("web")
			respects := *e.Group.Governing
			respects.RespectCosts = true
			e.Group.Governing = &respects
			s := &e.Group.Assignments[2]
			s.Pod.Owner, s.Pod.CostOrigin = rs, tc.origin
			s.Pod.Annotations = map[string]string{slotKey: "2", typeKey: "spot", mixKey: "capacitymix/web"}
			if tc.cost != "" {
				s.Pod.Annotations[costKey] = tc.cost
			}
			assert.Equal(t, tc.want, r.stale(&e.Group, s, s.Pod))
		})
	}
}

func TestTheCostOfBerthIsRemovedByItsPatch(t *testing.T) {
	r, kube := reconciler(1000)
	e := staleEntry()
	respects := *e.Group.Governing
	respects.RespectCosts = true
	e.Group.Governing = &respects
	r.Workloads.Put(e)
	r.note(decided())
	assert.Zero(t, r.repair(t.Context(), "shop"))
	got := patches(kube)
	require.Len(t, got, 3)
	assert.Equal(t, map[string]any{slotKey: "0", costKey: nil}, got[2]["metadata"].(map[string]any)["annotations"])
}

func TestARepairIsCompleteAndLeavesTheUsersCostAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := &corev1.Pod{}
		pod.Annotations = map[string]string{"example.com/other": "1"}
		for _, key := range []string{slotKey, typeKey, mixKey, costKey} {
			if rapid.Bool().Draw(t, key) {
				pod.Annotations[key] = rapid.OneOf(rapid.SampledFrom([]string{"", "0", "-0", "5", "-5", "1048575", "spot"}), rapid.String()).Draw(t, "value of "+key)
			}
		}
		users, slot := rapid.Bool().Draw(t, "the cost is the user's"), rapid.IntRange(0, split.MaxSlot).Draw(t, "slot")
		p := &governing.Mix{Source: "capacitymix/web", Mix: split.New(rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 5).Draw(t, "min"))}
		before := maps.Clone(pod.Annotations)
		want := differing(live{pod}, users, slot, p)
		require.Equal(t, before, pod.Annotations)
		maps.Copy(pod.Annotations, want)
		require.Empty(t, differing(live{pod}, users, slot, p), "one write is enough")
		require.Equal(t, strconv.Itoa(slot), pod.Annotations[slotKey])
		if users {
			require.Equal(t, before[costKey], pod.Annotations[costKey])
		} else {
			require.Equal(t, "-"+strconv.Itoa(slot), pod.Annotations[costKey])
		}
		require.Equal(t, "1", pod.Annotations["example.com/other"])
	})
}

// A client that undoes every repair at once has Berth write less and less.
func TestRepairsThatAreUndoneBecomeRare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, now, wrote := newContest(), noon, 0
		for end := noon.Add(24 * time.Hour); now.Before(end); {
			want := map[string]string{costKey: "-2"}
			if rapid.Bool().Draw(t, "more") {
				want[slotKey] = "2"
			}
			c.overwritten("uid", now)
			at, undone := c.allow("uid", want, now)
			if at.After(now) {
				now = at
				continue
			}
			c.note("uid", want, undone, now)
			wrote++
		}
		require.LessOrEqual(t, wrote, 33)
	})
}

func TestARepairOfSomethingElseDoesNotWait(t *testing.T) {
	c := newContest()
	c.note("uid", map[string]string{slotKey: "2", typeKey: "spot"}, 0, noon)
	at, undone := c.allow("uid", map[string]string{typeKey: "on-demand"}, noon)
	assert.Equal(t, []any{noon, 0}, []any{at, undone}, "the mix has changed")
	at, undone = c.allow("uid", map[string]string{slotKey: "2"}, noon)
	assert.Equal(t, []any{noon.Add(firstDelay), 1}, []any{at, undone})
	at, undone = c.allow("uid", map[string]string{slotKey: "2"}, noon.Add(3*time.Hour))
	assert.Equal(t, []any{noon.Add(3 * time.Hour), 0}, []any{at, undone}, "that was another time")
}

func staleEntry() rebalance.Entry {
	e := exact("web")
	for i, s := range e.Group.Assignments {
		s.Pod.Annotations = map[string]string{slotKey: "9", typeKey: s.Wants.String(), mixKey: "capacitymix/web", costKey: "-9"}
		s.Pod.SchedulerName = builders.Scheduler
		if i > 2 {
			s.Pod.SchedulerName, s.Pod.Annotations = "default-scheduler", nil
		}
	}
	return e
}

// stalePods are the pods of staleEntry, as the API server has them.
func stalePods() (pods []*corev1.Pod) {
	for _, s := range staleEntry().Group.Assignments {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: s.Pod.Name, UID: s.Pod.UID, ResourceVersion: "7", Annotations: s.Pod.Annotations,
		}})
	}
	return pods
}

// decided is that something was decided about staleEntry.
func decided() workloads.Decision {
	return workloads.Decision{Namespace: "shop", Groups: []governing.GroupKey{staleEntry().Group.Key}}
}

func reconciler(perMinute int) (*Controller, *fake.Clientset) {
	kube := fake.NewClientset()
	for _, pod := range stalePods() {
		_ = kube.Tracker().Add(pod)
	}
	b := workloads.NewStore()
	b.Put(staleEntry())
	r := New(Options{
		Kube: kube, Workloads: b, Recorder: record.NewFakeRecorder(10), RepairsPerMinute: perMinute, Clock: clocktesting.NewFakePassiveClock(noon),
		SchedulerNames: []string{builders.Scheduler},
	})
	r.note(workloads.Decision{Namespace: "shop", Groups: []governing.GroupKey{staleEntry().Group.Key, exact("fine").Group.Key}})
	return r, kube
}

func patches(kube *fake.Clientset) (list []map[string]any) {
	for _, a := range kube.Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok {
			var body map[string]any
			_ = json.Unmarshal(p.GetPatch(), &body)
			list = append(list, body)
		}
	}
	return list
}

func TestARepairPatchesThePodAsItWasRead(t *testing.T) {
	r, kube := reconciler(1000)
	assert.Zero(t, r.repair(t.Context(), "shop"))
	got := patches(kube)
	require.Len(t, got, 3)
	assert.Equal(t, map[string]any{"metadata": map[string]any{"uid": "web-0", "resourceVersion": "7", "annotations": map[string]any{slotKey: "0", costKey: "-0"}}}, got[2])
	assert.Zero(t, r.repair(t.Context(), "elsewhere"))
	assert.Len(t, patches(kube), 3)
}

func TestRepairsAreTurnedOffAndOnAgain(t *testing.T) {
	r, kube := reconciler(1000)
	r.SetRepairs(0)
	assert.Zero(t, r.repair(t.Context(), "shop"), "nothing is requeued")
	assert.Empty(t, patches(kube))
	assert.False(t, r.note(decided()))

	r.SetRepairs(1000)
	assert.True(t, r.note(decided()))
	r.repair(t.Context(), "shop")
	assert.NotEmpty(t, patches(kube))
}

func TestRepairIsBounded(t *testing.T) {
	r, kube := reconciler(0)
	assert.Zero(t, r.repair(t.Context(), "shop"))
	assert.Empty(t, patches(kube))
	r, kube = reconciler(10)
	assert.Equal(t, soon, r.repair(t.Context(), "shop"), "the rest follows")
	assert.Len(t, patches(kube), 1)
	assert.Equal(t, soon, r.repair(t.Context(), "shop"), "it is not forgotten")
}

func TestRepairLeavesAPodThatIsGoneAlone(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, tc := range map[string]struct {
		err  error
		want time.Duration
	}{
		"it is gone":              {apierrors.NewNotFound(pods, "x"), 0},
		"it has changed":          {apierrors.NewConflict(pods, "x", nil), soon},
		"the API server is away":  {apierrors.NewInternalError(assert.AnError), soon},
		"the controller must not": {apierrors.NewForbidden(pods, "x", nil), soon},
	} {
		t.Run(name, func(t *testing.T) {
			r, kube := reconciler(1000)
			kube.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			assert.Equal(t, tc.want, r.repair(t.Context(), "shop"))
		})
	}
}

func TestARepairReadsThePodFirst(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"it is another pod of the same name": func(p *corev1.Pod) { p.UID = "another" },
		"it is terminating":                  func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(noon)) },
		"it has a node by now":               func(p *corev1.Pod) { p.Spec.NodeName = "n" },
		"it was repaired":                    func(p *corev1.Pod) { p.Annotations[slotKey], p.Annotations[costKey] = "0", "-0" },
	} {
		t.Run(name, func(t *testing.T) {
			r, kube := reconciler(1000)
			kube.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				pod := stalePods()[0]
				change(pod)
				return a.(clienttesting.GetAction).GetName() == pod.Name, pod, nil
			})
			assert.Zero(t, r.repair(t.Context(), "shop"))
			assert.Len(t, patches(kube), 2, "web-0 is left alone")
		})
	}
}

func TestAnotherWriterIsReportedOnce(t *testing.T) {
	r, kube := reconciler(6000)
	events := r.Recorder.(*record.FakeRecorder).Events
	fake := clocktesting.NewFakePassiveClock(noon)
	r.Clock = fake
	require.Zero(t, r.repair(t.Context(), "shop"))
	for range 6 {
		for _, pod := range stalePods() { // undone; the store still has what was there before
			require.NoError(t, kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace))
		}
		r.note(decided())
		wait := r.repair(t.Context(), "shop")
		require.Positive(t, wait)
		fake.SetTime(fake.Now().Add(wait))
		require.Zero(t, r.repair(t.Context(), "shop"))
	}
	require.Len(t, events, 1)
	assert.Contains(t, <-events, "Warning AnnotationConflict Another client changes the slot annotations of pod web-2")
}

func TestMetricsShowTheEntries(t *testing.T) {
	b := workloads.NewStore()
	c := &Collector{Workloads: b, Clock: clocktesting.NewFakePassiveClock(noon)}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	const storm = `
# HELP berth_mix_spot_storm 1 during a spot storm, in which nothing is moved.
# TYPE berth_mix_spot_storm gauge
berth_mix_spot_storm `
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(storm+"0\n")), "nothing else")

	moving := outOfMix("moving")
	moving.Moves = make([]rebalance.Move, 2)
	moving.Placeholders = make([]rebalance.Placeholder, 1)
	other := entry("other", od, sp, capacity.Unknown)
	other.Mix = ""
	other.Group.Assignments[0].Place, other.Group.Assignments[1].Place = clusterstate.Departing, clusterstate.Pending
	other.Group.Governing = &governing.Mix{Source: governing.SourceDefault, Mix: other.Group.Governing.Mix}
	b.Put(exact("a"))
	b.Put(outOfMix("b"))
	b.Put(moving)
	b.Put(other)
	b.SetStorm(true)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP berth_mix_pods Replicas that have a node that is not departing, by the capacity type they run on: spot, on-demand or unknown.
# TYPE berth_mix_pods gauge
berth_mix_pods{mix="",namespace="shop",type="on-demand"} 0
berth_mix_pods{mix="",namespace="shop",type="spot"} 0
berth_mix_pods{mix="",namespace="shop",type="unknown"} 1
berth_mix_pods{mix="web",namespace="shop",type="on-demand"} 8
berth_mix_pods{mix="web",namespace="shop",type="spot"} 7
berth_mix_pods{mix="web",namespace="shop",type="unknown"} 0
# HELP berth_mix_desired_pods Desired replicas by capacity type.
# TYPE berth_mix_desired_pods gauge
berth_mix_desired_pods{mix="",namespace="shop",type="on-demand"} 2
berth_mix_desired_pods{mix="",namespace="shop",type="spot"} 1
berth_mix_desired_pods{mix="web",namespace="shop",type="on-demand"} 6
berth_mix_desired_pods{mix="web",namespace="shop",type="spot"} 9
# HELP berth_mix_pending_pods Replicas without a node.
# TYPE berth_mix_pending_pods gauge
berth_mix_pending_pods{mix="",namespace="shop"} 1
berth_mix_pending_pods{mix="web",namespace="shop"} 0
# HELP berth_mix_departing_pods Replicas on departing nodes.
# TYPE berth_mix_departing_pods gauge
berth_mix_departing_pods{mix="",namespace="shop"} 1
berth_mix_departing_pods{mix="web",namespace="shop"} 0
# HELP berth_mix_deviation_pods Replicas that would have to move for every workload to have its mix.
# TYPE berth_mix_deviation_pods gauge
berth_mix_deviation_pods{mix="",namespace="shop"} 1
berth_mix_deviation_pods{mix="web",namespace="shop"} 2
# HELP berth_mix_unsatisfied_seconds How long the workload that is out of its mix for the longest time has been so; 0 if none is.
# TYPE berth_mix_unsatisfied_seconds gauge
berth_mix_unsatisfied_seconds{mix="",namespace="shop"} 0
berth_mix_unsatisfied_seconds{mix="web",namespace="shop"} 60
# HELP berth_mix_blocked_workloads Workloads out of their mix of which no replica is moved, by reason.
# TYPE berth_mix_blocked_workloads gauge
berth_mix_blocked_workloads{mix="web",namespace="shop",reason="InsufficientCapacity"} 1
# HELP berth_mix_moving_pods Replicas being moved: evicted, and their replacement not Ready yet.
# TYPE berth_mix_moving_pods gauge
berth_mix_moving_pods{mix="",namespace="shop"} 0
berth_mix_moving_pods{mix="web",namespace="shop"} 2
# HELP berth_mix_overwritten_cost_pods Replicas whose deletion cost another client has overwritten, so that a scale-down is not exact.
# TYPE berth_mix_overwritten_cost_pods gauge
berth_mix_overwritten_cost_pods{mix="",namespace="shop"} 0
berth_mix_overwritten_cost_pods{mix="web",namespace="shop"} 0
# HELP berth_mix_placeholder_pods Placeholder pods that hold or request capacity for replicas on the wrong capacity type.
# TYPE berth_mix_placeholder_pods gauge
berth_mix_placeholder_pods{mix="",namespace="shop"} 0
berth_mix_placeholder_pods{mix="web",namespace="shop"} 1
`+storm+"1\n")))

	for _, e := range b.All() {
		if e.Group.Key != other.Group.Key {
			b.Delete(e.Group.Key)
		}
	}
	n, err := testutil.GatherAndCount(registry, "berth_mix_pods")
	require.NoError(t, err)
	assert.Equal(t, 3, n, "the series of what is gone are gone")
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
}
