// SPDX-License-Identifier: Apache-2.0

// Package capacity tells what a node is to a capacity mix, from the Node object alone: spot or on-demand, which
// interruption domain, and whether it is about to go away.
package capacity

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Type is the capacity type of a node. The zero value, Unknown, satisfies neither side of a mix: counting a node we
// cannot read as on-demand would break an on-demand floor silently.
type Type uint8

// The capacity types.
const (
	Unknown  Type = iota // the labels do not say
	Spot                 // may be taken back at short notice
	OnDemand             // stays until it is given back
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

// Other returns the opposite type; Unknown has none and stays Unknown.
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

// ParseType reads "spot" or "on-demand". "unknown" is refused: it is the absence of a statement, so no one may state it.
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

// Operator says how a rule reads its label.
type Operator string

const (
	// In matches when the label is present with one of the rule's values, compared exactly.
	In Operator = "In"
	// Exists matches when the label is present with any value, the empty one included.
	Exists Operator = "Exists"
	// Absent matches when the label is not present. It needs Requires, because a missing label proves something only
	// on a node whose provider would have set it.
	Absent Operator = "Absent"
)

// AnyNode as a rule's Requires lifts the demand for evidence: the rule applies to every node of the cluster.
const AnyNode = "*"

// Rule states the capacity type of the nodes it matches.
type Rule struct {
	// Name identifies the rule in messages; unique in a list.
	Name string
	// Key is the node label that the rule reads.
	Key string
	// Operator says how Key is read.
	Operator Operator
	// Values are the accepted values of Key; for In only.
	Values []string
	// Requires is a label key that the node must also carry, with any value, or AnyNode. Mandatory for Absent.
	Requires string
	// Type is what a matching node is.
	Type Type
}

// Validate returns the first fault of the rule; the message names the rule, the field and the value.
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
			return r.fault("values", "", "operator In needs at least one value")
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
			return r.fault("requires", "", `operator Absent needs a label that proves the provider, or "*" for every node`)
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

// matches reports whether the rule decides for a node with these labels.
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
