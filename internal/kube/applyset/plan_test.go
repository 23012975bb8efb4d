// SPDX-License-Identifier: Apache-2.0

package applyset

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

func object(kind, name string, replicas int64) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": replicas, "port": int64(80)}}}
	o.SetAPIVersion("example/v1")
	o.SetKind(kind)
	o.SetName(name)
	return o
}

func childOf(o *unstructured.Unstructured) Child { return Child{o, o.GroupVersionKind()} }

// stringsOf returns the kinds and names of what is desired.
func stringsOf(desired []*Desired) (list []string) {
	for _, d := range desired {
		list = append(list, d.GetKind()+" "+d.GetName())
	}
	return list
}

func childStrings(children []Child) (list []string) {
	for i := range children {
		list = append(list, children[i].String())
	}
	return list
}

func TestDiff(t *testing.T) {
	desired := []*Desired{
		Prepare(object("A", "new", 1), nil, nil),
		Prepare(object("A", "same", 1), nil, nil),
		Prepare(object("A", "drifted", 1), nil, nil),
		Prepare(object("A", "scaled", 1), nil, []string{"spec", "replicas"}),
	}
	drifted, scaled := desired[2].DeepCopy(), desired[3].DeepCopy()
	require.NoError(t, unstructured.SetNestedField(drifted.Object, int64(2), "spec", "replicas"))
	require.NoError(t, unstructured.SetNestedField(scaled.Object, int64(9), "spec", "replicas"))
	children := []Child{
		childOf(object("B", "same", 1)), // a name of another kind
		childOf(desired[1].DeepCopy()),
		childOf(drifted),
		childOf(scaled),
		childOf(object("A", "data", 1)),
		childOf(object("A", "replaced", 1)),
	}
	p := Diff(desired, children, func(c *Child) Fate {
		return map[string]Fate{"data": Retain, "replaced": PruneReplaced}[c.GetName()]
	})
	assert.Equal(t, []string{"A new", "A drifted"}, stringsOf(p.Apply))
	assert.Equal(t, []string{"A same", "A scaled", "A data"}, childStrings(p.Keep))
	assert.Equal(t, []string{"B same"}, childStrings(p.Prune))
	assert.Equal(t, []string{"A replaced"}, childStrings(p.Replaced))
	assert.Equal(t, "A data, A same, A scaled", Names(p.Keep))
}

func TestAnUnassignedFieldIsOnlySetAtCreation(t *testing.T) {
	path := []string{"spec", "replicas"}
	desired := []*Desired{Prepare(object("A", "a", 1), nil, path)}
	fresh := Diff(desired, nil, nil)
	_, found, _ := unstructured.NestedInt64(fresh.Apply[0].Object, path...)
	assert.True(t, found)
	existing := object("A", "a", 5)
	require.NoError(t, unstructured.SetNestedField(existing.Object, int64(81), "spec", "port"))
	changed := Diff(desired, []Child{childOf(existing)}, nil)
	_, found, _ = unstructured.NestedInt64(changed.Apply[0].Object, path...)
	assert.False(t, found)
	_, found, _ = unstructured.NestedInt64(desired[0].Object, path...)
	assert.True(t, found, "what is desired is not changed")
}

// Every desired object is either applied or kept, every other child has one fate, and to carry out a plan leaves nothing to do.
func TestDiffConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) (objects []*unstructured.Unstructured) {
			for i := range rapid.IntRange(0, 6).Draw(t, label) {
				kind := rapid.SampledFrom([]string{"A", "B"}).Draw(t, "kind")
				objects = append(objects, object(kind, fmt.Sprint(i), rapid.Int64Range(0, 2).Draw(t, "replicas")))
			}
			return objects
		}
		var desired []*Desired
		for _, o := range draw("desired") {
			var path []string
			if rapid.Bool().Draw(t, "unassigned") {
				path = []string{"spec", "replicas"}
			}
			desired = append(desired, Prepare(o, nil, path))
		}
		var children []Child
		for _, o := range draw("children") {
			children = append(children, childOf(o))
		}
		for _, d := range desired {
			if Existing(children, d.Unstructured) == nil && rapid.Bool().Draw(t, "exists") {
				children = append(children, childOf(d.DeepCopy()))
			}
		}
		fates := map[string]Fate{}
		for i := range children {
			fates[children[i].String()] = Fate(rapid.IntRange(0, 2).Draw(t, "fate"))
		}
		fate := func(c *Child) Fate { return fates[c.String()] }

		p := Diff(desired, children, fate)
		for _, d := range desired {
			applied := len(filter(p.Apply, func(a *Desired) bool { return a.GetKind() == d.GetKind() && a.GetName() == d.GetName() }))
			kept := Existing(p.Keep, d.Unstructured)
			require.Equal(t, 1, applied+btoi(kept != nil), "%s %s", d.GetKind(), d.GetName())
			require.Nil(t, Existing(p.Prune, d.Unstructured))
			require.Nil(t, Existing(p.Replaced, d.Unstructured))
		}
		for i := range children {
			c := &children[i]
			wanted := filter(desired, func(d *Desired) bool { return d.GetKind() == c.Kind.Kind && d.GetName() == c.GetName() })
			if len(wanted) == 0 {
				list := [][]Child{Prune: p.Prune, Retain: p.Keep, PruneReplaced: p.Replaced}[fate(c)]
				require.NotNil(t, Find(list, c.Kind.GroupKind(), c.GetName()))
			}
		}
		after := append([]Child{}, p.Keep...)
		for _, a := range p.Apply {
			after = append(after, childOf(a.Unstructured))
		}
		again := Diff(desired, after, fate)
		require.Empty(t, again.Apply)
		require.Empty(t, again.Prune)
		require.Empty(t, again.Replaced)
		require.ElementsMatch(t, childStrings(after), childStrings(again.Keep))
	})
}

func filter(list []*Desired, is func(*Desired) bool) (some []*Desired) {
	for _, d := range list {
		if is(d) {
			some = append(some, d)
		}
	}
	return some
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
