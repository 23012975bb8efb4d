// SPDX-License-Identifier: Apache-2.0

package applyset

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/hash"
)

// Desired is an object that should exist.
type Desired struct {
	*unstructured.Unstructured
	// Unassigned is the path of a field that is only set when the object is created: other field owners set it from then on.
	Unassigned []string

	exists bool
}

// Prepare completes a rendered object: owner is its owner reference, nil for none. The annotation with the hash of what was
// rendered, without the unassigned field, shows when a field is not rendered any more: in the object itself such a field looks
// like one that others have added.
func Prepare(o *unstructured.Unstructured, owner *metav1.OwnerReference, unassigned []string) *Desired {
	if owner != nil {
		o.SetOwnerReferences([]metav1.OwnerReference{*owner})
	}
	d := &Desired{Unstructured: o, Unassigned: unassigned}
	text, err := json.Marshal(d.withoutUnassigned().Object)
	if err != nil {
		return d // it cannot be applied either, and the API server reports it
	}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.RenderedAnnotation] = hash.Of(text, hash.Label)
	o.SetAnnotations(annotations)
	return d
}

func (d *Desired) withoutUnassigned() *unstructured.Unstructured {
	if d.Unassigned == nil {
		return d.Unstructured
	}
	rest := d.DeepCopy()
	unstructured.RemoveNestedField(rest.Object, d.Unassigned...)
	return rest
}

// Child is an object that exists. Typed objects from a cache do not carry their kind.
type Child struct {
	client.Object
	Kind schema.GroupVersionKind
}

// String returns its kind and name.
func (c *Child) String() string { return c.Kind.Kind + " " + c.GetName() }

// Names returns the kinds and names of children, sorted.
func Names(children []Child) string {
	list := make([]string, len(children))
	for i := range children {
		list[i] = children[i].String()
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// Find returns the child of a kind and a name, nil if there is none.
func Find(children []Child, kind schema.GroupKind, name string) *Child {
	i := slices.IndexFunc(children, func(c Child) bool { return c.GetName() == name && c.Kind.GroupKind() == kind })
	if i < 0 {
		return nil
	}
	return &children[i]
}

// Existing returns the child that is an object, nil if it does not exist.
func Existing(children []Child, o *unstructured.Unstructured) *Child {
	return Find(children, o.GroupVersionKind().GroupKind(), o.GetName())
}

// Fate is what becomes of a child that is not desired.
type Fate int

const (
	// Prune deletes it.
	Prune Fate = iota
	// Retain keeps it.
	Retain
	// PruneReplaced deletes it once no desired object is refused: one of them takes its place.
	PruneReplaced
)

// Plan is the difference between the desired objects of a parent and its children.
type Plan struct {
	// Apply are the desired objects that do not exist, or not as desired, in their order.
	Apply []*Desired
	// Keep are the children that stay as they are.
	Keep []Child
	// Prune are the children to delete, Replaced those to delete unless an object is refused.
	Prune, Replaced []Child
}

// Diff returns the plan that makes the children what is desired. Fate decides about the children that are not desired; nil
// prunes them. It is a pure function.
func Diff(desired []*Desired, children []Child, fate func(*Child) Fate) (p Plan) {
	if fate == nil {
		fate = func(*Child) Fate { return Prune }
	}
	type key struct {
		kind schema.GroupKind
		name string
	}
	wanted := map[key]bool{} // whether it has to be applied
	for _, d := range desired {
		child := Existing(children, d.Unstructured)
		next := &Desired{Unstructured: d.Unstructured, Unassigned: d.Unassigned, exists: child != nil}
		if next.exists {
			next.Unstructured = d.withoutUnassigned()
		}
		apply := child == nil || !Covered(child.Object, next.Unstructured)
		if apply {
			p.Apply = append(p.Apply, next)
		}
		wanted[key{d.GroupVersionKind().GroupKind(), d.GetName()}] = apply
	}
	for i := range children {
		c := &children[i]
		apply, is := wanted[key{c.Kind.GroupKind(), c.GetName()}]
		switch {
		case is && apply: // the applied object takes its place
		case is, fate(c) == Retain:
			p.Keep = append(p.Keep, *c)
		case fate(c) == PruneReplaced:
			p.Replaced = append(p.Replaced, *c)
		default:
			p.Prune = append(p.Prune, *c)
		}
	}
	return p
}
