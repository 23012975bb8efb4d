// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/builds"
	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/robustness/judge"
	"berth.dev/berth/test/robustness/network"
	"berth.dev/berth/test/robustness/plan"
	"berth.dev/berth/test/testenv"
)

// envSlow runs what takes longer than make test-more may: make test-mutants and make test-robustness set it.
const envSlow = "BERTH_TEST_ROBUSTNESS"

func slow(t *testing.T) {
	t.Helper()
	if os.Getenv(envSlow) == "" {
		t.Skip(envSlow + " is not set")
	}
}

// scenario is a short run in which a program could break a promise.
type scenario struct {
	name string
	// nodes of each type.
	nodes int
	do    func(*runner)
}

const app = "web"

// create creates a workload, whose pods are placed in its mix.
func (r *runner) create(mix split.Mix, n int32, template ...func(*corev1.PodTemplateSpec)) {
	r.T.Helper()
	template = append([]func(*corev1.PodTemplateSpec){builders.CPU("1")}, template...)
	r.Create(builders.CapacityMix(app, mix.SpotPercent, mix.MinOnDemand), builders.Deployment(app, n, template...))
	r.WaitBound(app, int(n))
}

func (r *runner) mix(m split.Mix) {
	r.ChangeMix(app, func(cm *v1alpha1.CapacityMix) {
		cm.Spec.SpotPercent, cm.Spec.MinOnDemand = m.SpotPercent, m.MinOnDemand
	})
}

// untilMoved waits until pods were moved, or until a program that keeps its promises has had the time for it.
func (r *runner) untilMoved(n int) {
	deadline := time.Now().Add(20 * time.Second)
	for len(r.moved()) < n && time.Now().Before(deadline) {
		r.wait(time.Second / 4)
	}
	r.wait(time.Second)
}

// moved are the evictions that were granted, and the deletions.
func (r *runner) moved() []testenv.Request {
	return r.Audit(func(q testenv.Request) bool {
		return q.User == cluster.BerthControllerUser && q.OK() &&
			(q.Resource == "pods/eviction" || q.Resource == "pods" && q.Verb == "delete")
	})
}

// unready has a pod report that it is not Ready.
func (r *runner) unready(p *corev1.Pod) {
	before := p.DeepCopy()
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.Status = corev1.ConditionFalse
		}
	}
	require.NoError(r.T, r.Client.Status().Patch(r.Ctx, p, client.StrategicMergeFrom(before)))
}

// absent is longer than a replica that was moved may be absent.
const absent = 35 * time.Second

// seen is longer than what a decision may be based on.
const seen = 12 * time.Second

var (
	moving = scenario{"the mix changes, and replicas move", 4, func(r *runner) {
		r.Create(builders.Deployment("other", 4)) // no mix governs it
		r.create(split.New(50, 0), 4, builders.ReadyAfter(2*time.Second))
		r.Cordon(true, "on-demand-0", "on-demand-1", "on-demand-2", "on-demand-3")
		r.WaitBound("other", 4)
		r.Cordon(false, "on-demand-0", "on-demand-1", "on-demand-2", "on-demand-3")
		r.mix(split.New(0, 0))
		r.untilMoved(2)
	}}
	refused = scenario{"a budget allows no disruption", 4, func(r *runner) {
		r.Create(builders.PodDisruptionBudget(app, builders.MaxUnavailable("0")))
		r.create(split.New(50, 0), 4)
		r.wait(2 * time.Second)
		r.mix(split.New(0, 0))
		r.untilMoved(1)
	}}
	full = scenario{"the other type is full", 1, func(r *runner) {
		r.create(split.New(50, 0), 8) // four on each node, which take four
		r.wait(seen)
		r.mix(split.New(0, 0))
		r.untilMoved(1)
	}}
	unready = scenario{"two replicas are not Ready", 4, func(r *runner) {
		r.create(split.New(0, 2), 4)
		r.Eventually("all are Ready", func() (bool, string) { return len(testenv.Where(r.Live(app), testenv.Ready)) == 4, "" })
		for _, p := range r.Live(app) {
			if slot, ok := governing.ClaimedSlot(&p); ok && slot < 2 { // the others move first
				r.unready(&p)
			}
		}
		r.wait(seen)
		r.mix(split.New(50, 2))
		r.untilMoved(1)
	}}
	floor = scenario{"all but the floor is on spot", 4, func(r *runner) {
		r.create(split.New(100, 2), 4)
		r.untilMoved(2)
	}}
	afterOutage = scenario{"the mix changes just after an outage", 4, func(r *runner) {
		r.create(split.New(50, 0), 4)
		r.WaitSatisfied(app)
		r.step(&plan.Step{Kind: plan.Outage, Target: plan.APIServer, For: 3 * time.Second})
		r.mix(split.New(0, 0))
		r.untilMoved(1)
	}}
	resting = scenario{"nothing happens", 4, func(r *runner) {
		r.create(split.New(50, 0), 4)
		r.wait(8 * time.Second) // the status of a mutant may never be settled
		began := time.Now()
		r.wait(testenv.Holds)
		r.steps = append(r.steps, history.Step{Text: "rest", Rest: true, Began: began, Ended: time.Now()})
	}}
	waiting = scenario{"on-demand slots wait for on-demand nodes", 1, func(r *runner) {
		r.Cordon(true, "on-demand-0")
		r.Create(builders.CapacityMix(app, 50, 0), builders.Deployment(app, 4, builders.CPU("1")))
		r.Reaches("the spot slots are bound", 2, func() int {
			return len(testenv.Where(r.Live(app), func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }))
		})
		r.wait(5 * time.Second)
	}}
	ungoverned = scenario{"pods have no mix, one that is removed, or annotations that are none", 4, func(r *runner) {
		invalid := builders.Deployment("invalid", 2)
		invalid.Annotations = invalidMix
		r.Create(builders.Deployment("none", 2), invalid)
		r.Cordon(true, "on-demand-0", "on-demand-1", "on-demand-2", "on-demand-3")
		r.Create(builders.CapacityMix(app, 0, 0), builders.Deployment(app, 2)) // its pods wait for on-demand nodes
		r.wait(3 * time.Second)
		r.Delete(builders.CapacityMix(app, 0, 0, func(m *v1alpha1.CapacityMix) { m.Namespace = r.Namespace }))
		r.wait(25 * time.Second)
		r.Cordon(false, "on-demand-0", "on-demand-1", "on-demand-2", "on-demand-3") // a last revision
	}}
	behind = scenario{"the mix is as before again, which no watch has shown", 4, func(r *runner) {
		r.Create(builders.PodDisruptionBudget(app, builders.MaxUnavailable("0")))
		r.create(split.New(50, 0), 4)
		r.mix(split.New(0, 0))
		r.wait(3 * time.Second) // two replicas have to move, and wait for their budget
		for _, name := range replicas {
			r.networks[name].Set(network.Fault{Stalled: true, Only: "/capacitymixes"})
		}
		r.mix(split.New(50, 0))
		r.wait(seen)
		b := builders.PodDisruptionBudget(app, builders.MaxUnavailable("0"))
		b.Namespace = r.Namespace
		r.change(b, func() { b.Spec.MaxUnavailable = new(intstr.FromInt32(1)) })
		r.untilMoved(1)
	}}
	spoiled = scenario{"an owner has another template than its pods were created from", 4, func(r *runner) {
		rs := builders.ReplicaSet(app, 4, builders.CPU("1"))
		r.Create(builders.CapacityMix(app, 50, 0), rs)
		r.WaitBound(app, 4)
		r.change(rs, func() { builders.CPU("99")(&rs.Spec.Template) })
		r.mix(split.New(0, 0))
		r.untilMoved(1)
		began := time.Now()
		r.wait(absent)
		r.steps = append(r.steps, history.Step{Text: "wait", Began: began, Ended: time.Now()})
	}}
	placing   = scenario{"pods are placed", 4, func(r *runner) { r.create(split.New(50, 0), 6) }}
	replacing = scenario{"pods are replaced", 4, func(r *runner) {
		r.create(split.New(50, 0), 6)
		for range 4 {
			r.deletePods(&plan.Step{Workload: app, Count: 2})
			r.WaitBound(app, 6)
		}
	}}
	rejoining = scenario{"pods of units are replaced", 4, func(r *runner) {
		for _, m := range commonMixes() {
			r.Create(m)
		}
		r.Create(commonOwners()...)
		r.WaitBound(units, unitSize*manyOwners)
		r.wait(seen)
		onDemand := []string{"on-demand-0", "on-demand-1", "on-demand-2", "on-demand-3"}
		r.Cordon(true, onDemand...)
		for _, p := range r.Live(units) { // whole units
			if strings.HasPrefix(p.Spec.NodeName, capacity.OnDemand.String()) {
				r.attempt("delete pod "+p.Name, func(ctx context.Context) error { return r.Client.Delete(ctx, &p) })
			}
		}
		r.wait(seen)
		r.Cordon(false, onDemand...)
		r.WaitBound(units, unitSize*manyOwners)
		r.ChangeMix(units, func(cm *v1alpha1.CapacityMix) { cm.Spec.SpotPercent = 0 })
		r.untilMoved(1)
	}}
)

// scenarios are those of all mutants: what keeps its promises has no violation in any of them.
var scenarios = []scenario{moving, spoiled, refused, full, unready, floor, afterOutage, behind, resting, waiting, ungoverned, placing, replacing, rejoining, declaring}

// mutant is a program that breaks a promise.
type mutant struct {
	judge    func(*history.History) *judge.Verdict
	what     string
	program  history.Program
	scenario scenario
	changes  []builds.Replacement
}

const (
	decisions  = "internal/mix/rebalance/decide.go"
	checks     = "internal/mix/rebalance/checks.go"
	evictions  = "controllers/mix/rebalance/decide.go"
	proofs     = "controllers/mix/rebalance/prove.go"
	calls      = "controllers/mix/rebalance/calls.go"
	rebalancer = "controllers/mix/rebalance/controller.go"
	registry   = "internal/mix/governing/registry.go"
	objects    = "internal/kube/applyset/plan.go"
	prefilter  = "plugins/capacitymix/prefilter.go"
	firstOf    = "\tvar m *Mix\n\tfor _, e := range r.mixes.In(namespace) {\n\t\tm = e.Object\n\t\tbreak\n\t}\n"
	evictCall  = "return a.Client.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{"
)

var (
	noFloor   = builds.Replacement{File: decisions, Old: "return min(int(g.Governing.Mix.MinOnDemand), len(g.Assignments))", New: "return 0"}
	noReady   = builds.Replacement{File: checks, Old: "\t\tnotReady,\n", New: ""}
	noGain    = builds.Replacement{File: checks, Old: "if s.target == s.On {", New: "if false {"}
	noBudget  = builds.Replacement{File: checks, Old: "v := Disruptable(budgets, p.Labels, p.Ready)", New: "v := Verdict{}"}
	mayFit    = builds.Replacement{File: evictions, Old: "if c.State.MayFit(t, pod) {", New: "if true {"}
	anySlot   = builds.Replacement{File: prefilter, Old: "if s.attempt.Stage != ledger.StageSample {", New: "if true {"}
	firstMix  = builds.Replacement{File: registry, Old: "\tm, _ := r.mixes.Oldest(namespace, podLabels)\n", New: firstOf}
	moveAny   = builds.Replacement{File: decisions, Old: "wrong := in.Group.WrongSide()\n", New: "wrong := in.Group.Assignments\n"}
	noMinimum = builds.Replacement{File: "internal/mix/split/mix.go", Old: "max(0, n-int(m.MinOnDemand))", New: "n"}
)

var mutants = []mutant{
	{judge.NoOvercommit, "all pods are bound to one node", history.Scheduler, scenario{"", 1, func(r *runner) { r.create(split.New(50, 0), 6) }}, []builds.Replacement{
		{File: "plugins/capacitymix/bind.go", Old: "b := binding.Of(pod, nodeName, ", New: "b := binding.Of(pod, \"spot-0\", "},
	}},
	{judge.OneSlotOnePod, "every pod takes slot 0", history.Scheduler, placing, []builds.Replacement{
		{File: "plugins/capacitymix/ledger/group.go", Old: "return g.inUse().Lowest()", New: "return 0"},
	}},
	{judge.OneSlotOnePod, "the slots of bound pods are forgotten", history.Scheduler, replacing, []builds.Replacement{
		{File: "plugins/capacitymix/ledger/observe.go", Old: "= next, small(b.Claimed), ", New: "= next, small(split.NoSlot), "},
	}},
	{judge.PlacedByItsSlot, "any node takes any slot", history.Scheduler, waiting, []builds.Replacement{
		anySlot,
		{File: "plugins/capacitymix/filter.go", Old: "case n.Departing:", New: "case n.Type != s.slotType:\n\t\treturn nil\n\tcase n.Departing:"},
	}},
	{judge.PlacedByItsSlot, "slots have the other type", history.Scheduler, placing, []builds.Replacement{
		{File: prefilter, Old: "= h.Slot, h.Type, h.Attempt", New: "= h.Slot, h.Type.Other(), h.Attempt"},
		{File: "plugins/capacitymix/reserve.go", Old: "p == nil || !s.fixed && p.Mix.TypeOf(s.slot) != s.slotType", New: "p == nil"},
	}},
	{judge.WholeUnits, "no pod is one of a unit", history.Scheduler, rejoining, []builds.Replacement{
		{File: "internal/mix/governing/member.go", Old: "member.Unit = pod.Labels[m.Unit.Label]", New: "member.Unit = \"\""},
	}},
	{judge.WholeUnits, "pods of a unit are moved one by one", history.Controller, rejoining, []builds.Replacement{
		{File: checks, Old: "\t\tunitWouldRestart,\n", New: ""},
	}},
	{judge.NoCapture, "the scheduler gives every pod the first mix", history.Scheduler, moving, []builds.Replacement{firstMix}},
	{judge.NoCapture, "the controller moves every pod by the first mix", history.Controller, moving, []builds.Replacement{firstMix}},
	{judge.FloorKept, "minOnDemand counts neither for slots nor for moves", history.Controller, floor, []builds.Replacement{noFloor, noMinimum}},
	{judge.FloorKept, "replicas that are not Ready count for the floor", history.Controller, unready, []builds.Replacement{noReady, noFloor}},
	{judge.OneMoveAtATime, "a mix has no limit of moves", history.Controller, moving, []builds.Replacement{
		{File: checks, Old: "case s.History.InFlight >= s.Settings.MaxConcurrent:", New: "case false:"},
	}},
	{judge.OneMoveAtATime, "replicas that are not Ready are no reason to wait", history.Controller, unready, []builds.Replacement{noReady, noFloor}},
	{judge.BudgetsKept, "pods are deleted, not evicted", history.Controller, moving, []builds.Replacement{
		{File: calls, Old: evictCall, New: "return a.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *(&policyv1.Eviction{"},
		{File: calls, Old: "\t\t\t}},\n\t\t})\n", New: "\t\t\t}},\n\t\t}).DeleteOptions)\n"},
	}},
	{judge.BudgetsKept, "a pod is deleted where its budget refuses the eviction", history.Controller, refused, []builds.Replacement{
		noBudget,
		{File: calls, Old: evictCall, New: "_ = a.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})\n\t\t" + evictCall},
	}},
	{judge.TowardsTheMix, "every replica is wrong", history.Controller, resting, []builds.Replacement{moveAny, noGain}},
	{judge.TowardsTheMix, "minOnDemand counts for the floor only", history.Controller, floor, []builds.Replacement{noFloor, noMinimum}},
	{judge.TowardsTheMix, "the mix is not read again before a move", history.Controller, behind, []builds.Replacement{
		{File: evictions, Old: "if err := c.api.checkMix(ctx, &a.Of, a.Pod); err != nil {", New: "if err := error(nil); err != nil {"},
	}},
	{judge.BetterPlace, "no capacity is no reason to wait", history.Controller, full, []builds.Replacement{
		mayFit, {File: proofs, Old: "if err == nil && !answer.Fits {", New: "if false {"},
	}},
	{judge.BetterPlace, "a node of any type is a better place", history.Controller, scenario{"", 1, func(r *runner) {
		r.create(split.New(75, 0), 4) // the spot node has free capacity, and the on-demand node is cordoned
		r.Cordon(true, "on-demand-0")
		r.wait(seen)
		r.mix(split.New(0, 0))
		r.untilMoved(1)
	}}, []builds.Replacement{
		mayFit, {File: "internal/mix/capacity/departing.go", Old: "return found == t && !departing", New: "return true || found == t && !departing"},
	}},
	{judge.EvictedIsBack, "the replica that runs stands for its replacement", history.Controller, spoiled, []builds.Replacement{
		{File: proofs, Old: "if p.owners == nil {\n\t\t_, err = p.api", New: "if true {\n\t\t_, err = p.api"},
		{File: proofs, Old: "if p.owners == nil {\n\t\treturn nil", New: "if true {\n\t\treturn nil"},
	}},
	{judge.EvictedIsBack, "the filters run for the replica that runs", history.Controller, spoiled, []builds.Replacement{
		{File: proofs, Old: "p.question(&a, pod, proof.Admitted, gone)", New: "p.question(&a, pod, nil, gone)"},
	}},
	{judge.NothingInTheGrace, "there is no grace", history.Controller, afterOutage, []builds.Replacement{
		{File: checks, Old: "\t\tstartupGrace,\n", New: ""},
	}},
	{judge.NothingInTheGrace, "an outage is not noticed", history.Controller, afterOutage, []builds.Replacement{
		{File: rebalancer, Old: "if end := at.Add(c.Grace); end.After(c.graceEnd) {", New: "if end := at.Add(c.Grace); c.graceEnd.IsZero() {"},
	}},
	{judge.QuietAtRest, "the journal is written even if it is the same", history.Controller, resting, []builds.Replacement{
		{File: "controllers/mix/rebalance/journal.go", Old: "case j.Journal.Name == \"\" || j.loaded && !j.dirty:", New: "case j.Journal.Name == \"\":"},
	}},
	{judge.QuietAtRest, "every replica is wrong at rest", history.Controller, resting, []builds.Replacement{moveAny, noGain}},
	{judge.NothingWaits, "a pod without a mix waits for one", history.Scheduler, ungoverned, []builds.Replacement{
		{File: prefilter, Old: "if p == nil || !ungated && pl.", New: "if p == nil {\n\t\treturn nil, fwk.NewStatus(fwk.Unschedulable)\n\t}\n\tif !ungated && pl."},
	}},
	{judge.NothingWaits, "a pod whose annotations are invalid waits", history.Scheduler, ungoverned, []builds.Replacement{
		{File: prefilter, Old: "\tif len(invalid) > 0 {\n", New: "\tif len(invalid) > 0 {\n\t\treturn nil, fwk.NewStatus(fwk.Unschedulable)\n"},
	}},
	{judge.NothingWaits, "a mix that was removed still governs", history.Scheduler, ungoverned, []builds.Replacement{
		{File: registry, Old: "\tr.mixes.Delete(namespace, name)\n", New: ""},
	}},
	{judge.RecordsKept, "what is not declared any more stays", history.Controller, declaring, []builds.Replacement{
		{File: objects, Old: "\t\tfate = func(*Child) Fate { return Prune }\n", New: "\t\tfate = func(*Child) Fate { return Retain }\n"},
	}},
	{judge.RecordsKept, "an object that exists is not changed", history.Controller, declaring, []builds.Replacement{
		{File: objects, Old: "apply := child == nil || !Covered(child.Object, next.Unstructured)", New: "apply := child == nil"},
	}},
	{judge.RecordsKept, "functions do not keep their names", history.Controller, declaring, []builds.Replacement{
		{File: "internal/records/render/name.go", Old: "if before.FunctionKey == functions[i].FunctionKey && ", New: "if false && "},
	}},
	{judge.RecordsKept, "an environment goes without its objects", history.Controller, declaring, []builds.Replacement{
		{File: "controllers/environments/remove.go", Old: "return left, retained, applyset.DeleteAll(ctx, c.Client, remove)", New: "return \"\", nil, nil"},
		{File: "controllers/environments/observe.go", Old: "\treturn ownerReference(v.env)\n", New: "\treturn nil\n"},
	}},
	{judge.OneLeaderWrites, "there is no election", history.Controller, moving, []builds.Replacement{
		{File: "cmd/berth-controller/run.go", Old: "LeaderElection:                c.LeaderElection.Enabled,", New: "LeaderElection: false,"},
	}},
	{judge.OneLeaderWrites, "the standby moves replicas, too", history.Controller, scenario{"", 4, func(r *runner) {
		r.create(split.New(50, 0), 8)
		for i := range 3 { // which of the two is first is left to chance
			r.mix(split.New([]int32{0, 50, 0}[i], 0))
			r.untilMoved(4 * (i + 1))
		}
	}}, []builds.Replacement{
		{File: rebalancer, Old: "{MaxConcurrentReconciles: 1, NewQueue", New: "{NeedLeaderElection: new(false), MaxConcurrentReconciles: 1, NewQueue"},
		// A controller whose journal another one has written moves nothing.
		{File: "controllers/mix.go", Old: "Name: p.cfg.LeaseName() + \"-moves\"", New: "Name: \"\""},
	}},
	{judge.NothingForbidden, "the journal has another name", history.Controller, moving, []builds.Replacement{
		{File: "controllers/mix.go", Old: "p.cfg.LeaseName() + \"-moves\"", New: "p.cfg.LeaseName() + \"-movements\""},
	}},
	{judge.NothingForbidden, "a move reads Secrets", history.Controller, moving, []builds.Replacement{
		{File: calls, Old: "\tfor range maxPages {\n", New: "\t_, _ = a.Client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})\n\tfor range maxPages {\n"},
	}},
}

// act runs a scenario, with a mutant as one of the programs unless it is nil.
func (s *scenario) act(t *testing.T, m *mutant) *history.History {
	t.Helper()
	r := newRunner(testenv.New(t, nodes(s.nodes)...), 0)
	if m != nil {
		binary, err := builds.Mutant(r.Ctx, testenv.Path("."), os.Stderr, string(m.program), m.changes...)
		require.NoError(t, err)
		r.binaries[m.program] = binary
	}
	// A mutant that deletes pods may: its roles do not allow it, and neither does a policy.
	r.Delete(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "berth-controller-pods"}})
	t.Cleanup(func() { r.ApplyFiles("manifests/rbac/policies.yaml") })
	rights := builders.ClusterGrant("mutant", builders.User(cluster.BerthControllerUser), builders.Rule("", []string{"pods"}, "delete"))
	r.CreateForTest(rights...)
	r.startScheduler()
	for _, name := range replicas {
		r.startController(name)
	}
	r.wait(grace + 2*time.Second)
	s.do(r)
	h := r.history()
	if t.Failed() {
		t.Log(r.keep(h))
	}
	return h
}

// Programs that keep their promises are not blamed in the scenarios in which the mutants are caught.
func TestNoPromiseIsBrokenInTheScenariosOfMutants(t *testing.T) {
	slow(t)
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			for _, v := range judgeAll(s.act(t, nil)) {
				assert.Empty(t, v.Violations, v.Promise)
			}
		})
	}
}

// Each validator catches programs that break its promise: a validator that was never seen to fail is none.
func TestMutantsOfTheProgramsAreCaught(t *testing.T) {
	slow(t)
	for i := range mutants {
		m := &mutants[i]
		t.Run(fmt.Sprintf("%s: %s", m.program, m.what), func(t *testing.T) {
			v := m.judge(m.scenario.act(t, m))
			require.NotEmpty(t, v.Violations, "%s: %d facts", v.Promise, v.Facts)
			t.Logf("caught by %s, %d times: %s", v.Promise, len(v.Violations), v.Violations[0])
		})
	}
}

// The suite that runs the mutants is slow: a change of the programs that no mutant survives is found here.
func TestMutantsCompile(t *testing.T) {
	all := map[string][]builds.Replacement{}
	for i := range mutants {
		all[mutants[i].what] = mutants[i].changes
	}
	for _, m := range gateMutants {
		all[m.what] = []builds.Replacement{m.change}
	}
	c, err := builds.NewChecker(t.Context(), testenv.Path("."), slices.Collect(maps.Values(all))...)
	require.NoError(t, err)
	for what, changes := range all {
		assert.NoError(t, c.Check(changes...), what)
	}
}

// Every validator has mutants, but for the one whose promise the API server keeps: it refuses a second Binding of a pod.
func TestEveryValidatorHasMutants(t *testing.T) {
	all := map[string]int{}
	for i := range mutants {
		all[mutants[i].judge(&history.History{}).Promise]++
	}
	all[judge.NoOvercommit(&history.History{}).Promise]++ // TestASchedulerThatOvercommitsIsCaught
	for _, v := range judgeAll(&history.History{}) {
		if v.Promise != judge.BoundOnce(&history.History{}).Promise {
			assert.GreaterOrEqual(t, all[v.Promise], 2, v.Promise)
		}
	}
}
