// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Classifier determines the capacity type of nodes by an ordered list of rules. It is immutable and safe for concurrent
// use.
type Classifier struct {
	rules []Rule
	keys  map[string]struct{}
}

// NewClassifier validates the rules and compiles them. Their order is kept: the first rule that matches a node decides.
func NewClassifier(rules []Rule) (*Classifier, error) {
	c := &Classifier{rules: make([]Rule, len(rules)), keys: make(map[string]struct{}, len(rules))}
	names := make(map[string]int, len(rules))
	for i, r := range rules {
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
		if first, taken := names[r.Name]; taken {
			return nil, fmt.Errorf("rule %d: node rule %q: name %q: already used by rule %d", i, r.Name, r.Name, first)
		}
		names[r.Name] = i
		r.Values = slices.Clone(r.Values)
		c.rules[i] = r
		c.keys[r.Key] = struct{}{}
	}
	return c, nil
}

// Classify returns the type of the node with the name of the rule that decided, or Unknown with an empty name.
func (c *Classifier) Classify(node *corev1.Node) (Type, string) {
	if node == nil || halfRegistered(node) {
		return Unknown, ""
	}
	for i := range c.rules {
		if r := &c.rules[i]; r.matches(node.Labels) {
			return r.Type, r.Name
		}
	}
	return Unknown, ""
}

// registrationTaints mark a node whose labels are not complete yet: Karpenter, the cloud controller and Cluster API add
// their labels first and then remove the taint. Until then, an Absent rule would match a node whose label is only late.
var registrationTaints = []string{
	"karpenter.sh/unregistered",
	"node.cloudprovider.kubernetes.io/uninitialized",
	"node.cluster.x-k8s.io/uninitialized",
}

func halfRegistered(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(registrationTaints, t.Key) })
}

// Pins reports whether the pod's own nodeSelector or required node affinity has a capacity label. The user has then
// chosen the type, also with NotIn or in only one of several terms: such a pod is counted, not steered. Preferences are
// no choice: the mix takes precedence over them.
//
// It runs for every pod: linear in the pod's selectors, no allocation.
func (c *Classifier) Pins(spec *corev1.PodSpec) bool {
	if spec == nil {
		return false
	}
	for key := range spec.NodeSelector {
		if _, ok := c.keys[key]; ok {
			return true
		}
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return false
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return false
	}
	for i := range required.NodeSelectorTerms {
		// matchFields is ignored: it supports metadata.name only, never a label.
		expressions := required.NodeSelectorTerms[i].MatchExpressions
		for j := range expressions {
			if _, ok := c.keys[expressions[j].Key]; ok {
				return true
			}
		}
	}
	return false
}

// A domain is the values joined by "/". A missing label is "?". The three special bytes are escaped in values. Label
// values contain none of them, so the text stays readable, and it is unambiguous for any other string.
const (
	domainSeparator = '/'
	domainMissing   = '?'
	domainSpecial   = "%/?"

	// DomainSeparator is between the values in the name of a domain.
	DomainSeparator = string(domainSeparator)
	// DomainMissing is in the name of a domain in the place of the value of a missing label.
	DomainMissing = string(domainMissing)
)

// Domain identifies the interruption domain of a node: two nodes share it exactly if they agree on every key, where a
// missing label differs from an empty value. Only domains of the same keys are comparable.
func Domain(labels map[string]string, keys []string) string {
	var buffer [64]byte
	return string(AppendDomain(buffer[:0], labels, keys))
}

// AppendDomain appends the result of Domain.
func AppendDomain(b []byte, labels map[string]string, keys []string) []byte {
	for i, k := range keys {
		if i > 0 {
			b = append(b, domainSeparator)
		}
		value, present := labels[k]
		if !present {
			b = append(b, domainMissing)
		}
		b = appendEscaped(b, value)
	}
	return b
}

func appendEscaped(b []byte, value string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(value) {
		ch := value[i]
		if strings.IndexByte(domainSpecial, ch) < 0 {
			b = append(b, ch)
			continue
		}
		b = append(b, '%', hex[ch>>4], hex[ch&0xf])
	}
	return b
}
