// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/robustness/plan"
	"berth.dev/berth/test/testenv"
)

// gate is a place between two steps of a program, at which the program kills itself. The text is that of the step after it.
type gate struct {
	program history.Program
	where   string
	file    string
	step    string
}

const (
	bindFile    = "plugins/capacitymix/bind.go"
	reserveFile = "plugins/capacitymix/reserve.go"
	statusFile  = "controllers/mix/status/controller.go"
)

var gates = []gate{
	{history.Scheduler, "before Reserve", reserveFile, "\tif p, _ := pl.resolver.Resolve(pod); p == nil ||"},
	{history.Scheduler, "after Reserve", reserveFile, "\tif err != nil {\n\t\treturn pl.retry(ctx, pod, ErrReasonSlotLost)"},
	{history.Scheduler, "before the Binding", bindFile, "\terr := binding.Make(ctx, pl.handle, b)\n"},
	{history.Scheduler, "after the Binding", bindFile, "\tif err != nil && !binding.Refused(err) {\n"},
	{history.Controller, "before a move is recorded", evictions, "\tif hold := c.recordMove(ctx, w, v, m); hold != nil {"},
	{history.Controller, "after a move is recorded", evictions, "\tpod, hold := c.confirm(ctx, w, v, again)\n"},
	{history.Controller, "before the eviction", evictions, "\t// The client retries where the server answers when to;"},
	{history.Controller, "after the eviction", evictions, "\tif hold := w.refusal(v, err); hold != nil {\n\t\tlogger"},
	{history.Controller, "after the move is noted", evictions, "\tc.snapshot.Assume(pod, node)\n"},
	{history.Controller, "before a status", statusFile, "\tversion, err := applyset.Status("},
	{history.Controller, "after a status", statusFile, "\tr.setCurrent(name, version, found)\n"},
}

// replacements build the gate into the program.
func (g *gate) replacements() []cluster.Replacement {
	return []cluster.Replacement{
		{File: g.file, Old: "import (\n", New: "import (\n\t\"syscall\"\n"},
		{File: g.file, Old: g.step, New: "\t_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)\n" + g.step},
	}
}

// revive starts programs that were killed at their gate, without one, and returns how many there were.
func (r *runner) revive() (n int) {
	r.T.Helper()
	for _, name := range replicas {
		if runs, _ := testenv.Runs(r.controllers[name]); !runs {
			delete(r.binaries, history.Controller)
			r.startController(name)
			n++
		}
	}
	if runs, _ := testenv.Runs(r.scheduler); !runs {
		delete(r.binaries, history.Scheduler)
		r.startScheduler()
		n++
	}
	return n
}

// A program that is killed between any two steps of a placement, a move or a report leaves nothing behind that breaks a promise, and the
// mix is exact once it runs again.
func TestProgramsThatAreKilledBetweenTwoSteps(t *testing.T) {
	slow(t)
	for i := range gates {
		g := &gates[i]
		t.Run(fmt.Sprintf("%s, %s", g.program, g.where), func(t *testing.T) {
			r := newRunner(testenv.New(t, nodes(4)...), 0)
			binary, err := cluster.BuildMutant(r.Ctx, testenv.Path("."), os.Stderr, string(g.program), g.replacements()...)
			require.NoError(t, err)
			r.binaries[g.program] = binary
			r.startScheduler()
			for _, name := range replicas {
				r.startController(name)
			}
			w := &plan.Workload{Name: app, Owner: plan.Deployment, Mix: split.New(50, 1), Replicas: 4}
			r.add(w)
			killed := 0
			reach := func(what string, done func() bool) {
				r.Within(settle, what, func() (bool, string) {
					killed += r.revive()
					return done(), r.Split(app).String()
				})
			}
			in := func(m split.Mix) func() bool {
				return func() bool {
					return r.Split(app) == testenv.SplitBy(m, 4) && len(testenv.Where(r.Live(app), testenv.Ready)) == 4
				}
			}
			reach("the pods are placed", in(w.Mix))
			r.remix(&plan.Step{Workload: app, Mix: split.New(0, 1)})
			reach("the replicas are moved", in(split.New(0, 1)))
			reach("the program was killed at its gate", func() bool { return killed > 0 })
			r.waitSettled(r.workloads[app], time.Now().Add(settle))
			h := r.history()
			for _, v := range judgeAll(h) {
				assert.Empty(t, v.Violations, v.Promise)
			}
			if t.Failed() {
				t.Log("the history is in " + r.keep(h))
			}
		})
	}
}
