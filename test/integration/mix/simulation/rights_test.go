// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"berth.dev/berth/internal/mix/simulation"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// needed are the rights that Take documents, by API group.
var needed = map[string][]string{
	"":                {"pods", "nodes", "namespaces", "persistentvolumes", "persistentvolumeclaims"},
	"storage.k8s.io":  {"csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"},
	"resource.k8s.io": {"deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices"},
	"berth.dev":       {"resourcelimits", "reservations"},
}

// userWith makes a user who may list what is needed, but for one resource.
func userWith(w *testenv.World, user, without string) *rest.Config {
	w.T.Helper()
	var rules []rbacv1.PolicyRule
	for group, resources := range needed {
		kept := slices.DeleteFunc(slices.Clone(resources), func(r string) bool { return r == without })
		if len(kept) > 0 {
			rules = append(rules, builders.Rule(group, kept, "list"))
		}
	}
	w.CreateForTest(builders.ClusterGrant(user, builders.User(user), rules...)...)
	cfg, err := w.Cluster.ConfigFor(user)
	require.NoError(w.T, err)
	return cfg
}

func TestListIsTheOnlyRightAndEachKindIsListedOnce(t *testing.T) {
	w := testenv.New(t, node("od", onDemand, "a", "4"), node("sp", spot, "a", "4"))
	w.Create(placed(victim, "od"))
	cfg := userWith(w, "replay-reader", "")
	var s *simulation.Snapshot
	w.Succeeds("the rights are known", func() (err error) {
		s, err = simulation.Take(w.Ctx, cfg, simulation.DefaultProfile())
		return err
	})
	s.Close()
	since := time.Now()
	s, err := simulation.Take(w.Ctx, cfg, simulation.DefaultProfile())
	require.NoError(t, err)
	defer s.Close()
	t.Logf("taken in %s", time.Since(since))
	a, err := s.Fits(w.Ctx, simulation.Question{Pod: live(w, victim), Nodes: onSpot})
	require.NoError(t, err)
	require.Equal(t, "sp", a.Node)

	w.Eventually("the audit log has a list of each kind, and nothing else", func() (bool, string) {
		listed := map[string]bool{}
		for _, r := range w.AuditAll(func(r testenv.Request) bool { return r.User == "replay-reader" }) {
			require.Equal(t, "list", r.Verb, "%s", r)
			listed[r.Resource] = true
		}
		for _, resources := range needed {
			for _, r := range resources {
				if !listed[r] {
					return false, "no list of " + r
				}
			}
		}
		return true, ""
	})
}

func TestAMissingRightIsAnErrorThatNamesIt(t *testing.T) {
	w := testenv.New(t)
	for _, resource := range []string{"pods", "nodes", "csinodes", "resourcelimits", "reservations"} {
		cfg := userWith(w, "replay-without-"+resource, resource)
		w.Eventually("the one right that is missing is named", func() (bool, string) {
			_, err := simulation.Take(w.Ctx, cfg, simulation.DefaultProfile())
			require.Error(t, err)
			return strings.Contains(err.Error(), `cannot list resource "`+resource+`"`), err.Error()
		})
	}
}

func TestASnapshotKeepsItsMomentAndNothingRuns(t *testing.T) {
	w := testenv.New(t, node("od", onDemand, "a", "4"), node("sp", spot, "a", "1"))
	w.Create(placed(victim, "od"))
	take(w).Close()
	before := runtime.NumGoroutine()
	p := live(w, victim)
	question := simulation.Question{Pod: p, Gone: []types.UID{p.UID}, Nodes: onSpot}
	s := take(w)
	w.Create(placed("late", "sp"))
	a, err := s.Fits(w.Ctx, question)
	require.NoError(t, err)
	require.True(t, a.Fits, "as of then")
	s.Assume(p, "sp")
	a, err = s.Fits(w.Ctx, question)
	require.NoError(t, err)
	require.Equal(t, "0/1 nodes are available: 1 Insufficient cpu.", a.Message(), "the assignment is taken")
	a, err = s.Fits(w.Ctx, simulation.Question{Pod: p, Nodes: func(*corev1.Node) bool { return false }})
	require.NoError(t, err)
	require.Zero(t, a.Candidates)
	s.Close()
	// Connections to the API server that are kept are not the snapshot's.
	w.Eventually("nothing runs that did not before", func() (bool, string) {
		now := runtime.NumGoroutine()
		return now <= before+4, fmt.Sprintf("%d goroutines, %d before", now, before)
	})
}
