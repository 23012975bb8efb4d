// SPDX-License-Identifier: Apache-2.0

package console

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/policies/decision"
)

var readAt = time.Date(2026, 11, 29, 7, 0, 0, 0, time.UTC)

// shop is what the pages below are of: a workload on nodes of two domains, with a mix, a policy and a Reservation.
func shop() *overview.Reading {
	node := func(name, kind, domain string, created time.Duration) overview.NodeDetail {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(readAt.Add(-created)), Labels: map[string]string{corev1.LabelTopologyZone: "zone-a"},
		}}
		return overview.NodeDetail{NodeStatus: overview.NodeStatus{Name: name, Type: kind, Domain: domain, Accepts: true}, Node: n}
	}
	r := &overview.Reading{Overview: overviewOf(workload("shop", "web"))}
	for i, name := range []string{"spot-10", "spot-2", "spot-3", "spot-4"} {
		r.Nodes = append(r.Nodes, node(name, "spot", "zone-a/small", time.Duration(i+1)*time.Hour))
	}
	r.Nodes = append(r.Nodes, node("on-demand-0", "on-demand", "zone-b/large", time.Minute))
	r.Nodes[1].Departing, r.Nodes[1].Accepts = "cordoned", false
	r.Nodes[0].Others = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "proxy"}}}
	r.Nodes[0].Node.Spec.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectNoSchedule}}
	r.Nodes[0].Node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Reason: "Full"},
	}
	mix := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	mix.Spec.SpotPercent, mix.Spec.Selector.MatchLabels = 70, map[string]string{"app": "web"}
	mix.Status = v1alpha1.CapacityMixStatus{
		WorkloadCount: 2, SatisfiedCount: 1, Actual: &v1alpha1.ReplicaSplit{Spot: 6, OnDemand: 4}, Desired: &v1alpha1.ReplicaSplit{Spot: 7, OnDemand: 3},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionSatisfied, Status: "False", Reason: "SpotStorm", Message: "many nodes left", LastTransitionTime: metav1.NewTime(readAt.Add(-time.Hour))}},
	}
	policy := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "packed"}}
	policy.Spec.Score = &v1alpha1.ScoreRules{Preset: v1alpha1.ScorePresetPack}
	hold := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hold"}}
	hold.Spec.PodName = "web-11"
	hold.Status.Holds = []v1alpha1.Hold{{NodeName: "spot-2"}, {NodeName: "spot-10", PodName: "web-3"}}
	for _, o := range []client.Object{mix, policy, hold} {
		o.SetGeneration(1)
	}
	mix.Status.ObservedGeneration, policy.Status.ObservedGeneration, hold.Status.ObservedGeneration = 1, 1, 1
	r.Mixes, r.Policies, r.Reservations = []*v1alpha1.CapacityMix{mix}, []*v1alpha1.SchedulingPolicy{policy}, []*v1alpha1.Reservation{hold}
	r.Governed = map[[2]string][]overview.PolicyWorkload{{"shop", "packed"}: {{Namespace: "shop", Kind: "Deployment", Name: "web", Pods: 10}}}
	return r
}

func stateOf(r *overview.Reading) *state {
	return &state{Reading: r, at: readAt, rows: &sync.Map{}, reports: true, plans: true, writable: true}
}

// at is the page of a reading at a path.
func at(t *testing.T, r *overview.Reading, path string) string {
	t.Helper()
	where, err := url.Parse(path)
	require.NoError(t, err)
	p, err := pageOf(where, stateOf(r))
	require.NoError(t, err, path)
	page := p.title
	for _, part := range p.parts {
		page += string(part.HTML())
	}
	return page
}

// heads are the heads of the rows of the table with an id.
func heads(t *testing.T, page, id string) (names []string) {
	t.Helper()
	_, table, found := strings.Cut(page, `<section id="`+id+`"`)
	require.True(t, found, page)
	table, _, _ = strings.Cut(table, "</section>")
	for _, th := range elements(t, "<table"+strings.SplitN(table, "<table", 2)[1])["th"] {
		if attribute(th, "scope") == "row" {
			names = append(names, text(th))
		}
	}
	return names
}

func TestPagesShowTheirObjectsAndLeadToOthers(t *testing.T) {
	for path, wants := range map[string][]string{
		"/nodes": {`href="/nodes/spot-10"`, `href="/domain?name=zone-a%2Fsmall"`, "Departing", "cordoned", "zone-a"},
		"/nodes/spot-10": {
			`<span class="badge spot">spot</span>`, `<a href="/pods/shop/web-10">`, "spot:NoSchedule", "DiskPressure is True: Full",
			`<a href="/pods/kube-system/proxy">proxy</a>`, "no mix governs it", `datetime="2026-11-29T06:00:00Z" title="2026-11-29 06:00:00 UTC">60m ago`,
		},
		"/nodes/on-demand-0": {`<a href="/pods/shop/web-0">web-0</a>`, `<a href="/workloads/shop/Deployment/web">Deployment/web</a>`, "floor", `data-label="Slot">0</td>`},
		"/domain?name=zone-a/small": {
			"Domain zone-a/small", `<dt>Departing</dt><dd>1</dd>`, `<a href="/workloads/shop/Deployment/web">`, `data-label="Replicas lost">3 of 10</td>`,
			`width="30" height="1"/></svg> 30 %</td>`, `data-label="Replicas on spot">7</td>`,
		},
		"/mixes": {`<a href="/mixes/shop/web">web</a>`, "app=web", "70% spot", ">1/2<", ">6/7<", ">4/3<", "SpotStorm", "many nodes left"},
		"/mixes/shop/web": {
			`href="/mixes/shop/web/plan">What if?`, "/mixes/shop/web/edit", "/mixes/shop/web/delete", "/workloads/shop/CapacityMix/web/history",
			`<a href="/workloads/shop/Deployment/web">Deployment/web</a>`, `<th scope="row">Satisfied</th>`, "60m ago",
		},
		"/policies":               {`<a href="/policies/shop/packed">packed</a>`, "all pods of the namespace", "Pack", "LeastLoaded", "OnFailure"},
		"/policies/shop/packed":   {`<a href="/workloads/shop/Deployment/web">Deployment/web</a>`, `data-label="Pods">10</td>`},
		"/reservations":           {`<a href="/reservations/shop/hold">hold</a>`, "pod web-11"},
		"/reservations/shop/hold": {`<a href="/nodes/spot-2">spot-2</a>`, `<a href="/pods/shop/web-3">web-3</a>`, "free"},
		"/workloads/shop/Deployment/web": {
			`<a href="/nodes/spot-3">spot-3</a>`, `href="/mixes/shop/web/plan"`,
		},
	} {
		r := shop()
		r.Overview.Workloads[0].Slots[4].Node, r.Overview.Workloads[0].Slots[5].Node = "spot-10", "spot-10"
		r.Overview.Workloads[0].Slots[4].Pod, r.Overview.Workloads[0].Slots[6].Node = "web-10", "spot-30"
		page := at(t, r, path)
		for _, want := range wants {
			assert.Contains(t, page, want, path)
		}
	}
}

// A table is sorted by each column in both directions, by the values of numbers, and a filter finds everything that a row shows.
func TestTablesAreSortedAndFiltered(t *testing.T) {
	r := shop()
	names := func(query string) []string { return heads(t, at(t, r, "/nodes"+query), "node-list") }
	assert.Equal(t, []string{"on-demand-0", "spot-2", "spot-3", "spot-4", "spot-10"}, names("?sort=name"))
	assert.Equal(t, []string{"spot-10", "spot-4", "spot-3", "spot-2", "on-demand-0"}, names("?sort=-name"))
	assert.Equal(t, []string{"spot-4", "spot-3", "spot-2", "spot-10", "on-demand-0"}, names("?sort=age"), "the oldest first")
	assert.Equal(t, "spot-10", names("?sort=-others")[0])
	assert.Equal(t, []string{"spot-10", "spot-2", "spot-3", "spot-4", "on-demand-0"}, names("?sort=none"), "as they are")
	assert.Equal(t, []string{"spot-2"}, names("?filter=CORDONED+zone-a/small"))
	assert.Empty(t, names("?filter=cordoned+zone-b"))
	page := at(t, r, "/nodes?sort=-name&filter=spot")
	assert.Contains(t, page, `aria-sort="descending"><a href="/nodes?filter=spot&amp;sort=name">Node</a>`)
	assert.Contains(t, page, `4 of 5 nodes match “spot”. <a href="/nodes">Show all</a>`)
	page = at(t, r, "/domain?name=zone-a/small&filter=spot-2&sort=name")
	assert.Equal(t, []string{"spot-2"}, heads(t, page, "node-list"))
	assert.Contains(t, page, `<input type="hidden" name="name" value="zone-a/small">`, "the filter stays on the page")
	assert.Contains(t, page, `<a href="/domain?name=zone-a%2Fsmall">Show all</a>`)
}

// What may not be listed is unknown, and not zero.
func TestUnreadListsAreUnknownOnTheirPages(t *testing.T) {
	r := shop()
	r.Nodes, r.Overview.Nodes = nil, nil
	assert.Contains(t, at(t, r, "/nodes"), "The nodes are unknown.")
	assert.Contains(t, at(t, r, "/nodes"), "The number of nodes is unknown: they could not be listed.", "the table of an open page has no nodes")
	assert.NotContains(t, at(t, r, "/workloads/shop/Deployment/web"), `href="/nodes/`)
	for _, path := range []string{"/nodes/spot-2", "/domain?name=zone-a/small"} {
		where, err := url.Parse(path)
		require.NoError(t, err)
		_, err = pageOf(where, &state{Reading: r, rows: &sync.Map{}})
		require.ErrorIs(t, err, errUnknownNodes)
	}
	r = shop()
	r.Unread = []string{"pods", overview.PoliciesResource, overview.ReservationsResource, overview.MixesResource}
	r.Overview.Workloads, r.Policies, r.Reservations, r.Mixes, r.Governed = nil, nil, nil, nil, nil
	assert.Contains(t, at(t, r, "/nodes"), `data-label="Spot slots">?</td>`)
	assert.Contains(t, at(t, r, "/nodes/spot-2"), "The number of pods is unknown")
	assert.Contains(t, at(t, r, "/domain?name=zone-a/small"), "The number of workloads is unknown: pods or mixes could not be listed.")
	for path, of := range map[string]string{"/policies": "scheduling policies", "/reservations": "reservations", "/mixes": "capacity mixes"} {
		page := at(t, r, path)
		assert.Contains(t, page, "The number of "+of+" is unknown: they could not be listed.")
		assert.NotContains(t, page, `class="empty"`)
	}
	assert.Contains(t, at(t, &overview.Reading{Overview: overviewOf()}, "/policies"), "<h2>No scheduling policy</h2>")
}

// The segments of a bar are what each function adds, of the longest bar.
func TestADecisionIsShownAsBars(t *testing.T) {
	ran := &fakeReports{text: "it is so", decisions: []*decision.Record{{
		Time: time.Now().Add(-2 * time.Hour), Namespace: "team", Outcome: decision.Bound, Policy: "packed", Node: "n-1", Feasible: 9, TieBreaker: "Name", Tied: 2,
		Functions:  []decision.Function{{Name: "Binpacking", Coefficient: 3}, {Name: "Spreading", Coefficient: 1}},
		Candidates: []decision.Candidate{{Node: "n-1", Score: 200, Values: []float64{50, 50}}, {Node: "n-2", Score: 100, Values: []float64{10, 70}, Demoted: "it departs"}},
		Rejections: []decision.Rejection{{Reason: decision.InsufficientCPU, Nodes: 4, Example: "n-9", Message: "Insufficient cpu", Requested: "4", Available: "2"}},
	}}}
	w, page := get(t, reporting(t, ran), "/pods/team/web-1")
	require.Equal(t, http.StatusOK, w.Code)
	for _, want := range []string{
		"it is so", `<span class="badge ok">Bound</span>`, "120m ago", `<a href="/policies/team/packed">packed</a>`, "Name, of 2 nodes",
		`<rect class="part-1" x="0" width="75" height="1"/><rect class="part-2" x="75" width="25" height="1"/>`,
		`<rect class="part-1" x="0" width="15" height="1"/><rect class="part-2" x="15" width="35" height="1"/>`,
		"it departs", `<span class="badge ok">selected</span>`, "InsufficientCpu", "Insufficient cpu: the pod requests 4, a node has at most 2", "n-9",
	} {
		assert.Contains(t, page, want)
	}
	ran.decisions = nil
	_, page = get(t, reporting(t, ran), "/pods/team/web-1")
	assert.Contains(t, page, "No attempt to schedule the pod is recorded.")
	ran.unread = true
	_, page = get(t, reporting(t, ran), "/pods/team/web-1")
	assert.Contains(t, page, "It is unknown: the records of scheduling attempts could not be read.")
	assert.NotContains(t, page, "No attempt")
}

func TestAHistoryIsATableWithTheNewestFirst(t *testing.T) {
	now := time.Now()
	ran := &fakeReports{text: "<b>", entries: []overview.Entry{
		{Time: metav1.NewTime(now.Add(-time.Hour)), From: "Event", Type: "Warning", Reason: "BackingOff", Message: "later"},
		{Time: metav1.NewTime(now.Add(-2 * time.Hour)), From: "web-1", Type: "Normal", Reason: "Scheduled", Message: "to a node"},
	}}
	_, page := get(t, reporting(t, ran), "/workloads/team/Deployment/web/history")
	assert.Less(t, strings.Index(page, "BackingOff"), strings.Index(page, "Scheduled"))
	for _, want := range []string{`<span class="badge warn">BackingOff</span>`, "60m ago", `<a href="/pods/team/web-1">web-1</a>`, "Deployment web", "&lt;b&gt;", "3 times"} {
		assert.Contains(t, page, want)
	}
	_, page = get(t, reporting(t, ran), "/workloads/team/Deployment/web/history?filter=scheduled")
	assert.NotContains(t, page, "BackingOff")
	ran.unread = true
	_, page = get(t, reporting(t, ran), "/workloads/team/Deployment/web/history")
	assert.Contains(t, page, "3 entries and those that could not be listed")
	_, page = get(t, reporting(t, ran), "/workloads/team/CapacityMix/web/history")
	assert.Contains(t, page, `<a href="/mixes/team/web">Back</a>`)
}

// Events of one second stay in the order in which they happened, in both directions.
func TestAHistoryIsSortedByTimeWithinASecond(t *testing.T) {
	ran, then := &fakeReports{}, metav1.NewTime(time.Now().Add(-time.Hour))
	for _, reason := range []string{"Zeta", "Alpha", "Mu"} {
		ran.entries = append(ran.entries, overview.Entry{Time: then, Reason: reason})
	}
	for query, want := range map[string][]string{"": {"Mu", "Alpha", "Zeta"}, "?sort=time": {"Zeta", "Alpha", "Mu"}, "?sort=-time": {"Mu", "Alpha", "Zeta"}} {
		_, page := get(t, reporting(t, ran), "/workloads/team/Deployment/web/history"+query)
		at := func(reason string) int { return strings.Index(page, ">"+reason+"<") }
		assert.True(t, slices.IsSortedFunc(want, func(a, b string) int { return at(a) - at(b) }), "%s: %v", query, want)
	}
}

// An age of minutes or more changes once in a minute, in the future as in the past.
func TestAgesDoNotChangeWithEachReading(t *testing.T) {
	for _, minutes := range []time.Duration{3 * time.Minute, 175 * time.Minute, -3 * time.Minute, -175 * time.Minute} {
		at := metav1.NewTime(readAt.Add(minutes))
		assert.Equal(t, agoOf(readAt.Add(-20*time.Second), at), agoOf(readAt.Add(-40*time.Second), at), minutes)
	}
	assert.Equal(t, "in 4m", agoOf(readAt, metav1.NewTime(readAt.Add(4*time.Minute+30*time.Second))))
}

// What a page reads now is as old as the page, however old the last reading of the cluster is, and without any.
func TestWhatIsReadNowIsNotAsOldAsTheLastReading(t *testing.T) {
	var mu sync.Mutex
	now, reads, release := readAt, 0, make(chan struct{})
	ran := &fakeReports{decisions: []*decision.Record{{Time: readAt.Add(3*time.Hour - 5*time.Minute), Outcome: decision.Bound}}}
	source := readings(func() *overview.Reading {
		if reads++; reads > 1 {
			<-release
		}
		return &overview.Reading{Overview: overviewOf(workload("shop", "web"))}
	})
	o := Options{Interval: interval, Log: slog.New(slog.DiscardHandler), Source: source, Reports: ran, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}}
	c := running(t, o)
	defer close(release)
	get(t, c, "/")
	mu.Lock()
	now = now.Add(3 * time.Hour)
	mu.Unlock()
	_, page := get(t, c, "/pods/shop/web-1")
	assert.Contains(t, page, ">5m ago<")
	assert.Contains(t, page, `data-age="10800"`, "the rest of the page is old")

	o.Source = &cluster{err: errors.New("connection refused")}
	_, page = get(t, running(t, o), "/pods/shop/web-1")
	assert.Contains(t, page, ">5m ago<")
	assert.Contains(t, page, "Nothing was read yet.")
}
