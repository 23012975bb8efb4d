// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/rebalance/stepqueue"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// testController has a cluster state with a spot and an on-demand node. It cannot prove that there is capacity, so it evicts
// nothing.
func testController(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	require.NoError(t, policyv1.AddToScheme(scheme))
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	mixes := governing.NewRegistry()
	for _, o := range objects {
		if cm, ok := o.(*v1alpha1.CapacityMix); ok {
			_ = mixes.Set(cm)
		}
	}
	f := clusterstate.New(clusterstate.Options{Classifier: classifier, Conventions: governing.Conventions{Prefixes: []string{governing.PrefixBerth}}, Mixes: mixes})
	for _, typ := range []capacity.Type{sp, od} {
		f.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: typ.String(), Labels: map[string]string{"karpenter.sh/capacity-type": typ.String()}}})
	}
	c, err := New(Options{
		State: f, Workloads: workloads.NewStore(), Clock: clocktesting.NewFakeClock(noon), Recorder: record.NewFakeRecorder(100),
		Reader:  fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		Profile: &simulation.Profile{SchedulerNames: []string{"berth-scheduler"}}, Decided: func(workloads.Decision) {},
		Tuning: Tuning{
			Defaults:             rebalance.Settings{Mode: rebalance.Evict, MaxConcurrent: 1, Stabilization: time.Minute},
			ClusterMaxConcurrent: 5, Backoff: time.Minute, MaxBackoff: 10 * time.Minute, MoveTimeout: 5 * time.Minute,
		},
		Resync: time.Hour,
	})
	require.NoError(t, err)
	return fixtureOf(c)
}

// fixture is a controller with a queue that the test drains.
type fixture struct {
	*Controller
	queue *stepqueue.Queue
}

func fixtureOf(c *Controller) *fixture {
	f := &fixture{Controller: c, queue: stepqueue.New(c.Order(), c.Clock)}
	c.Use(f.queue)
	return f
}

func (f *fixture) setTime(now time.Time) { f.Clock.(*clocktesting.FakeClock).SetTime(now) }

// drain reconciles until nothing is due.
func (f *fixture) drain(t *testing.T) {
	t.Helper()
	f.queue.Drain(t.Context(), f.Controller)
}

// reconcile reconciles all groups of a namespace.
func (f *fixture) reconcile(t *testing.T, namespace string) {
	t.Helper()
	f.Changed(governing.GroupKey{Namespace: namespace})
	f.drain(t)
}

// evaluationOf is that of an entry, at the time of the clock.
func (f *fixture) evaluationOf(e rebalance.Entry) *evaluation {
	return &evaluation{Evaluation: &rebalance.Evaluation{Entry: e, Now: f.Clock.Now()}}
}

func capacityMix(change ...func(*v1alpha1.CapacityMix)) *v1alpha1.CapacityMix {
	cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: v1alpha1.CapacityMixSpec{SpotPercent: 100}}
	for _, c := range change {
		c(cm)
	}
	return cm
}

func setOfOne() *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "db", Generation: 1}, Status: appsv1.StatefulSetStatus{ObservedGeneration: 1}}
}

func podOfSet(uid types.UID, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: uid, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "db", Controller: new(true)},
	}}}
	p.Spec.NodeName, p.Spec.SchedulerName = node, "berth-scheduler"
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

var keyOfSet = governing.GroupKey{Namespace: "shop", ID: "db"}

// entryIn is a workload of a namespace that has no move.
func entryIn(namespace string) *rebalance.Entry {
	return &rebalance.Entry{Group: clusterstate.Group{Key: governing.GroupKey{Namespace: namespace}}}
}

func TestAMoveIsNotForgottenWhileTheOnlyReplicaIsGone(t *testing.T) {
	p := testController(t, capacityMix())
	p.State.SetOwner(setOfOne())
	p.State.SetPod(podOfSet("old", "on-demand"))
	p.reconcile(t, "shop")
	e, known := p.Workloads.Get(keyOfSet)
	require.True(t, known)
	assert.Equal(t, rebalance.ReasonStabilizing, e.Verdict.Reason)
	e.Moves = []rebalance.Move{{UID: "old", Namespace: "shop", Name: "db-0", Started: noon, Target: sp}}
	p.Workloads.Put(e)

	p.State.DeletePod(types.NamespacedName{Namespace: "shop", Name: "db-0"}, "old")
	p.setTime(noon.Add(time.Minute))
	p.reconcile(t, "shop")
	e, known = p.Workloads.Get(keyOfSet)
	require.True(t, known, "the replacement is about to come")
	assert.Len(t, e.Moves, 1)
	assert.Empty(t, e.Group.Assignments)
	assert.Equal(t, noon.Add(rebalance.SlowAfter), p.queue.At(keyOfSet))
	cluster := p.Workloads.Budgets(entryIn("shop")).InFlight
	assert.Equal(t, 1, cluster)

	p.State.SetPod(podOfSet("new", "on-demand")) // on the wrong type again
	p.setTime(noon.Add(2 * time.Minute))
	p.reconcile(t, "shop")
	e, _ = p.Workloads.Get(keyOfSet)
	assert.Empty(t, e.Moves)
	assert.Equal(t, int32(1), e.Failures)
	assert.Equal(t, rebalance.ReasonBackingOff, e.Verdict.Reason, "and not moved again at once")
}

func TestAGroupThatDoesNotComeBackIsForgotten(t *testing.T) {
	for name, vanish := range map[string]func(*fixture) *fixture{
		"its controller is deleted": func(p *fixture) *fixture { p.State.DeleteOwner(setOfOne().GetUID()); return p },
		"it is scaled to nothing": func(p *fixture) *fixture {
			s := setOfOne()
			s.Spec.Replicas = new(int32(0))
			p.State.SetOwner(s)
			return p
		},
		"no replacement has come in time": func(p *fixture) *fixture { p.setTime(noon.Add(5 * time.Minute)); return p },
		"nothing was being moved": func(p *fixture) *fixture {
			e, _ := p.Workloads.Get(keyOfSet)
			e.Moves = nil
			p.Workloads.Put(e)
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := testController(t, capacityMix())
			p.State.SetOwner(setOfOne())
			p.State.SetPod(podOfSet("old", "on-demand"))
			p.reconcile(t, "shop")
			e, _ := p.Workloads.Get(keyOfSet)
			e.Moves = []rebalance.Move{{UID: "old", Started: noon}}
			p.Workloads.Put(e)
			p.State.DeletePod(types.NamespacedName{Namespace: "shop", Name: "db-0"}, "old")
			p = vanish(p)
			p.reconcile(t, "shop")
			assert.Empty(t, p.Workloads.All())
		})
	}
}

func TestAWindowThatCannotBeReadIsAVerdict(t *testing.T) {
	p := testController(t, capacityMix(func(cm *v1alpha1.CapacityMix) {
		cm.Spec.Rebalance = &v1alpha1.RebalanceSpec{Windows: []v1alpha1.RebalanceWindow{{Schedule: "99 * * * *", DurationSeconds: 60}}}
	}))
	p.State.SetPod(podOfSet("a", "on-demand"))
	p.reconcile(t, "shop")
	e, _ := p.Workloads.Get(keyOfSet)
	assert.Equal(t, rebalance.ReasonInvalidWindow, e.Verdict.Reason)
	assert.Contains(t, e.Verdict.Message, "windows[0].schedule")

	p.State.SetPod(podOfSet("a", "spot"))
	p.reconcile(t, "shop")
	e, _ = p.Workloads.Get(keyOfSet)
	assert.Equal(t, rebalance.ReasonOnTarget, e.Verdict.Reason, "nothing is blocked where nothing has to move")
}

func TestRemembered(t *testing.T) {
	since, retry := metav1.NewTime(noon.Add(-time.Hour)), metav1.NewTime(noon.Add(time.Minute))
	cm := capacityMix(func(cm *v1alpha1.CapacityMix) {
		cm.Status.Workloads = []v1alpha1.WorkloadMix{
			{Kind: "Deployment", Name: "web", Revision: "web-old"},
			{Kind: "Deployment", Name: "web", Revision: "web-7d", MixNotSatisfiedSince: &since, RetryTime: &retry, FailedMoves: 3},
			{Kind: "StatefulSet", Name: "web", Revision: "web-7d", FailedMoves: 9},
		}
	})
	w := group().Workload
	of := func(cm *v1alpha1.CapacityMix) rebalance.Entry {
		return rebalance.FromStatus(w, cm, noon, 10*time.Minute)
	}
	assert.Equal(t, rebalance.Entry{WrongSince: since.Time, RetryAt: retry.Time, Failures: 3}, of(cm))
	w.Revision = "web-old"
	assert.Equal(t, rebalance.Entry{}, of(cm))
	w.Name = "other"
	assert.Equal(t, rebalance.Entry{}, of(cm))
	assert.Equal(t, rebalance.Entry{}, of(nil))
}

// D17: a leader whose clock is wrong wrote it, or someone forged it.
func TestTimesOfAStatusHoldNothingForLongerThanABackOff(t *testing.T) {
	future := metav1.NewTime(noon.Add(48 * time.Hour))
	for _, forged := range []int32{-1, 1 << 30} {
		cm := capacityMix(func(cm *v1alpha1.CapacityMix) {
			cm.Status.Workloads = []v1alpha1.WorkloadMix{{Kind: "Deployment", Name: "web", Revision: "web-7d", MixNotSatisfiedSince: &future, RetryTime: &future, FailedMoves: forged}}
		})
		e := rebalance.FromStatus(group().Workload, cm, noon, 10*time.Minute)
		assert.Equal(t, noon, e.WrongSince)
		assert.Equal(t, noon.Add(10*time.Minute), e.RetryAt)
		assert.LessOrEqual(t, e.Failures, int32(1000))
		assert.GreaterOrEqual(t, e.Failures, int32(0))
	}
}

func TestANewLeaderGoesOnFromTheStatus(t *testing.T) {
	retry := metav1.NewTime(noon.Add(3 * time.Minute))
	since := metav1.NewTime(noon.Add(-time.Hour))
	p := testController(t, capacityMix(func(cm *v1alpha1.CapacityMix) {
		cm.Status.Workloads = []v1alpha1.WorkloadMix{{Kind: "StatefulSet", Name: "db", MixNotSatisfiedSince: &since, RetryTime: &retry, FailedMoves: 2}}
	}))
	p.State.SetPod(podOfSet("a", "on-demand"))
	p.reconcile(t, "shop")
	e, _ := p.Workloads.Get(keyOfSet)
	assert.Equal(t, rebalance.ReasonBackingOff, e.Verdict.Reason)
	assert.True(t, since.Time.Equal(e.WrongSince))
	assert.True(t, retry.Time.Equal(p.queue.At(keyOfSet)), "reconciled again when it may be tried")
}

func TestSettings(t *testing.T) {
	p := testController(t)
	p.Defaults = rebalance.Settings{Mode: rebalance.Report, MaxConcurrent: 3, Stabilization: time.Minute}
	merge := func(r *v1alpha1.RebalanceSpec) rebalance.Settings {
		s, err := p.Defaults.For(nil, capacityMix(func(cm *v1alpha1.CapacityMix) { cm.Spec.Rebalance = r }))
		require.NoError(t, err)
		return s
	}
	assert.Equal(t, p.Defaults, merge(nil))
	s, err := p.Defaults.For(nil, nil)
	require.NoError(t, err)
	assert.Equal(t, p.Defaults, s)
	same := func(want, got rebalance.Settings) {
		t.Helper()
		open, _ := got.Windows.Open(noon)
		assert.True(t, open, "absent windows mean any time")
		want.Windows, got.Windows = rebalance.Windows{}, rebalance.Windows{}
		assert.Equal(t, want, got)
	}
	same(p.Defaults, merge(&v1alpha1.RebalanceSpec{}))
	same(rebalance.Settings{Mode: rebalance.Off, MaxConcurrent: 3, Stabilization: time.Minute}, merge(&v1alpha1.RebalanceSpec{Mode: v1alpha1.RebalanceModeOff}))
	same(rebalance.Settings{Mode: rebalance.Report, MaxConcurrent: 7}, merge(&v1alpha1.RebalanceSpec{MaxConcurrent: new(int32(7)), StabilizationSeconds: new(int32(0))}))

	s = merge(&v1alpha1.RebalanceSpec{Windows: []v1alpha1.RebalanceWindow{{Schedule: "0 14 * * *", DurationSeconds: 3600, TimeZone: "Europe/Berlin"}}})
	open, until := s.Windows.Open(noon) // 14:00 in Berlin
	assert.True(t, open)
	assert.Equal(t, noon.Add(time.Hour), until)
	_, err = p.Defaults.For(nil, capacityMix(func(cm *v1alpha1.CapacityMix) {
		cm.Spec.Rebalance = &v1alpha1.RebalanceSpec{Windows: []v1alpha1.RebalanceWindow{{Schedule: "0 3 * * *", DurationSeconds: 60}, {Schedule: "0 3 30 2 *", DurationSeconds: 60}}}
	}))
	require.ErrorContains(t, err, "windows[1].schedule")
}

// budgetRefusal is what the API server answers where a budget forbids an eviction.
func budgetRefusal() error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause})
	return err
}

func TestRefusal(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	tests := map[string]struct {
		err     error
		budgets int // that select the pod
		want    *rebalance.Reason
		hold    time.Duration
	}{
		"a budget allows no disruption":  {budgetRefusal(), 0, rebalance.ReasonPDB, rebalance.HoldRefused},
		"the API server has too much":    {apierrors.NewTooManyRequests("not now", 0), 1, rebalance.ReasonRefused, rebalance.HoldRefused},
		"two budgets select the pod":     {apierrors.NewInternalError(errors.New("no")), 2, rebalance.ReasonOverlappingPDBs, rebalance.HoldRefused},
		"a webhook cannot be called":     {apierrors.NewInternalError(errors.New("no")), 1, rebalance.ReasonEvictionFailed, rebalance.HoldRefused},
		"the pod is gone":                {apierrors.NewNotFound(pods, "web-0"), 0, rebalance.ReasonChanged, rebalance.HoldChanged},
		"the pod is another one by now":  {apierrors.NewConflict(pods, "web-0", errors.New("UID")), 0, rebalance.ReasonChanged, rebalance.HoldChanged},
		"the controller may not evict":   {apierrors.NewForbidden(pods, "web-0", errors.New("no")), 0, rebalance.ReasonRefused, rebalance.HoldRefused},
		"the API server cannot be found": {errors.New("connection refused"), 0, rebalance.ReasonRefused, rebalance.HoldRefused},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := testController(t)
			v := rebalance.Verdict{Reason: rebalance.ReasonMove, Target: sp, Pod: &clusterstate.Pod{Name: "web-0", UID: "uid"}}
			w := p.evaluationOf(rebalance.Entry{})
			a := rebalance.Action{Step: rebalance.StepEvict, Verdict: v, Overlapping: tc.budgets > 1}
			_, err := refusal(a, tc.err)
			require.Error(t, err)
			w.Apply(a, rebalance.Result{Err: err})
			h := w.Held["uid"]
			assert.Equal(t, tc.want, h.Verdict.Reason)
			assert.Contains(t, h.Verdict.Message, "web-0")
			assert.Equal(t, noon.Add(tc.hold), h.Until)
			assert.Equal(t, h.Until, h.Verdict.RetryAt)
			assert.Equal(t, v.Pod, h.Verdict.Pod)
		})
	}
	_, err := refusal(rebalance.Action{Verdict: rebalance.Verdict{Pod: &clusterstate.Pod{}}}, nil)
	assert.NoError(t, err)
}

func TestUnchanged(t *testing.T) {
	known := &clusterstate.Pod{UID: "old", Node: "spot"}
	assert.True(t, rebalance.Unchanged(podOfSet("old", "spot"), known))
	assert.False(t, rebalance.Unchanged(podOfSet("new", "spot"), known))
	assert.False(t, rebalance.Unchanged(podOfSet("old", "on-demand"), known))
	terminating := podOfSet("old", "spot")
	terminating.DeletionTimestamp = &metav1.Time{Time: noon}
	assert.False(t, rebalance.Unchanged(terminating, known))
}

func TestInputCountsWhatIsOnTheMove(t *testing.T) {
	p := testController(t)
	put := func(id, mixName string, moves int) rebalance.Entry {
		e := rebalance.Entry{Mix: mixName, Moves: make([]rebalance.Move, moves)}
		e.Group = group(od)
		e.Group.Key.ID = id
		p.Workloads.Put(e)
		return e
	}
	a, b := put("a", "web", 2), put("b", "", 1)
	put("c", "web", 1)
	a.Held = map[string]rebalance.Hold{"uid": {Verdict: rebalance.Verdict{Reason: rebalance.ReasonInsufficientCapacity}}}
	in := p.input(p.evaluationOf(a))
	assert.Equal(t, []int{3, 4}, []int{in.History.InFlight, in.Cluster.InFlight})
	assert.Equal(t, rebalance.ReasonInsufficientCapacity, in.Skip["uid"].Reason)
	in = p.input(p.evaluationOf(b))
	assert.Equal(t, []int{1, 4}, []int{in.History.InFlight, in.Cluster.InFlight}, "a workload without a CapacityMix counts for itself")
}

func TestABlockIsReportedByOneEvent(t *testing.T) {
	p := testController(t)
	events := p.Recorder.(*record.FakeRecorder).Events
	e := &rebalance.Entry{Group: group(od)}
	say := func(r *rebalance.Reason) { e.Verdict = rebalance.Verdict{Reason: r, Message: "why"}; p.out.report(e) }
	say(rebalance.ReasonInsufficientCapacity)
	say(rebalance.ReasonInsufficientCapacity)
	say(rebalance.ReasonMixBudget)
	say(rebalance.ReasonInsufficientCapacity)
	require.Len(t, events, 1)
	assert.Equal(t, "Normal MoveBlocked InsufficientCapacity: why map[berth.dev/blocked-reason:InsufficientCapacity]", <-events)
	say(rebalance.ReasonFloor)
	assert.Equal(t, "Normal MoveBlocked OnDemandFloor: why map[berth.dev/blocked-reason:OnDemandFloor]", <-events)
	say(rebalance.ReasonOnTarget)
	say(rebalance.ReasonFloor)
	assert.Len(t, events, 1, "it is news again once it was over")
}

func TestEverythingIsEveryNamespaceThatMayHaveSomething(t *testing.T) {
	p := testController(t, capacityMix(func(cm *v1alpha1.CapacityMix) { cm.Namespace = "has-a-mix" }))
	p.State.SetPod(podOfSet("a", "spot"))
	gone := group(od)
	gone.Key.Namespace = "had-pods"
	p.Workloads.Put(rebalance.Entry{Group: gone})
	// take is what is queued for what is in the queue.
	take := func() (list []string, all bool) {
		for p.queue.Busy() && p.queue.Len() > 0 {
			key, _ := p.queue.Get()
			if p.queue.Done(key); key != everything {
				list = append(list, key.Namespace)
				continue
			}
			all = true
			mixes, err := mixesIn(t.Context(), p.Reader, "")
			require.NoError(t, err)
			list = append(list, p.namespaces(mixes)...)
		}
		return list, all
	}
	p.Changed(governing.GroupKey{Namespace: "other", ID: "web"})
	list, all := take()
	assert.Equal(t, []string{"other"}, list)
	assert.False(t, all)
	p.Changed(everything)
	list, all = take()
	assert.Equal(t, []string{"had-pods", "has-a-mix", "shop"}, list)
	assert.True(t, all)
	p.Namespaces = []string{"shop"}
	p.Changed(everything)
	list, _ = take()
	assert.Equal(t, []string{"shop"}, list)
	p.Changed(governing.GroupKey{Namespace: "other", ID: "web"})
	list, _ = take()
	assert.Empty(t, list)
}
