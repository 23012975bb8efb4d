// SPDX-License-Identifier: Apache-2.0

// Package capacity determines, from the Node object alone, the capacity type of a node, its interruption domain, and
// whether it is departing.
package capacity

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Type is the capacity type of a node. The zero value, Unknown, satisfies neither side of a mix: a node of unknown type
// that counts as on-demand would silently violate minOnDemand.
type Type uint8

// The capacity types.
const (
	Unknown  Type = iota // no rule matches the labels
	Spot                 // the provider may reclaim it at short notice
	OnDemand             // the provider does not reclaim it
)

const (
	spotText     = "spot"
	onDemandText = "on-demand"
	unknownText  = "unknown"
)

func (t Type) String() string {
	switch t {
	case Spot:
		return spotText
	case OnDemand:
		return onDemandText
	default:
		return unknownText
	}
}

// Other returns the opposite type. Unknown has none and stays Unknown.
func (t Type) Other() Type {
	switch t {
	case Spot:
		return OnDemand
	case OnDemand:
		return Spot
	default:
		return Unknown
	}
}

// ParseType parses "spot" or "on-demand". It rejects "unknown", which means that there is no information.
func ParseType(s string) (Type, error) {
	switch s {
	case spotText:
		return Spot, nil
	case onDemandText:
		return OnDemand, nil
	default:
		return Unknown, fmt.Errorf("capacity type %q: want %q or %q", s, spotText, onDemandText)
	}
}

// Operator specifies how a rule reads its label.
type Operator string

const (
	// In matches if the label is present with one of the rule's values, compared exactly.
	In Operator = "In"
	// Exists matches if the label is present with any value, including the empty one.
	Exists Operator = "Exists"
	// Absent matches if the label is not present. It needs Requires, because a missing label is significant only on a
	// node whose provider would have set it.
	Absent Operator = "Absent"
)

// AnyNode as a rule's Requires applies the rule to every node of the cluster.
const AnyNode = "*"

// Rule assigns a capacity type to the nodes that it matches.
type Rule struct {
	// Name identifies the rule in messages. It is unique in a list.
	Name string
	// Key is the node label that the rule reads.
	Key string
	// Operator specifies how Key is read.
	Operator Operator
	// Values are the accepted values of Key, for In only.
	Values []string
	// Requires is a label key that the node must also have, with any value, or AnyNode. Mandatory for Absent.
	Requires string
	// Type is the type of a node that matches.
	Type Type
}

// Validate returns the first error of the rule, with the rule, the field and the value.
func (r Rule) Validate() error {
	if strings.TrimSpace(r.Name) == "" {
		return fmt.Errorf("node rule with key %q: name %q: must not be empty", r.Key, r.Name)
	}
	if msgs := validation.IsQualifiedName(r.Key); len(msgs) > 0 {
		return r.fault("key", r.Key, strings.Join(msgs, "; "))
	}
	if r.Type != Spot && r.Type != OnDemand {
		return r.fault("capacityType", r.Type.String(), fmt.Sprintf("want %q or %q", spotText, onDemandText))
	}
	if err := r.validateValues(); err != nil {
		return err
	}
	return r.validateRequires()
}

func (r Rule) validateValues() error {
	switch r.Operator {
	case In:
		if len(r.Values) == 0 {
			return r.fault("values", "", "operator In requires at least one value")
		}
	case Exists, Absent:
		if len(r.Values) > 0 {
			return r.fault("values", strings.Join(r.Values, ","), fmt.Sprintf("operator %s takes no values", r.Operator))
		}
	default:
		return r.fault("operator", string(r.Operator), "want In, Exists or Absent")
	}
	for i, v := range r.Values {
		if msgs := validation.IsValidLabelValue(v); len(msgs) > 0 {
			return r.fault("values", v, strings.Join(msgs, "; "))
		}
		if slices.Contains(r.Values[:i], v) {
			return r.fault("values", v, "listed twice")
		}
	}
	return nil
}

func (r Rule) validateRequires() error {
	switch r.Requires {
	case AnyNode:
		return nil
	case "":
		if r.Operator == Absent {
			return r.fault("requires", "", `operator Absent requires a label that identifies the provider, or "*" for every node`)
		}
		return nil
	}
	if msgs := validation.IsQualifiedName(r.Requires); len(msgs) > 0 {
		return r.fault("requires", r.Requires, strings.Join(msgs, "; "))
	}
	if r.Operator == Absent && r.Requires == r.Key {
		return r.fault("requires", r.Requires, "is the key itself, so the rule can never match")
	}
	return nil
}

func (r Rule) fault(field, value, why string) error {
	return fmt.Errorf("node rule %q: %s %q: %s", r.Name, field, value, why)
}

// matches reports whether the rule matches a node with these labels.
func (r *Rule) matches(labels map[string]string) bool {
	if r.Requires != "" && r.Requires != AnyNode {
		if _, ok := labels[r.Requires]; !ok {
			return false
		}
	}
	value, present := labels[r.Key]
	switch r.Operator {
	case In:
		return present && slices.Contains(r.Values, value)
	case Exists:
		return present
	case Absent:
		return !present
	default:
		return false
	}
}
