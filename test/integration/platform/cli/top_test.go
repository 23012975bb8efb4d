// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/test/builders"
)

// topRights are all that the documentation names for kubectl berth top.
var topRights = []rbacv1.PolicyRule{
	builders.Rule("", []string{"pods", "nodes"}, "list"),
	builders.Rule("apps", []string{"deployments", "replicasets", "statefulsets"}, "list"),
	builders.Rule("batch", []string{"jobs"}, "list"),
	builders.Rule("berth.dev", []string{"capacitymixes"}, "list"),
}

// counts are the numbers of a workload or of a sum of them that both commands show.
type counts struct {
	replicas int
	overview.Counts
	satisfied overview.Maybe[bool]
}

func countsOf(replicas int, c overview.Standing) counts {
	return counts{replicas, c.Counts, c.Satisfied}
}

func TestTopShowsTheNumbersOfStatusAndNodes(t *testing.T) {
	w := begin(t)
	scenario(w)
	me, reader := user(w, "top", topRights), user(w, "top-reader", viewer)
	s := decode[overview.Status](t, kubectl(w, reader, "", "status", "-n", w.Namespace, "-o", "json"))
	r := kubectl(w, me, "", "top", "--once", "-n", w.Namespace, "-o", "json")
	o := decode[overview.Overview](t, r)
	assert.Empty(t, r.errOut, "the rights are enough")

	want, got := map[string]counts{}, map[string]counts{}
	satisfied := 0
	for _, g := range s.Workloads {
		want[g.Kind+"/"+g.Name+"/"+g.Revision+" "+g.Source+" "+g.Rule] = countsOf(g.Replicas, g.Standing)
		if g.Satisfied.Is(true) {
			satisfied++
		}
	}
	sum := counts{Counts: overview.NoCounts()}
	for _, g := range o.Workloads {
		got[g.Kind+"/"+g.Name+"/"+g.Revision+" "+g.Source+" "+g.Rule] = counts{g.Replicas, g.Counts, g.Satisfied}
		sum.replicas += g.Replicas
		sum.Add(g.Counts)
	}
	require.Len(t, want, 5)
	assert.Equal(t, want, got)
	assert.Equal(t, overview.Known(sum.replicas), o.Totals.Replicas)
	assert.Equal(t, sum.Counts, o.Totals.Counts)
	assert.Equal(t, []overview.Maybe[int]{overview.Known(len(s.Mixes)), overview.Known(len(s.Workloads)), overview.Known(satisfied)}, []overview.Maybe[int]{o.Totals.Mixes, o.Totals.Workloads, o.Totals.Satisfied})
	assert.Equal(t, overview.Known(false), o.Workloads[0].Satisfied, "those that do not satisfy their mix are first")

	// Only a workload that exists is a row of mixes: their sums are those of their workloads.
	for _, m := range s.Mixes {
		of := counts{Counts: overview.NoCounts(), satisfied: m.Satisfied}
		for _, g := range o.Workloads {
			if g.Source == "capacitymix/"+m.Name {
				of.Add(g.Counts)
			}
		}
		assert.Equal(t, countsOf(0, m.Standing), of, m.Name)
	}
	topNodes(t, decode[overview.Nodes](t, kubectl(w, reader, "", "nodes", "-o", "json")), &o)

	t.Run("text", func(t *testing.T) {
		once := kubectl(w, me, "", "top", "--once", "-n", w.Namespace).ok(t).out
		assert.Contains(t, once, "mixes 3  workloads 5 (3 satisfied)")
		assert.Contains(t, once, "1 of 1 replica waits")
		assert.NotContains(t, once, "\x1b")
		assert.Equal(t, once, kubectl(w, me, "", "top", "-n", w.Namespace).ok(t).out, "stdout is no terminal")
		assert.Contains(t, kubectl(w, me, "", "top", "-A").ok(t).out, w.Namespace+"/web-")
	})
	t.Run("selector", func(t *testing.T) {
		only := decode[overview.Overview](t, kubectl(w, me, "", "top", "-n", w.Namespace, "-l", "app=big", "-o", "json"))
		require.Len(t, only.Workloads, 1)
		big := got["Deployment/big/"+only.Workloads[0].Revision+" capacitymix/big "+only.Workloads[0].Rule]
		assert.Equal(t, overview.Known(big.replicas), only.Totals.Replicas)
		assert.Equal(t, big.Counts, only.Totals.Counts)
		assert.Equal(t, big.satisfied.Is(true), only.Totals.Satisfied.Is(1))
	})
	t.Run("without rights", func(t *testing.T) {
		r := kubectl(w, user(w, "top-nobody", nil), "", "top", "-n", w.Namespace).ok(t)
		assert.Contains(t, r.errOut, "Warning: not allowed: list pods in namespace "+w.Namespace)
		assert.Contains(t, r.out, "The governed workloads are unknown.")
	})
	t.Run("completion", func(t *testing.T) {
		assert.Contains(t, kubectl(w, me, "", "__complete", "top", "-o", "").out, "json\n")
	})
}

// topNodes compares the sums of zones with those of kubectl berth nodes.
func topNodes(t *testing.T, n overview.Nodes, o *overview.Overview) {
	t.Helper()
	for _, total := range n.Totals {
		nodes, accepting, departing := 0, 0, 0
		for _, g := range o.Nodes {
			if g.Type == total.Type {
				nodes, accepting, departing = nodes+g.Nodes, accepting+g.Accepting, departing+g.Departing
			}
		}
		assert.Equal(t, []int{total.Nodes, total.Accepting, total.Departing}, []int{nodes, accepting, departing}, total.Type)
	}
}
