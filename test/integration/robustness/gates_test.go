// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/builds"
	"berth.dev/berth/test/robustness/faultgate"
	"berth.dev/berth/test/robustness/gates"
	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/robustness/judge"
	"berth.dev/berth/test/robustness/plan"
	"berth.dev/berth/test/testenv"
)

const (
	// stopped is how long a program is stopped: longer than the lease of the controllers, and shorter than the view of the judge.
	stopped = 9 * time.Second
	// reach bounds the time until a program acts at its gate. Another controller may have to lead first.
	reach = time.Minute
	// gatedReplicas is how many replicas each workload has.
	gatedReplicas = 4
	// noSpot is the label of the nodes for pods that find no spot node.
	noSpot = "test.berth.dev/no-spot"
)

// The mix that the workload of a gate begins with, and the mix that it gets once the program has acted.
var beforeGate, afterGate = split.New(50, 1), split.New(0, 1)

// gated is a run whose programs have gates.
type gated struct {
	*runner
	dir faultgate.Dir
}

// newGated starts both programs with all gates, which are open, and with changes.
func newGated(t *testing.T, changes map[history.Program][]builds.Replacement) *gated {
	t.Helper()
	r := &gated{dir: faultgate.Dir(t.TempDir())}
	t.Setenv(faultgate.Env, string(r.dir))
	large := func(n *cluster.NodeSpec) { n.CPU, n.Memory = "32", "128Gi" }
	onlyOnDemand := func(n *cluster.NodeSpec) { n.Labels = map[string]string{noSpot: "true"} }
	spot, onDemand := cluster.Nodes("spot", 10, large), cluster.Nodes("on-demand", 10, large, onlyOnDemand)
	r.runner = newRunner(testenv.New(t, append(spot, onDemand...)...), 0)
	for _, p := range []history.Program{history.Scheduler, history.Controller} {
		built := append(gates.Replacements(p), changes[p]...)
		binary, err := builds.Mutant(r.Ctx, testenv.Path("."), os.Stderr, string(p), built...)
		require.NoError(t, err)
		r.binaries[p] = binary
	}
	r.startScheduler()
	for _, name := range replicas {
		r.startController(name)
	}
	return r
}

// revive starts programs that have ended. A scheduler has been killed, so it may end for any reason.
func (r *gated) revive() {
	r.T.Helper()
	r.restartControllers()
	if runs, _ := testenv.Runs(r.scheduler); !runs {
		r.startScheduler()
	}
}

// add creates the workload of a cell.
func (r *gated) add(c *gates.Cell) {
	r.T.Helper()
	w := &plan.Workload{Name: c.Name, Owner: plan.Deployment, Mix: beforeGate, Replicas: gatedReplicas}
	mix := builders.CapacityMix(w.Name, w.Mix.SpotPercent, w.Mix.MinOnDemand)
	template := []func(*corev1.PodTemplateSpec){builders.CPU("1")}
	switch c.Scenario {
	case gates.Released:
		builders.RebalanceStrategy(v1alpha1.RebalanceStrategySurge)(mix)
	case gates.NoSpot:
		mix.Spec.SpotWaitSeconds = new(int32(1))
		template = append(template, builders.OnNodesWith(noSpot, "true"), builders.Gated)
	case gates.Gated:
		template = append(template, builders.Gated)
	}
	d := builders.Deployment(w.Name, w.Replicas, template...)
	r.Create(mix, d)
	r.workloads[w.Name] = &workload{Workload: w, object: d}
	r.order = append(r.order, w.Name)
}

// bound waits until all pods of a cell have a node and are Ready.
func (r *gated) bound(c *gates.Cell) {
	r.T.Helper()
	r.Within(settle, c.Name+" is placed", func() (bool, string) {
		r.revive()
		pods := r.Live(c.Name)
		return len(pods) == gatedReplicas && len(testenv.Where(pods, testenv.Ready)) == gatedReplicas, r.SplitOf(pods).String()
	})
}

// begin has the program of a cell do what leads to its gate.
func (r *gated) begin(c *gates.Cell) {
	r.T.Helper()
	switch c.Scenario {
	case gates.Led:
		testenv.End(r.controllers[r.leader()], true)
	case gates.Moved, gates.Released:
		r.remix(&plan.Step{Workload: c.Name, Mix: afterGate})
	case gates.Repaired:
		p := r.Live(c.Name)[0]
		r.change(&p, func() { p.Annotations[v1alpha1.MixAnnotation] = "another" })
	default:
		r.add(c)
	}
}

// pass arms the gate of a cell, has the program act at it, and has the program run again.
func (r *gated) pass(c *gates.Cell) {
	r.T.Helper()
	step := history.Step{Text: fmt.Sprintf("%s: %s %s", c.Program, c.Action, c.Gate.Name), Fault: true, Began: time.Now()}
	step.Down = c.Scenario == gates.Released && c.Action == faultgate.Stop
	before := len(r.visits())
	require.NoError(r.T, r.dir.Arm(c.Gate.Name, c.Action))
	if c.First != "" {
		require.NoError(r.T, r.dir.Arm(c.First, faultgate.Fail))
	}
	r.begin(c)
	var now []faultgate.Visit
	for c.Acted == 0 && time.Since(step.Began) < reach {
		r.wait(50 * time.Millisecond)
		r.revive()
		now = r.visits()[before:]
		c.Count(now)
	}
	if assert.NotZero(r.T, c.Acted, "%s: no program was at its gate", step.Text) && c.Action == faultgate.Stop {
		r.halt(c)
		r.resume(c, now)
	}
	if !c.OfMoves() {
		if c.Program == history.Scheduler {
			r.bound(c)
		}
		r.remix(&plan.Step{Workload: c.Name, Mix: afterGate})
	}
	step.Ended = time.Now()
	r.T.Logf("%s: %s", step.Text, step.Ended.Sub(step.Began).Round(time.Second/10))
	r.steps = append(r.steps, step)
}

// halt lasts as long as a program is stopped. During a release, kube-controller-manager and the API server are killed meanwhile: at such a
// time the replacement may not have been created yet.
func (r *gated) halt(c *gates.Cell) {
	r.T.Helper()
	if c.Scenario != gates.Released {
		r.wait(stopped)
		return
	}
	for _, name := range []string{cluster.ControllerManager, cluster.APIServer} {
		require.NoError(r.T, r.Cluster.StopComponent(name))
		r.wait(stopped / 3)
		require.NoError(r.T, r.Cluster.StartComponent(r.Ctx, name))
	}
	r.wait(stopped / 3)
}

// visits are those until now.
func (r *gated) visits() []faultgate.Visit {
	r.T.Helper()
	list, err := r.dir.Visits()
	require.NoError(r.T, err)
	return list
}

// resume has the program that stopped at the gate of a cell continue.
func (r *gated) resume(c *gates.Cell, visits []faultgate.Visit) {
	r.T.Helper()
	for _, v := range visits {
		if v.Gate == c.Gate.Name && v.Action == faultgate.Stop {
			require.NoError(r.T, syscall.Kill(v.PID, syscall.SIGCONT))
		}
	}
}

// settled waits until every workload is exactly in its mix.
func (r *gated) settled(cells []gates.Cell) {
	r.T.Helper()
	deadline := time.Now().Add(settle)
	for i := range cells {
		c := &cells[i]
		r.waitSettled(r.workloads[c.Name], deadline)
		c.Exact = true
	}
	r.rest()
}

// blame adds the violations of a verdict to the cells that they name.
func blame(cells []gates.Cell, violations []string) {
	for _, v := range violations {
		for i := range cells {
			if c := &cells[i]; strings.Contains(v, c.Name) {
				c.Violations = append(c.Violations, v)
			}
		}
	}
}

// start creates the workloads of the cells of the controller, and waits until they are placed.
func (r *gated) start(cells []gates.Cell) {
	r.T.Helper()
	for _, do := range []func(*gates.Cell){r.add, r.bound} {
		for i := range cells {
			if c := &cells[i]; c.Program == history.Controller {
				do(c)
			}
		}
	}
}

// verdicts judges the history, and adds the violations to the cells.
func (r *gated) verdicts(cells []gates.Cell) (h *history.History, all []*judge.Verdict) {
	r.T.Helper()
	h = r.history()
	all = judgeAll(h)
	for _, v := range all {
		r.T.Log(v)
		blame(cells, v.Violations)
	}
	return h, all
}

// A program that is killed or stopped between any two steps of a placement, a move or a report, whose step fails, or whose request
// loses its answer, breaks no promise, and the mix is exact once it runs again. Every gate is visited with each of its actions.
func TestFaultsBetweenAnyTwoSteps(t *testing.T) {
	slow(t)
	faultsAt(t, slices.DeleteFunc(gates.Cells(), ofReleases))
}

func ofReleases(c gates.Cell) bool { return c.Scenario == gates.Released }

// The same of a replica that is released before it is evicted: no replica is missing at any instant, one pod more than the workload
// requests runs at most, and none that was released is left. kube-controller-manager and the API server are killed as well.
func TestFaultsBetweenAnyTwoStepsOfARelease(t *testing.T) {
	slow(t)
	cells := slices.DeleteFunc(gates.Cells(), func(c gates.Cell) bool { return !ofReleases(c) })
	faultsAt(t, cells)
}

// faultsAt has programs fail at the gates of some cells, and judges what came of it.
func faultsAt(t *testing.T, cells []gates.Cell) {
	t.Helper()
	defer func() { t.Log("\n" + gates.Table(cells)) }()
	r := newGated(t, nil)
	r.start(cells)
	for i := range cells {
		r.pass(&cells[i])
	}
	r.settled(cells)
	h, all := r.verdicts(cells)
	for _, v := range all {
		assert.Empty(t, v.Violations, v.Promise)
	}
	for i := range cells {
		c := &cells[i]
		assert.Empty(t, c.Verdict(), "%s: %s", c.Action, c.Gate.Name)
		if ofReleases(*c) {
			fewest, most, left := judge.Releases(h, c.Name, gatedReplicas)
			assert.Equal(t, gatedReplicas, fewest, "%s: %s: fewest Ready replicas at any instant", c.Action, c.Gate.Name)
			assert.LessOrEqual(t, most, gatedReplicas+1, "%s: %s: most pods at any instant", c.Action, c.Gate.Name)
			assert.Zero(t, left, "%s: %s: released pods that are left", c.Action, c.Gate.Name)
		}
	}
	if t.Failed() {
		t.Log("the history is in " + r.keep(h))
	}
}

// gateMutants are programs that do not survive what happens at a gate.
var gateMutants = []struct {
	what, gate string
	action     faultgate.Action
	change     builds.Replacement
	verdict    string
}{
	{
		"the slots of bound pods are forgotten", "after the Binding", faultgate.Kill,
		builds.Replacement{
			File: "plugins/capacitymix/ledger/observe.go",
			Old:  "= next, small(b.Claimed), ", New: "= next, small(split.NoSlot), ",
		},
		"a promise is broken",
	},
	{
		"the journal is not read again after its answer was lost", "after the journal is written", faultgate.Lose,
		builds.Replacement{
			File: "controllers/mix/rebalance/journal.go",
			Old:  "if j.loaded || j.Journal.Name", New: "if j.restored || j.Journal.Name",
		},
		"the mix is not exact",
	},
}

// The verdict about a cell is that it failed where the program does not survive what happens at the gate.
func TestMutantsFailAtTheirGates(t *testing.T) {
	slow(t)
	for _, m := range gateMutants {
		t.Run(m.what, func(t *testing.T) {
			cells := slices.DeleteFunc(gates.Cells(), func(c gates.Cell) bool { return c.Gate.Name != m.gate || c.Action != m.action })
			require.Len(t, cells, 1)
			r := newGated(t, map[history.Program][]builds.Replacement{cells[0].Program: {m.change}})
			r.start(cells)
			r.pass(&cells[0])
			// Three times as long as a program takes that keeps its promises.
			for began := time.Now(); !cells[0].Exact && time.Since(began) < 2*time.Minute; r.wait(time.Second) {
				pods := r.Live(cells[0].Name)
				cells[0].Exact = r.SplitOf(pods) == testenv.SplitBy(afterGate, gatedReplicas)
			}
			r.verdicts(cells)
			assert.Equal(t, m.verdict, cells[0].Verdict())
		})
	}
}
