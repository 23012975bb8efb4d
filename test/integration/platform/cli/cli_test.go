// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// scenario has an exact workload, one that borrowed, one that waits, and pods
// that other schedulers placed or that no mix selects.
func scenario(w *testenv.World) {
	w.T.Helper()
	w.AddNodes(append(cluster.Nodes("spot", 1, cpus("8")), cluster.Nodes("on-demand", 2)...)...)
	w.AddNodes(cluster.Nodes("", 1)...)
	w.Create(
		builders.CapacityMix("web", 50, 1), builders.CapacityMix("big", 100, 0),
		builders.CapacityMix("stuck", 100, 0, builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableWait, 0)),
		builders.Deployment("web", 6),
	)
	w.RequireExact("web", split.New(50, 1), 6)
	w.Create(builders.Deployment("big", 2, builders.CPU("5")))
	w.WaitReady("big", 2)
	w.Create(builders.Deployment("stuck", 1, builders.CPU("5")))
	annotated := builders.Deployment("annotated", 2)
	annotated.Annotations = builders.MixAnnotations(50, 1)
	w.Create(annotated, builders.Pod("lonely", "lonely"), builders.Pod("web", "stray", onNode("on-demand-1")), builders.DaemonSet("agent"))
	w.WaitReady("annotated", 2)
	w.WaitReady("lonely", 1)
	w.WaitReady("web", 7)
	w.WaitUnschedulable("stuck", 1)
}

func TestStatusExplainAndNodesShowTheCluster(t *testing.T) {
	w := begin(t)
	scenario(w)
	me := user(w, "reader", viewer)

	t.Run("status", func(t *testing.T) {
		s := decode[overview.Status](t, kubectl(w, me, "", "status", "-n", w.Namespace, "-o", "json"))
		require.Len(t, s.Mixes, 3)
		assert.Equal(t, []string{"big", "stuck", "web"}, []string{s.Mixes[0].Name, s.Mixes[1].Name, s.Mixes[2].Name})
		assert.Equal(t, overview.Known(overview.Split{Spot: 1, OnDemand: 1}), s.Mixes[0].Actual)
		assert.Equal(t, overview.Known(1), s.Mixes[0].Borrowed)
		assert.Equal(t, overview.Known(1), s.Mixes[1].Pending)
		assert.Equal(t, overview.Known(true), s.Mixes[2].Satisfied)
		states := map[string]string{}
		for _, g := range s.Workloads {
			states[g.Kind+"/"+g.Name] = g.Source + " " + g.State
		}
		assert.Equal(t, map[string]string{
			"Deployment/web": "capacitymix/web Exact", "Deployment/big": "capacitymix/big WrongType", "Deployment/stuck": "capacitymix/stuck Pending",
			"Deployment/annotated": "annotations/controller Exact", "Pod/capacitymix/web": "capacitymix/web Exact",
		}, states)

		r := kubectl(w, me, "", "status", "-n", w.Namespace).ok(t)
		assert.Contains(t, r.errOut, "berth-controller does not seem to run")
		assert.Contains(t, kubectl(w, me, "", "status", "web", "-n", w.Namespace).ok(t).out, "Deployment/web")
		assert.Contains(t, kubectl(w, me, "", "status", "-A", "-o", "wide").ok(t).out, w.Namespace)
		assert.ErrorContains(t, kubectl(w, me, "", "status", "none", "-n", w.Namespace).err, `"none" not found`)
	})
	t.Run("explain", func(t *testing.T) { explainAll(t, w, me) })
	t.Run("nodes", func(t *testing.T) {
		n := decode[overview.Nodes](t, kubectl(w, me, "", "nodes", "-o", "json"))
		types := map[string]string{}
		for _, s := range n.Nodes {
			types[s.Name] = s.Type + " " + s.Rule
		}
		assert.Equal(t, map[string]string{
			"spot-0": "spot karpenter-spot", "on-demand-0": "on-demand karpenter-on-demand", "on-demand-1": "on-demand karpenter-on-demand", "node-0": "unknown ",
		}, types)
		assert.Contains(t, kubectl(w, me, "", "nodes").ok(t).out, "karpenter-on-demand")
		r := kubectl(w, me, "", "nodes", "--unknown").ok(t)
		assert.Contains(t, r.out, "node-0")
		assert.NotContains(t, r.out, "spot-0")
		assert.Contains(t, r.out, "docs/node-types.md")
	})
	t.Run("completion", func(t *testing.T) {
		assert.Contains(t, kubectl(w, me, "", "__complete", "explain", "-n", w.Namespace, "lon").out, "lonely\n")
		assert.Contains(t, kubectl(w, me, "", "__complete", "status", "-n", w.Namespace, "").out, "stuck\n")
	})
}

// explainAll explains every pod of the scenario, and compares with the pod.
func explainAll(t *testing.T, w *testenv.World, kubeconfig string) {
	types := w.Types()
	for _, p := range slices.Concat(w.Live("web"), w.Live("big"), w.Live("stuck"), w.Live("annotated"), w.Live("lonely"), w.Live("agent")) {
		app := p.Labels["app"]
		e := decode[overview.Explanation](t, kubectl(w, kubeconfig, "", "explain", p.Name, "-n", w.Namespace, "-o", "json"))
		text := kubectl(w, kubeconfig, "", "explain", "pod/"+p.Name, "-n", w.Namespace).ok(t).out
		if p.Spec.NodeName != "" {
			require.NotNil(t, e.Node, p.Name)
			assert.Equal(t, overview.Known(types[p.Spec.NodeName].String()), e.Node.Type, p.Name)
		}
		if app == "lonely" || app == "agent" {
			assert.False(t, e.Governed, p.Name)
			// API servers from 1.35 on add the topology labels of the node to those of a bound pod.
			assert.Contains(t, text, map[string]string{"lonely": "selects its labels (app=lonely", "agent": "DaemonSet"}[app])
			continue
		}
		require.True(t, e.Governed, p.Name)
		require.NotNil(t, e.Slot, p.Name)
		if slot, ok := governing.ClaimedSlot(&p); ok {
			assert.Equal(t, slot, e.Slot.Number, p.Name)
			assert.Equal(t, p.Annotations[v1alpha1.CapacityTypeAnnotation], e.Slot.Type, p.Name)
			assert.Equal(t, p.Annotations[v1alpha1.MixAnnotation], e.Mix.Source, p.Name)
		}
		explainOne(t, &p, &e, text)
	}
	assert.ErrorContains(t, kubectl(w, kubeconfig, "", "explain", "nobody", "-n", w.Namespace).err, `pods "nobody" not found`)
}

// explainOne looks at what is special about a pod.
func explainOne(t *testing.T, p *corev1.Pod, e *overview.Explanation, text string) {
	switch {
	case p.Name == "stray":
		assert.Contains(t, text, "schedulerName is default-scheduler")
	case p.Spec.NodeName == "":
		require.NotNil(t, e.Pending)
		assert.Equal(t, "spot", e.Pending.WaitsFor)
		assert.Contains(t, e.Pending.Message, "Insufficient cpu")
	case !e.Node.Type.Is(e.Slot.Type):
		require.NotNil(t, e.Borrowed)
		assert.Equal(t, "Event", e.Borrowed.By)
		assert.Equal(t, rebalance.ReasonInsufficientCapacity.Name, e.Move.Reason, "spot is full, so nothing moves")
		assert.Contains(t, e.Move.Message, "Insufficient cpu")
	default:
		assert.Nil(t, e.Borrowed)
		assert.False(t, e.Move.WrongSide)
	}
}

const allFile = `
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: not-a-mix}
- apiVersion: berth.dev/v1alpha1
  kind: CapacityMix
  metadata: {name: web}
  spec:
    selector: {matchLabels: {app: web}}
    spotPercent: %d
    minOnDemand: 2
`

func TestPlanShowsTheMovesAndWritesNothing(t *testing.T) {
	w := begin(t, append(cluster.Nodes("spot", 2), cluster.Nodes("on-demand", 1, cpus("4"))...)...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10, builders.CPU("1")), builders.Deployment("free", 2))
	w.RequireExact("web", split.New(70, 2), 10)
	w.WaitReady("free", 2)
	me := user(w, "planner", editor)
	before := w.Live("web")

	// 30 percent of 10 are 3 on spot, so 4 have to move; on-demand has free capacity for
	// one: 4 CPUs, 3 of them taken.
	file := testenv.WriteFile(t, "mix.yaml", fmt.Sprintf(allFile, 30))
	p := decode[overview.Plan](t, kubectl(w, me, "", "plan", "-f", file, "-n", w.Namespace, "-o", "json"))
	require.Len(t, p.Workloads, 1)
	assert.Equal(t, 4, p.Workloads[0].WrongSide)
	assert.Equal(t, overview.Split{Spot: 3, OnDemand: 7}, p.Workloads[0].Desired)
	require.Len(t, p.Moves, 1)
	assert.Equal(t, "on-demand-0", p.Moves[0].Node)
	require.Len(t, p.Blocked, 3)
	assert.Equal(t, rebalance.ReasonInsufficientCapacity.Name, p.Blocked[0].Reason)
	assert.Contains(t, p.Blocked[0].Message, "Insufficient cpu")
	assert.True(t, p.Mixes[0].Validated)

	// The same from standard input, as a table, and as a what-if.
	r := kubectl(w, me, fmt.Sprintf(allFile, 30), "plan", "-f", "-", "-n", w.Namespace).ok(t)
	assert.Contains(t, r.out, "1 move, 3 blocked. Nothing was written.")
	assert.Equal(t, r.out, kubectl(w, me, "", "plan", "web", "--spot-percent=30", "-n", w.Namespace).ok(t).out)
	all := decode[overview.Plan](t, kubectl(w, me, "", "plan", "web", "--spot-percent=0", "--assume-capacity", "-n", w.Namespace, "-o", "json"))
	assert.Len(t, all.Moves, 7)

	// A new mix governs what no older one does. Of the same second, the name decides.
	everything := strings.Replace(fmt.Sprintf(allFile, 50), "name: web", "name: wide", 1)
	everything = strings.Replace(everything, "{matchLabels: {app: web}}", "{}", 1)
	r = kubectl(w, me, everything, "plan", "-f", "-", "-n", w.Namespace).ok(t)
	assert.Contains(t, r.out, "would be created")
	assert.Contains(t, r.out, "Newly governed: 2 pods of Deployment/free")
	assert.Contains(t, r.out, "the oldest CapacityMix has precedence")

	// What the API server refuses, the plan refuses.
	assert.ErrorContains(t, kubectl(w, me, fmt.Sprintf(allFile, 300), "plan", "-f", "-", "-n", w.Namespace).err, "spotPercent must be between 0 and 100")
	assert.ErrorContains(t, kubectl(w, me, strings.Replace(fmt.Sprintf(allFile, 30), "minOnDemand", "minimumOnDemand", 1), "plan", "-f", "-", "-n", w.Namespace).err, "minimumOnDemand")

	// Without the right to validate there is a plan too.
	r = kubectl(w, user(w, "looker", viewer), "", "plan", "web", "--spot-percent=30", "-n", w.Namespace).ok(t)
	assert.Contains(t, r.out, "was not validated by the API server")
	assert.Contains(t, r.out, "1 move, 3 blocked")

	requireNothingWritten(w, "planner", "looker")
	after := w.Live("web")
	require.Len(t, after, len(before))
	for i := range before {
		assert.Equal(t, before[i].ResourceVersion, after[i].ResourceVersion, "pod %s is as it was", before[i].Name)
	}
}

// requireNothingWritten looks at every request of users in the audit log.
func requireNothingWritten(w *testenv.World, users ...string) {
	w.T.Helper()
	read, dry := 0, 0
	w.Eventually("the audit log has the requests", func() (bool, string) {
		read, dry = 0, 0
		_, err := w.Cluster.ReadAuditLog(func(e *cluster.AuditEvent) bool {
			for _, u := range users {
				if e.User.Username != u || e.Stage != "ResponseComplete" {
					continue
				}
				switch {
				case e.Verb == "get" || e.Verb == "list":
					read++
				case strings.Contains(e.RequestURI, "dryRun=All"):
					dry++
				default:
					require.Fail(w.T, "a plan writes nothing", "%s %s", e.Verb, e.RequestURI)
				}
			}
			return false
		})
		return err == nil && read > 20 && dry > 5, fmt.Sprint(read, dry, err)
	})
	w.T.Logf("%d reads and %d dry runs, no write", read, dry)
}

func TestAForbiddenReadIsReportedAndTheRestIsShown(t *testing.T) {
	w := begin(t, cluster.Nodes("on-demand", 1)...)
	w.Create(builders.CapacityMix("web", 0, 1), builders.Deployment("web", 1))
	w.WaitReady("web", 1)
	little := user(w, "little", viewer[2:])
	r := kubectl(w, little, "", "status", "-n", w.Namespace).ok(t)
	assert.Contains(t, r.errOut, "Warning: not allowed: list pods in namespace "+w.Namespace)
	assert.Contains(t, r.errOut, "Warning: not allowed: list nodes\n")
	assert.Contains(t, r.out, "<unknown>")
	assert.ErrorContains(t, kubectl(w, little, "", "nodes").err, "cannot list nodes")
	view := user(w, "view-only", append([]rbacv1.PolicyRule{builders.Rule("", []string{"pods"}, "get", "list")}, viewer[1:]...))
	s := decode[overview.Status](t, kubectl(w, view, "", "status", "-n", w.Namespace, "-o", "json"))
	require.Len(t, s.Workloads, 1)
	assert.Equal(t, overview.ReasonUnknown, s.Workloads[0].State)
	for _, c := range []overview.Standing{s.Mixes[0].Standing, s.Workloads[0].Standing} {
		assert.True(t, c.Actual.Unknown())
		assert.True(t, c.Satisfied.Unknown())
		assert.Equal(t, overview.Known(overview.Split{OnDemand: 1}), c.Desired)
		assert.Equal(t, overview.Known(0), c.Pending)
	}
	assert.ErrorContains(t, kubectl(w, little, "", "plan", "web", "-n", w.Namespace).err, "cannot list pods")
	require.ErrorContains(t, kubectl(w, little, "", "status", "-o", "xml").err, `--output is "xml": it must be one of table, wide, json, yaml`)
}

// On-demand has free capacity for five of the eight replicas that have to move, and one
// of the first of them must not be disturbed.
func TestThePlanPredictsTheController(t *testing.T) {
	w := begin(t, append(cluster.Nodes("spot", 2), cluster.Nodes("on-demand", 1, cpus("11"))...)...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.PodDisruptionBudget("web", builders.MaxUnavailable("1")), builders.Deployment("web", 20, builders.CPU("1")))
	w.RequireExact("web", split.New(70, 2), 20)
	w.WaitReady("web", 20)
	slots := w.Slots(w.Live("web"))
	kept := slots[18]
	testenv.Patch(w, kept, func(p *corev1.Pod) { p.Annotations[pods.SafeToEvict] = "false" })

	me := user(w, "applier", editor)
	p := decode[overview.Plan](t, kubectl(w, me, "", "plan", "web", "--spot-percent=30", "-n", w.Namespace, "-o", "json"))
	require.Equal(t, 8, p.Workloads[0].WrongSide)
	require.Len(t, p.Moves, 5)
	require.Len(t, p.Blocked, 3)
	reasons := map[string]bool{}
	for _, b := range p.Blocked {
		reasons[b.Reason] = true
	}
	assert.Contains(t, reasons, rebalance.ReasonInsufficientCapacity.Name)

	w.Controller(testenv.Impatient)
	cm := w.Mix("web")
	testenv.Patch(w, cm, builders.SpotPercent(30))
	w.WaitStatus("web", "all is moved that may be", func(s *v1alpha1.CapacityMixStatus) bool {
		return s.Actual.OnDemand == 11 && len(s.Workloads) == 1 && s.Workloads[0].Blocked != nil && reasons[s.Workloads[0].Blocked.Reason]
	})
	planned, evicted := make([]string, 0, len(p.Moves)), make([]string, 0, len(p.Moves))
	for _, m := range p.Moves {
		planned = append(planned, m.Pod)
	}
	for _, e := range w.Evictions() {
		require.True(t, e.OK(), "%s", e)
		evicted = append(evicted, e.Name)
	}
	assert.Equal(t, planned, evicted, "the same pods in the same order")
	assert.NotContains(t, evicted, kept.Name)
	w.Always(testenv.Short, "nothing more is evicted", func() (bool, string) { return len(w.Evictions()) == len(planned), fmt.Sprint(w.Evictions()) })
}
