// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/limits/registry"
)

// How a pod comes to its size.
const (
	byLabel      = "label"
	byAnnotation = "annotation"
	bySelector   = "selector"
)

// LimitFacts are what a pod's ResourceLimit says to it.
type LimitFacts struct {
	// ResourceLimit is its "namespace/name"; Missing is set where it does not exist.
	ResourceLimit string `json:"resourceLimit"`
	Missing       bool   `json:"missing,omitempty"`
	// By says how the pod comes to it: label, annotation or selector.
	By string `json:"by"`
	// Default is set where it is that of the default namespace for limits.
	Default bool `json:"defaultNamespace,omitempty"`
	// Bounds are the most that the pod may request or be limited to.
	Bounds []string `json:"bounds,omitempty"`
	// Above is what of the pod is above them.
	Above []string `json:"above,omitempty"`
	// Resolved is what the webhook filled the pod in from, with the generation.
	Resolved string `json:"resolved,omitempty"`
	// Nodes is how many nodes the node rules match, of all; Rules the same of each rule. Absent without rules.
	Nodes *RuleFacts  `json:"nodes,omitempty"`
	Rules []RuleFacts `json:"rules,omitempty"`
	// NodeMismatch is set where the pod runs on a node that the rules do not match.
	NodeMismatch bool `json:"nodeMismatch,omitempty"`
	// NotEnforcedBy names a scheduler that does not look at limits.
	NotEnforcedBy string `json:"notEnforcedBy,omitempty"`
	pending       bool
}

// RuleFacts are how many nodes match a rule.
type RuleFacts struct {
	Rule     string `json:"rule,omitempty"`
	Matching int    `json:"matching"`
	All      int    `json:"all"`
}

// limitFacts returns nil for a pod without a size.
func limitFacts(c *live.Cluster, pod *corev1.Pod) *LimitFacts {
	found, enforced := c.LimitOf(pod)
	if found.Limit == nil && c.Missing(live.LimitsResource) {
		return nil // whether it has none cannot be told
	}
	facts := &LimitFacts{By: bySelector, Resolved: pod.Annotations[v1alpha1.ResolvedLimitAnnotation], pending: pod.Spec.NodeName == ""}
	if name := registry.Named(pod); name != "" {
		facts.By = byAnnotation
		if pod.Labels[v1alpha1.ResourceLimitLabel] == name {
			facts.By = byLabel
		}
	}
	if !enforced {
		facts.NotEnforcedBy = pod.Spec.SchedulerName
	}
	switch {
	case found.Missing != "":
		facts.ResourceLimit, facts.Missing = found.Missing, true
		return facts
	case found.Limit == nil:
		return nil
	}
	facts.ResourceLimit = found.Limit.Key
	facts.Default = found.Limit.Limit.Namespace != pod.Namespace
	for _, b := range found.Limit.Bounds() {
		facts.Bounds = append(facts.Bounds, b.String())
	}
	for _, e := range found.Limit.Exceeded(pod) {
		facts.Above = append(facts.Above, e.String())
	}
	if found.Limit.Restricts() && !c.Missing("nodes") {
		facts.nodes(found.Limit, c.Nodes, pod.Spec.NodeName)
	}
	return facts
}

// nodes counts what the node rules match, together and each for itself.
func (f *LimitFacts) nodes(limit *registry.Compiled, nodes []*corev1.Node, on string) {
	all := matching("", limit, nodes)
	f.Nodes = &all
	spec := &limit.Limit.Spec
	alone := func(rule string, spec v1alpha1.ResourceLimitSpec) {
		f.Rules = append(f.Rules, matching(rule, registry.Compile(&v1alpha1.ResourceLimit{Spec: spec}), nodes))
	}
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		value := spec.NodeSelector[key]
		alone("nodeSelector "+key+"="+value, v1alpha1.ResourceLimitSpec{NodeSelector: map[string]string{key: value}})
	}
	if a := spec.NodeAffinity; a != nil && a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		alone("nodeAffinity", v1alpha1.ResourceLimitSpec{NodeAffinity: a})
	}
	for _, n := range nodes {
		f.NodeMismatch = f.NodeMismatch || n.Name == on && !limit.Matches(n)
	}
}

func matching(rule string, limit *registry.Compiled, nodes []*corev1.Node) RuleFacts {
	facts := RuleFacts{Rule: rule, All: len(nodes)}
	for _, n := range nodes {
		if limit.Matches(n) {
			facts.Matching++
		}
	}
	return facts
}

func (r RuleFacts) String() string { return fmt.Sprintf("%d of %d nodes", r.Matching, r.All) }

// sentences say what the size is and what it does to the pod.
func (f *LimitFacts) sentences() []string {
	if f == nil {
		return nil
	}
	how := map[string]string{
		byLabel:      "which it names by its label " + v1alpha1.ResourceLimitLabel,
		byAnnotation: "which it names by its annotation " + v1alpha1.ResourceLimitLabel,
		bySelector:   "the oldest whose selector matches its labels",
	}[f.By]
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case f.Missing && f.pending:
		say("It waits for its size, ResourceLimit %s, %s: there is none of that name.", f.ResourceLimit, how)
	case f.Missing:
		say("Its size is ResourceLimit %s, %s: there is none of that name any more.", f.ResourceLimit, how)
	default:
		if f.Default {
			how += ", from the default namespace for limits"
		}
		say("Its size is ResourceLimit %s, %s.", f.ResourceLimit, how)
		out = append(out, f.withinText(), f.nodesText())
	}
	if f.Resolved != "" {
		say("The webhook filled it in from %s.", f.Resolved)
	}
	if f.NotEnforcedBy != "" {
		say("Scheduler %s places it, which does not look at sizes.", f.NotEnforcedBy)
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

func (f *LimitFacts) withinText() string {
	bounds := strings.Join(f.Bounds, ", ")
	switch {
	case len(f.Above) > 0 && f.pending:
		return fmt.Sprintf("It is above its size and waits for that: %s.", strings.Join(f.Above, ", "))
	case len(f.Above) > 0:
		return fmt.Sprintf("It is above its size (%s); running pods stay, a replacement would wait.", strings.Join(f.Above, ", "))
	case bounds == "":
		return "That bounds no resource."
	}
	return fmt.Sprintf("That allows it at most %s; it is within.", bounds)
}

func (f *LimitFacts) nodesText() string {
	switch {
	case f.Nodes == nil:
		return ""
	case f.NodeMismatch:
		return "Its node does not match the node rules of the size; running pods stay, a replacement would go elsewhere."
	case !f.pending:
		return ""
	}
	text := fmt.Sprintf("The node rules of the size match %s", f.Nodes)
	if len(f.Rules) > 1 {
		each := make([]string, len(f.Rules))
		for i, r := range f.Rules {
			each[i] = r.Rule + " " + r.String()
		}
		return text + ": " + strings.Join(each, ", ") + "."
	}
	return text + " (" + f.Rules[0].Rule + ")."
}
