// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/robustness/network"
	"berth.dev/berth/test/robustness/plan"
	"berth.dev/berth/test/testenv"
)

// several are workloads of each kind with one mix.
func several(m split.Mix) *plan.Plan {
	p := &plan.Plan{}
	for i, owner := range []plan.Owner{plan.Deployment, plan.Deployment, plan.StatefulSet, plan.ReplicaSet} {
		p.Workloads = append(p.Workloads, plan.Workload{
			Name: fmt.Sprintf("w%d", i), Owner: owner, Gated: i == 1, Budgeted: i == 0, Mix: m, Replicas: plan.MaxReplicas,
		})
	}
	return p
}

// withoutStatefulSets are several workloads whose pods have new names: the scheduler does not end by cacheExit.
func withoutStatefulSets(m split.Mix) *plan.Plan {
	p := several(m)
	p.Workloads = slices.DeleteFunc(p.Workloads, func(w plan.Workload) bool { return w.Owner == plan.StatefulSet })
	return p
}

// begun is a run whose workloads are all in their mix.
func begun(t *testing.T, m split.Mix) *runner {
	t.Helper()
	return begunWith(t, several(m))
}

// begunWith is begun for workloads of a plan.
func begunWith(t *testing.T, p *plan.Plan) *runner {
	t.Helper()
	slow(t)
	r := newRunner(testenv.New(t, nodes(8)...), 0)
	r.begin(p)
	r.waitAllSettled(time.Now().Add(settle))
	return r
}

// judged ends the faults, waits until all mixes are exact, and has the history judged by all promises but those that the test breaks.
func (r *runner) judged(broken ...string) *history.History {
	r.T.Helper()
	r.settle()
	h := r.history()
	for _, v := range judgeAll(h) {
		r.T.Log(v)
		if !slices.Contains(broken, v.Promise) {
			assert.Empty(r.T, v.Violations, v.Promise)
		}
	}
	if r.T.Failed() {
		r.T.Log("the history is in " + r.keep(h))
	}
	return h
}

func (r *runner) remixAll(m split.Mix) {
	for _, name := range r.order {
		r.remix(&plan.Step{Workload: name, Mix: m})
	}
}

// The API server stops for 40 seconds while moves are under way, the leader cannot renew its lease, and most spot nodes are lost around the
// outage: neither the old nor the new leader may move anything by what it knew before.
func TestASpotStormDuringAnOutageWithMovesInHand(t *testing.T) {
	r := begun(t, split.New(60, 1))
	leader := r.leader()
	before := len(r.moved())
	r.remixAll(split.New(20, 1))
	r.Reaches("moves are in hand", before+1, func() int { return len(r.moved()) })
	r.networks[leader].Set(network.Fault{Refused: 100, Code: http.StatusInternalServerError, Only: "/leases/"})
	lost := []string{"spot-0", "spot-1", "spot-2", "spot-3", "spot-4"}
	r.lose(lost[:2])
	r.step(&plan.Step{Kind: plan.Stop, Target: plan.APIServer, For: 40 * time.Second})
	r.lose(lost[2:])
	r.wait(10 * time.Second)
	r.networks[leader].Set(network.Fault{})
	for _, spec := range cluster.Nodes("spot", len(lost), func(n *cluster.NodeSpec) { n.CPU, n.Memory = "4", "16Gi" }) {
		r.AddNodes(spec)
	}
	require.NotEqual(t, leader, r.leader(), "the other controller leads")
	r.judged()
}

// lose deletes nodes with their pods.
func (r *runner) lose(nodes []string) {
	for _, name := range nodes {
		r.disturbed[plan.LoseNode] = "" // each stays lost
		r.loseNode(&plan.Step{Kind: plan.LoseNode, Node: name})
	}
	delete(r.disturbed, plan.LoseNode)
}

// Both programs are restarted, as an upgrade does, while the mixes change each second and half of the Bindings fail or lose their answer.
func TestAnUpgradeWhileMixesFlapAndBindingsFail(t *testing.T) {
	r := begun(t, split.New(50, 1))
	scheduler := r.networks[string(history.Scheduler)]
	scheduler.Set(network.Fault{Refused: 30, Code: http.StatusInternalServerError, Lost: 30, Only: "/binding"})
	second := time.Second
	for i := range 20 {
		m := split.New(20, 1)
		if i%2 == 0 {
			m = split.New(80, 0)
		}
		r.remixAll(m)
		r.deletePods(&plan.Step{Workload: r.order[i%len(r.order)], Count: 1})
		switch i {
		case 5, 12: // one after the other, as a Deployment does
			r.replaceController(replicas[i%2])
		case 8:
			r.replaceScheduler()
		}
		r.wait(second)
	}
	r.judged()
}
