// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/perf/bench"
)

// bound are pods of one group, bound in turn, on nodes of the types s(pot) and o(n-demand).
func bound(types string, slots ...int) (list []binding) {
	for i, t := range types {
		b := binding{Group: "group-0", Governed: true, Type: capacity.Spot, At: time.Duration(i+1) * 100 * time.Millisecond, Revision: uint64(10 + i), Slot: split.NoSlot}
		if t == 'o' {
			b.Type = capacity.OnDemand
		}
		if slots != nil {
			b.Slot = slots[i]
		}
		list = append(list, b)
	}
	return list
}

func TestExactness(t *testing.T) {
	m := split.New(80, 0)
	for name, tc := range map[string]struct {
		bindings []binding
		want     bench.Values
	}{
		"a peer that rounds the other way than Berth is exact": {
			bound("sssso"), bench.Values{"mix_error_pods": 0, "mix_error_prefix_pods": 0, "mix_error_prefix_mean_pods": 0},
		},
		"all on spot": {
			bound("ssssssssss"), bench.Values{"mix_error_pods": 2, "mix_error_prefix_pods": 2, "mix_error_prefix_mean_pods": 0.7},
		},
		"exact in the end, not on the way": {
			bound("ooossssssssssss"), bench.Values{"mix_error_pods": 0, "mix_error_prefix_pods": 2, "mix_error_prefix_mean_pods": 12.0 / 15},
		},
		"a binding that overtook another is no wrong decision": {
			bound("ssosss", 1, 2, 0, 3, 4, 6), bench.Values{"mix_error_pods": 0, "mix_error_prefix_pods": 0, "mix_error_prefix_mean_pods": 0, "mix_error_slots_pods": 1},
		},
		"a slot on the wrong type": {
			bound("sssss", 0, 1, 2, 3, 4), bench.Values{"mix_error_pods": 1, "mix_error_prefix_pods": 1, "mix_error_prefix_mean_pods": 0.2, "mix_error_slots_pods": 1},
		},
		"a slot that is there twice": {
			bound("osss", 0, 1, 1, 2), bench.Values{"mix_error_pods": 0, "mix_error_prefix_pods": 0, "mix_error_prefix_mean_pods": 0, "mix_error_slots_pods": 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := exactness(m, tc.bindings)
			for metric, want := range tc.want {
				assert.InDelta(t, want, got[metric], 1e-9, metric)
			}
			assert.Len(t, got, len(tc.want))
		})
	}
	assert.Empty(t, exactness(m, nil))
}

func TestLateEventsAreSortedByVersion(t *testing.T) {
	list := bound("ooossssssssssss")
	list[0], list[9] = list[9], list[0]
	assert.InDelta(t, 2, exactness(split.New(80, 0), list)["mix_error_prefix_pods"], 0)
}

func TestBystandersAreCountedAndHaveNoMix(t *testing.T) {
	list := bound("sssss")
	for i := range list {
		list[i].Governed = false
	}
	assert.Empty(t, exactness(split.New(80, 0), list))
	assert.InDelta(t, 10, throughput(list)["pods_per_s"], 1e-9)
}

func TestThroughput(t *testing.T) {
	var list []binding
	for second, pods := range []int{10, 30, 20, 1} {
		for range pods {
			list = append(list, binding{At: time.Duration(second) * time.Second})
		}
	}
	list[len(list)-1].At = 3500 * time.Millisecond
	v := throughput(list)
	assert.InDelta(t, 61/3.5, v["pods_per_s"], 1e-9)
	assert.InDelta(t, 20, v["pods_per_s_median"], 0, "of the whole seconds")
	assert.Empty(t, throughput(nil))
}

func TestWritesAreThoseOfThePodsAndWhatGroupsThem(t *testing.T) {
	var w writes
	for _, r := range []struct {
		verb, group, resource, subresource, code string
	}{
		{"POST", "", "pods", "", "201"},
		{"POST", "", "pods", "", "409"},
		{"POST", "", "pods", "binding", "201"},
		{"PATCH", "", "pods", "status", "200"},
		{"GET", "", "pods", "", "200"},
		{"POST", "events.k8s.io", "events", "", "201"},
		{"POST", "", "nodes", "", "201"},
		{"POST", "berth.dev", "capacitymixes", "", "201"},
		{"PATCH", "berth.dev", "capacitymixes", "status", "200"},
		{"PATCH", "scheduling.x-k8s.io", "podgroups", "", "200"},
	} {
		w.add(map[string]string{"verb": r.verb, "group": r.group, "resource": r.resource, "subresource": r.subresource, "code": r.code}, 1)
	}
	assert.Equal(t, writes{created: 1, ofPods: 6, events: 1}, w)
}

func TestOnlyExpectedFailuresAreTolerated(t *testing.T) {
	const janitor = "Goroutine 7 in state select, with github.com/patrickmn/go-cache.(*janitor).Run on top of the stack:\n"
	expected := peers["P4"].leaves
	assert.True(t, leavesOnly(janitor+janitor, expected))
	assert.False(t, leavesOnly(janitor+"Goroutine 8 in state select, with ours.(*queue).loop on top of the stack:\n", expected))
	assert.False(t, leavesOnly("panic", expected))
	assert.False(t, leavesOnly(janitor, peers["berth-16"].leaves))
}
