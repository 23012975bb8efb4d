// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/registry"
	"berth.dev/berth/internal/policies/rules"
	"berth.dev/berth/plugins/internal/cyclestate"
	"berth.dev/berth/plugins/schedulingpolicy/twophase"
)

// preparation is what was requested for a pod.
type preparation struct {
	pod, node, group string
	expires          time.Duration
}

// preparations are those of the plugin Reservation.
type preparations struct {
	mu       sync.Mutex
	made     []preparation
	canceled []string
	// kept are the pods that are prepared, by an earlier scheduler for example.
	kept []string
	// fails is the error of the next preparation.
	fails error
}

func (p *preparations) Prepare(_ context.Context, pod *corev1.Pod, node, group string, expires time.Duration) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.fails; err != nil {
		p.fails = nil
		return "", err
	}
	p.made = append(p.made, preparation{pod.Name, node, group, expires})
	return "prepared-" + string(pod.UID), nil
}

func (p *preparations) Cancel(_ context.Context, namespace, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.canceled = append(p.canceled, namespace+"/"+name)
	return nil
}

func (p *preparations) Prepared(_, _ string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.kept)
}

// pods are the names of the pods that were prepared.
func (p *preparations) pods() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.made {
		names = append(names, m.pod)
	}
	return names
}

func twoPhase(size int32, change ...func(*v1alpha1.BindRules)) func(*v1alpha1.SchedulingRules) {
	return func(r *v1alpha1.SchedulingRules) {
		r.Bind = &v1alpha1.BindRules{Mode: v1alpha1.BindTwoPhase, GroupSize: &size}
		for _, c := range change {
			c(r.Bind)
		}
	}
}

func groupLabel(key string) func(*v1alpha1.BindRules) {
	return func(b *v1alpha1.BindRules) { b.GroupLabelKey = key }
}

// grouped is a fixture where pods are bound in groups of a size, with the plugin Reservation in the profile.
func grouped(t *testing.T, size int32, change ...func(*v1alpha1.BindRules)) (*fixture, *preparations) {
	t.Helper()
	f, p := newFixture(t, noArgs(), fleetOf(2)...), &preparations{}
	f.plugin.preparer = func() (preparer, bool) { return p, true }
	f.set(policy(twoPhase(size, change...)))
	return f, p
}

// placement is a pod that has a node.
type placement struct {
	f     *fixture
	pod   *corev1.Pod
	node  string
	state fwk.CycleState
}

// permit selects a node for a pod, and runs Permit, which returns the code.
func (f *fixture) permit(t *testing.T, name string, want fwk.Code, change ...func(*corev1.Pod)) *placement {
	t.Helper()
	a := &placement{f: f, pod: pod(name, "", change...)}
	a.node, a.state = f.place(t, a.pod)
	timeouts, status := f.framework.RunPermitPlugins(f.Ctx, a.state, a.pod, a.node)
	require.Equal(t, want, status.Code(), status.Message())
	if want == fwk.Wait {
		assert.Equal(t, map[string]time.Duration{Name: time.Minute + waitSlack}, timeouts)
		f.framework.AddWaitingPod(a.pod, timeouts)
	}
	return a
}

// within returns what a function that may wait for others returns.
func within(t *testing.T, call func() *fwk.Status) func() *fwk.Status {
	t.Helper()
	result := make(chan *fwk.Status, 1)
	go func() { result <- call() }()
	return func() *fwk.Status {
		t.Helper()
		select {
		case status := <-result:
			return status
		case <-time.After(10 * time.Second):
			t.Fatal("it waits")
			return nil
		}
	}
}

// waited is what the pod's wait for its group ended with.
func (a *placement) waited(t *testing.T) *fwk.Status {
	t.Helper()
	return within(t, func() *fwk.Status { return a.f.framework.WaitOnPermit(a.f.Ctx, a.pod) })()
}

// bind begins to bind the pod, and returns what waits for the result.
func (a *placement) bind(t *testing.T) func() *fwk.Status {
	t.Helper()
	return within(t, func() *fwk.Status { return a.f.plugin.Bind(a.f.Ctx, a.state, a.pod, a.node) })
}

func (a *placement) unreserve() {
	a.f.framework.RunReservePluginsUnreserve(a.f.Ctx, a.state, a.pod, a.node)
}

func (a *placement) postBind() { a.f.framework.RunPostBindPlugins(a.f.Ctx, a.state, a.pod, a.node) }

func TestAPodWithoutAGroupHasNoNode(t *testing.T) {
	t.Parallel()
	bare := func(p *corev1.Pod) { p.OwnerReferences = nil }
	for name, test := range map[string]struct {
		pod      *corev1.Pod
		rules    func(*v1alpha1.SchedulingRules)
		preparer preparer
		want     string
	}{
		"a pod without a controller":              {pod("x", "", bare), twoPhase(2), &preparations{}, ErrReasonNoController},
		"a pod without the label":                 {pod("x", ""), twoPhase(2, groupLabel("team")), &preparations{}, ErrReasonNoGroupLabel + "team"},
		"a profile without Reservation":           {pod("x", ""), twoPhase(2), nil, ErrReasonNoPreparer},
		"a pod of a group":                        {pod("x", ""), twoPhase(2), &preparations{}, ""},
		"another mode":                            {pod("x", "", bare), pessimistic, nil, ""},
		"a pod with the label, but no controller": {pod("x", "", bare, team("a")), twoPhase(2, groupLabel("team")), &preparations{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, noArgs(), fleetOf(1)...)
			if test.preparer != nil {
				f.plugin.preparer = func() (preparer, bool) { return test.preparer, true }
			}
			f.set(policy(test.rules))
			_, status, _ := f.framework.RunPreFilterPlugins(f.Ctx, framework.NewCycleState(), test.pod)
			if test.want == "" {
				assert.True(t, status.IsSuccess(), status.Message())
				return
			}
			assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
			assert.Equal(t, test.want, status.Message())
		})
	}
}

func team(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"team": name} }
}

func controller(uid types.UID) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.OwnerReferences[0].UID = uid }
}

func TestAGroupIsOfOnePolicyAndOneController(t *testing.T) {
	t.Parallel()
	governed := func(by types.UID, label string) *governor {
		g := newGovernor(&rules.Rules{GroupSize: 2, GroupLabelKey: label}, "key")
		g.policy = &registry.Policy{Object: &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{UID: by}}}
		return g
	}
	byController, byLabel := governed("one", ""), governed("one", "team")
	profile := newGovernor(&rules.Rules{GroupSize: 2}, "key")
	same := map[string][2]string{
		"pods of one controller":         {byController.groupOf(pod("a", "")), byController.groupOf(pod("b", "", team("x")))},
		"pods of one label":              {byLabel.groupOf(pod("a", "", team("x"))), byLabel.groupOf(pod("b", "", team("x"), controller("db")))},
		"pods of a profile":              {profile.groupOf(pod("a", "")), profile.groupOf(pod("b", ""))},
		"pods of a policy that is newer": {byController.groupOf(pod("a", "")), governed("one", "").groupOf(pod("a", ""))},
	}
	for name, of := range same {
		assert.Equal(t, of[0], of[1], name)
		assert.NotEmpty(t, of[0], name)
		assert.Empty(t, validation.IsValidLabelValue(of[0]), "it is the label of a Reservation")
	}
	different := sets.New(
		byController.groupOf(pod("a", "")),
		byController.groupOf(pod("a", "", controller("db"))),
		governed("two", "").groupOf(pod("a", "")),
		profile.groupOf(pod("a", "")),
		byLabel.groupOf(pod("a", "", team("x"))),
		byLabel.groupOf(pod("a", "", team("y"))),
	)
	assert.Len(t, different, 6)
	assert.Empty(t, byLabel.groupOf(pod("a", "", team(""))), "a label without a value identifies no group")
}

func TestTheLastMemberAllowsTheOthers(t *testing.T) {
	t.Parallel()
	f, p := grouped(t, 3)
	a, b := f.permit(t, "a", fwk.Wait), f.permit(t, "b", fwk.Wait)
	c := f.permit(t, "c", fwk.Success)
	require.True(t, a.waited(t).IsSuccess())
	require.True(t, b.waited(t).IsSuccess())
	assert.Empty(t, p.pods(), "a group that is not complete prepares nothing")

	results := []func() *fwk.Status{a.bind(t), b.bind(t), c.bind(t)}
	for _, result := range results {
		assert.True(t, result().IsSkip(), "another plugin binds the pod")
	}
	assert.ElementsMatch(t, []string{"a", "b", "c"}, p.pods())
	for _, m := range p.made {
		assert.Equal(t, preparation{m.pod, m.node, read(a.state).group, time.Minute}, m)
	}
}

func TestAPodThatIsNotBoundInTwoPhasesIsPermitted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(1)...)
	f.permit(t, "no policy", fwk.Success)
	f.set(policy())
	f.permit(t, "optimistic", fwk.Success)
}

// A pod that completes a group on its own needs no capacity kept: if the scheduler is killed, the group is not bound in part.
func TestAMemberOfACompleteGroupIsNotPrepared(t *testing.T) {
	t.Parallel()
	f, p := grouped(t, 2)
	f.SetPods(t, pod("bound", "n00"))
	a := f.permit(t, "a", fwk.Success)
	assert.True(t, a.bind(t)().IsSkip())
	a.postBind()
	assert.Empty(t, p.pods())
	assert.Empty(t, p.canceled)
}

// uses is the state of a pod that uses the capacity of a Reservation.
type uses map[string]string

func (u uses) Clone() fwk.StateData           { return u }
func (u uses) Restricts() bool                { return false }
func (u uses) Annotations() map[string]string { return u }

func TestAPodThatUsesAReservationIsNotPreparedAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state uses
		want  []string
	}{
		"it uses a Reservation":   {uses{"reservation": "prepared-a"}, []string{"b"}},
		"others use Reservations": {nil, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, p := grouped(t, 2)
			a, b := f.permit(t, "a", fwk.Wait), f.permit(t, "b", fwk.Success)
			a.state.Write(cyclestate.ReservationKey, test.state)
			first, second := a.bind(t), b.bind(t)
			assert.True(t, first().IsSkip())
			assert.True(t, second().IsSkip())
			assert.ElementsMatch(t, test.want, p.pods())
		})
	}
}

func TestAMemberThatGivesUpRejectsThoseThatWait(t *testing.T) {
	t.Parallel()
	f, _ := grouped(t, 3)
	a, b := f.permit(t, "a", fwk.Wait), f.permit(t, "b", fwk.Wait)
	a.unreserve()
	status := b.waited(t)
	assert.Equal(t, fwk.Unschedulable, status.Code())
	assert.Contains(t, status.Message(), ErrReasonIncomplete+": group web: 2 of 3 members are here, groupSize is 3")
	b.unreserve()
	f.permit(t, "c", fwk.Wait)
	f.permit(t, "d", fwk.Wait)
}

func TestAGroupThatIsGivenUpKeepsNoCapacity(t *testing.T) {
	t.Parallel()
	f, p := grouped(t, 2)
	a, b := f.permit(t, "a", fwk.Wait), f.permit(t, "b", fwk.Success)
	first := a.bind(t)
	b.unreserve()
	status := first()
	assert.Equal(t, fwk.Unschedulable, status.Code())
	assert.Equal(t, twophase.ErrAborted.Error(), status.Message())
	assert.Empty(t, p.canceled)
	a.unreserve()
	a.unreserve()
	assert.Equal(t, []string{"shop/prepared-a"}, p.canceled)
}

func TestAMemberThatCannotBePreparedAbortsItsGroup(t *testing.T) {
	t.Parallel()
	f, p := grouped(t, 2)
	a, b := f.permit(t, "a", fwk.Wait), f.permit(t, "b", fwk.Success)
	p.fails = errors.New("prepare the binding: refused")
	status := b.bind(t)()
	assert.Equal(t, fwk.Unschedulable, status.Code())
	assert.Equal(t, "prepare the binding: refused", status.Message())
	b.unreserve()
	assert.Equal(t, twophase.ErrAborted.Error(), a.bind(t)().Message())
	a.unreserve()
	assert.Equal(t, []string{"shop/prepared-a"}, p.canceled)
}

// slot is one that is lost when the pod's mix changes.
type slot struct{ lost *atomic.Bool }

func (s slot) Clone() fwk.StateData { return s }

func (s slot) Confirm(*corev1.Pod) error {
	if s.lost.Load() {
		return errors.New("its mix changed")
	}
	return nil
}

// A mix changes, or comes, while a member that is prepared waits for another one: none of the group is bound, and what was prepared
// is canceled.
func TestAGroupIsNotCommittedByAMixThatChanged(t *testing.T) {
	t.Parallel()
	f, p := grouped(t, 2)
	a, b := f.permit(t, "a", fwk.Wait), f.permit(t, "b", fwk.Success)
	lost := new(atomic.Bool)
	a.state.Write(cyclestate.MixKey, slot{lost})
	first := a.bind(t)
	require.Eventually(t, func() bool { return len(p.pods()) == 1 }, 10*time.Second, time.Millisecond)
	lost.Store(true)
	assert.Equal(t, "its mix changed", b.bind(t)().Message())
	assert.Equal(t, "its mix changed", first().Message())
	a.unreserve()
	b.unreserve()
	assert.ElementsMatch(t, []string{"shop/prepared-a", "shop/prepared-b"}, p.canceled)
	assert.False(t, cyclestate.Committed(a.state) || cyclestate.Committed(b.state))

	lost.Store(false)
	a, b = f.permit(t, "a", fwk.Wait), f.permit(t, "b", fwk.Success)
	first = a.bind(t)
	require.True(t, b.bind(t)().IsSkip())
	require.True(t, first().IsSkip())
	assert.True(t, cyclestate.Committed(a.state) && cyclestate.Committed(b.state))
}

// The other members are bound, and it completes the group when it is tried again.
func TestACommitKeepsTheCapacityOfAFailedBinding(t *testing.T) {
	t.Parallel()
	f, p := grouped(t, 2)
	a, b := f.permit(t, "a", fwk.Wait), f.permit(t, "b", fwk.Success)
	first, second := a.bind(t), b.bind(t)
	require.True(t, first().IsSkip())
	require.True(t, second().IsSkip())
	a.postBind()
	assert.Equal(t, []string{"shop/prepared-a"}, p.canceled, "a pod that is bound needs no Reservation")
	assert.True(t, f.plugin.groups.Alone(groupKey(a.pod, read(a.state)), "a"), "it is no member of the group any more")
	b.unreserve()
	b.unreserve() // it can be called twice
	assert.Equal(t, []string{"shop/prepared-a"}, p.canceled)

	f.SetPods(t, pod("a", "n00"))
	p.kept = []string{"b"}
	b = f.permit(t, "b", fwk.Success)
	assert.True(t, b.bind(t)().IsSkip())
	assert.Len(t, p.pods(), 2, "it is not prepared again")
}

func TestABindingAfterItsReservationIsNotMade(t *testing.T) {
	t.Parallel()
	seconds := func(n *int32, mode func(*v1alpha1.SchedulingRules)) func(*v1alpha1.SchedulingRules) {
		return func(r *v1alpha1.SchedulingRules) {
			if r.Bind = (&v1alpha1.BindRules{}); mode != nil {
				mode(r)
			}
			r.Bind.ReservationSeconds = n
		}
	}
	for name, test := range map[string]struct {
		rules func(*v1alpha1.SchedulingRules)
		after time.Duration
		over  bool
	}{
		"optimistic, over":                  {seconds(new(int32(30)), nil), 30 * time.Second, true},
		"optimistic, in time":               {seconds(new(int32(30)), nil), 15 * time.Second, false},
		"optimistic, without a maximum":     {seconds(nil, nil), time.Hour, false},
		"pessimistic, over":                 {seconds(new(int32(30)), pessimistic), 30 * time.Second, true},
		"pessimistic, in time":              {seconds(new(int32(30)), pessimistic), 15 * time.Second, false},
		"two-phase, over":                   {seconds(new(int32(30)), twoPhase(2)), 30 * time.Second, true},
		"two-phase, in time":                {seconds(new(int32(30)), twoPhase(2)), 15 * time.Second, false},
		"two-phase, over after the default": {seconds(nil, twoPhase(2)), time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := grouped(t, 2)
			f.created(t)
			f.SetPods(t, pod("bound", "n00"))
			p := policy(test.rules)
			p.Generation++
			f.set(p)
			clock := clocktesting.NewFakePassiveClock(time.Now())
			f.plugin.clock = clock
			a := f.permit(t, "a", fwk.Success)
			clock.SetTime(clock.Now().Add(test.after))
			status := a.bind(t)()
			if !test.over {
				assert.True(t, status.IsSkip(), status.Message())
				return
			}
			assert.Equal(t, fwk.Unschedulable, status.Code())
			assert.Contains(t, status.Message(), errReservationOver.Error())
			a.unreserve()
			assert.Contains(t, []string{"", "no lease"}, f.holder(t, a.node), "the node is not locked")
		})
	}
}

// A group of which one member's time is over is not bound, whether the others have time left or not.
func TestAMemberWithoutTimeAbortsItsGroup(t *testing.T) {
	t.Parallel()
	f, p := grouped(t, 2)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	f.plugin.clock = clock
	a := f.permit(t, "a", fwk.Wait)
	clock.SetTime(clock.Now().Add(59 * time.Second))
	b := f.permit(t, "b", fwk.Success)
	clock.SetTime(clock.Now().Add(2 * time.Second))
	second := b.bind(t)
	for _, result := range []func() *fwk.Status{a.bind(t), second} {
		status := result()
		assert.Equal(t, fwk.Unschedulable, status.Code())
		assert.Contains(t, status.Message(), errReservationOver.Error())
	}
	a.unreserve()
	b.unreserve()
	assert.Len(t, p.canceled, 2)
}
