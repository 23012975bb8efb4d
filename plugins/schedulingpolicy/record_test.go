// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/plugins/internal/metrics"
	"berth.dev/berth/scheduler/upstream"
)

// assumed is a pod as the scheduler has it from the moment in which it has a node.
func assumed(p *corev1.Pod, node string) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}

// fail calls the handler of failures as the scheduler does when an attempt fails.
func (f *fixture) fail(t *testing.T, p *corev1.Pod, status *fwk.Status) {
	t.Helper()
	info, err := framework.NewPodInfo(p)
	require.NoError(t, err)
	called := false
	s := &scheduler.Scheduler{
		FailureHandler: func(context.Context, framework.Framework, *framework.QueuedPodInfo, *fwk.Status, *fwk.NominatingInfo, time.Time) {
			called = true
		},
	}
	upstream.Observe(s, f.recorder)
	s.FailureHandler(f.Ctx, f.framework, &framework.QueuedPodInfo{PodInfo: info}, status, nil, time.Time{})
	assert.True(t, called, "the scheduler's own handler is called too")
}

// unfit is the status of an attempt in which a filter rejected a node.
func unfit(p *corev1.Pod, node, plugin, reason string) *fwk.Status {
	rejected := framework.NewNodeToStatus(map[string]*fwk.Status{
		node: fwk.NewStatus(fwk.Unschedulable, reason).WithPlugin(plugin),
	}, fwk.NewStatus(fwk.UnschedulableAndUnresolvable))
	err := &framework.FitError{Pod: p, NumAllNodes: 1, Diagnosis: framework.Diagnosis{
		NodeToStatus: rejected, UnschedulablePlugins: sets.New(plugin),
	}}
	return fwk.NewStatus(fwk.Unschedulable).WithError(err)
}

func (f *fixture) records(t *testing.T, name string) []*decision.Record {
	t.Helper()
	return f.store.Of("shop", name)
}

// attempts is the metric of the attempts with an outcome, of all tests together.
func attempts(t *testing.T, outcome decision.Outcome) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(metrics.PolicyAttempts.WithLabelValues(string(outcome)))
	require.NoError(t, err)
	return n
}

func TestAnAttemptIsRecorded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(6)...)
	f.snapshot(pod("1", "n04"))
	f.set(policy(functions(v1alpha1.ScoreBinpacking, v1alpha1.ScoreSpreading), recorded(v1alpha1.RecordAlways)))
	p := pod("x", "")
	on, state := f.place(t, p)
	got := f.records(t, "x")
	require.Len(t, got, 1)
	r := got[0]
	assert.Equal(t, decision.Reserved, r.Outcome)
	assert.Equal(t, []string{on, "all", "berth-scheduler", "LeastLoaded"}, []string{r.Node, r.Policy, r.SchedulerName, r.TieBreaker})
	assert.Equal(t, 6, r.Feasible)
	require.Len(t, r.Candidates, 5, "of six nodes the best five")
	assert.Equal(t, on, r.Candidates[0].Node, "the selected node comes first")
	for _, c := range r.Candidates {
		sum := 0.0
		for i, value := range c.Values {
			sum += value * r.Functions[i].Coefficient
		}
		assert.InDelta(t, c.Score, sum, 1e-9)
		assert.LessOrEqual(t, c.Score, r.Candidates[0].Score)
	}

	f.framework.RunPostBindPlugins(f.Ctx, state, p, on)
	got = f.records(t, "x")
	require.Len(t, got, 1, "one record for one attempt")
	assert.Equal(t, decision.Bound, got[0].Outcome)
	assert.Equal(t, r.ID, got[0].ID)
}

func TestOnlyFailuresAreRecordedByDefault(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(2)...)
	f.set(policy())
	p := pod("x", "")
	on, state := f.place(t, p)
	f.framework.RunPostBindPlugins(f.Ctx, state, p, on)
	assert.Empty(t, f.records(t, "x"))

	f.fail(t, p, unfit(p, "n01", "NodeResourcesFit", "Insufficient cpu"))
	got := f.records(t, "x")
	require.Len(t, got, 1)
	assert.Equal(t, decision.Unschedulable, got[0].Outcome)
	require.Len(t, got[0].Rejections, 1)
	assert.Equal(t, decision.InsufficientCPU, got[0].Rejections[0].Reason)
	assert.Equal(t, "n01", got[0].Rejections[0].Example)
	assert.Contains(t, got[0].Message, "Insufficient cpu")
}

func TestNothingIsRecordedWithoutRules(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(2)...)
	p := pod("x", "")
	f.fail(t, p, unfit(p, "n01", "NodeResourcesFit", "Insufficient cpu"))
	f.set(policy(recorded(v1alpha1.RecordNever)))
	f.fail(t, p, unfit(p, "n01", "NodeResourcesFit", "Insufficient cpu"))
	on, state := f.place(t, p)
	f.framework.RunReservePluginsUnreserve(f.Ctx, state, p, on)
	f.fail(t, assumed(p, on), fwk.NewStatus(fwk.Error, "the API server answered 409"))
	assert.Zero(t, f.store.Len())
	assert.Empty(t, f.Recorder.Events)
}

func TestAFailedBindingIsRecordedOnceWithItsReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(2)...)
	f.set(policy(func(r *v1alpha1.SchedulingRules) { r.Decisions = &v1alpha1.DecisionRules{Events: true} }))
	p, before := pod("x", ""), attempts(t, decision.BindFailed)
	on, state := f.place(t, p)
	f.framework.RunReservePluginsUnreserve(f.Ctx, state, p, on)
	f.framework.RunReservePluginsUnreserve(f.Ctx, state, p, on) // the framework may call it twice
	assert.Empty(t, f.records(t, "x"), "the reason is not known yet")
	f.fail(t, assumed(p, on), fwk.NewStatus(fwk.Error, "the API server answered 409"))
	got := f.records(t, "x")
	require.Len(t, got, 1)
	assert.Equal(t, decision.BindFailed, got[0].Outcome)
	assert.Equal(t, on, got[0].Node)
	assert.Contains(t, got[0].Message, "the API server answered 409")
	assert.GreaterOrEqual(t, attempts(t, decision.BindFailed), before+1)
	require.Len(t, f.Recorder.Events, 1)
	assert.Equal(t, "Warning BindFailure Decision "+got[0].ID+": not bound to node "+on+": the API server answered 409", <-f.Recorder.Events)

	on, state = f.place(t, p)
	f.framework.RunPostBindPlugins(f.Ctx, state, p, on)
	require.Len(t, f.Recorder.Events, 1)
	assert.Contains(t, <-f.Recorder.Events, "Normal BindSuccess Decision ")
	assert.Len(t, f.records(t, "x"), 1, "an attempt that succeeded is not kept")
}

// A pod that runs is tried again when it is resized.
func TestAResizeIsNoAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(2)...)
	f.set(policy(recorded(v1alpha1.RecordAlways)))
	p := pod("x", "n01", func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred}}
	})
	f.fail(t, p, unfit(p, "n01", "NodeResourcesFit", "Insufficient cpu"))
	assert.Zero(t, f.store.Len())
}

func TestRecordsThatWaitForTheHandlerAreBounded(t *testing.T) {
	t.Parallel()
	r := NewRecorder(nil)
	for i := range 3 * maxFailing {
		r.unreserved(&unbound{pod: types.UID(fmt.Sprint(i)), record: &decision.Record{}})
		require.LessOrEqual(t, len(r.failing), maxFailing)
		require.LessOrEqual(t, len(r.order), maxFailing)
		require.Contains(t, r.failing, types.UID(fmt.Sprint(i)), "the handler is about to be called for it")
	}
}

// Bindings end beside the scheduling cycles of the pods after them. The race detector watches.
func TestBindingsEndBesideTheNextCycle(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(4)...)
	f.set(policy(recorded(v1alpha1.RecordAlways)))
	p := pod("x", "")
	on, state := f.place(t, p)
	var group sync.WaitGroup
	group.Go(func() {
		for range 100 {
			f.framework.RunReservePluginsUnreserve(f.Ctx, state, p, on)
			f.recorder.Failed("berth-scheduler", assumed(p, on), fwk.NewStatus(fwk.Error, "the API server answered 409"), nil, time.Time{})
			f.framework.RunPostBindPlugins(f.Ctx, state, p, on)
		}
	})
	for range 100 {
		f.place(t, pod("y", ""))
	}
	group.Wait()
	assert.NotEmpty(t, f.records(t, "x"))
}
