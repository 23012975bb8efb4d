// SPDX-License-Identifier: Apache-2.0

// Package gatefallback_test is about pods with the scheduling gate of Berth that
// hold a spot slot where spot nodes do not come.
package gatefallback_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true})) }

const (
	replicas = 20
	// spotSlots are those of 20 replicas at 70 %, at least 2 on on-demand.
	spotSlots = 14
)

// start starts Berth's scheduler for a test.
func start(w *testenv.World) *cluster.Scheduler {
	w.T.Helper()
	return w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler))
}

// onDemandAfter lets spot slots fall back after so many seconds.
func onDemandAfter(seconds int32) func(*v1alpha1.CapacityMix) {
	return builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableOnDemand, seconds)
}

// deletions are the scheduler's requests to delete pods, with the answer.
func deletions(w *testenv.World) []testenv.Request {
	w.T.Helper()
	return w.Audit(func(r testenv.Request) bool {
		return r.User == cluster.BerthSchedulerUser && r.Verb == "delete" && r.Resource == "pods"
	})
}

// fellBack returns the pods with the annotation that they fell back.
func fellBack(pods []corev1.Pod) []corev1.Pod {
	return testenv.Where(pods, func(p *corev1.Pod) bool { _, ok := fallback.MarkOf(p.Annotations, string(p.UID)); return ok })
}

// waitOnDemand waits until an app has n Ready pods, all on on-demand, and returns them.
func waitOnDemand(w *testenv.World, app string, n int) []corev1.Pod {
	w.T.Helper()
	var pods []corev1.Pod
	w.Eventually(fmt.Sprintf("%d pods of %s run on on-demand", n, app), func() (bool, string) {
		pods = w.Live(app)
		s := w.SplitOf(pods)
		return s.OnDemand == n && len(pods) == n && len(testenv.Where(pods, testenv.Ready)) == n, s.String()
	})
	return pods
}

// breakers returns how many circuit breakers are in a state.
func breakers(w *testenv.World, s *cluster.Scheduler, state fallback.State) int {
	w.T.Helper()
	return w.Metric(s, "berth_scheduler_spot_circuit_breakers", map[string]string{"state": string(state)})
}

// spotUnavailable waits for the event that names the lack of spot nodes.
func spotUnavailable(w *testenv.World, object string) corev1.Event {
	w.T.Helper()
	return w.WaitEvent(object, "SpotUnavailable", func(e *corev1.Event) bool { return e.Reason == v1alpha1.EventReasonSpotUnavailable })
}

func TestWhereSpotDoesNotComeReplicasGoToOnDemandAndReturnInSteps(t *testing.T) {
	w := testenv.New(t, cluster.Nodes("on-demand", 4)...)
	s := start(w)
	m := split.New(70, 2)
	controller := w.Controller(testenv.Impatient)
	// More moves at a time than may try spot at first.
	w.Create(builders.CapacityMix("web", 70, 2, onDemandAfter(15), builders.MaxConcurrent(4)))
	begin := time.Now()
	w.Create(builders.Deployment("web", replicas, builders.Gated))
	pods := waitOnDemand(w, "web", replicas)
	assert.Equal(t, 1, breakers(w, s, fallback.Open))
	fell := fellBack(pods)
	require.Len(t, fell, spotSlots)
	for _, p := range fell {
		limited, ok := gate.LimitedTo(&p)
		require.True(t, ok, p.Name)
		assert.Equal(t, capacity.OnDemand, limited, p.Name)
		assert.Equal(t, v1alpha1.CapacityTypeSpot, p.Annotations[v1alpha1.CapacityTypeAnnotation], "the type of its slot")
	}
	w.WaitStatus("web", "spot is not available", func(s *v1alpha1.CapacityMixStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionSpotAvailable)
		return testenv.Condition(s, v1alpha1.ConditionSpotAvailable, false, v1alpha1.ReasonFallback) &&
			strings.Contains(c.Message, "limited to on-demand: 14")
	})
	w.WaitBlocked("web", "SpotUnavailable", "spot is tried again at")
	event := spotUnavailable(w, pods[0].OwnerReferences[0].Name)
	assert.Equal(t, corev1.EventTypeWarning, event.Type)
	assert.Equal(t, "ReplicaSet", event.InvolvedObject.Kind)

	// Then spot may be tried again, and no one does: there are no nodes to move to.
	w.WaitBlocked("web", "InsufficientCapacity", "no spot node has free capacity")
	testenv.Becomes(w, "the circuit breaker is half-open", 1, func() int { return breakers(w, s, fallback.HalfOpen) })
	assert.Len(t, deletions(w), spotSlots, "each spot replica once")
	for _, r := range deletions(w) {
		assert.GreaterOrEqual(t, r.At.Sub(begin), 15*time.Second, "%s was deleted before its wait was over", r.Name)
	}
	assert.Empty(t, w.Evictions())
	assert.Equal(t, spotSlots, w.Metric(s, "berth_scheduler_spot_fallbacks_total", nil))
	assert.Equal(t, spotSlots, w.Metric(s, "berth_scheduler_spot_pods_deleted_total", nil))

	w.AddNodes(cluster.Nodes("spot", 4)...)
	w.WaitExact("web", m, replicas, 2*testenv.SettleTimeout)
	assert.Len(t, deletions(w), spotSlots)
	assert.Len(t, w.Evictions(), spotSlots, "each moved once")
	assert.Zero(t, w.Metric(controller, "berth_mix_moves_total", map[string]string{"outcome": "failed"}))
	testenv.Becomes(w, "the circuit breaker is closed", 0, func() int {
		return breakers(w, s, fallback.HalfOpen) + breakers(w, s, fallback.Open)
	})
	w.WaitCondition("web", v1alpha1.ConditionSpotAvailable, true, v1alpha1.ReasonNoFallback)
}

func TestAnOpenCircuitBreakerStaysOpenWhenTheSchedulerIsKilled(t *testing.T) {
	w := testenv.New(t, cluster.Nodes("on-demand", 4)...)
	s := start(w)
	w.Create(builders.CapacityMix("web", 70, 2, onDemandAfter(20)))
	web := builders.Deployment("web", replicas, builders.Gated)
	w.Create(web)
	fell := fellBack(waitOnDemand(w, "web", replicas))
	require.NotEmpty(t, fell)
	newest := fallback.Mark{}
	for _, p := range fell {
		if m, _ := fallback.MarkOf(p.Annotations, string(p.UID)); m.Later(newest) {
			newest = m
		}
	}
	testenv.Kill(s)
	s = start(w)
	testenv.Becomes(w, "the circuit breaker is open", 1, func() int { return breakers(w, s, fallback.Open) })
	w.Scale(web, 2*replicas)
	pods := waitOnDemand(w, "web", 2*replicas)
	require.Less(t, time.Now(), newest.RetryAt, "the test was too slow: spot may be tried again")
	all := fellBack(pods)
	assert.Len(t, all, 2*spotSlots)
	for _, p := range all {
		m, _ := fallback.MarkOf(p.Annotations, string(p.UID))
		assert.False(t, m.Later(newest), "%s of %s, newest before was %s", m, p.Name, newest)
	}
	assert.Len(t, deletions(w), spotSlots, "none of those that came later")
}

func TestPodsThatWaitOrAreNotReplacedAreNotDeleted(t *testing.T) {
	w := testenv.New(t, cluster.Nodes("on-demand", 4)...)
	start(w)
	w.Create(builders.CapacityMix("patient", 70, 2, func(cm *v1alpha1.CapacityMix) { cm.Spec.WhenSpotUnavailable = v1alpha1.WhenSpotUnavailableWait }))
	for _, app := range []string{"job", "bare", "web"} {
		w.Create(builders.CapacityMix(app, 100, 0, onDemandAfter(5)))
	}
	w.Create(builders.Deployment("patient", replicas, builders.Gated))
	w.WaitUnschedulable("patient", spotSlots)
	job := builders.Job("job", 2, batchv1.NonIndexedCompletion, builders.Gated)
	w.Create(job, builders.Pod("bare", "bare", builders.Gated))
	w.WaitUnschedulable("job", 2)
	w.WaitUnschedulable("bare", 1)
	before := w.UIDs()
	// What is to be deleted is made last, so all others have waited for longer.
	w.Create(builders.Deployment("web", 1, builders.Gated))
	waitOnDemand(w, "web", 1)
	for _, p := range append(w.Live("job"), w.Live("bare")...) {
		assert.Contains(t, spotUnavailable(w, p.Name).Message, "The pod keeps waiting")
	}
	deleted := deletions(w)
	require.Len(t, deleted, 1)
	after := w.UIDs()
	for uid, name := range before {
		assert.Contains(t, after, uid, "%s is there", name)
	}
	w.ChangeMix("patient", onDemandAfter(5))
	waitOnDemand(w, "patient", replicas)
	assert.Len(t, deletions(w), 1+spotSlots, "now its wait is over")

	// Why: it is the Job controller that would count.
	w.Delete(&w.Live("job")[0])
	testenv.WaitFor(w, job.Name, "it counts the pod that was deleted as failed", func(j *batchv1.Job) bool { return j.Status.Failed == 1 })
}

// The watch has not delivered the binding yet when the scheduler decides to delete the pod.
func TestAPodThatIsBoundInTheSameMomentIsNotDeleted(t *testing.T) {
	w := testenv.New(t, cluster.Nodes("on-demand", 1)...)
	o := testenv.SchedulerOptions(testenv.SecondScheduler)
	kubeconfig, stalled := w.StallingKubeconfig("pods")
	o.Kubeconfig = kubeconfig
	s := w.RunScheduler(o)
	w.Create(builders.CapacityMix("web", 100, 0, onDemandAfter(8)))
	w.Create(builders.Deployment("web", 1, builders.Gated))
	pod := w.WaitUnschedulable("web", 1)[0]
	// Time for the watch to deliver that to the scheduler.
	w.Always(testenv.Short, "it is not deleted yet", func() (bool, string) { return len(deletions(w)) == 0, "it is" })
	stalled.Store(true)
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: "on-demand-0"}}
	require.NoError(t, w.Client.SubResource("binding").Create(w.Ctx, &pod, binding))
	w.Eventually("the scheduler tried to delete it", func() (bool, string) { return len(deletions(w)) > 0, "it did not" })
	stalled.Store(false)
	w.WaitReady("web", 1)
	w.Eventually("the scheduler has seen that it is bound", func() (bool, string) {
		before := len(deletions(w))
		w.Always(testenv.Short, "no deletion is tried any more", func() (bool, string) { return true, "" })
		return len(deletions(w)) == before, "it still tries"
	})
	for _, r := range deletions(w) {
		assert.Equal(t, 409, r.Code, r)
	}
	assert.Equal(t, pod.UID, w.Live("web")[0].UID)
	assert.Zero(t, w.Metric(s, "berth_scheduler_spot_pods_deleted_total", nil))
}

// reportNoNode records an event on each pod that waits for spot, as cluster-autoscaler does if no node group can grow for it.
func reportNoNode(w *testenv.World, app string) (n int) {
	w.T.Helper()
	for _, p := range w.Live(app) {
		if limited, ok := gate.LimitedTo(&p); !ok || limited != capacity.Spot || p.Spec.NodeName != "" {
			continue
		}
		n++
		w.Create(noNodeFor(&p, p.Namespace))
	}
	return n
}

// noNodeFor is an event in a namespace that no node group can grow for a pod.
func noNodeFor(p *corev1.Pod, namespace string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: p.Name + ".backoff"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: p.Name, UID: p.UID},
		Type:           corev1.EventTypeNormal, Reason: "NotTriggerScaleUp", Message: "pod didn't trigger scale-up: 1 in backoff after failed scale-up",
		Source: corev1.EventSource{Component: "cluster-autoscaler"}, FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(), Count: 1,
	}
}

// Pods of two mixes wait for spot for 15 minutes, the default. Those of one go to on-demand seconds after an autoscaler reports that no
// node group can grow for them.
func TestReplicasFallBackWhenTheAutoscalerReportsNoNode(t *testing.T) {
	w := testenv.New(t, cluster.Nodes("on-demand", 4)...)
	s := start(w)
	w.Create(
		builders.CapacityMix("web", 70, 2), builders.Deployment("web", replicas, builders.Gated),
		builders.CapacityMix("other", 70, 2), builders.Deployment("other", replicas, builders.Gated),
	)
	waiting := testenv.Split{OnDemand: replicas - spotSlots, Pending: spotSlots}
	w.WaitSplit("web", "spot slots wait", waiting)
	w.WaitSplit("other", "spot slots wait", waiting)
	require.Empty(t, deletions(w))

	reported := time.Now()
	require.Equal(t, spotSlots, reportNoNode(w, "web"))
	waitOnDemand(w, "web", replicas)
	t.Logf("all replicas run on on-demand %s after the reports", time.Since(reported).Round(time.Second/10))
	assert.Len(t, deletions(w), spotSlots, "each spot replica once")
	assert.Equal(t, spotSlots, w.Metric(s, "berth_scheduler_spot_pods_deleted_total", map[string]string{"cause": "cluster-autoscaler"}))
	assert.Contains(t, spotUnavailable(w, w.Live("web")[0].OwnerReferences[0].Name).Message, "cluster-autoscaler reported that it launches none")
	assert.Equal(t, 1, breakers(w, s, fallback.Open))
	w.WaitSplit("other", "nothing was reported about these", waiting)
}

// Whoever may create events in a namespace has the scheduler act on the pods there, and on no other ones: not by the UIDs of a neighbour's
// pods, not by pods of the same names, and not by an open circuit breaker of a mix of the same name.
func TestForgedReportsMoveNoPodOfANeighbour(t *testing.T) {
	w := testenv.New(t, cluster.Nodes("on-demand", 4)...)
	s := start(w)
	tenant, d := w.In(t), builders.Deployment("web", replicas, builders.Gated)
	w.Create(builders.CapacityMix("web", 70, 2), d)
	tenant.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", replicas, builders.Gated))
	for _, of := range []*testenv.World{w, tenant} {
		of.WaitSplit("web", "spot slots wait", testenv.Split{OnDemand: replicas - spotSlots, Pending: spotSlots})
	}
	for _, p := range w.Live("web") {
		require.NoError(t, w.Client.Create(w.Ctx, noNodeFor(&p, tenant.Namespace)), "the UID of a neighbour's pod")
		abroad := noNodeFor(&p, tenant.Namespace)
		abroad.Name, abroad.InvolvedObject.Namespace = p.Name+".abroad", p.Namespace
		require.ErrorContains(t, w.Client.Create(w.Ctx, abroad), "does not match")
	}
	own := tenant.Live("web")[0]
	for i, at := range []time.Time{{}, time.Unix(0, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		e := noNodeFor(&own, tenant.Namespace)
		e.Name, e.FirstTimestamp, e.LastTimestamp, e.Count = fmt.Sprint("odd-", i), metav1.NewTime(at), metav1.NewTime(at), -1
		require.NoError(t, w.Client.Create(w.Ctx, e))
	}
	require.Positive(t, reportNoNode(tenant, "web"))
	waitOnDemand(tenant, "web", replicas)
	require.Equal(t, 1, breakers(w, s, fallback.Open))

	w.Scale(d, replicas+10)
	w.WaitSplit("web", "the neighbour's spot slots wait, new ones as well", testenv.Split{OnDemand: 9, Pending: 21})
	assert.Empty(t, deletions(w))
	assert.Len(t, deletions(tenant), spotSlots)
}
