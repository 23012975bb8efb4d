// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/perf/bench"
)

// binding is a pod that was bound.
type binding struct {
	Group string
	// Governed pods are to have the mix; the others are bystanders.
	Governed bool
	Type     capacity.Type
	// At is when it was observed, since the first pod was created.
	At time.Duration
	// Revision orders the bindings as the API server took them.
	Revision uint64
	// Slot that Berth gave it; mix.NoSlot of other peers.
	Slot int
}

// throughput is the pace from the first pod's creation to the last pod's
// binding, and the median over its whole seconds. A pace that is creation's is
// no lower for a faster scheduler, whoever the peer is.
func throughput(bindings []binding) bench.Values {
	if len(bindings) == 0 {
		return bench.Values{}
	}
	last := slices.MaxFunc(bindings, func(a, b binding) int { return cmp.Compare(a.At, b.At) }).At
	v := bench.Values{"bound_pods": float64(len(bindings)), "bound_s": last.Seconds()}
	if last > 0 {
		v["pods_per_s"] = float64(len(bindings)) / last.Seconds()
	}
	samples := make([]float64, int(last/time.Second))
	for _, b := range bindings {
		if second := int(b.At / time.Second); second < len(samples) {
			samples[second]++
		}
	}
	if len(samples) > 0 {
		v["pods_per_s_median"] = bench.Median(samples)
	}
	return v
}

// exactness is how far the groups are from their mix, in pods, none if nothing
// is governed:
//
//   - mix_error_pods: with all pods bound, of the worst group
//   - mix_error_prefix_pods: at any moment, of the worst group and moment. Bindings
//     are calls that run beside one another, and one that overtakes another
//     counts here, whatever the scheduler decided.
//   - mix_error_prefix_mean_pods: the same over all moments
//   - mix_error_slots_pods: what Berth decided at any moment, whatever overtook
//     what: the pods in the order of their slots
func exactness(m split.Mix, bindings []binding) bench.Values {
	groups := map[string][]binding{}
	for _, b := range bindings {
		if b.Governed {
			groups[b.Group] = append(groups[b.Group], b)
		}
	}
	if len(groups) == 0 {
		return nil
	}
	v := bench.Values{"mix_error_pods": 0, "mix_error_prefix_pods": 0, "mix_error_prefix_mean_pods": 0}
	moments := 0
	for _, group := range groups {
		slices.SortFunc(group, func(a, b binding) int { return cmp.Compare(a.Revision, b.Revision) })
		errors := prefixErrors(m, group)
		v["mix_error_pods"] = max(v["mix_error_pods"], errors[len(errors)-1])
		v["mix_error_prefix_pods"] = max(v["mix_error_prefix_pods"], slices.Max(errors))
		for _, e := range errors {
			v["mix_error_prefix_mean_pods"] += e
		}
		moments += len(errors)
		if group[0].Slot != split.NoSlot {
			v["mix_error_slots_pods"] = max(v["mix_error_slots_pods"], slotError(m, group))
		}
	}
	v["mix_error_prefix_mean_pods"] /= float64(moments)
	return v
}

// prefixErrors are the deviations after each binding. A share that is no whole
// number of pods may be rounded either way: peers do not round as Berth does.
func prefixErrors(m split.Mix, group []binding) []float64 {
	errors := make([]float64, len(group))
	spot := 0
	for i, b := range group {
		if b.Type == capacity.Spot {
			spot++
		}
		share := (i + 1) * int(m.SpotPercent)
		low, high := share/100, (share+99)/100
		errors[i] = float64(max(low-spot, spot-high, 0))
	}
	return errors
}

// slotError is the greatest deviation, from Berth's own rounding, of any number
// of pods in the order of their slots; a slot that is missing or there twice counts.
func slotError(m split.Mix, group []binding) float64 {
	sorted := slices.SortedFunc(slices.Values(group), func(a, b binding) int { return cmp.Compare(a.Slot, b.Slot) })
	worst, spot, astray := 0, 0, 0
	for i, b := range sorted {
		if b.Slot != i {
			astray++
		}
		if b.Type == capacity.Spot {
			spot++
		}
		want := m.Spot(i + 1)
		worst = max(worst, want-spot, spot-want)
	}
	return float64(max(worst, astray))
}

// writes are the write requests to the API server of this process.
type writes struct {
	// created pods, and all writes that they caused: of the pods, their bindings
	// and status, and of the status of what groups them.
	created, ofPods float64
	// events are written on the side, and dropped when there are too many.
	events float64
}

func readWrites() (writes, error) {
	var w writes
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return w, err
	}
	for _, family := range families {
		if family.GetName() != "apiserver_request_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			w.add(labels(m), m.GetCounter().GetValue())
		}
	}
	return w, nil
}

func labels(m *dto.Metric) map[string]string {
	of := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		of[l.GetName()] = l.GetValue()
	}
	return of
}

func (w *writes) add(of map[string]string, n float64) {
	switch of["verb"] {
	case "POST", "PUT", "PATCH", "APPLY", "DELETE":
	default:
		return
	}
	creates := of["verb"] == "POST" && of["subresource"] == ""
	custom := strings.HasSuffix(of["group"], "berth.dev") || strings.HasSuffix(of["group"], "x-k8s.io")
	switch {
	case of["resource"] == "events":
		w.events += n
	case of["resource"] == "pods":
		w.ofPods += n
		if creates && strings.HasPrefix(of["code"], "2") {
			w.created += n
		}
	case custom && !creates: // what the driver creates is not the scheduler's
		w.ofPods += n
	}
}
