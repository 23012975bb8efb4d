// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
)

func mixOfTheShop() *v1alpha1.CapacityMix {
	mix := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
	mix.Spec.SpotPercent, mix.Spec.MinOnDemand, mix.Spec.Selector.MatchLabels = 70, 2, map[string]string{"app": "web"}
	return mix
}

// reviewOf is the form that has a proposal reviewed.
func reviewOf(t *testing.T, page string) url.Values {
	t.Helper()
	_, proposal, found := strings.Cut(page, `<section class="card" aria-label="Proposal">`)
	require.True(t, found, page)
	proposal, _, _ = strings.Cut(proposal, "</section>")
	sent := posted(t, proposal)
	sent.Set("do", reviewYAML)
	return sent
}

// undoLink is where a page leads to undo what was applied, "" if it does not.
func undoLink(page string) string {
	found := regexp.MustCompile(`<a href="([^"]*)">Undo: review the [a-z ]+ as it was before</a>`).FindStringSubmatch(page)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

// What a form changes of a mix is named, and undone by a form that proposes what it was. The link to it sends no write, not even as a dry
// run; its review does.
func TestAChangeOfAMixByItsFormIsUndone(t *testing.T) {
	var writes atomic.Int32
	counted := interceptor.Funcs{Update: func(ctx context.Context, k client.WithWatch, o client.Object, options ...client.UpdateOption) error {
		writes.Add(1)
		return generations.Update(ctx, k, o, options...)
	}}
	k, c := editor(t, counted, nil, mixOfTheShop())
	key := client.ObjectKey{Namespace: "shop", Name: "web"}
	_, page := get(t, c, "/mixes/shop/web/edit")
	status, page := send(t, c, "/mixes/shop/web", page, reviewForm, func(sent url.Values) {
		sent.Set("spec.spotPercent", "30")
		sent.Set("spec.maxSpot", "4")
		sent.Set("spec.selector.matchLabels", "app=web\ntier=front")
	})
	require.Equal(t, http.StatusOK, status, page)
	w := post(t, c, "/mixes/shop/web", applyOf(t, page))
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	_, page = get(t, c, w.Header().Get("Location"))
	assert.Contains(t, page, "CapacityMix shop/web is now 30% spot, at least 2 on-demand, at most 4 spot.")
	assert.Contains(t, page, "Changed: spec.maxSpot, spec.selector.matchLabels.tier, spec.spotPercent.")
	undo := undoLink(page)
	require.NotEmpty(t, undo, page)

	before := writes.Load()
	w, page = get(t, c, undo)
	require.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, before, writes.Load(), "a link writes nothing, not even as a dry run")
	assert.Contains(t, page, "Nothing is written yet. The API server judges it when you review it.")
	assert.NotContains(t, page, `value="apply"`, "what the API server has not judged cannot be applied")
	assert.Contains(t, page, "<ins>+   spotPercent: 70")
	assert.Equal(t, "70", posted(t, page).Get("spec.spotPercent"), "the fields have it, too")
	w = post(t, c, "/mixes/shop/web", reviewOf(t, page))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	assert.Equal(t, before+1, writes.Load())
	page = w.Body.String()
	assert.Contains(t, page, "The API server accepts this. Nothing is written yet.")
	assert.Contains(t, page, "<ins>+   spotPercent: 70")
	assert.Contains(t, page, "<del>-   maxSpot: 4")
	var m v1alpha1.CapacityMix
	require.NoError(t, k.Get(t.Context(), key, &m))
	assert.EqualValues(t, 30, m.Spec.SpotPercent, "a link writes nothing")
	w = post(t, c, "/mixes/shop/web", applyOf(t, page))
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	m = v1alpha1.CapacityMix{}
	require.NoError(t, k.Get(t.Context(), key, &m))
	assert.Equal(t, map[string]string{"app": "web"}, m.Spec.Selector.MatchLabels)
	assert.Nil(t, m.Spec.MaxSpot)
	assert.EqualValues(t, 70, m.Spec.SpotPercent)
	_, page = get(t, c, w.Header().Get("Location"))
	assert.NotEmpty(t, undoLink(page), "what was undone is done again")
}

// A URL of others names nothing that is no field, and its form proposes nothing but fields that a user edits.
func TestAnUndoOfOthersIsNoUndo(t *testing.T) {
	_, c := editor(t, generations, nil, mixOfTheShop())
	for _, undo := range []string{"x", `"x"`, `[1]`, "{}", `{"spec":{}}`, `{"spec":{},"metadata":{}}`, `{"spec":{"spotPercent":` + strings.Repeat(" ", maxUndo) + `1}}`} {
		before := url.Values{undoParameter: {undo}}
		_, page := get(t, c, "/mixes/shop/web?applied=1&"+url.Values{beforeParameter: {before.Encode()}}.Encode())
		assert.Contains(t, page, "is now")
		assert.NotContains(t, page, "Undo", undo)
		assert.NotContains(t, page, "Changed:", undo)
		_, page = get(t, c, "/mixes/shop/web/edit?"+before.Encode())
		assert.Contains(t, page, errNoUndo.Error(), undo)
		assert.NotContains(t, page, `aria-label="Proposal"`, undo)
	}
	for undo, want := range map[string]string{
		`{"status":{"workloadCount":3}}`:            "status cannot be edited here",
		`{"metadata":{"ownerReferences":[]}}`:       "metadata.ownerReferences cannot be edited here",
		`{"metadata":{"name":"other"}}`:             "metadata.namespace and metadata.name cannot be changed",
		`{"kind":"ResourceLimit"}`:                  "apiVersion and kind must be",
		`{"spec":{"spotPercent":"<b>seventy</b>"}}`: "",
	} {
		_, page := get(t, c, "/mixes/shop/web/edit?"+url.Values{undoParameter: {undo}}.Encode())
		assert.Contains(t, page, want, undo)
		assert.Empty(t, elements(t, page)["b"], undo)
		assert.Equal(t, want == "", strings.Contains(page, `aria-label="Proposal"`), undo)
	}
	before := url.Values{beforeParameter: {url.Values{undoParameter: {`{"spec":{"spotPercent":70}}`}}.Encode()}, appliedParameter: {"1"}}
	_, page := get(t, readOnly(t), "/mixes/shop/web?"+before.Encode())
	assert.NotContains(t, page, "Undo", "a console that changes nothing undoes nothing")
}

// readOnly serves pages of a mix that change nothing.
func readOnly(t *testing.T) *Console {
	mix := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
	_, c := editor(t, generations, func(o *Options) { o.ClientOf = nil }, mix)
	return c
}

// What the form of any kind changes is named, and undone.
func TestAChangeOfAnyKindIsUndone(t *testing.T) {
	for id, change := range changesOfKinds {
		t.Run(id, func(t *testing.T) {
			kind := editedKinds[id]
			o := kind.newObject("shop", "web")
			o.SetUID("u")
			first, err := kind.fieldAt(change.field).value(change.first)
			require.NoError(t, err)
			kind.fieldAt(change.field).set(o.Object, first)
			k, c := editor(t, generations, nil, o)
			_, page := get(t, c, "/"+id+"/shop/web/edit")
			status, page := send(t, c, "/"+id+"/shop/web", page, reviewForm, func(sent url.Values) { sent.Set(change.field, change.second) })
			require.Equal(t, http.StatusOK, status, page)
			w := post(t, c, "/"+id+"/shop/web", applyOf(t, page))
			require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
			_, page = get(t, c, w.Header().Get("Location"))
			assert.Contains(t, page, kind.kind+" shop/web is ")
			assert.Contains(t, page, "Changed: "+change.field, page)
			assert.Contains(t, page, kind.follows)
			assert.Contains(t, page, "Undo: review the "+kind.noun+" as it was before")
			_, page = get(t, c, undoLink(page))
			w = post(t, c, "/"+id+"/shop/web", reviewOf(t, page))
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			w = post(t, c, "/"+id+"/shop/web", applyOf(t, w.Body.String()))
			require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
			now := kind.newObject("shop", "web")
			require.NoError(t, k.Get(t.Context(), client.ObjectKeyFromObject(now), now))
			assert.Equal(t, change.first, kind.textsOf(now)[change.field])
		})
	}
}

func (k *editedKind) fieldAt(path string) *formField {
	return &k.fields[slices.IndexFunc(k.fields, func(f formField) bool { return f.path == path })]
}

// A selector of all pods is an empty object, which an undo names and restores.
func TestAnUndoRestoresAnEmptyObject(t *testing.T) {
	kind := editedKinds[reservationList.id]
	before, after := kind.newObject("shop", "web"), kind.newObject("shop", "web")
	unstructured.RemoveNestedField(after.Object, "spec", "podSelector")
	undo := undoOf(before, after)
	assert.Equal(t, []string{"spec.podSelector"}, undoneFields(undo))
	text, err := undone(after, undo)
	require.NoError(t, err)
	assert.YAMLEq(t, yamlOf(before), text)
}

// drawEmpty empties or removes an object of a spec, or neither.
func drawEmpty(t *rapid.T, o *unstructured.Unstructured) {
	switch at := rapid.SampledFrom([]string{"selector", "rebalance"}).Draw(t, "at"); rapid.IntRange(0, 2).Draw(t, "empty") {
	case 1:
		require.NoError(t, unstructured.SetNestedMap(o.Object, map[string]any{}, "spec", at))
	case 2:
		unstructured.RemoveNestedField(o.Object, "spec", at)
	}
}

// An undo of any change makes of the object what it was, and one that is too long for a URL is none.
func TestAnUndoMakesAnObjectWhatItWas(t *testing.T) {
	kind := editedKinds[mixList.id]
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawObject(t, kind), drawObject(t, kind)
		for _, o := range []*unstructured.Unstructured{before, after} {
			o.SetNamespace("shop")
			o.SetName("web")
			drawEmpty(t, o)
		}
		undo := undoOf(before, after)
		if undo == "" {
			return
		}
		require.LessOrEqual(t, len(undo), maxUndo)
		require.NotEmpty(t, undoneFields(undo))
		text, err := undone(after, undo)
		require.NoError(t, err)
		require.YAMLEq(t, yamlOf(before), text)
	})
	long := kind.newObject("shop", "web")
	require.NoError(t, yaml.Unmarshal([]byte("spec: {spreadSpotOver: ["+strings.Repeat("x", maxUndo)+"]}"), &long.Object))
	long.SetNamespace("shop")
	assert.Empty(t, undoOf(long, kind.newObject("shop", "web")))
}
