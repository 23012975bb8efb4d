// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"net/url"

	"berth.dev/berth/internal/mix/overview"
)

// loss is what a workload loses with an interruption domain.
type loss struct {
	w *overview.Workload
	// here are its replicas on spot nodes of the domain, all those on spot nodes, and replicas all that it has.
	here, spot, replicas int
}

// domainPage is the page of an interruption domain: its nodes, and what each workload would lose if the provider reclaimed it.
func domainPage(_ []string, q url.Values, s *state) (*page, error) {
	if s.Nodes == nil {
		return nil, errUnknownNodes
	}
	name := q.Get(nameParameter)
	on := map[string]bool{}
	var nodes []*overview.NodeDetail
	departing := 0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Domain != name || name == "" {
			continue
		}
		nodes, on[n.Name] = append(nodes, n), true
		if n.Departing != "" {
			departing++
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("there is no domain %s", inert(name))
	}
	v := struct {
		Name             string
		Nodes, Departing int
		Losses           tableOfLosses
		Unknown          bool
	}{inert(name), len(nodes), departing, tableOfLosses{}, s.podsOf(0).Unknown()}
	for _, l := range lossesOf(s.Overview, on) {
		v.Losses = append(v.Losses, lossView{
			Name: workloadName(l.w), Namespace: l.w.Namespace, URL: workloadURL(l.w), Here: l.here, Spot: l.spot, Replicas: l.replicas,
		})
	}
	parts := append(status(s), &part{id: "domain", before: render("domain", v)})
	return &page{title: "Domain " + inert(name), parts: append(parts, nodeListing(s).parts("/domain", q, nodes)...)}, nil
}

// tableOfLosses are the losses of a domain.
type tableOfLosses []lossView

// lossView is a loss as it is shown.
type lossView struct {
	Name, Namespace, URL string
	Here, Spot, Replicas int
}

// lossesOf are the workloads with replicas on spot nodes of a domain, in their order.
func lossesOf(o *overview.Overview, on map[string]bool) (losses []loss) {
	for i := range o.Workloads {
		w := &o.Workloads[i]
		l := loss{w: w, replicas: w.Replicas}
		for j := range w.Slots {
			if slot := &w.Slots[j]; slot.NodeType == spotName {
				l.spot++
				if inDomain(slot, on) {
					l.here++
				}
			}
		}
		if l.here > 0 {
			losses = append(losses, l)
		}
	}
	return losses
}

// inDomain reports whether a replica has a pod on one of the nodes: a unit is lost with the first of its pods.
func inDomain(s *overview.Slot, on map[string]bool) bool {
	for _, p := range s.Pods {
		if on[p.Node] {
			return true
		}
	}
	return s.Pods == nil && on[s.Node]
}

// spotName is what slots call the capacity type of spot nodes.
const spotName = "spot"
