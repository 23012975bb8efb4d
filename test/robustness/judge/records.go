// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/hash"
	"berth.dev/berth/test/robustness/history"
)

// product is what a DeploymentRecord or an Environment declares.
type product struct {
	name    string
	uid     types.UID
	leaving bool
	// parts are what is declared, by role. Each has a Deployment and a Service.
	parts map[string]part
	// since is when its generation was written.
	since      time.Time
	generation int64
}

type part struct {
	image    string
	replicas int32
	// named is set once the product reports the part: a function keeps its name from then on.
	named bool
}

// applyProducts brings products and children to the revision of a change.
func (w *world) applyProducts(c *history.Change) {
	if w.children[c.Key] = c.Child; c.Child == nil {
		delete(w.children, c.Key)
	}
	if c.Record != nil || c.Environment != nil {
		w.declare(c)
	} else {
		delete(w.products, c.Key)
	}
}

// declare notes what a product declares now.
func (w *world) declare(c *history.Change) {
	p := &product{parts: map[string]part{}, since: c.At}
	if r := c.Record; r != nil {
		p.name, p.uid, p.leaving = history.ProductOf("DeploymentRecord", r.Namespace, r.Name), r.UID, r.DeletionTimestamp != nil
		p.generation = r.Generation
		for i := range r.Spec.DeploymentUnit.Functions {
			f := &r.Spec.DeploymentUnit.Functions[i]
			named := slices.ContainsFunc(r.Status.Functions, func(s v1alpha1.FunctionStatus) bool { return s.FunctionKey == f.FunctionKey })
			p.parts[hash.Of([]byte(f.FunctionKey), hash.Label)] = part{f.Image, replicas(f.MinScale), named}
		}
	} else {
		e := c.Environment
		p.name, p.uid, p.leaving = history.ProductOf("Environment", e.Namespace, e.Name), e.UID, e.DeletionTimestamp != nil
		p.generation = e.Generation
		if b := e.Spec.Stack.Backend; b != nil {
			p.parts["backend"] = part{b.Container.Image, replicas(b.Replicas), true}
		}
		if f := e.Spec.Stack.Frontend; f != nil {
			p.parts["frontend"] = part{f.Container.Image, replicas(f.Replicas), true}
		}
	}
	if before := w.products[c.Key]; before != nil && before.uid == p.uid && before.generation == p.generation {
		p.since = before.since
	}
	w.products[c.Key] = p
}

func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// productOf is the product of a child, nil if it is gone.
func (w *world) productOf(c *history.Child) *product {
	for _, p := range w.products {
		if p.name == c.Product && (c.ProductUID == "" || c.ProductUID == p.uid) {
			return p
		}
	}
	return nil
}

// RecordsKept judges I9: at rest there is what DeploymentRecords and Environments declare, and nothing else. No part that has its name has
// two objects of a kind at any time, and none is deleted that was declared for long enough to be known.
func RecordsKept(h *history.History) *Verdict {
	v := &Verdict{Promise: "I9, what a record declares is what exists"}
	w := newWorld()
	for i := range h.Changes {
		c := &h.Changes[i]
		before := w.children[c.Key]
		if before != nil && c.Child == nil {
			if p := w.productOf(before); p != nil && p.declares(before) && c.At.Sub(p.since) > view {
				v.violated(c, "%s %s of %s is gone, and declared", before.Kind, before.Name, p.name)
			}
		}
		w.apply(c)
		if c.Child == nil || before != nil {
			continue
		}
		v.Facts++
		if twin := w.twinOf(c); twin != "" && w.named(c.Child) {
			v.violated(c, "%s has a second %s for one part: %s and %s", c.Child.Product, c.Child.Kind, twin, c.Child.Name)
		}
	}
	v.judgeRest(h)
	return v
}

// declares reports whether a child is one that its product declares.
func (p *product) declares(c *history.Child) bool {
	_, is := p.parts[c.Role]
	return is && !p.leaving && c.Kind != ""
}

// named reports whether the product of a child reports its part.
func (w *world) named(c *history.Child) bool {
	p := w.productOf(c)
	return p != nil && p.parts[c.Role].named
}

// twinOf is the name of another object of the kind and the role of a child, "" if there is none.
func (w *world) twinOf(c *history.Change) string {
	for key, other := range w.children {
		if key != c.Key && c.Child.Role != "" && other.Role == c.Child.Role && other.Kind == c.Child.Kind && c.Child.Kind != "" &&
			other.Product == c.Child.Product {
			return other.Name
		}
	}
	return ""
}

// judgeRest judges what there is at rest.
func (v *Verdict) judgeRest(h *history.History) {
	found := map[string]bool{}
	var probes []probe
	for i := range h.Steps {
		if s := &h.Steps[i]; s.Rest {
			probes = append(probes, probe{from: at(h, s.Began), to: at(h, s.Ended), observe: func(w *world) {
				for _, text := range w.undeclared() {
					found[text] = true
				}
			}})
		}
	}
	replay(h, probes)
	for text := range found {
		v.Violations = append(v.Violations, "at rest: "+text)
	}
	slices.Sort(v.Violations) // a map has no order
}

// undeclared is how the children differ from what is declared.
func (w *world) undeclared() (list []string) {
	exist := map[string]*history.Child{}
	for _, c := range w.children {
		switch p := w.productOf(c); {
		case p == nil:
			list = append(list, fmt.Sprintf("%s %s of %s is there, which is not", c.Kind, c.Name, c.Product))
			continue
		case c.Kind != "" && !p.declares(c):
			list = append(list, fmt.Sprintf("%s has %s %s, and does not declare it", p.name, c.Kind, c.Name))
		}
		exist[c.Product+c.Kind+c.Role] = c
	}
	for _, p := range w.products {
		for role, want := range p.parts {
			if text := want.missing(exist[p.name+"Deployment"+role], exist[p.name+"Service"+role]); text != "" && !p.leaving {
				list = append(list, fmt.Sprintf("%s declares %s%s", p.name, role, text))
			}
		}
	}
	return list
}

// missing is what a Deployment and a Service, which may be nil, lack of a part.
func (p *part) missing(d, s *history.Child) string {
	switch {
	case d == nil || s == nil:
		return fmt.Sprintf(": Deployment %t, Service %t", d != nil, s != nil)
	case d.Image != p.image || d.Replicas != p.replicas:
		return fmt.Sprintf(" with %s and %d, and there is %s and %d", p.image, p.replicas, d.Image, d.Replicas)
	}
	return ""
}
