// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/hack/cluster"
)

const mixActs = "mix"

// allActs are what --acts chooses from. mix selects the acts about nodes and mixes.
var allActs = append([]string{mixActs}, cluster.AllFeatures()...)

// parseActs reads a list of acts, which may be separated by commas or spaces. The order is always that of allActs.
func parseActs(list string) ([]string, error) {
	chosen, unknown := cluster.Choose(allActs, list)
	if unknown != "" || len(chosen) == 0 {
		return nil, fmt.Errorf("--acts has %q: it must be a list of %s", unknown, strings.Join(allActs, ", "))
	}
	return chosen, nil
}

// steps are the functions of the chosen acts.
func (d *demo) steps() (steps []func(context.Context) error) {
	for _, name := range d.acts {
		switch name {
		case mixActs:
			steps = append(steps, d.nodeTypes, d.place, d.resize, d.roll, d.drainHalf, d.comeBack, d.noCapacity)
		case cluster.Limits:
			steps = append(steps, d.onLargeNodes(d.limits))
		case cluster.Records:
			steps = append(steps, d.onLargeNodes(d.records))
		case cluster.Environments:
			steps = append(steps, d.onLargeNodes(d.environments))
		}
	}
	return steps
}

// features are those that the chosen acts need. ResourceLimits need nothing: the scheduler enforces them.
func (d *demo) features() cluster.Features {
	return slices.DeleteFunc(slices.Clone(d.acts), func(name string) bool { return name == mixActs || name == cluster.Limits })
}

// onLargeNodes returns an act that begins with more capacity than those about the mix leave. The first one adds the nodes.
func (d *demo) onLargeNodes(act func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if !d.large {
			large := func(s *cluster.NodeSpec) { s.Name, s.CPU, s.Memory = "large-"+s.Name, "8", "32Gi" }
			nodes := append(cluster.Nodes("spot", 3, large), cluster.Nodes("on-demand", 3, large)...)
			if err := d.cluster.AddNodes(ctx, nodes...); err != nil {
				return err
			}
			d.large = true
		}
		return act(ctx)
	}
}
