// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"bytes"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/test/clitest"
)

func record(id string, ago time.Duration, outcome decision.Outcome) *decision.Record {
	return &decision.Record{ID: id, Time: clitest.Ago(ago).Time, Namespace: "shop", Pod: "web-0", SchedulerName: "berth-scheduler", Outcome: outcome}
}

// records are one of each kind, newest first.
func records() []*decision.Record {
	bound := record("1a2b3c4d-4", time.Minute, decision.Bound)
	bound.Policy, bound.Node, bound.Feasible, bound.TieBreaker, bound.Tied = "web", "s1", 12, "LeastLoaded", 2
	bound.Functions = []decision.Function{{Name: "Binpacking", Priority: 10, Coefficient: 3}, {Name: "Spreading", Priority: 1, Coefficient: 0.5}}
	bound.Candidates = []decision.Candidate{
		{Node: "s1", Score: 275.5, Values: []float64{80, 71}},
		{Node: "s2", Score: 275.5, Values: []float64{80, 71}},
		{Node: "o1", Score: 300, Values: []float64{100.0 / 3, 0}, Demoted: "on-demand node, slot 1 is spot"},
	}
	plain := record("1a2b3c4d-3", 2*time.Minute, decision.BindFailed)
	plain.Policy, plain.Node, plain.Feasible, plain.TieBreaker, plain.Tied = "web", "s1", 2, "Random", 1
	plain.Message = "node s1 was deleted"
	plain.Functions = bound.Functions[:1]
	plain.Candidates = []decision.Candidate{{Node: "s1", Score: 3, Values: []float64{1}}, {Node: "s2", Score: 0, Values: []float64{0}}}
	single := record("1a2b3c4d-2", time.Hour, decision.Reserved)
	single.Node, single.Feasible = "s1", 1
	rejected := record("1a2b3c4d-1", 2*time.Hour, decision.Unschedulable)
	rejected.Policy, rejected.Message = "web", "0/7 nodes are available: 4 Insufficient cpu."
	rejected.Rejections = []decision.Rejection{
		{Reason: decision.InsufficientCPU, Nodes: 4, Example: "s1", Message: "Insufficient cpu", Requested: "4", Available: "1500m"},
		{Reason: decision.TaintWithoutToleration, Nodes: 2, Example: "g1", Message: "node(s) had untolerated taint(s)", Key: "dedicated"},
		{Reason: decision.Custom, Nodes: 1, Example: "o1", Message: "node(s) are on-demand, slot 1 needs spot"},
	}
	return []*decision.Record{bound, plain, single, rejected}
}

func TestRecordsArePrinted(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Write(&out, records(), clitest.Now))
	clitest.Golden(t, "decisions.txt", out.String())
}

func TestErrorsNameTheWrongFlag(t *testing.T) {
	for want, args := range map[string][]string{
		"":                                      {"--scores", "--attempts", "8", "--scheduler-address", "[::1]:10260"},
		"--attempts requires --scores":          {"--attempts", "2"},
		"--scheduler-address requires --scores": {"--scheduler-address", "127.0.0.1:1"},
		"--attempts is 9: it must be from 1 to 8":                                           {"--scores", "--attempts", "9"},
		"--attempts is 0: it must be from 1 to 8":                                           {"--scores", "--attempts", "0"},
		`--scheduler-address is "node1": it must be host:port, such as 127.0.0.1:10260`:     {"--scores", "--scheduler-address", "node1"},
		`--scheduler-address is ":10260": it must be host:port, such as 127.0.0.1:10260`:    {"--scores", "--scheduler-address", ":10260"},
		`--scheduler-address is "https://a": it must be host:port, such as 127.0.0.1:10260`: {"--scores", "--scheduler-address", "https://a"},
	} {
		f, cmd := &Flags{}, &cobra.Command{}
		f.Add(cmd)
		require.NoError(t, cmd.ParseFlags(args))
		err := f.Validate(cmd)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, want)
	}
}

func policy(name string, age time.Duration, mode v1alpha1.RecordMode, labels map[string]string) *v1alpha1.SchedulingPolicy {
	p := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: clitest.Ago(age)}}
	p.Spec.PodSelector.MatchLabels = labels
	p.Spec.Decisions = &v1alpha1.DecisionRules{Record: mode}
	return p
}

func TestReadReturnsTheRecordsOfThePod(t *testing.T) {
	s := newScheduler(t, records()...)
	s.allow("shop")
	shop := &clitest.Shop{}
	pod := shop.Pod("web", "web-0", "s1")
	pod.Spec.SchedulerName = "berth-scheduler"
	a := Access{Now: clitest.Now, Config: &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "jane"}}
	read := func(attempts int, objects ...client.Object) ([]*decision.Record, error) {
		f := &Flags{Scores: true, attempts: attempts, address: s.address}
		a.Client = clitest.Client(t, interceptor.Funcs{}, objects...)
		return f.Reader(a)(t.Context(), client.ObjectKey{}, pod, true)
	}
	for attempts, want := range map[int]int{1: 1, 3: 3, 8: 4} {
		got, err := read(attempts)
		require.NoError(t, err)
		require.Len(t, got, want)
		assert.Equal(t, "1a2b3c4d-4", got[0].ID)
	}
	pod.Name = "web-1"
	_, err := read(1, policy("web", time.Hour, v1alpha1.RecordNever, pod.Labels))
	assert.EqualError(t, err, "no record of a scheduling attempt of pod shop/web-1: SchedulingPolicy web has decisions.record Never")

	r := record("1a2b3c4d-9", time.Hour, decision.Bound)
	r.Pod, r.UID = pod.Name, "another pod with the name"
	_, err = read(1, decision.Object(r))
	require.ErrorContains(t, err, "no record of a scheduling attempt")
	r.UID = pod.UID
	got, err := read(1, decision.Object(r))
	require.NoError(t, err, "the object outlives the records in memory")
	assert.Equal(t, r.ID, got[0].ID)
	s.address = "127.0.0.1:1"
	got, err = read(1, decision.Object(r))
	require.NoError(t, err, "and is there if no scheduler can be reached")
	assert.Equal(t, r.ID, got[0].ID)
}

// The error for a missing record names what to change.
func TestAMissingRecordHasTheLikelyReason(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", Labels: map[string]string{"app": "web"}}}
	pod.Spec.SchedulerName = "default-scheduler"
	web, other := pod.Labels, map[string]string{"app": "other"}
	for want, c := range map[string]struct {
		elsewhere bool
		policies  []client.Object
	}{
		"scheduler default-scheduler schedules the pod, not berth-scheduler": {elsewhere: true, policies: []client.Object{policy("a", time.Minute, v1alpha1.RecordNever, web)}},
		"no SchedulingPolicy in namespace shop governs the pod, and without one only a defaultPolicy with decisions.record in the profile of the scheduler records attempts": {
			policies: []client.Object{policy("a", time.Minute, v1alpha1.RecordNever, other)},
		},
		"SchedulingPolicy b has decisions.record Never": {
			policies: []client.Object{policy("a", time.Minute, v1alpha1.RecordAlways, web), policy("b", time.Hour, v1alpha1.RecordNever, web)}, // the oldest governs
		},
		"SchedulingPolicy a has decisions.record OnFailure, so attempts that bind the pod are not recorded": {
			policies: []client.Object{policy("a", time.Minute, "", web)},
		},
		"SchedulingPolicy a has decisions.record Always, but records are kept for 1h0m0s (decisions.ttlSeconds), and only until another scheduler leads": {
			policies: []client.Object{policy("a", time.Minute, v1alpha1.RecordAlways, web)},
		},
	} {
		assert.Equal(t, want, unrecorded(t.Context(), clitest.Client(t, interceptor.Funcs{}, c.policies...), pod, !c.elsewhere))
	}
}
