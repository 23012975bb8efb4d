// SPDX-License-Identifier: Apache-2.0

// Package rebalance_test breaks the mix of workloads on a real control plane,
// and lets the real controller repair it.
package rebalance_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/specs"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

var spotNodes = []string{"spot-0", "spot-1", "spot-2", "spot-3", "spot-4", "spot-5"}

func TestReplicasReturnToSpotOneAtATime(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	c := w.Controller(testenv.Impatient)
	specs.SpotComesBack(w, spotNodes...)
	assert.Len(t, w.Evictions(), 7, "one eviction for each replica that had to move, and none before")

	writes := len(w.StatusWrites())
	w.Always(testenv.Length(12*time.Second, 5*time.Minute), "the controller lives on", func() (bool, string) { return testenv.Runs(c) })
	assert.Len(t, w.Evictions(), 7, "nothing more is evicted")
	assert.Len(t, w.StatusWrites(), writes, "nothing more is written")
}

const (
	spot     = v1alpha1.CapacityTypeSpot
	onDemand = v1alpha1.CapacityTypeOnDemand

	// letGo bounds the time from the moment when a move becomes possible until
	// all are made; a replica for which the filters found no free capacity rests a minute.
	letGo = 100 * time.Second
)

// strayed is a workload of four that came to be on on-demand as a whole although
// half of it belongs on spot, in a lane with one node of each type.
type strayed struct {
	lane     testenv.Lane
	mix      []func(*v1alpha1.CapacityMix)
	template []func(*corev1.PodTemplateSpec)
	node     []func(*cluster.NodeSpec) // the spot node, which comes later
	with     []client.Object
	bare     bool // pods without a controller
	unready  bool

	// reason and words are what the message must have about it; no reason: it may be moved.
	reason string
	words  []string
	// release takes away what blocks it; nil: nothing will.
	release func(*testenv.World)
}

func (s *strayed) name() string { return string(s.lane) }

func (s *strayed) create(w *testenv.World) {
	w.T.Helper()
	template := append([]func(*corev1.PodTemplateSpec){s.lane.Pods}, s.template...)
	if s.unready {
		template = append(template, neverReady)
	}
	w.Create(builders.CapacityMix(s.name(), 50, 1, s.mix...))
	w.Create(s.with...)
	if !s.bare {
		w.Create(builders.Deployment(s.name(), 4, template...))
		return
	}
	for i := range 4 {
		w.Create(builders.Pod(s.name(), fmt.Sprintf("%s-%d", s.name(), i), template...))
	}
}

// changeMix returns a release that changes the lane's mix.
func changeMix(name string, change func(*v1alpha1.CapacityMix)) func(*testenv.World) {
	return func(w *testenv.World) {
		w.T.Helper()
		w.ChangeMix(name, change)
	}
}

// relaxBudget returns a release that lets one pod at a time go.
func relaxBudget(name string) func(*testenv.World) {
	return func(w *testenv.World) {
		w.T.Helper()
		testenv.Patch(w, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}, func(b *policyv1.PodDisruptionBudget) {
			b.Spec.MinAvailable = nil
			builders.MaxUnavailable("1")(b)
		})
	}
}

func deleteBudget(name string) func(*testenv.World) {
	return func(w *testenv.World) {
		w.T.Helper()
		w.Delete(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}})
	}
}

// changePods returns a release that changes the lane's pods as they are.
func changePods(name string, change func(*corev1.Pod)) func(*testenv.World) {
	return func(w *testenv.World) {
		w.T.Helper()
		for _, p := range w.Live(name) {
			testenv.Patch(w, &p, change)
		}
	}
}

func named(name string, b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	b.Name = name
	return b
}

func evict(m *v1alpha1.CapacityMix) { m.Spec.Rebalance.Mode = v1alpha1.RebalanceModeEvict }

// asOneUnit has all pods of a workload move together, to spot.
func asOneUnit(m *v1alpha1.CapacityMix) {
	m.Spec.SpotPercent, m.Spec.MinOnDemand = 100, 0
	m.Spec.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: "app"}
}

func anyTime(m *v1alpha1.CapacityMix) { m.Spec.Rebalance.Windows = nil }

// reasons are what keeps replicas where they are. Opening is the next one of the closed window.
func reasons(opening time.Time) []*strayed {
	return append(append(reasonsOfUsers(opening), reasonsOfPods()...), reasonsOfBudgets()...)
}

func reasonsOfUsers(opening time.Time) []*strayed {
	return []*strayed{
		{
			lane: "reported", mix: []func(*v1alpha1.CapacityMix){builders.RebalanceMode(v1alpha1.RebalanceModeReport)},
			reason: "ReportOnly", words: []string{"rebalance.mode is Report", "pod reported-", "from on-demand to spot"}, release: changeMix("reported", evict),
		},
		{
			lane: "switched-off", mix: []func(*v1alpha1.CapacityMix){builders.RebalanceMode(v1alpha1.RebalanceModeOff)},
			reason: "Off", words: []string{"rebalance.mode is Off"}, release: changeMix("switched-off", evict),
		},
		{
			lane: "as-a-unit", mix: []func(*v1alpha1.CapacityMix){asOneUnit},
			reason: "UnitWouldRestart", words: []string{"is one of 4 pods of unit as-a-unit", "no operator is known"},
		},
		{
			lane: "closed-window", mix: []func(*v1alpha1.CapacityMix){builders.RebalanceWindow(opening.Format("4 15 * * *"))},
			reason: "OutsideWindow", words: []string{"the next opens at " + opening.Format(time.RFC3339)}, release: changeMix("closed-window", anyTime),
		},
		{
			lane: "wrong-window", mix: []func(*v1alpha1.CapacityMix){builders.RebalanceWindow("61 * * * *")},
			reason: "InvalidWindow", words: []string{"windows[0].schedule", "61"}, release: changeMix("wrong-window", anyTime),
		},
	}
}

func reasonsOfPods() []*strayed {
	return []*strayed{
		{
			lane: "too-small", node: []func(*cluster.NodeSpec){func(n *cluster.NodeSpec) { n.CPU = "1" }}, template: []func(*corev1.PodTemplateSpec){builders.CPU("2")},
			reason: "InsufficientCapacity", words: []string{"no spot node has free capacity", "pod too-small-"},
		},
		{
			lane: "tainted", node: []func(*cluster.NodeSpec){func(n *cluster.NodeSpec) {
				n.Taints = []corev1.Taint{{Key: "test.berth.dev/closed", Effect: corev1.TaintEffectNoSchedule}}
			}},
			reason: "InsufficientCapacity", words: []string{"pod tainted-", "1 node(s) had untolerated taint(s)"},
			release: func(w *testenv.World) {
				w.ChangeNode(testenv.Lane("tainted").Name(spot), func(n *corev1.Node) { n.Spec.Taints = nil })
			},
		},
		{
			lane: "guarded", template: []func(*corev1.PodTemplateSpec){builders.AwayFrom("guard")},
			reason: "InsufficientCapacity", words: []string{"pod guarded-", "didn't match pod anti-affinity rules"},
			release: func(w *testenv.World) { w.Delete(&w.Live("guard")[0]) },
		},
		{
			lane: "kept", template: []func(*corev1.PodTemplateSpec){builders.PodAnnotation("karpenter.sh/do-not-disrupt", "true")},
			reason: "DoNotDisrupt", words: []string{"pod kept-", "annotation karpenter.sh/do-not-disrupt"},
		},
		{
			lane: "local", template: []func(*corev1.PodTemplateSpec){builders.EmptyDir("scratch")},
			reason: "LocalStorage", words: []string{"pod local-", "volume scratch"},
			release: changePods("local", func(p *corev1.Pod) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, "cluster-autoscaler.kubernetes.io/safe-to-evict", "true")
			}),
		},
		{
			lane: "pinned", template: []func(*corev1.PodTemplateSpec){builders.OnNodesWith(cluster.CapacityTypeLabel, onDemand)},
			reason: "Pinned", words: []string{"pod pinned-"},
		},
		{
			lane: "elsewhere", template: []func(*corev1.PodTemplateSpec){builders.SchedulerName(corev1.DefaultSchedulerName), func(t *corev1.PodTemplateSpec) {
				t.Spec.NodeName = testenv.Lane("elsewhere").Name(onDemand) // the scheduler does not place them here
			}},
			reason: "OtherScheduler", words: []string{"schedulerName is default-scheduler"},
		},
		{
			lane: "fixed", template: []func(*corev1.PodTemplateSpec){func(t *corev1.PodTemplateSpec) { t.Spec.NodeName = testenv.Lane("fixed").Name(onDemand) }},
			reason: "FixedNode", words: []string{"the pod template names node fixed-on-demand"},
		},
		{lane: "bare", bare: true, reason: "NoController", words: []string{"pods without a controller"}},
		{lane: "unready", unready: true, reason: "NotReady", words: []string{"pod unready-", "is not Ready"}},
	}
}

func reasonsOfBudgets() []*strayed {
	budget := func(lane string, reason string, words []string, budgets ...*policyv1.PodDisruptionBudget) *strayed {
		s := &strayed{lane: testenv.Lane(lane), reason: reason, words: words, release: relaxBudget(lane)}
		for _, b := range budgets {
			s.with = append(s.with, b)
		}
		return s
	}
	overlapping := budget("overlapping", "OverlappingDisruptionBudgets", []string{"2 PodDisruptionBudgets select the pod (overlapping, second)"},
		builders.PodDisruptionBudget("overlapping", builders.MaxUnavailable("2")), named("second", builders.PodDisruptionBudget("overlapping", builders.MaxUnavailable("2"))))
	overlapping.release = func(w *testenv.World) {
		w.T.Helper()
		deleteBudget("second")(w)
		// The disruption controller updates one budget of a pod, which it chooses by chance. That of the other may be as old as its pods
		// until one of these changes, or the budget does.
		left := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "overlapping"}}
		testenv.Patch(w, left, func(b *policyv1.PodDisruptionBudget) { b.Annotations = map[string]string{"test": "the only one"} })
	}
	return []*strayed{
		budget("all-available", "DisruptionBudget", []string{`PodDisruptionBudget "all-available" allows 0 disruptions`, "waiting does not help"},
			builders.PodDisruptionBudget("all-available", builders.MinAvailable("100%"))),
		budget("none-unavailable", "DisruptionBudget", []string{`PodDisruptionBudget "none-unavailable" allows 0 disruptions`, "waiting does not help"},
			builders.PodDisruptionBudget("none-unavailable", builders.MaxUnavailable("0"))),
		budget("percentage", "DisruptionBudget", []string{`PodDisruptionBudget "percentage" allows 0 disruptions: 4 of 4 pods are healthy and it needs 4`},
			builders.PodDisruptionBudget("percentage", builders.MinAvailable("80%"))),
		overlapping,
	}
}

// stray creates workloads that are all on on-demand, and then their spot nodes.
func stray(w *testenv.World, all []*strayed) {
	w.T.Helper()
	var first, later []cluster.NodeSpec
	for _, s := range all {
		first = append(first, s.lane.Node(onDemand, onDemand, "16"))
		later = append(later, s.lane.Node(spot, spot, "16", s.node...))
	}
	w.AddNodes(first...)
	for _, s := range all {
		s.create(w)
	}
	for _, s := range all {
		if s.unready {
			w.WaitBound(s.name(), 4)
		} else {
			w.WaitReady(s.name(), 4)
		}
	}
	w.AddNodes(later...)
}

func TestABlockedMoveIsReportedAndNothingIsEvictedMeanwhile(t *testing.T) {
	w := testenv.New(t)
	all := reasons(time.Now().UTC().Add(12 * time.Hour).Truncate(time.Minute))
	plain := &strayed{lane: "plain"}
	stray(w, append(slices.Clone(all), plain))
	guard := testenv.Lane("guarded").Name(spot)
	w.Create(builders.Pod("guard", "guard", builders.OnNode(guard)))
	w.WaitBound("guard", 1)

	before := w.UIDs()
	c := w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.DryRun = true })
	w.WaitBlocked("plain", "DryRun", "--dry-run", "pod plain-", "from on-demand to spot")
	w.WaitBlocked("switched-off", "Off")
	assert.Equal(t, before, w.UIDs(), "a dry run moves nothing")
	assert.Empty(t, w.Evictions(), "a dry run evicts nothing")
	assert.Empty(t, w.PodPatches(), "a dry run repairs nothing")

	w.Reconfigure(c, func(c *controller.Configuration) { c.DryRun = false })
	for _, s := range all {
		message := w.WaitBlocked(s.name(), s.reason, s.words...)
		t.Logf("%s: %s: %s", s.lane, s.reason, message)
		testenv.Becomes(w, "the metric reports it", 1, func() int {
			return w.Metric(c, "berth_mix_blocked_workloads", map[string]string{"namespace": w.Namespace, "mix": s.name(), "reason": s.reason})
		})
	}
	w.WaitRepaired("plain", split.New(50, 1), 4, testenv.SettleTimeout)
	testenv.Stays(w, testenv.Holds, "only what may be moved is evicted", 2, w.Evicted)
	assert.Len(t, w.EvictionsOf("plain"), 2)
	requireNothingElseWent(w, before, "plain")

	released := []string{"plain"}
	for _, s := range all {
		if s.release != nil {
			s.release(w)
			released = append(released, s.name())
		}
	}
	w.WaitExact("reported", split.New(50, 1), 4, 45*time.Second) // what was only reported does not rest for a minute
	for _, name := range released {
		w.WaitRepaired(name, split.New(50, 1), 4, letGo)
		assert.Len(t, w.EvictionsOf(name), 2, "%s: half of four, and no more", name)
	}
	requireNothingElseWent(w, before, released...)
}

// requireNothingElseWent demands that all pods of before are still there, but
// for those of some workloads and what the test took away.
func requireNothingElseWent(w *testenv.World, before map[types.UID]string, but ...string) {
	w.T.Helper()
	now := w.UIDs()
	for uid, name := range before {
		if name == "guard" || slices.ContainsFunc(but, func(b string) bool { return strings.HasPrefix(name, b+"-") }) {
			continue
		}
		assert.Contains(w.T, now, uid, "pod %s is still the same", name)
	}
}

// neverReady makes a revision whose pods run and never become Ready.
var neverReady = builders.ReadyAfter(time.Hour)

func update(w *testenv.World, name string, change func(*corev1.PodTemplateSpec)) {
	w.T.Helper()
	testenv.Patch(w, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}, func(d *appsv1.Deployment) {
		if d.Spec.Template.Annotations == nil {
			d.Spec.Template.Annotations = map[string]string{}
		}
		change(&d.Spec.Template)
	})
}

func TestARolloutFreezesMovesForABoundedTime(t *testing.T) {
	w := testenv.New(t)
	rolling, stuck, exhausted := testenv.Lane("rolling"), testenv.Lane("stuck"), testenv.Lane("exhausted")
	lanes := []testenv.Lane{rolling, stuck, exhausted}
	var later []cluster.NodeSpec
	for _, lane := range lanes {
		w.AddNodes(lane.Node(onDemand, onDemand, "16"))
		later = append(later, lane.Node(spot, spot, "16"))
		d := builders.Deployment(string(lane), 8, lane.Pods)
		if lane != rolling {
			d.Spec.ProgressDeadlineSeconds = new(int32(2))
		}
		if lane == stuck { // its old revision stays whole
			none, more := intstr.FromInt32(0), intstr.FromInt32(2)
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &none, MaxSurge: &more}
		}
		w.Create(builders.CapacityMix(string(lane), 50, 1), d)
	}
	old := map[testenv.Lane]string{}
	for _, lane := range lanes {
		old[lane] = w.WaitReady(string(lane), 8)[0].Labels["pod-template-hash"]
	}
	for _, lane := range lanes {
		update(w, string(lane), neverReady)
		w.WaitBound(string(lane), 10) // a quarter more, and but for one a quarter less of the old
	}
	w.AddNodes(later...)
	w.Controller(testenv.Impatient)

	w.WaitBlocked("rolling", "RollingOut", "a rollout is in progress")
	m := split.New(50, 1)
	ofOld := func() []corev1.Pod {
		return testenv.Where(w.Live("stuck"), func(p *corev1.Pod) bool { return p.Labels["pod-template-hash"] == old[stuck] })
	}
	testenv.Becomes(w, "the old revision of the stuck rollout satisfies its mix", testenv.SplitBy(m, 8), func() testenv.Split {
		return w.SplitOf(ofOld())
	})
	w.WaitBlocked("exhausted", "MaxUnavailable", "2 replicas are unavailable in a rollout, and its maxUnavailable is 2")
	w.WaitStatus("stuck", "its new revision is left alone", func(s *v1alpha1.CapacityMixStatus) bool { return testenv.BlockedBy(s, "NotReady") })
	testenv.Stays(w, testenv.Holds, "nothing else is evicted", m.Spot(8), w.Evicted)
	for _, e := range w.Evictions() {
		assert.Contains(t, e.Name, "stuck-"+old[stuck]+"-", "only replicas of the old revision of the stuck rollout moved")
	}

	// Once it is rolled out, the rollout itself has placed the replicas by the mix.
	update(w, "rolling", func(t *corev1.PodTemplateSpec) {
		delete(t.Annotations, cluster.PodReadyDelay)
		t.Spec.Containers[0].Image = "example.com/app:2"
	})
	w.WaitRepaired("rolling", m, 8, testenv.SettleTimeout)
	assert.Empty(t, w.EvictionsOf("rolling"))
}
