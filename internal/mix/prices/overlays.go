// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/internal/mix/capacity"
)

// NodeOverlay is the kind of Karpenter that sets or changes prices.
var NodeOverlay = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1alpha1", Kind: "NodeOverlay"}

const (
	// nodePoolLabel is on each node of Karpenter: overlays apply to no other.
	nodePoolLabel = "karpenter.sh/nodepool"
	// overlayValidated is the condition of an overlay that Karpenter applies. Without the feature gate NodeOverlay, there is none.
	overlayValidated = "ValidationSucceeded"
	maxOverlays      = 1000
	maxRequirements  = 100
	// maxNotes is how many overlays that are not used have a note of their own.
	maxNotes = 10
	// maxPercent is the most by which an overlay can raise a price.
	maxPercent = 10_000
)

// Karpenter's operators of requirements, beside those of node selectors.
const (
	operatorGte corev1.NodeSelectorOperator = "Gte"
	operatorLte corev1.NodeSelectorOperator = "Lte"
)

// Overlays are those that Karpenter applies: of those that match, the first one.
type Overlays struct {
	// Notes are the overlays that are not used, a sentence each.
	Notes []string
	all   []overlay
}

type overlay struct {
	of           Source
	name         string
	weight       int32
	requirements []requirement
	change       change
}

// change is what an overlay makes of a price.
type change struct {
	// set is the price, without regard to the one before.
	set bool
	// amount is in dollars, or a percentage of the price before.
	amount  float64
	percent bool
}

type requirement struct {
	Key      string                      `json:"key"`
	Operator corev1.NodeSelectorOperator `json:"operator"`
	Values   []string                    `json:"values"`
}

// overlayObject is what is read of a NodeOverlay.
type overlayObject struct {
	Spec struct {
		Requirements    []requirement `json:"requirements"`
		Price           *string       `json:"price"`
		PriceAdjustment *string       `json:"priceAdjustment"`
		Weight          int32         `json:"weight"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// ReadOverlays returns the overlays that change prices, in the order in which Karpenter applies them: by weight, and of the same weight,
// the last name first.
func ReadOverlays(objects []*unstructured.Unstructured) *Overlays {
	o, unused := &Overlays{}, 0
	for i, object := range objects {
		if i == maxOverlays {
			o.Notes = append(o.Notes, fmt.Sprintf("%d of %d NodeOverlays are not used: %d are read.", len(objects)-i, len(objects), maxOverlays))
			break
		}
		one, changes, err := readOverlay(object)
		switch {
		case err != nil && unused >= maxNotes:
			unused++
		case err != nil:
			unused++
			o.Notes = append(o.Notes, fmt.Sprintf("NodeOverlay %s is not used: %v.", object.GetName(), err))
		case changes:
			o.all = append(o.all, one)
		}
	}
	if unused > maxNotes {
		o.Notes = append(o.Notes, fmt.Sprintf("%d other NodeOverlays are not used.", unused-maxNotes))
	}
	slices.SortFunc(o.all, func(a, b overlay) int { return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(b.name, a.name)) })
	return o
}

// readOverlay returns an overlay, and whether it changes prices.
func readOverlay(object *unstructured.Unstructured) (o overlay, changes bool, err error) {
	var read overlayObject
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &read); err != nil {
		return o, false, fmt.Errorf("it is no NodeOverlay: %w", err)
	}
	text := cmp.Or(read.Spec.Price, read.Spec.PriceAdjustment)
	if text == nil {
		return o, false, nil
	}
	if o.change, err = changeOf(*text, read.Spec.Price != nil); err != nil {
		return o, false, err
	}
	if len(read.Spec.Requirements) > maxRequirements {
		return o, false, fmt.Errorf("it has more than %d requirements", maxRequirements)
	}
	for i := range read.Spec.Requirements {
		if err := read.Spec.Requirements[i].check(); err != nil {
			return o, false, fmt.Errorf("spec.requirements[%d]: %w", i, err)
		}
	}
	if err := applied(read.Status.Conditions, object.GetGeneration()); err != nil {
		return o, false, err
	}
	o.name, o.weight, o.requirements = object.GetName(), read.Spec.Weight, read.Spec.Requirements
	o.of = Source{Name: "NodeOverlay " + o.name, Date: specTime(object)}
	return o, true, nil
}

// applied returns why Karpenter does not apply an overlay of a generation.
func applied(conditions []metav1.Condition, generation int64) error {
	i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == overlayValidated })
	switch {
	case i < 0:
		return errors.New("it is not validated by Karpenter, which requires the feature gate NodeOverlay")
	case conditions[i].Status != metav1.ConditionTrue:
		return fmt.Errorf("it is not applied by Karpenter: %s", cmp.Or(conditions[i].Reason, string(conditions[i].Status)))
	case conditions[i].ObservedGeneration != 0 && conditions[i].ObservedGeneration != generation:
		return errors.New("its last change is not validated by Karpenter")
	}
	return nil
}

// specTime is when something other than the status was last written: no price of the overlay is older.
func specTime(object *unstructured.Unstructured) time.Time {
	last := object.GetCreationTimestamp().Time
	for _, m := range object.GetManagedFields() {
		if m.Subresource == "" && m.Time != nil && m.Time.After(last) {
			last = m.Time.Time
		}
	}
	return last.UTC()
}

// changeOf reads the text of price or priceAdjustment.
func changeOf(text string, set bool) (c change, err error) {
	field, most, number := "price", float64(maxPrice), text
	if c.set = set; !set {
		field = "priceAdjustment"
		if number, c.percent = strings.CutSuffix(text, "%"); c.percent {
			most = maxPercent
		}
	}
	c.amount, err = strconv.ParseFloat(number, 64)
	signed := strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-")
	if err != nil || signed == set || !(c.amount > -most && c.amount < most) {
		return c, fmt.Errorf("spec.%s: %.40q is no change of a price that is read", field, text)
	}
	return c, nil
}

func (r *requirement) check() error {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		return nil
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, operatorGte, operatorLte:
		if len(r.Values) == 1 {
			_, err := strconv.ParseInt(r.Values[0], 10, 64)
			return err
		}
		return errors.New("want one value")
	}
	return fmt.Errorf("operator %.40q is unknown", r.Operator)
}

// matches reports whether a node whose label has a value, or does not have it, meets the requirement.
func (r *requirement) matches(value string, has bool) bool {
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return has && slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !has || !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpExists:
		return has
	case corev1.NodeSelectorOpDoesNotExist:
		return !has
	}
	number, err := strconv.ParseInt(value, 10, 64)
	if !has || err != nil {
		return false
	}
	bound, _ := strconv.ParseInt(r.Values[0], 10, 64) // was checked
	switch r.Operator {
	case corev1.NodeSelectorOpGt:
		return number > bound
	case operatorGte:
		return number >= bound
	case operatorLte:
		return number <= bound
	}
	return number < bound
}

// of returns the overlay that applies to the price of a node for a capacity type, nil for none. The node runs with one of them.
func (o *Overlays) of(n *Node, capacityType string) *overlay {
	if o == nil || !n.Labels.Has(nodePoolLabel) {
		return nil
	}
	for i := range o.all {
		if o.all[i].matches(n, capacityType) {
			return &o.all[i]
		}
	}
	return nil
}

func (o *overlay) matches(n *Node, capacityType string) bool {
	for i := range o.requirements {
		r := &o.requirements[i]
		value, has := n.Labels[r.Key]
		if r.Key == capacity.KarpenterCapacityType {
			value, has = capacityType, true
		}
		if !r.matches(value, has) {
			return false
		}
	}
	return true
}

// price returns what an overlay sets, unknown if it sets none.
func (o *overlay) price() Amount {
	if o == nil || !o.change.set {
		return Amount{}
	}
	return Amount{o.change.amount, &o.of, OriginOverlay}
}

// adjusts reports whether an overlay changes the price of another source.
func (o *overlay) adjusts() bool { return o != nil && !o.change.set }

// adjust returns a price as the overlay changes it: Karpenter has none below 0.
func (o *overlay) adjust(a Amount) Amount {
	by := o.change.amount
	if o.change.percent {
		by *= a.Dollars / 100
	}
	of := *a.Source
	of.Name += ", changed by NodeOverlay " + o.name
	return Amount{max(a.Dollars+by, 0), &of, a.Origin}
}
