// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/prometheus/common/model"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/capacity"
)

// OpenCost's metrics of a node: what it costs an hour, what one core of it costs, and whether it is a spot node.
const (
	nodePrice  = "node_total_hourly_cost"
	corePrice  = "node_cpu_hourly_cost"
	nodeIsSpot = "kubecost_node_is_spot"
)

const (
	nodeLabel     model.LabelName = "node"
	regionLabel   model.LabelName = "region"
	providerLabel model.LabelName = "provider_id"
)

// KWOKProvider begins the provider ID of a node that Karpenter's provider for KWOK made.
const KWOKProvider = capacity.KWOKProvider

var openCostNodes = kind{
	program: "OpenCost's nodes", origin: OriginOpenCost, read: readNodes,
	metrics: []metric{
		{nodePrice, []string{string(nodeLabel), string(typeLabel), string(regionLabel), string(providerLabel)}},
		{corePrice, []string{string(nodeLabel)}},
		{nodeIsSpot, []string{string(nodeLabel)}},
	},
}

// costedNode is what OpenCost has of a node.
type costedNode struct {
	at          place
	price, core float64
	// known is set where OpenCost exports whether the node is a spot node.
	spot, known bool
}

// readNodes makes a price of each instance type in a region of the nodes that there are: OpenCost has no price of types that do not run.
func readNodes(samples map[string]model.Vector, of *Source) (source, string, error) {
	nodes, err := costedNodes(samples)
	if err != nil {
		return nil, "", err
	}
	byPlace, unused := map[place]row{}, 0
	for _, n := range nodes {
		switch {
		case n.price == 0 || n.at.instanceType == "" || n.at.region == "":
			continue
		case !n.known || n.core == 0 || byRates(n.core):
			unused++
			continue
		}
		r := byPlace[n.at]
		if n.spot {
			r.spot = max(r.spot, n.price)
		} else {
			r.onDemand = max(r.onDemand, n.price)
		}
		byPlace[n.at] = r
	}
	t := &Table{Source: *of, rows: newRows()}
	for at, r := range byPlace {
		t.rows.add(at, r)
	}
	t.rows.sort()
	if unused > 0 {
		return t, fmt.Sprintf("the prices of %s are not used: they are made of default rates, or spot and on-demand are not distinguished.",
			display.Count(unused, "node")), nil
	}
	return t, "", nil
}

func costedNodes(samples map[string]model.Vector) (map[model.LabelValue]*costedNode, error) {
	nodes := map[model.LabelValue]*costedNode{}
	for _, s := range samples[nodePrice] {
		price, err := priceOf(s)
		switch {
		case err != nil:
			return nil, err
		case s.Metric[nodeLabel] == "":
			return nil, fmt.Errorf("%s: want the label %s", seriesOf(s), nodeLabel)
		case strings.HasPrefix(string(s.Metric[providerLabel]), KWOKProvider):
			continue
		}
		at := place{nameInTable(string(s.Metric[typeLabel])), string(s.Metric[regionLabel])}
		if n := nodes[s.Metric[nodeLabel]]; n == nil || price > n.price {
			nodes[s.Metric[nodeLabel]] = &costedNode{at: at, price: price}
		}
	}
	if len(samples[nodePrice]) == 0 {
		return nil, errors.New("no sample of " + nodePrice)
	}
	return nodes, addDetails(nodes, samples)
}

// addDetails adds what OpenCost has of its nodes beside their prices.
func addDetails(nodes map[model.LabelValue]*costedNode, samples map[string]model.Vector) error {
	for _, s := range samples[corePrice] {
		price, err := priceOf(s)
		if err != nil {
			return err
		}
		if n := nodes[s.Metric[nodeLabel]]; n != nil {
			n.core = max(n.core, price)
		}
	}
	for _, s := range samples[nodeIsSpot] {
		if s.Value != 0 && s.Value != 1 {
			return fmt.Errorf("%s: %v: want 0 or 1", seriesOf(s), s.Value)
		}
		if n := nodes[s.Metric[nodeLabel]]; n != nil {
			n.spot, n.known = n.spot || s.Value == 1, true
		}
	}
	return nil
}

// byRates reports whether a core costs what OpenCost takes where it has no price of a node.
func byRates(core float64) bool {
	for _, rate := range []float64{defaultRates.CPU, defaultRates.SpotCPU} {
		if math.Abs(core-rate) <= 1e-6*rate {
			return true
		}
	}
	return false
}
