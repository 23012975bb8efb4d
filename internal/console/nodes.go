// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/overview"
)

var errUnknownNodes = errors.New("the nodes are unknown: they could not be listed")

// nodeURL is the page of a node, "" where there is none: the nodes were not read.
func nodeURL(s *state, name string) string {
	if name == "" || s.Reading == nil || s.Nodes == nil {
		return ""
	}
	return "/nodes/" + url.PathEscape(name)
}

// domainURL is the page of an interruption domain, "" for nodes that are in none.
func domainURL(domain string) string {
	if domain == "" {
		return ""
	}
	return "/domain?" + url.Values{nameParameter: {domain}}.Encode()
}

// typeValue is a capacity type.
func typeValue(name string) value {
	class := capacity.Unknown.String()
	if name == spotName || name == capacity.OnDemand.String() {
		class = name
	}
	return badgeValue(name, class)
}

// nodeState is whether a node takes pods, or why it goes away.
func nodeState(n *overview.NodeDetail) value {
	switch {
	case n.Departing != "":
		return value{Text: "Departing", Class: "warn", Note: inert(n.Departing)}
	case n.Accepts:
		return value{Text: "Accepts pods", Class: "ok", Plain: true}
	}
	return value{Text: "Accepts no pods", Class: "warn"}
}

// podsOf is a number of pods on a node, unknown where pods or mixes were not read.
func (s *state) podsOf(n int) overview.Maybe[int] {
	if slices.Contains(s.Unread, "pods") || slices.Contains(s.Unread, overview.MixesResource) {
		return overview.Maybe[int]{}
	}
	return overview.Known(n)
}

// nodeListing lists nodes.
func nodeListing(s *state) listing[*overview.NodeDetail] {
	count := func(id, label string, of func(*overview.NodeDetail) int) column[*overview.NodeDetail] {
		return column[*overview.NodeDetail]{id, label, true, func(n *overview.NodeDetail) value { return maybeValue(s.podsOf(of(n))) }}
	}
	label := func(n *overview.NodeDetail, key string) string {
		if n.Node == nil {
			return ""
		}
		return n.Node.Labels[key]
	}
	return listing[*overview.NodeDetail]{
		id: "node-list", label: "Each node", noun: "node", empty: "There are no nodes.",
		row: func(n *overview.NodeDetail) string { return n.Name },
		columns: []column[*overview.NodeDetail]{
			{"name", "Node", false, func(n *overview.NodeDetail) value { return linkValue(n.Name, nodeURL(s, n.Name)) }},
			{"type", "Type", false, func(n *overview.NodeDetail) value { return typeValue(n.Type) }},
			{"domain", "Domain", false, func(n *overview.NodeDetail) value { return linkValue(n.Domain, domainURL(n.Domain)) }},
			{"zone", "Zone", false, func(n *overview.NodeDetail) value { return textValue(label(n, corev1.LabelTopologyZone)) }},
			{"instance", "Instance type", false, func(n *overview.NodeDetail) value { return textValue(label(n, corev1.LabelInstanceTypeStable)) }},
			{"state", "State", false, nodeState},
			count("spot", "Spot slots", func(n *overview.NodeDetail) int { return n.Pods.Spot }),
			count("on-demand", "On-demand slots", func(n *overview.NodeDetail) int { return n.Pods.OnDemand }),
			count("borrowed", "Borrowed", func(n *overview.NodeDetail) int { return n.Pods.Borrowed }),
			count("others", "Other pods", func(n *overview.NodeDetail) int { return len(n.Others) }),
			{"age", "Created", true, func(n *overview.NodeDetail) value {
				if n.Node == nil {
					return value{}
				}
				return timeValue(s.at, n.Node.CreationTimestamp)
			}},
		},
	}
}

// nodesPage is the page of the nodes: sums by type and zone, and each node.
func nodesPage(_ []string, q url.Values, s *state) (*page, error) {
	v := struct {
		Groups  []overview.NodeGroup
		Domains []domainRow
		// Counted is set where the interruptions of a domain are known.
		Counted, Unread bool
		Hint            string
	}{Groups: s.Overview.Nodes, Domains: domainRows(s), Counted: interruptionsKnown(s), Unread: s.Overview.Nodes == nil}
	all := make([]*overview.NodeDetail, 0, len(s.Nodes))
	for i := range s.Nodes {
		all = append(all, &s.Nodes[i])
		if s.Nodes[i].Type == capacity.Unknown.String() {
			v.Hint = display.Upper(overview.UnknownTypeHint)
		}
	}
	l := nodeListing(s)
	l.unknown = s.Nodes == nil
	parts := append(status(s), &part{id: "nodes", before: render("nodes", v)})
	return &page{title: "Nodes", parts: append(parts, l.parts("/nodes", q, all)...)}, nil
}

// placedPod is a pod with its slot and workload, nil for a pod that no mix governs.
type placedPod struct {
	Namespace, Pod, Node string
	Slot                 *overview.Slot
	Workload             *overview.Workload
}

// placed are the pods of mixes on nodes, in the order of the workloads.
func placed(o *overview.Overview, on func(node string) bool) (pods []placedPod) {
	for i := range o.Workloads {
		w := &o.Workloads[i]
		for j := range w.Slots {
			slot := &w.Slots[j]
			for _, p := range slot.Members() {
				if p.Node != "" && on(p.Node) {
					pods = append(pods, placedPod{w.Namespace, p.Pod, p.Node, slot, w})
				}
			}
		}
	}
	return pods
}

// podListing lists pods that have a node.
func podListing(s *state, withNode bool) listing[placedPod] {
	l := listing[placedPod]{
		id: "pods", label: "Pods", noun: "pod", row: func(p placedPod) string { return p.Namespace + "/" + p.Pod },
		empty: "No pod that you may list runs here.",
		columns: []column[placedPod]{
			{"name", "Pod", false, func(p placedPod) value {
				v := linkValue(p.Pod, s.podURL(p.Namespace, p.Pod))
				v.Note = inert(p.Namespace)
				return v
			}},
			{"workload", "Workload", false, func(p placedPod) value {
				if p.Workload == nil && slices.Contains(s.Unread, overview.MixesResource) {
					return value{Text: "?"}
				}
				if p.Workload == nil {
					return value{Text: "no mix governs it", Class: "dim", Plain: true}
				}
				return linkValue(workloadName(p.Workload), workloadURL(p.Workload))
			}},
			{"slot", "Slot", true, func(p placedPod) value {
				if p.Slot == nil {
					return value{order: -1}
				}
				return numberValue(p.Slot.Slot)
			}},
			{"requires", "Requires", false, func(p placedPod) value {
				if p.Slot == nil {
					return value{}
				}
				v := typeValue(p.Slot.Type)
				if p.Slot.Floor {
					v.Note = "floor"
				}
				return v
			}},
			{"state", "State", false, func(p placedPod) value {
				if p.Slot == nil {
					return value{}
				}
				return slotState(p.Slot)
			}},
		},
	}
	if withNode {
		l.columns = slices.Insert(l.columns, 1, column[placedPod]{"node", "Node", false, func(p placedPod) value {
			return linkValue(p.Node, nodeURL(s, p.Node))
		}})
	}
	return l
}

// slotState is the state of a slot in words, with its reason.
func slotState(s *overview.Slot) value {
	v := value{Text: phrases[s.State], Note: inert(s.Reason), Plain: true}
	switch s.State {
	case overview.InPlace:
		v.Class = "ok"
	case overview.Borrowed:
		v.Class = "bad"
	case overview.Departing, overview.Pending:
		v.Class = "warn"
	}
	return v
}

// workloadName names a workload in a table.
func workloadName(w *overview.Workload) string {
	return strings.TrimPrefix(w.Kind+"/", "/") + cmp.Or(w.Name, "pods without a controller")
}

// podURL is the page of a pod, "" if there is none.
func (s *state) podURL(namespace, pod string) string {
	if !s.reports || pod == "" {
		return ""
	}
	return objectURL("pods", namespace, pod)
}

// nodeView is a node as its page shows it. All texts are inert.
type nodeView struct {
	Type, State, Domain value
	Facts               []fact
	Rule, Hint          string
	Created             template.HTML
	Amounts             []fact
	Taints              []string
	Labels              []fact
	Conditions          []nodeCondition
}

// nodeCondition is a condition of a node that is not as it should be.
type nodeCondition struct{ Type, Status, Reason, Message string }

// nodePage is the page of a node.
func nodePage(path []string, q url.Values, s *state) (*page, error) {
	if s.Nodes == nil {
		return nil, errUnknownNodes
	}
	i := slices.IndexFunc(s.Nodes, func(n overview.NodeDetail) bool { return n.Name == path[0] })
	if i < 0 {
		return nil, fmt.Errorf("there is no node %s", inert(path[0]))
	}
	n := &s.Nodes[i]
	pods := placed(s.Overview, func(node string) bool { return node == n.Name })
	for _, o := range n.Others {
		pods = append(pods, placedPod{Namespace: o.Namespace, Pod: o.Name, Node: n.Name})
	}
	list := podListing(s, false)
	list.unknown = s.podsOf(0).Unknown()
	parts := append(status(s), &part{id: "node", before: render("node", nodeOf(n, s))})
	return &page{title: inert(n.Name), parts: append(parts, list.parts("/nodes/"+url.PathEscape(n.Name), q, pods)...)}, nil
}

func nodeOf(n *overview.NodeDetail, s *state) *nodeView {
	v := &nodeView{
		Type: typeValue(n.Type), State: nodeState(n), Domain: linkValue(n.Domain, domainURL(n.Domain)), Rule: inert(n.Rule),
	}
	if n.Type == capacity.Unknown.String() {
		v.Hint = display.Upper(overview.UnknownTypeHint)
	}
	o := n.Node
	if o == nil {
		return v
	}
	if !o.CreationTimestamp.IsZero() {
		v.Created = timeTag(s.at, o.CreationTimestamp)
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
		if q, has := o.Status.Allocatable[name]; has {
			v.Amounts = append(v.Amounts, fact{string(name), inert(q.String())})
		}
	}
	for i := range o.Spec.Taints {
		v.Taints = append(v.Taints, inert(o.Spec.Taints[i].ToString()))
	}
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		v.Labels = append(v.Labels, fact{inert(key), inert(o.Labels[key])})
	}
	for i := range o.Status.Conditions {
		c := &o.Status.Conditions[i]
		if fine := c.Type == corev1.NodeReady; (c.Status == corev1.ConditionTrue) != fine {
			v.Conditions = append(v.Conditions, nodeCondition{
				inert(string(c.Type)), inert(string(c.Status)), inert(c.Reason), inert(c.Message),
			})
		}
	}
	return v
}
