// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/perf/bench"
)

// placement is a bound pod.
type placement struct {
	pod, node string
	// committed orders the bindings as etcd took them, received as the API server got them. slot is Berth's order of
	// decision, mix.NoSlot of a pod without.
	committed, received int64
	slot                int
}

// quality is how far the workloads were from their mix, at every prefix and in
// the end, and how evenly the pods are spread over the nodes.
//
// Schedulers bind many pods at a time, and etcd does not take the bindings in the
// order in which they were decided: that order is known of Berth only, by the
// slots, and the error in it is that of the decisions. In the order of the
// bindings what is under way counts too, for every peer.
func quality(placed []placement, nodes int, v bench.Values) {
	committed := func(a, b placement) int { return cmp.Compare(a.committed, b.committed) }
	received := func(a, b placement) int { return cmp.Or(cmp.Compare(a.received, b.received), committed(a, b)) }
	v["mix_error_pods"], v["mix_error_mean_pods"] = mixError(placed, committed)
	v["mix_error_received_pods"], v["mix_error_received_mean_pods"] = mixError(placed, received)
	if !slices.ContainsFunc(placed, func(p placement) bool { return p.slot == split.NoSlot }) {
		decided := func(a, b placement) int { return cmp.Compare(a.slot, b.slot) }
		v["mix_error_decided_pods"], v["mix_error_decided_mean_pods"] = mixError(placed, decided)
	}
	v["mix_error_end_pods"] = endError(placed)
	v["balance_deviation_pods"] = balance(placed, nodes)
}

// mixError is the largest error of any workload, and the mean over all.
func mixError(placed []placement, order func(a, b placement) int) (most, mean float64) {
	orders := map[string][]capacity.Type{}
	for _, p := range slices.SortedStableFunc(slices.Values(placed), order) {
		orders[groupOf(p.pod)] = append(orders[groupOf(p.pod)], typeOf(p.node))
	}
	for _, order := range orders {
		m, average := bench.MixError(rule, order)
		most, mean = max(most, float64(m)), mean+average/float64(len(orders))
	}
	return most, mean
}

// endError is the largest error of any workload once all is bound.
func endError(placed []placement) (most float64) {
	counts := map[string]*split.Count{}
	for _, p := range placed {
		g := groupOf(p.pod)
		if counts[g] == nil {
			counts[g] = &split.Count{}
		}
		counts[g].Add(typeOf(p.node))
	}
	for _, c := range counts {
		most = max(most, math.Abs(float64(c.Spot-rule.Spot(c.Total()))))
	}
	return most
}

// balance is the standard deviation of the number of pods on a node.
func balance(placed []placement, nodes int) float64 {
	on := map[string]float64{}
	for _, p := range placed {
		on[p.node]++
	}
	perNode := slices.AppendSeq(make([]float64, 0, nodes), maps.Values(on))
	for len(perNode) < nodes {
		perNode = append(perNode, 0)
	}
	return bench.Deviation(perNode)
}

func TestTallyCountsWholeLinesWhateverTheyComeIn(t *testing.T) {
	const (
		bound   = `{"objectRef":{"resource":"pods","name":"a","subresource":"binding"},"responseStatus":{"code":201}}`
		refused = `{"objectRef":{"resource":"pods","name":"a","subresource":"binding"},"responseStatus":{"code":409}}`
		event   = `{"objectRef":{"resource":"events","name":"a"},"responseStatus":{"code":201}}`
	)
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.SampledFrom([]string{bound, refused, event})).Draw(t, "lines")
		text := strings.Join(append(lines, `{"objectRef":{"subresource":"binding"},"code":201`), "\n") // the last is still being written
		want := 0
		for _, l := range lines {
			if l == bound {
				want++
			}
		}
		var got tally
		for text != "" {
			n := rapid.IntRange(1, len(text)).Draw(t, "chunk")
			got.add([]byte(text[:n]))
			text = text[n:]
		}
		assert.Equal(t, want, got.bindings)
		assert.Equal(t, len(lines), got.requests)
	})
}

func TestWritesAreCountedByKindAndTimedByBindings(t *testing.T) {
	began := time.Unix(1_750_000_000, 0)
	request := func(verb, resource, subresource, name string, code int, at, took time.Duration) cluster.AuditEvent {
		var e cluster.AuditEvent
		e.Verb, e.ObjectRef.Resource, e.ObjectRef.Subresource, e.ObjectRef.Name = verb, resource, subresource, name
		e.ResponseStatus.Code, e.RequestReceived, e.StageTimestamp = code, began.Add(at), began.Add(at+took)
		return e
	}
	w := written([]cluster.AuditEvent{
		request("create", "subjectaccessreviews", "", "", 201, 0, 1),
		request("create", "pods", "binding", "b", 201, 3*time.Second, 2*time.Second),
		request("create", "pods", "binding", "a", 201, time.Second, time.Second),
		request("create", "pods", "binding", "c", 409, 0, time.Hour),
		request("create", "events", "", "a", 201, time.Hour, time.Second),
		request("patch", "pods", "status", "c", 200, 0, 1),
	})
	assert.Equal(t, map[string]int{"create_pods_binding": 3, "create_events": 1, "patch_pods_status": 1}, w.kinds)
	assert.Equal(t, map[int]int{409: 1}, w.refused)
	assert.Equal(t, began.Add(time.Second), w.first)
	assert.Equal(t, began.Add(5*time.Second), w.last)
	assert.Equal(t, map[string]int64{"a": began.Add(time.Second).UnixNano(), "b": began.Add(3 * time.Second).UnixNano()}, w.received)
}

// The scheduler decides on-demand first, as in the mix; etcd takes the bindings the other way round.
func TestQualityDistinguishesDecisionsFromBindings(t *testing.T) {
	var placed []placement
	for i := range 5 {
		placed = append(placed, placement{
			pod: fmt.Sprintf("app-000-%d", i), node: fmt.Sprintf("%s-%d", rule.TypeOf(i), i), slot: i, received: int64(i), committed: int64(10 - i),
		})
	}
	v := bench.Values{}
	quality(placed, 5, v)
	assert.Zero(t, v["mix_error_decided_pods"])
	assert.Zero(t, v["mix_error_received_pods"])
	assert.InDelta(t, 1, v["mix_error_pods"], 0, "spot is one pod ahead until the on-demand pod is bound")
	assert.Zero(t, v["mix_error_end_pods"])
	assert.Zero(t, v["balance_deviation_pods"])

	placed[0].slot = split.NoSlot
	v = bench.Values{}
	quality(placed, 10, v)
	assert.NotContains(t, v, "mix_error_decided_pods", "not known of a scheduler without slots")
	assert.InDelta(t, 0.5, v["balance_deviation_pods"], 1e-9, "half of the nodes have a pod, half have none")
}

func TestEndErrorIsThatOfTheWorstWorkload(t *testing.T) {
	placed := []placement{
		{pod: "app-000-0", node: "on-demand-0"},
		{pod: "app-001-0", node: "on-demand-0"},
		{pod: "app-001-1", node: "on-demand-1"},
		{pod: "app-001-2", node: "on-demand-2"},
		{pod: "app-001-3", node: "on-demand-3"},
	}
	assert.InDelta(t, 3, endError(placed), 0, "3 of 4 should be on spot")
}

func TestQuantile(t *testing.T) {
	text := func(first, second, all int) []byte {
		return fmt.Appendf(nil, `# TYPE x histogram
x_bucket{verb="POST",le="0.005"} %d
x_bucket{verb="POST",le="0.025"} %d
x_bucket{verb="POST",le="+Inf"} %d
x_bucket{verb="GET",le="0.005"} 0
x_bucket{verb="GET",le="0.025"} 0
x_bucket{verb="GET",le="+Inf"} 0
x_sum{verb="POST"} 1
x_count{verb="POST"} %d
x_sum{verb="GET"} 0
x_count{verb="GET"} 0
`, first, second, all, all)
	}
	assert.InDelta(t, 0.00495, quantile(text(100, 100, 100), "x", 0.99), 1e-9)
	assert.InDelta(t, 0.015, quantile(text(0, 100, 100), "x", 0.5), 1e-9, "in the middle of the second bucket")
	assert.InDelta(t, 0.025, quantile(text(0, 0, 100), "x", 0.99), 1e-9, "beyond the last edge: at least that")
	assert.True(t, math.IsNaN(quantile(text(0, 0, 0), "x", 0.99)))
	assert.True(t, math.IsNaN(quantile([]byte("y 1\n"), "x", 0.99)))
}

func TestObjectsAreThoseOfTheCase(t *testing.T) {
	s := size{nodes: 50, pods: 250}
	assert.Equal(t, 3, s.groups())
	types, values := map[capacity.Type]int{}, map[string]int{}
	for _, n := range s.specs() {
		types[typeOf(n.Name)]++
		values[n.Labels[spreadLabel]]++
		assert.Equal(t, typeOf(n.Name).String(), n.CapacityType)
	}
	assert.Equal(t, map[capacity.Type]int{capacity.Spot: 40, capacity.OnDemand: 10}, types)
	assert.Equal(t, map[string]int{"on-demand": 10, "spot-0": 10, "spot-1": 10, "spot-2": 10, "spot-3": 10}, values)
	for _, as := range []shape{plain, spread, typed} {
		p := makePod(metav1.OwnerReference{Name: app(7)}, 7, 12, as)
		require.Equal(t, app(7), groupOf(p.Name))
		assert.Equal(t, "default-scheduler", p.Spec.SchedulerName)
		require.Len(t, p.OwnerReferences, 1)
		assert.True(t, *p.OwnerReferences[0].Controller)
	}
}

// What a chooser answers one after the other is the sequence of the mix: that it is not with many at a time is what is measured.
func TestAChooserWithFullInformationHasNoError(t *testing.T) {
	var order []capacity.Type
	spot := 0
	for range 200 {
		on := spotFor(len(order), spot)
		if order = append(order, on); on == capacity.Spot {
			spot++
		}
	}
	most, _ := bench.MixError(rule, order)
	assert.Zero(t, most)
}
