// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/limits/registry"
)

// How a pod gets its ResourceLimit.
const (
	byLabel      = "label"
	byAnnotation = "annotation"
	bySelector   = "selector"
)

// LimitFacts are about a pod's ResourceLimit.
type LimitFacts struct {
	// ResourceLimit is its "namespace/name"; Missing is set where it does not exist.
	ResourceLimit string `json:"resourceLimit"`
	Missing       bool   `json:"missing,omitempty"`
	// By is how the pod gets it: label, annotation or selector.
	By string `json:"by"`
	// Default is set where it is that of the default namespace for limits.
	Default bool `json:"defaultNamespace,omitempty"`
	// Bounds are the most that the pod may request or be limited to.
	Bounds []string `json:"bounds,omitempty"`
	// Above are the requests and limits of the pod that are above them.
	Above []string `json:"above,omitempty"`
	// Resolved is the limit, with its generation, from which the webhook completed the pod.
	Resolved string `json:"resolved,omitempty"`
	// Nodes is how many nodes the node rules match, of all; Rules the same of each rule. Absent without rules.
	Nodes *RuleFacts  `json:"nodes,omitempty"`
	Rules []RuleFacts `json:"rules,omitempty"`
	// NodeMismatch is set where the pod runs on a node that the rules do not match.
	NodeMismatch bool `json:"nodeMismatch,omitempty"`
	// NotEnforcedBy is a scheduler that does not enforce limits.
	NotEnforcedBy string `json:"notEnforcedBy,omitempty"`
	pending       bool
}

// RuleFacts are how many nodes match a rule.
type RuleFacts struct {
	Rule     string `json:"rule,omitempty"`
	Matching int    `json:"matching"`
	All      int    `json:"all"`
}

// limitFacts returns nil for a pod without a limit.
func limitFacts(c *Cluster, pod *corev1.Pod) *LimitFacts {
	found, enforced := c.LimitOf(pod)
	if found.Limit == nil && c.Missing(LimitsResource) {
		return nil // unknown
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

// describe prints which limit the pod has and whether the pod is within it.
func (f *LimitFacts) describe(d *display.Description) {
	if f == nil {
		return
	}
	how := map[string]string{
		byLabel:      "named by label " + v1alpha1.ResourceLimitLabel,
		byAnnotation: "named by annotation " + v1alpha1.ResourceLimitLabel,
		bySelector:   "the oldest whose selector matches the labels of the pod",
	}[f.By]
	if f.Default {
		how += ", from the default namespace for limits"
	}
	if f.Missing {
		how += ", does not exist"
	}
	d.Add("Resource limit", fmt.Sprintf("%s (%s)", f.ResourceLimit, how))
	d.Add("Resolved from", f.Resolved)
	if f.Missing {
		return
	}
	d.Add("Bounds", cmp.Or(strings.Join(f.Bounds, ", "), "<none>"))
	within := "True"
	if len(f.Above) > 0 {
		within = "False (" + strings.Join(f.Above, ", ") + ")"
	}
	d.Add("Within bounds", within)
	d.Add("Matching nodes", f.nodesText())
}

// nodesText is how many nodes the node rules match, "" where there are none.
func (f *LimitFacts) nodesText() string {
	if f.Nodes == nil {
		return ""
	}
	each := make([]string, len(f.Rules))
	for i, r := range f.Rules {
		each[i] = r.Rule
		if len(f.Rules) > 1 {
			each[i] += ": " + r.String()
		}
	}
	return fmt.Sprintf("%s (%s)", f.Nodes, strings.Join(each, ", "))
}

// reasons describe what the limit does to the pod.
func (f *LimitFacts) reasons() (out []string) {
	switch {
	case f == nil:
		return nil
	case f.Missing && f.pending:
		out = append(out, fmt.Sprintf("The pod waits because ResourceLimit %s does not exist.", f.ResourceLimit))
	case f.Missing:
		out = append(out, fmt.Sprintf("ResourceLimit %s no longer exists.", f.ResourceLimit))
	case len(f.Above) > 0 && f.pending:
		out = append(out, "The pod waits because it is above its ResourceLimit.")
	case len(f.Above) > 0:
		out = append(out, "The pod is above its ResourceLimit: it keeps running, but its replacement would wait.")
	}
	if f.NodeMismatch {
		out = append(out, "The node does not match the node rules of the ResourceLimit: the pod keeps running, but its replacement would use another node.")
	}
	if f.NotEnforcedBy != "" {
		out = append(out, fmt.Sprintf("Scheduler %s schedules the pod and does not enforce ResourceLimits.", f.NotEnforcedBy))
	}
	return out
}
