// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/plugins/schedulingpolicy/nodelock"
	"berth.dev/berth/scheduler/upstream"
)

// hooks is a plugin after SchedulingPolicy that does what a test sets. Nil is success.
type hooks struct {
	preFilter, reserve, permit, preBind, bind func() *fwk.Status
}

var (
	_ fwk.PreFilterPlugin = &hooks{}
	_ fwk.ReservePlugin   = &hooks{}
	_ fwk.PermitPlugin    = &hooks{}
	_ fwk.PreBindPlugin   = &hooks{}
)

func (*hooks) Name() string { return "Hooks" }

func call(hook func() *fwk.Status) *fwk.Status {
	if hook == nil {
		return nil
	}
	return hook()
}

func (h *hooks) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, call(h.preFilter)
}

func (*hooks) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (h *hooks) Reserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return call(h.reserve)
}

func (*hooks) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}

func (h *hooks) Permit(context.Context, fwk.CycleState, *corev1.Pod, string) (*fwk.Status, time.Duration) {
	return call(h.permit), 10 * time.Millisecond
}

func (*hooks) PreBindPreFlight(context.Context, fwk.CycleState, *corev1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return &fwk.PreBindPreFlightResult{}, nil
}

func (h *hooks) PreBind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return call(h.preBind)
}

// running is a scheduler of Kubernetes with the plugin, its queue and its handler of failures. The API server is a fake.
type running struct {
	*hooks
	client *fake.Clientset
	plugin *SchedulingPolicy
	store  *decision.Store
	events *events.FakeRecorder
	clock  *clocktesting.FakePassiveClock
	start  func()
}

func newRunning(t *testing.T, rules func(*v1alpha1.SchedulingRules), nodes ...*corev1.Node) *running {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	r := &running{
		hooks: &hooks{}, store: decision.NewStore(clock.RealClock{}), events: events.NewFakeRecorder(1000),
		clock: clocktesting.NewFakePassiveClock(time.Now()), client: fake.NewClientset(),
	}
	for _, n := range nodes {
		require.NoError(t, r.client.Tracker().Add(n))
	}
	r.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		return true, nil, call(r.bind).AsError()
	})
	recorder := NewRecorder(r.store)
	registry := frameworkruntime.Registry{
		r.Name(): func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return r.hooks, nil },
		Name: func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			pl, err := NewFactory(recorder, &capacitymix.Classifiers{}, nil, upstream.Admission{})(ctx, noArgs(), h)
			r.plugin, _ = pl.(*SchedulingPolicy)
			return pl, err
		},
	}
	defaults, err := latest.Default()
	require.NoError(t, err)
	profile := schedulerconfig.KubeSchedulerProfile{
		SchedulerName: "berth-scheduler", Plugins: &schedulerconfig.Plugins{}, PluginConfig: defaults.Profiles[0].PluginConfig,
	}
	for _, name := range []string{
		Name, names.PrioritySort, names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, names.NodeResourcesFit,
		r.Name(), defaultbinder.Name,
	} {
		profile.Plugins.MultiPoint.Enabled = append(profile.Plugins.MultiPoint.Enabled, schedulerconfig.Plugin{Name: name, Weight: 1})
	}
	factory := scheduler.NewInformerFactory(r.client, 0, nil)
	s, err := scheduler.New(ctx, r.client, factory, nil, func(string) events.EventRecorderLogger { return r.events },
		scheduler.WithProfiles(profile), scheduler.WithFrameworkOutOfTreeRegistry(registry))
	require.NoError(t, err)
	upstream.Observe(s, recorder)
	r.plugin.clock = r.clock
	r.plugin.preparer = func() (preparer, bool) { return &preparations{}, true }
	r.plugin.policyHandler().OnAdd(policy(rules, func(r *v1alpha1.SchedulingRules) {
		r.Decisions = &v1alpha1.DecisionRules{Events: true, Record: v1alpha1.RecordAlways}
	}), false)
	r.start = func() {
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		require.NoError(t, s.WaitForHandlersSync(ctx))
		go s.Run(ctx)
	}
	return r
}

// first schedules a pod, and returns the record of its first attempt once it has ended.
func (r *running) first(t *testing.T, p *corev1.Pod) *decision.Record {
	t.Helper()
	r.start()
	_, err := r.client.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{})
	require.NoError(t, err)
	var record *decision.Record
	require.Eventually(t, func() bool {
		all := r.store.Of(p.Namespace, p.Name)
		if len(all) == 0 {
			return false
		}
		record = all[len(all)-1]
		return record.Outcome != decision.Reserved
	}, 30*time.Second, 5*time.Millisecond, "the attempt ends in a record")
	return record
}

// event returns the first event with a reason.
func (r *running) event(t *testing.T, reason string) string {
	t.Helper()
	for {
		select {
		case e := <-r.events.Events:
			if strings.Contains(e, " "+reason+" ") {
				return e
			}
		case <-time.After(30 * time.Second):
			t.Fatal("no event " + reason)
		}
	}
}

func refused(format string) func() *fwk.Status {
	return func() *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, format) }
}

func fails(err error) func() *fwk.Status { return func() *fwk.Status { return fwk.AsStatus(err) } }

// Wherever an attempt fails after a node is selected, its record has the node and the reason, and so has an event.
func TestEachAttemptEndsInARecord(t *testing.T) {
	t.Parallel()
	optimistic := func(*v1alpha1.SchedulingRules) {}
	second := func(mode func(*v1alpha1.SchedulingRules)) func(*v1alpha1.SchedulingRules) {
		return func(r *v1alpha1.SchedulingRules) {
			r.Bind = &v1alpha1.BindRules{}
			mode(r)
			r.Bind.ReservationSeconds = new(int32(1))
		}
	}
	pods := schema.GroupResource{Resource: "pods"}
	for name, test := range map[string]struct {
		rules func(*v1alpha1.SchedulingRules)
		set   func(t *testing.T, r *running)
		want  string
	}{
		"the API server answers that the pod has changed": {optimistic, func(_ *testing.T, r *running) {
			r.bind = fails(apierrors.NewConflict(pods, "x", errors.New("it was deleted")))
		}, "it was deleted"},
		"an admission policy refuses the binding": {optimistic, func(_ *testing.T, r *running) {
			r.bind = fails(apierrors.NewForbidden(pods, "x", errors.New("no bindings on Fridays")))
		}, "no bindings on Fridays"},
		"the API server fails": {optimistic, func(_ *testing.T, r *running) {
			r.bind = fails(apierrors.NewInternalError(errors.New("etcd is full")))
		}, "etcd is full"},
		"the API server does not answer": {optimistic, func(_ *testing.T, r *running) {
			r.bind = fails(context.DeadlineExceeded)
		}, "context deadline exceeded"},
		"Reserve rejects": {optimistic, func(_ *testing.T, r *running) { r.reserve = refused("no device") }, "no device"},
		"Permit rejects":  {optimistic, func(_ *testing.T, r *running) { r.permit = refused("no quota") }, "no quota"},
		"Permit waits too long": {optimistic, func(_ *testing.T, r *running) {
			r.permit = func() *fwk.Status { return fwk.NewStatus(fwk.Wait) }
		}, "timeout"},
		"PreBind rejects": {optimistic, func(_ *testing.T, r *running) { r.preBind = refused("no volume") }, "no volume"},
		"the node is locked": {pessimistic, func(t *testing.T, r *running) {
			t.Helper()
			_, err := nodelock.New(r.client.CoordinationV1().Leases("berth-system"), "another", clock.RealClock{}).Lock(t.Context(), node("n00", "a"))
			require.NoError(t, err)
		}, "node n00 is locked by another: " + errLockTimeout.Error()},
		"the group is not complete in time": {
			second(twoPhase(2)), func(*testing.T, *running) {},
			ErrReasonIncomplete + ": group web: 1 of 2 members are here, groupSize is 2",
		},
		"the time of the reservation is over": {second(optimistic), func(_ *testing.T, r *running) {
			r.preBind = func() *fwk.Status {
				r.clock.SetTime(r.clock.Now().Add(time.Minute))
				return nil
			}
		}, errReservationOver.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRunning(t, test.rules, node("n00", "a"))
			test.set(t, r)
			began := r.clock.Now()
			got := r.first(t, pod("x", ""))
			assert.Equal(t, decision.BindFailed, got.Outcome)
			assert.Equal(t, "n00", got.Node)
			assert.Contains(t, got.Message, test.want)
			assert.True(t, began.Equal(got.Time), "the time is when the attempt began")
			e := r.event(t, v1alpha1.EventReasonBindFailure)
			assert.Contains(t, e, "Decision "+got.ID+": not bound to node n00: ")
			assert.Contains(t, e, test.want)
		})
	}
}

// A record has the reasons for which nodes were rejected: by a filter, by a PreFilter for all nodes, and also of a pod that has a
// node.
func TestRejectionsAreRecorded(t *testing.T) {
	t.Parallel()
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	byName := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
				}}},
			}}}
		}
	}
	for name, test := range map[string]struct {
		rules   func(*v1alpha1.SchedulingRules)
		set     func(*running)
		pod     *corev1.Pod
		outcome decision.Outcome
		want    []decision.Rejection
	}{
		"a node that is cordoned": {
			nil, nil, pod("x", ""), decision.Bound,
			[]decision.Rejection{{Reason: decision.NodeUnschedulable, Nodes: 1, Example: "cordoned"}},
		},
		"a pod that is too large": {
			nil, nil, pod("x", "", requests("8", "1Gi")), decision.Unschedulable, []decision.Rejection{
				{Reason: decision.InsufficientCPU, Nodes: 2, Example: "n00"}, {Reason: decision.NodeUnschedulable, Nodes: 1, Example: "cordoned"},
			},
		},
		"a node that does not exist": {
			nil, nil, pod("x", "", byName("gone")), decision.Unschedulable,
			[]decision.Rejection{{Reason: decision.NodeAffinityMismatch, Nodes: 3, Example: "cordoned"}},
		},
		"a node name of which one is free": {
			nil, nil, pod("x", "", byName("n01")), decision.Bound, nil,
		},
		"a plugin that rejects the pod": {
			nil, func(r *running) { r.preFilter = refused("claim not found") }, pod("x", ""), decision.Unschedulable,
			[]decision.Rejection{{Reason: decision.Custom, Nodes: 3, Example: "cordoned"}},
		},
		"TwoPhase without a controller": {
			twoPhase(2), nil, pod("x", "", func(p *corev1.Pod) { p.OwnerReferences = nil }), decision.Unschedulable,
			[]decision.Rejection{{Reason: decision.Custom, Nodes: 3, Example: "cordoned"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := test.rules
			if rules == nil {
				rules = func(*v1alpha1.SchedulingRules) {}
			}
			r := newRunning(t, rules, node("n00", "a"), node("n01", "a"), node("cordoned", "a", cordoned))
			if test.set != nil {
				test.set(r)
			}
			got := r.first(t, test.pod)
			assert.Equal(t, test.outcome, got.Outcome, got.Message)
			require.Len(t, got.Rejections, len(test.want), "%v", got.Rejections)
			for i, want := range test.want {
				n := got.Rejections[i]
				assert.Equal(t, want, decision.Rejection{Reason: n.Reason, Nodes: n.Nodes, Example: n.Example})
				assert.NotEmpty(t, n.Message)
			}
		})
	}
}
