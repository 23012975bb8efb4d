// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// File has the prices of a user, in dollars an hour.
type File struct {
	Source `json:"-"`
	// Date is when the prices were valid: YYYY-MM-DD.
	Date string `json:"date"`
	// DiscountPercent is by how much the user pays less for on-demand nodes than the public lists have it.
	DiscountPercent float64 `json:"discountPercent,omitempty"`
	// Nodes are prices of nodes. Of those that match a node, the first one with a price applies.
	Nodes []NodePrice `json:"nodes,omitempty"`
	// Rates are for nodes that have no price.
	Rates *Rates `json:"rates,omitempty"`
}

// NodePrice is the price of the nodes that have all that is set.
type NodePrice struct {
	InstanceType string                `json:"instanceType,omitempty"`
	Region       string                `json:"region,omitempty"`
	Zone         string                `json:"zone,omitempty"`
	Selector     *metav1.LabelSelector `json:"selector,omitempty"`
	OnDemand     float64               `json:"onDemand,omitempty"`
	Spot         float64               `json:"spot,omitempty"`

	selector labels.Selector
}

// ReadFile reads a file of prices, as YAML or JSON. The name is that of the file. An error names the field and its value.
func ReadFile(name string, data []byte) (*File, error) {
	f := &File{}
	if err := yaml.UnmarshalStrict(data, f); err != nil {
		return nil, err
	}
	date, err := time.Parse(time.DateOnly, f.Date)
	if err != nil {
		return nil, field.Invalid(field.NewPath("date"), f.Date, "want a date as 2006-01-31")
	}
	f.Source = Source{Name: name, Date: date}
	if p := f.DiscountPercent; !(p >= 0 && p < 100) {
		return nil, field.Invalid(field.NewPath("discountPercent"), p, "want at least 0 and less than 100")
	}
	var problems []error
	for i := range f.Nodes {
		problems = append(problems, f.Nodes[i].compile(field.NewPath("nodes").Index(i)))
	}
	if r := f.Rates; r != nil {
		path := field.NewPath("rates")
		for _, p := range []struct {
			name  string
			price float64
		}{{"cpu", r.CPU}, {"memoryGiB", r.MemoryGiB}, {"spotCPU", r.SpotCPU}, {"spotMemoryGiB", r.SpotMemoryGiB}} {
			problems = append(problems, checkPrice(path.Child(p.name), p.price))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return f, nil
}

func checkPrice(path *field.Path, price float64) error {
	if !(price >= 0 && price < maxPrice) {
		return field.Invalid(path, price, fmt.Sprintf("want dollars an hour, at least 0 and below %d", maxPrice))
	}
	return nil
}

func (p *NodePrice) compile(path *field.Path) (err error) {
	if p.InstanceType == "" && p.Region == "" && p.Zone == "" && p.Selector == nil {
		return field.Required(path, "want an instanceType, a region, a zone or a selector")
	}
	if p.OnDemand == 0 && p.Spot == 0 {
		return field.Required(path.Child("onDemand"), "want onDemand, spot or both")
	}
	p.selector = labels.Everything()
	if p.Selector != nil {
		if p.selector, err = metav1.LabelSelectorAsSelector(p.Selector); err != nil {
			return field.Invalid(path.Child("selector"), p.Selector, err.Error())
		}
	}
	return errors.Join(checkPrice(path.Child("onDemand"), p.OnDemand), checkPrice(path.Child("spot"), p.Spot))
}

func (p *NodePrice) matches(n *Node) bool {
	return (p.InstanceType == "" || p.InstanceType == n.InstanceType) && (p.Region == "" || p.Region == n.Region) &&
		(p.Zone == "" || p.Zone == n.Zone) && p.selector.Matches(n.Labels)
}

// amounts implements source.
func (f *File) amounts(n *Node) (onDemand, spot float64) {
	for i := range f.Nodes {
		p := &f.Nodes[i]
		if !p.matches(n) {
			continue
		}
		if onDemand == 0 {
			onDemand = p.OnDemand
		}
		if spot == 0 {
			spot = p.Spot
		}
	}
	return onDemand, spot
}
