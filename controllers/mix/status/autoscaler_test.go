// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/autoscaler"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/test/fakes"
)

var (
	karpenter         = autoscaler.Found{Karpenter: true}
	clusterAutoscaler = autoscaler.Found{ClusterAutoscaler: true}
)

// overwritten is a workload of which Karpenter has overwritten the deletion costs of two replicas.
func overwritten(name string) rebalance.Entry {
	e := gatedEntry(name)
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	if err != nil {
		panic(err)
	}
	state := clusterstate.New(clusterstate.Options{Classifier: classifier})
	for i := range 2 {
		s := &e.Group.Assignments[i]
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: s.Pod.Name, UID: s.Pod.UID, Labels: s.Pod.Labels,
			Annotations:     map[string]string{v1alpha1.SlotAnnotation: fmt.Sprint(s.Slot), v1alpha1.PodDeletionCostAnnotation: "-7"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name + "-7d", UID: "rs", Controller: new(true)}},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager:  "karpenter",
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:controller.kubernetes.io/pod-deletion-cost":{}}}}`),
			}},
		}}
		state.SetPod(p)
		s.Pod = state.Pod("shop", p.Name)
	}
	return e
}

// all are the workloads of a mix, all with deletion costs that are late.
func all(mine []rebalance.Entry) map[governing.GroupKey]bool {
	late := map[governing.GroupKey]bool{}
	for i := range mine {
		late[mine[i].Group.Key] = true
	}
	return late
}

func gatedEntry(name string) rebalance.Entry {
	e := exact(name)
	e.Group.Gated = true
	return e
}

func TestConditionsAboutAutoscalers(t *testing.T) {
	gates, costs := v1alpha1.ConditionGatesConfigured, v1alpha1.ConditionDeletionCostsIntact
	type want struct{ status, reason, message string }
	for name, tc := range map[string]struct {
		found *autoscaler.Found
		mine  []rebalance.Entry
		of    string
		want  *want // nil: the condition is absent
	}{
		"no autoscaler":                       {&autoscaler.Found{}, []rebalance.Entry{exact("a")}, gates, nil},
		"pods without the gate":               {&karpenter, []rebalance.Entry{gatedEntry("a"), outOfMix("c"), exact("b")}, gates, &want{"False", "PodsWithoutGate", "Karpenter cannot evaluate the mix, because pods have no scheduling gate; workloads: 2 of 3: Deployment b (b-7d), Deployment c (c-7d)"}},
		"the same with cluster-autoscaler":    {&clusterAutoscaler, []rebalance.Entry{exact("a")}, gates, &want{"False", "PodsWithoutGate", "cluster-autoscaler cannot evaluate the mix, because pods have no scheduling gate; workloads: 1 of 1: Deployment a (a-7d)"}},
		"all pods have the gate":              {&karpenter, []rebalance.Entry{gatedEntry("a")}, gates, &want{"True", "PodsGated", "no workload creates pods without the scheduling gate for which Karpenter launches nodes"}},
		"no workload yet":                     {&karpenter, nil, gates, &want{"True", "PodsGated", "no workload creates pods without the scheduling gate for which Karpenter launches nodes"}},
		"costs were overwritten":              {&karpenter, []rebalance.Entry{overwritten("b"), gatedEntry("a")}, costs, &want{"False", "Overwritten", "another client has overwritten the deletion costs of replicas, so a scale-down does not remove the highest slots first until Berth has restored them; workloads: Deployment b (b-7d)"}},
		"no cost was overwritten":             {&karpenter, []rebalance.Entry{gatedEntry("a")}, costs, &want{"True", "NotOverwritten", "the deletion costs of the slots are not overwritten, or restored within a minute"}},
		"without Karpenter they are a choice": {&clusterAutoscaler, []rebalance.Entry{overwritten("a")}, costs, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cm := mixOf()
			c := meta.FindStatusCondition(compose(cm, nil, tc.mine, nil, tc.found, all(tc.mine), noon).Conditions, tc.of)
			if tc.want == nil {
				assert.Nil(t, c)
				return
			}
			require.NotNil(t, c)
			assert.Equal(t, *tc.want, want{string(c.Status), c.Reason, c.Message})
			assert.Equal(t, int64(7), c.ObservedGeneration)

			cm.Status = compose(cm, nil, tc.mine, nil, tc.found, all(tc.mine), noon)
			later := compose(cm, nil, []rebalance.Entry{overwritten("z"), exact("y")}, nil, nil, nil, noon.Add(time.Hour))
			assert.Equal(t, c, meta.FindStatusCondition(later.Conditions, tc.of), "a new leader that has found nothing yet leaves it as it is")
			cm.Status = compose(cm, nil, tc.mine, nil, &autoscaler.Found{}, nil, noon)
			assert.Nil(t, meta.FindStatusCondition(cm.Status.Conditions, tc.of), "without an autoscaler it is removed")
		})
	}
}

func TestTheConditionOfAMixThatRespectsCosts(t *testing.T) {
	respecting := func(e rebalance.Entry) rebalance.Entry {
		respects := *e.Group.Governing
		respects.RespectCosts = true
		e.Group.Governing = &respects
		return e
	}
	cm := mixOf()
	cm.Spec.DeletionCost = v1alpha1.DeletionCostsRespect
	of := func(mine ...rebalance.Entry) *metav1.Condition {
		cm.Status = compose(cm, nil, mine, nil, &karpenter, all(mine), noon)
		assert.Nil(t, meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionDeletionCostsIntact), "Berth writes no costs")
		return meta.FindStatusCondition(cm.Status.Conditions, v1alpha1.ConditionScaleDownExact)
	}
	c := of(respecting(overwritten("b")), gatedEntry("a"))
	require.NotNil(t, c)
	assert.Equal(t, []string{"False", "DeletionCostsRespected", "a scale-down can leave the mix until rebalancing repairs it, because deletionCost " +
		"is Respect; set it to Enforce for exact scale-downs; workloads: 1 of 2: Deployment b (b-7d)"}, []string{string(c.Status), c.Reason, c.Message})
	assert.Nil(t, of(overwritten("b")), "the condition is removed")
	assert.Nil(t, of(), "there is nothing to scale down")
}

func TestTheOrderOfWorkloadsChangesNoCondition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var mine []rebalance.Entry
		for i := range rapid.IntRange(0, 9).Draw(t, "workloads") {
			draw := rapid.SampledFrom([]func(string) rebalance.Entry{exact, gatedEntry, overwritten, outOfMix})
			mine = append(mine, draw.Draw(t, "workload")(fmt.Sprint("w", i)))
		}
		found := &autoscaler.Found{Karpenter: rapid.Bool().Draw(t, "Karpenter"), ClusterAutoscaler: rapid.Bool().Draw(t, "cluster-autoscaler")}
		cm := mixOf()
		late := all(mine)
		for _, e := range mine {
			late[e.Group.Key] = rapid.Bool().Draw(t, "late")
		}
		first := compose(cm, nil, mine, nil, found, late, noon)
		cm.Status = stored(t, first)
		again := compose(cm, nil, rapid.Permutation(mine).Draw(t, "order"), nil, found, late, noon.Add(time.Hour))
		require.True(t, equality.Semantic.DeepEqual(cm.Status, again), "stored %+v\nthen %+v", cm.Status, again)
		for _, kind := range []string{v1alpha1.ConditionGatesConfigured, v1alpha1.ConditionDeletionCostsIntact} {
			c, applies := meta.FindStatusCondition(first.Conditions, kind), found.Any()
			if kind == v1alpha1.ConditionDeletionCostsIntact {
				applies = found.Karpenter
			}
			require.Equal(t, applies, c != nil, kind)
		}
	})
}

func TestOnlyAChangeOfAConditionIsRecorded(t *testing.T) {
	is := func(status metav1.ConditionStatus, age time.Duration) *metav1.Condition {
		return &metav1.Condition{Status: status, LastTransitionTime: metav1.NewTime(noon.Add(-age))}
	}
	for name, tc := range map[string]struct {
		was, is *metav1.Condition
		before  bool
		want    bool
	}{
		"it is absent":                              {nil, nil, false, false},
		"it is True":                                {nil, is("True", 0), false, false},
		"it becomes True":                           {is("False", time.Hour), is("True", 0), false, false},
		"it appears and is False":                   {nil, is("False", 0), false, true},
		"it becomes False for the first time":       {is("True", time.Second), is("False", 0), false, true},
		"it stays False":                            {is("False", time.Hour), is("False", time.Hour), false, false},
		"it was False a moment ago":                 {is("True", time.Minute), is("False", 0), true, false},
		"it was False before, and True for an hour": {is("True", time.Hour), is("False", 0), true, true},
		"it was False before, and absent":           {nil, is("False", 0), true, false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, turned(tc.was, tc.is, tc.before)) })
	}
}

// scene is a controller with one mix.
type scene struct {
	*Controller
	clock  *clocktesting.FakePassiveClock
	cache  *fakes.Cache
	events chan string
}

func newScene() *scene {
	recorder := record.NewFakeRecorder(100)
	s := &scene{clock: clocktesting.NewFakePassiveClock(noon), cache: fakes.NewCache(), events: recorder.Events}
	s.Controller = New(Options{Client: s.cache, Workloads: workloads.NewStore(), Mixes: governing.NewRegistry(), Recorder: recorder, Clock: s.clock})
	cm := mixOf()
	cm.UID = "mix"
	s.cache.Set(cm)
	return s
}

// after reconciles the mix with one workload, some time later.
func (s *scene) after(t require.TestingT, d time.Duration, e rebalance.Entry) *v1alpha1.CapacityMix {
	s.clock.SetTime(s.clock.Now().Add(d))
	s.Workloads.Put(e)
	s.note(workloads.Decision{Namespace: "shop", Groups: []governing.GroupKey{e.Group.Key}})
	_, err := s.Reconcile(context.Background(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "web"}})
	require.NoError(t, err)
	return s.cache.Mix("shop", "web")
}

func (s *scene) recorded() (list []string) {
	for len(s.events) > 0 {
		list = append(list, <-s.events)
	}
	return list
}

func TestOneEventForWhatKarpenterWritesAgainAndAgain(t *testing.T) {
	s := newScene()
	s.after(t, 0, overwritten("web"))
	assert.Empty(t, s.recorded(), "nothing is known of autoscalers yet")
	require.True(t, s.setFound(karpenter))
	s.after(t, time.Second, overwritten("web"))
	events := s.recorded()
	require.Len(t, events, 1)
	assert.Contains(t, events[0], "Warning DeletionCostsOverwritten Another client has overwritten the deletion costs of replicas")
	for range 5 { // rollouts
		cm := s.after(t, time.Hour, gatedEntry("web"))
		assert.True(t, meta.IsStatusConditionTrue(cm.Status.Conditions, v1alpha1.ConditionDeletionCostsIntact))
		s.after(t, time.Minute, overwritten("web"))
	}
	assert.Empty(t, s.recorded(), "the cause is the same")
	s.after(t, time.Minute, gatedEntry("web"))
	s.after(t, 2*time.Hour, overwritten("web"))
	assert.Len(t, s.recorded(), 1, "it was right for long")
}

func TestANewLeaderRepeatsNoEvent(t *testing.T) {
	s := newScene()
	s.setFound(karpenter)
	s.after(t, 0, exact("web"))
	events := s.recorded()
	require.Len(t, events, 1)
	assert.Contains(t, events[0], "Warning GatesMissing Karpenter cannot evaluate the mix, because pods have no scheduling gate; workloads: 1 of 1: Deployment web (web-7d)")

	next := newScene()
	next.cache.Set(s.cache.Mix("shop", "web"))
	next.after(t, time.Second, exact("web"))
	next.setFound(karpenter)
	next.after(t, time.Second, exact("web"))
	next.after(t, time.Second, gatedEntry("web"))
	next.after(t, time.Second, exact("web"))
	assert.Empty(t, next.recorded())
}

// Karpenter overwrites the costs each minute, and Berth restores them.
func TestCostsThatAreRestoredWithinAMinuteChangeNoStatus(t *testing.T) {
	s := newScene()
	s.SetRepairs(60)
	s.setFound(karpenter)
	version := s.after(t, 0, gatedEntry("web")).ResourceVersion
	for range 60 {
		s.after(t, 30*time.Second, overwritten("web"))
		cm := s.after(t, 30*time.Second, gatedEntry("web"))
		require.True(t, meta.IsStatusConditionTrue(cm.Status.Conditions, v1alpha1.ConditionDeletionCostsIntact))
		require.Equal(t, version, cm.ResourceVersion, "nothing is written")
	}
	require.Empty(t, s.recorded())
}

func TestCostsThatStayWrongForAMinuteAreReported(t *testing.T) {
	s := newScene()
	s.SetRepairs(60)
	s.setFound(karpenter)
	s.after(t, 0, overwritten("web"))
	again := func() time.Duration {
		result, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "web"}})
		require.NoError(t, err)
		return result.RequeueAfter
	}
	require.Equal(t, costsLate, again(), "no decision has to follow")
	intact := func(cm *v1alpha1.CapacityMix) bool {
		return meta.IsStatusConditionTrue(cm.Status.Conditions, v1alpha1.ConditionDeletionCostsIntact)
	}
	require.True(t, intact(s.after(t, costsLate-time.Second, overwritten("web"))))
	s.clock.SetTime(s.clock.Now().Add(time.Second))
	require.Zero(t, again())
	cm := s.cache.Mix("shop", "web")
	require.False(t, intact(cm))
	require.Len(t, s.recorded(), 1)

	// A new leader has seen the costs for a moment only, and leaves the status as it is.
	next := newScene()
	next.SetRepairs(60)
	next.cache.Set(cm)
	next.setFound(karpenter)
	next.clock.SetTime(s.clock.Now())
	require.False(t, intact(next.after(t, time.Second, overwritten("web"))))
	require.True(t, intact(next.after(t, time.Second, gatedEntry("web"))), "all costs are restored")
}

func TestANewLeaderRepeatsNoEventAboutCosts(t *testing.T) {
	s := newScene()
	s.setFound(karpenter)
	s.after(t, 0, overwritten("web"))
	require.Len(t, s.recorded(), 1)
	cm := s.after(t, time.Minute, gatedEntry("web"))
	for age, events := range map[time.Duration]int{10 * time.Minute: 0, 2 * time.Hour: 1} {
		next := newScene()
		next.cache.Set(cm)
		next.setFound(karpenter)
		next.clock.SetTime(s.clock.Now())
		next.after(t, age, gatedEntry("web"))
		cm := next.after(t, time.Second, overwritten("web"))
		require.True(t, meta.IsStatusConditionFalse(cm.Status.Conditions, v1alpha1.ConditionDeletionCostsIntact))
		require.Len(t, next.recorded(), events, age)
	}
}

func TestOtherAutoscalersHaveEveryStatusComposedAgain(t *testing.T) {
	s := newScene()
	before := s.autoscalers()
	cm := s.after(t, 0, exact("web"))
	assert.True(t, s.isCurrent(cm))
	assert.True(t, s.setFound(karpenter))
	assert.False(t, s.isCurrent(cm))
	s.setCurrent(client.ObjectKeyFromObject(cm), cm.ResourceVersion, before)
	assert.False(t, s.isCurrent(cm), "a status that was composed before does not count")
	cm = s.after(t, 0, exact("web"))
	assert.True(t, s.isCurrent(cm))
	assert.False(t, s.setFound(karpenter))
	assert.True(t, s.isCurrent(cm), "nothing has changed")
}

func TestTheMetricCountsOverwrittenCosts(t *testing.T) {
	b := workloads.NewStore()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(&Collector{Workloads: b, Clock: clocktesting.NewFakePassiveClock(noon)})
	other := exact("other")
	other.Mix = "other"
	b.Put(overwritten("a"))
	b.Put(overwritten("b"))
	b.Put(other)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP berth_mix_overwritten_cost_pods Replicas whose deletion cost another client has overwritten, so that a scale-down is not exact.
# TYPE berth_mix_overwritten_cost_pods gauge
berth_mix_overwritten_cost_pods{mix="other",namespace="shop"} 0
berth_mix_overwritten_cost_pods{mix="web",namespace="shop"} 4
`), "berth_mix_overwritten_cost_pods"))
}
