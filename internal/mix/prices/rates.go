// SPDX-License-Identifier: Apache-2.0

package prices

import "time"

// Rates are what a core and a GiB of memory cost an hour, in dollars.
type Rates struct {
	CPU           float64 `json:"cpu"`
	MemoryGiB     float64 `json:"memoryGiB"`
	SpotCPU       float64 `json:"spotCPU"`
	SpotMemoryGiB float64 `json:"spotMemoryGiB"`

	of Source
}

// defaultRates are the default custom prices of OpenCost, configs/default.json: those of a general instance in us-central1.
var defaultRates = Rates{
	CPU: 0.031611, MemoryGiB: 0.004237, SpotCPU: 0.006655, SpotMemoryGiB: 0.000892,
	of: Source{Name: "OpenCost's default rates for CPU and memory", Date: time.Date(2022, 6, 1, 0, 0, 0, 0, time.UTC), Rates: true},
}

const gibibyte = 1 << 30

// amounts implements source.
func (r *Rates) amounts(n *Node) (onDemand, spot float64) {
	return n.CPU*r.CPU + n.Memory/gibibyte*r.MemoryGiB, n.CPU*r.SpotCPU + n.Memory/gibibyte*r.SpotMemoryGiB
}

// Weight is how much of a node an amount of CPU and memory is, to compare it with the same of the node: the ratio at which CPU and
// memory are sold.
func Weight(cpu, memory float64) float64 {
	w, _ := defaultRates.amounts(&Node{CPU: cpu, Memory: memory})
	return w
}
