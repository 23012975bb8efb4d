// SPDX-License-Identifier: Apache-2.0

package derive

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/sim/scenario"
)

// groupKey is what the nodes of a pool have in common.
type groupKey struct {
	pool, instanceType, region, zone string
	of                               capacity.Type
	reserved                         bool
	// size is that of the machine, for nodes without an instance type.
	size string
}

// group is nodes of one pool.
type group struct {
	groupKey
	name     string
	nodes    int32
	offering capacity.Offering
	labels   map[string]string
	// cpu, memory and pods are the least that a node has for pods.
	cpu, memory, pods int64
	unequal           bool
	bare              usage
}

// groups returns the node pools in the order of their names.
func (d *deriver) groups() ([]*group, error) {
	by, tolerated := map[groupKey]*group{}, d.tolerance()
	var all []*group
	counted := 0
	for _, n := range d.Nodes {
		t, _ := d.classifier.Classify(n)
		if c, is := d.exclusion(n, t, tolerated); is {
			d.notes.add(c, n.Name)
			continue
		}
		free, ok := d.free(n)
		if !ok {
			d.notes.add(full, n.Name)
			continue
		}
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return keepsOut(&t) }) {
			d.notes.add(taintsIgnored, n.Name)
		}
		key := keyOfNode(n, t)
		g := by[key]
		if g == nil {
			g = &group{groupKey: key, offering: capacity.OfferingOf(n), labels: n.Labels}
			g.cpu, g.memory, g.pods = free.cpu, free.memory, free.pods
			by[key] = g
			all = append(all, g)
		}
		g.add(free)
		counted++
	}
	switch {
	case len(d.Nodes) == 0:
		return nil, d.nothing("nodes")
	case len(all) == 0:
		return nil, d.nothing("node for workloads")
	case len(all) > scenario.MaxPools:
		return nil, fmt.Errorf("the nodes are of %d kinds, more than the %d node pools of a scenario", len(all), scenario.MaxPools)
	case counted > scenario.MaxNodes:
		return nil, fmt.Errorf("the snapshot has %d nodes, more than the %d of a scenario", counted, scenario.MaxNodes)
	}
	nameAll(all)
	return all, nil
}

// keyOfNode is what other nodes of its pool have in common with a node.
func keyOfNode(n *corev1.Node, t capacity.Type) groupKey {
	o := capacity.OfferingOf(n)
	key := groupKey{capacity.PoolOf(n.Labels), o.InstanceType, o.Region, o.Zone, t, o.Reserved, ""}
	if o.InstanceType == "" {
		key.size = fmt.Sprintf("%d-cpu-%d-gi", milliOf(*n.Status.Capacity.Cpu())/1000, memoryOf(*n.Status.Capacity.Memory())>>30)
	}
	return key
}

// free is what a node has for replicas, and ok whether that is anything.
func (d *deriver) free(n *corev1.Node) (free usage, ok bool) {
	cpu, memory, pods := n.Status.Allocatable.Cpu(), n.Status.Allocatable.Memory(), n.Status.Allocatable.Pods()
	if cpu.Cmp(scenario.MaxCPU) > 0 || memory.Cmp(scenario.MaxMemory) > 0 {
		return free, false
	}
	free = usage{cpu: milliOf(*cpu), memory: memoryOf(*memory), pods: scenario.DefaultPods}
	if !pods.IsZero() {
		free.pods = memoryOf(*pods)
	}
	if u := d.used[n.Name]; u != nil {
		free.cpu, free.memory = free.cpu-min(u.cpu, free.cpu), free.memory-min(u.memory, free.memory)
		free.pods -= min(u.pods, free.pods)
		free.bareCPU, free.bareMemory, free.barePods = min(u.bareCPU, free.cpu), min(u.bareMemory, free.memory), min(u.barePods, free.pods)
	}
	free.pods = min(free.pods, scenario.MaxPodsPerNode)
	return free, free.cpu > 0 && free.memory > 0 && free.pods > 0
}

// add adds a node.
func (g *group) add(free usage) {
	g.nodes++
	g.unequal = g.unequal || free.cpu != g.cpu || free.memory != g.memory || free.pods != g.pods
	g.cpu, g.memory, g.pods = min(g.cpu, free.cpu), min(g.memory, free.memory), min(g.pods, free.pods)
	g.bare.bareCPU, g.bare.bareMemory = g.bare.bareCPU+free.bareCPU, g.bare.bareMemory+free.bareMemory
	g.bare.barePods += free.barePods
}

// less is an amount without a part of what pods of the pool take.
func (g *group) less(amount, taken, unit int64) int64 {
	nodes := int64(g.nodes) * unit
	return max(amount-(taken+nodes-1)/nodes*unit, 1)
}

// nameAll names the pools, and orders them by their names.
func nameAll(all []*group) {
	for _, g := range all {
		parts := []string{g.pool, cmp.Or(g.instanceType, g.size), g.zone, g.of.String()}
		if g.reserved {
			parts[3] = capacity.KarpenterReserved
		}
		parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
		g.name = label(strings.Join(parts, "-"), "pool")
	}
	slices.SortFunc(all, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(fmt.Sprint(a.groupKey), fmt.Sprint(b.groupKey)))
	})
	names := newUnique()
	for _, g := range all {
		g.name = names.name("", g.name)
	}
}

// pool returns the node pool of the scenario, and comments on its fields.
func (d *deriver) pool(g *group) (p scenario.NodePool, sources map[string]string) {
	const mebibyte = 1 << 20
	sources = map[string]string{}
	p = scenario.NodePool{
		Name: g.name, CapacityType: g.of.String(), Nodes: g.nodes,
		CPU:    *resource.NewMilliQuantity(g.less(g.cpu, g.bare.bareCPU, 1), resource.DecimalSI),
		Memory: *resource.NewQuantity(g.less(g.memory, g.bare.bareMemory, mebibyte), resource.BinarySI),
		Pods:   int32(g.less(g.pods, g.bare.barePods, 1)), //nolint:gosec // bounded
	}
	if len(validation.IsValidLabelValue(g.instanceType)) == 0 {
		p.InstanceType = g.instanceType
	}
	if len(validation.IsValidLabelValue(g.zone)) == 0 {
		p.Zone = g.zone
	}
	if g.unequal {
		d.notes.add(unequalNodes, g.name)
	}
	node := &prices.Node{
		Labels: g.labels, InstanceType: g.instanceType, Region: g.region, Zone: g.zone, Simulated: g.offering.Simulated,
		CPU: float64(g.offering.CPU) / 1000, Memory: float64(g.offering.Memory),
	}
	if g.reserved {
		d.notes.add(reserved, g.name)
	} else if price := d.price(node, g.of); price.Known() {
		p.DollarsPerHour = new(price.Dollars)
		sources["dollarsPerHour"] = d.source(price.Source)
	} else {
		d.notes.add(unpriced, g.name)
	}
	if g.of == capacity.Spot {
		d.interruptions(&p, node, sources)
	}
	return p, sources
}

// price is that of a list, which has the instance type. A price by CPU and memory would be an invention.
func (d *deriver) price(n *prices.Node, t capacity.Type) prices.Amount {
	quote := d.prices.Of(n)
	price := quote.OnDemand
	if t == capacity.Spot {
		price = quote.Spot
	}
	if price.Known() && price.Source.Rates {
		return prices.Amount{}
	}
	return price
}

// source is where a number is from.
func (d *deriver) source(s *prices.Source) string {
	text := s.Name + ", " + s.Date.Format(time.DateOnly)
	if s.Estimate(d.Now) {
		text += ", an estimate"
	}
	return text
}

// interruptions sets the rate of interruptions to the middle of the band of the instance type, and to the least of the highest band, which
// has no middle.
func (d *deriver) interruptions(p *scenario.NodePool, n *prices.Node, sources map[string]string) {
	const width, highest = 5, 5
	band, of := d.prices.Band(n)
	if band == 0 {
		d.notes.add(uninterrupted, p.Name)
		return
	}
	least, text := float64(width*(band-1)), ""
	if band == highest {
		text = fmt.Sprintf("%.0f %% or more", least)
	} else {
		text = fmt.Sprintf("%.0f to %.0f %%", least, least+width)
		least += width / 2.0
	}
	p.Availability = &scenario.Availability{MonthlyInterruptionPercent: &least}
	sources["monthlyInterruptionPercent"] = text + ": " + d.source(of)
}
