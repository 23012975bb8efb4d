// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
)

var specTypes = map[string]reflect.Type{
	mixList.id: reflect.TypeFor[v1alpha1.CapacityMixSpec](), policyList.id: reflect.TypeFor[v1alpha1.SchedulingPolicySpec](),
	reservationList.id: reflect.TypeFor[v1alpha1.ReservationSpec](), limitList.id: reflect.TypeFor[v1alpha1.ResourceLimitSpec](),
}

// fieldAt is the type of a field of a struct by its path in JSON.
func fieldAt(t reflect.Type, path []string) (reflect.Type, bool) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(path) == 0 {
		return t, true
	}
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if strings.Contains(options, "inline") {
			if found, is := fieldAt(f.Type, path); is {
				return found, true
			}
		}
		if name == path[0] {
			return fieldAt(f.Type, path[1:])
		}
	}
	return nil, false
}

// A field of a form that the API lacks would be refused or, worse, dropped.
func TestFormsHaveFieldsOfTheAPI(t *testing.T) {
	kinds := map[formKind][]reflect.Kind{
		numberField: {reflect.Int32, reflect.Int64}, boolField: {reflect.Bool}, labelsField: {reflect.Map}, listField: {reflect.Slice},
		textField: {reflect.String, reflect.Struct}, proseField: {reflect.String}, termsField: {reflect.Slice}, preferredField: {reflect.Slice},
		limitsField: {reflect.Slice},
	}
	for id, k := range editedKinds {
		for _, f := range k.fields {
			found, is := fieldAt(specTypes[id], f.names()[1:])
			require.True(t, is, "%s of %s", f.path, id)
			assert.Contains(t, kinds[f.kind], found.Kind(), "%s of %s", f.path, id)
		}
	}
}

// drawObject is an object with any fields of the form, and with fields that it lacks.
func drawObject(t *rapid.T, k *editedKind) *unstructured.Unstructured {
	o := k.newObject("shop", "web")
	o.SetUID("uid")
	o.SetLabels(map[string]string{"team": "a"})
	for i := range k.fields {
		f := &k.fields[i]
		if !rapid.Bool().Draw(t, f.path) {
			continue
		}
		var v any
		switch f.kind {
		case numberField:
			v = rapid.Int64Range(-5, 1e6).Draw(t, "number")
		case boolField:
			v = rapid.Bool().Draw(t, "bool")
		case labelsField:
			labels := map[string]any{}
			for key, text := range rapid.MapOfN(rapid.StringMatching(`[a-z./]{1,5}`), rapid.StringMatching(`[a-z]{0,3}`), 1, 3).Draw(t, "labels") {
				labels[key] = text
			}
			v = labels
		case termsField, preferredField:
			v = drawTerms(t, f.kind == preferredField)
		case limitsField:
			v = drawLimits(t)
		case listField:
			v = []any{"a", rapid.StringMatching(`[a-z/.]{1,5}`).Draw(t, "item")}
		default:
			v = rapid.StringMatching(`[A-Za-z0-9"<&]{1,6}`).Draw(t, "text")
			if len(f.choices) > 0 {
				v = rapid.SampledFrom(append(f.choices, "Other")).Draw(t, "choice")
			}
		}
		require.NoError(t, unstructured.SetNestedField(o.Object, v, f.names()...))
	}
	require.NoError(t, unstructured.SetNestedSlice(o.Object, []any{map[string]any{"key": "x", "operator": "Exists"}}, "spec", "more"))
	return o
}

// sentBy are the fields of the forms of a page.
func sentBy(t testing.TB, f *objectForm) url.Values {
	p := f.page(&state{writable: true})
	return posted(t, string(p.parts[len(p.parts)-1].HTML()))
}

// A form that is sent back as it is changes nothing, whatever the object has, and neither does its YAML.
func TestAnObjectThatIsNotEditedStaysTheSame(t *testing.T) {
	for id, k := range editedKinds {
		t.Run(id, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				o := drawObject(rt, k)
				sent := sentBy(t, objectFormOf(k, o))
				f := &objectForm{kind: k, Namespace: "shop", Name: "web", Version: contentVersion(o)}
				require.Equal(rt, f.Version, sent["version"][0])
				f.readTexts(sent)
				require.Equal(rt, o, f.applied(o), "%v", f.Problems)
				f.YAML = sent.Get("yaml")
				require.Equal(rt, o, f.parsed(o), "%v", f.Problems)
				require.Empty(rt, f.Problems)
			})
		})
	}
}

// One field that is edited is the only one that differs.
func TestOnlyTheEditedFieldChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := editedKinds[mixList.id]
		o := drawObject(rt, k)
		f := objectFormOf(k, o)
		f.texts["spec.maxSpot"] = "7"
		want := o.DeepCopy()
		require.NoError(rt, unstructured.SetNestedField(want.Object, int64(7), "spec", "maxSpot"))
		require.Equal(rt, want, f.applied(o))
		f.texts["spec.maxSpot"] = ""
		unstructured.RemoveNestedField(want.Object, "spec", "maxSpot")
		require.Equal(rt, want, f.applied(o))
	})
}

func TestAParentWithoutFieldsIsRemoved(t *testing.T) {
	k := editedKinds[mixList.id]
	o := k.newObject("shop", "web")
	f := objectFormOf(k, o)
	f.texts["spec.rebalance.mode"], f.texts["spec.selector.matchLabels"] = "Off", "app=web"
	with := f.applied(o)
	assert.Equal(t, map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}, "spotPercent": int64(50), "rebalance": map[string]any{"mode": "Off"},
	}, with.Object["spec"])
	f = objectFormOf(k, with)
	f.texts["spec.rebalance.mode"], f.texts["spec.selector.matchLabels"] = "", ""
	assert.Equal(t, o, f.applied(with), "the selector is required")

	r := editedKinds[reservationList.id]
	f = objectFormOf(r, r.newObject("shop", "hold"))
	f.texts["spec.podName"] = "web-0"
	assert.Equal(t, map[string]any{"podName": "web-0"}, f.applied(r.newObject("shop", "hold")).Object["spec"])
}

func FuzzObjectYAML(f *testing.F) {
	k := editedKinds[mixList.id]
	f.Add(yamlOf(k.newObject("shop", "web")))
	f.Add("apiVersion: berth.dev/v1alpha1\nkind: CapacityMix\nmetadata: {name: a, namespace: b, labels: 1}\nspec: [1]\n")
	f.Add("a: &a [*a]")
	f.Add("metadata: null")
	f.Fuzz(func(t *testing.T, text string) {
		form := &objectForm{kind: k, YAML: text}
		o := form.parsed(k.newObject("", ""))
		if o == nil {
			require.NotEmpty(t, form.Problems)
			return
		}
		form.texts = k.textsOf(o)
		form.Fields()
		yamlOf(form.applied(o))
		contentVersion(o)
	})
}

func TestYAMLThatCannotBeWrittenIsRefused(t *testing.T) {
	_, c := editor(t, interceptor.Funcs{}, nil)
	good := yamlOf(editedKinds[mixList.id].newObject("shop", "web"))
	for want, text := range map[string]string{
		"the YAML cannot be read":      "a: [",
		"anchors and aliases":          "a: &a 1\nb: *a",
		"the YAML must be an object":   "[]",
		"apiVersion and kind must be":  strings.Replace(good, "CapacityMix", "Secret", 1),
		"status cannot be edited here": good + "status: {}\n",
		"metadata.uid cannot be":       strings.Replace(good, "metadata:", "metadata:\n  uid: x", 1),
		"metadata must be an object":   "apiVersion: berth.dev/v1alpha1\nkind: CapacityMix\nspec: {}\n",
		"more than 262144":             good + "# " + strings.Repeat("a", maxForm),
	} {
		w := post(t, c, "/mixes", url.Values{"do": {reviewYAML}, "yaml": {text}})
		assert.Equal(t, http.StatusUnprocessableEntity, w.Code, want)
		assert.Contains(t, w.Body.String(), want)
		assert.Equal(t, strings.TrimSpace(text), strings.TrimSpace(posted(t, w.Body.String()).Get("yaml")), "what the user wrote is kept")
	}
	assert.Equal(t, http.StatusBadRequest, post(t, c, "/mixes", url.Values{"do": {"delete"}}).Code)
	assert.Equal(t, http.StatusBadRequest, post(t, c, "/mixes/shop/web", url.Values{"do": {reviewForm}}).Code, "without a version")
	assert.Equal(t, http.StatusRequestEntityTooLarge, post(t, c, "/mixes", url.Values{"yaml": {strings.Repeat("a", 3*maxForm)}}).Code)
	long := strings.Replace(good, "metadata:", "metadata:\n  annotations: {of: "+strings.Repeat("\u00e4", 60_000)+"}", 1)
	w := post(t, c, "/mixes", url.Values{"do": {reviewYAML}, "yaml": {long}})
	assert.Equal(t, http.StatusOK, w.Code, "a browser sends each character as six")
}

// changesOfKinds are a field of each kind with a value and another one.
var changesOfKinds = map[string]struct{ field, first, second, shows string }{
	mixList.id:         {"spec.spotPercent", "70", "30", "spotPercent: 30"},
	policyList.id:      {"spec.score.preset", "Pack", "Spread", "preset: Spread"},
	reservationList.id: {"spec.replicas", "2", "3", "replicas: 3"},
	limitList.id:       {"spec.description", "first", "second", "description: second"},
}

// Each kind is created from fields, edited as fields and as YAML, and deleted. Nothing is written before it was reviewed.
func TestObjectsAreCreatedEditedAndDeleted(t *testing.T) {
	for id, change := range changesOfKinds {
		t.Run(id, func(t *testing.T) {
			k, c := editor(t, interceptor.Funcs{}, nil)
			kind := editedKinds[id]
			stored := func() *unstructured.Unstructured {
				o := kind.newObject("shop", "web")
				if err := k.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
					require.True(t, apierrors.IsNotFound(err), err)
					return nil
				}
				return o
			}
			_, page := get(t, c, "/"+id+"/new")
			sent := posted(t, page)
			sent.Set("metadata.namespace", "shop")
			sent.Set("metadata.name", "web")
			sent.Set(change.field, change.first)
			sent.Set("do", reviewForm)
			w := post(t, c, "/"+id, sent)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			assert.Contains(t, w.Body.String(), "Nothing is written yet.")
			assert.Nil(t, stored(), "it is reviewed only")
			w = post(t, c, "/"+id, applyOf(t, w.Body.String()))
			require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
			require.NotNil(t, stored())
			status, page := get(t, c, w.Header().Get("Location"))
			assert.Equal(t, http.StatusOK, status.Code, "the page shows what was written")
			assert.Contains(t, page, "shop/web")
			assert.Contains(t, page, map[bool]string{true: "is now ", false: "is written."}[id == mixList.id])
			assert.NotContains(t, page, "Undo:", "a new object was nothing before")

			_, page = get(t, c, "/"+id+"/shop/web/edit")
			stale := posted(t, page)
			stale.Set("do", reviewForm)
			sent = posted(t, page)
			sent.Set("yaml", strings.Replace(sent.Get("yaml"), "metadata:", "metadata:\n  labels: {team: a}", 1))
			sent.Set("do", reviewYAML)
			w = post(t, c, "/"+id+"/shop/web", sent)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			assert.Contains(t, w.Body.String(), "<ins>+     team: a</ins>")
			w = post(t, c, "/"+id+"/shop/web", applyOf(t, w.Body.String()))
			require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
			assert.Equal(t, "a", stored().GetLabels()["team"])

			stale.Set(change.field, change.second)
			w = post(t, c, "/"+id+"/shop/web", stale)
			assert.Equal(t, http.StatusUnprocessableEntity, w.Code)
			assert.Contains(t, w.Body.String(), "it was changed since this form was opened")
			assert.Contains(t, posted(t, w.Body.String())[change.field], change.second, "what the user wrote is kept")
			_, page = get(t, c, "/"+id+"/shop/web/edit")
			sent = posted(t, page)
			sent.Set(change.field, change.second)
			sent.Set("do", reviewForm)
			w = post(t, c, "/"+id+"/shop/web", sent)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			assert.Contains(t, w.Body.String(), change.shows+"</ins>")
			w = post(t, c, "/"+id+"/shop/web", applyOf(t, w.Body.String()))
			require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
			assert.Contains(t, yamlOf(stored()), change.shows)

			_, page = get(t, c, "/"+id+"/shop/web/delete")
			assert.Contains(t, page, "Delete the "+kind.kind+" shop/web?")
			w = post(t, c, "/"+id+"/shop/web/delete", posted(t, page))
			require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
			assert.Nil(t, stored())
			status, _ = get(t, c, "/"+id+"/shop/web")
			assert.Equal(t, http.StatusNotFound, status.Code)
			status, _ = get(t, c, "/"+id+"/shop/web/edit")
			assert.Equal(t, http.StatusNotFound, status.Code)
		})
	}
}

// applyOf is the form that applies what a page shows.
func applyOf(t testing.TB, page string) url.Values {
	_, form, found := strings.Cut(page, `aria-label="Changes"`)
	require.True(t, found, page)
	form, _, _ = strings.Cut(form, "</section>")
	sent := posted(t, form)
	sent.Set("do", applyYAML)
	return sent
}

// The reasons of the API server are beside the fields, and what could not be read is not sent.
func TestRefusedFieldsOfObjectsHaveTheirReason(t *testing.T) {
	refusal := apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("CapacityMix").GroupKind(), "web", nil)
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{
		{Field: "spec.spotPercent", Message: "must be <b>"}, {Field: "spec.rebalance.mode", Message: "is unknown"}, {Field: "spec.roles[0]", Message: "is too long"},
	}
	sends := 0
	_, c := editor(t, interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.CreateOption) error {
		sends++
		given := (&client.CreateOptions{}).ApplyOptions(options)
		assert.Equal(t, []string{metav1.DryRunAll}, given.DryRun)
		return refusal
	}}, nil)
	_, page := get(t, c, "/mixes/new")
	sent := posted(t, page)
	sent.Set("do", reviewForm)
	w := post(t, c, "/mixes", sent)
	assert.Equal(t, http.StatusUnprocessableEntity, w.Code)
	assert.Contains(t, w.Body.String(), `<div id="spec.spotPercent-problems"><p class="bad">must be &lt;b&gt;</p></div>`)
	assert.Contains(t, w.Body.String(), `aria-invalid="true" aria-describedby="spec.spotPercent-problems"`)
	assert.Contains(t, w.Body.String(), `<p class="bad">spec.roles[0]: is too long</p>`)
	assert.NotContains(t, w.Body.String(), "Apply")
	assert.Equal(t, 1, sends)
	for field, text := range map[string]string{"spec.maxSpot": "many", "spec.selector.matchLabels": "app", "spec.minOnDemand": "1.5"} {
		wrong := posted(t, page)
		wrong.Set("do", reviewForm)
		wrong.Set(field, text)
		w := post(t, c, "/mixes", wrong)
		assert.Equal(t, http.StatusUnprocessableEntity, w.Code)
		assert.Contains(t, posted(t, w.Body.String())[field], text, "what the user wrote is kept")
		assert.Contains(t, w.Body.String(), `aria-invalid="true"`)
	}
	assert.Equal(t, 1, sends)
}

// send sends the form of a page after a change, and returns the page that follows.
func send(t *testing.T, c *Console, path, page, do string, change func(url.Values)) (status int, after string) {
	t.Helper()
	sent := posted(t, page)
	change(sent)
	sent.Set("do", do)
	w := post(t, c, path, sent)
	return w.Code, w.Body.String()
}

// added are the lines that a page shows as added.
func added(t *testing.T, page string) string {
	t.Helper()
	var all []string
	for _, line := range elements(t, page)["ins"] {
		all = append(all, text(line))
	}
	return strings.Join(all, "\n")
}

// A browser sends one form: what is written as YAML stays when the fields are reviewed, and the other way round.
func TestFieldsAreAppliedToTheYAML(t *testing.T) {
	_, c := editor(t, interceptor.Funcs{}, nil)
	_, page := get(t, c, "/mixes/new")
	status, page := send(t, c, "/mixes", page, reviewYAML, func(v url.Values) {
		v.Set("metadata.namespace", "shop")
		v.Set("metadata.name", "web")
		v.Set("spec.maxSpot", "7")
		v.Set("yaml", strings.Replace(v.Get("yaml"), "selector: {}", "selector: {matchExpressions: [{key: app, operator: Exists}]}\n  roles: [{name: a}]", 1))
	})
	require.Equal(t, http.StatusOK, status, page)
	assert.Contains(t, added(t, page), "name: web", "the YAML has no name, so it is that of the form")
	assert.Contains(t, added(t, page), "operator: Exists")
	assert.NotContains(t, added(t, page), "maxSpot", "the fields were not reviewed")
	assert.Equal(t, "7", posted(t, page).Get("spec.maxSpot"), "but they are kept")
	status, page = send(t, c, "/mixes", page, reviewForm, func(v url.Values) { v.Set("spec.spotPercent", "30") })
	require.Equal(t, http.StatusOK, status, page)
	for _, want := range []string{"name: web", "operator: Exists", "roles:", "maxSpot: 7", "spotPercent: 30"} {
		assert.Contains(t, added(t, page), want)
		assert.Contains(t, posted(t, page).Get("yaml"), want)
	}
	status, page = send(t, c, "/mixes", page, reviewYAML, func(v url.Values) {
		v.Set("yaml", strings.Replace(v.Get("yaml"), "spotPercent: 30", "spotPercent: 40", 1))
	})
	require.Equal(t, http.StatusOK, status, page)
	assert.Equal(t, "40", posted(t, page).Get("spec.spotPercent"), "a field that the user has not changed follows the YAML")
	status, page = send(t, c, "/mixes", page, reviewForm, func(url.Values) {})
	require.Equal(t, http.StatusOK, status, page)
	assert.Contains(t, added(t, page), "spotPercent: 40", "and does not undo it")
}

// Whatever cannot be reviewed, all texts of both parts of the form stay.
func TestAFormThatIsRefusedKeepsItsTexts(t *testing.T) {
	refused := func(ctx context.Context, k client.WithWatch, o client.Object, options ...client.CreateOption) error {
		return errors.New("refused")
	}
	_, c := editor(t, interceptor.Funcs{Create: refused}, nil)
	_, page := get(t, c, "/mixes/new")
	for _, do := range []string{reviewForm, reviewYAML} {
		for _, yaml := range []string{"a: [", posted(t, page).Get("yaml") + "# a note\n"} {
			want := url.Values{}
			status, after := send(t, c, "/mixes", page, do, func(v url.Values) {
				v.Set("metadata.namespace", "shop")
				v.Set("metadata.name", "web")
				v.Set("spec.maxSpot", "7")
				v.Set("yaml", yaml)
				for name := range v {
					want.Set(name, v.Get(name))
				}
			})
			assert.Equal(t, http.StatusUnprocessableEntity, status)
			assert.Equal(t, want, posted(t, after), "%s of %q", do, yaml)
		}
	}
}

// Labels and the name of a pod exclude each other: neither is dropped without notice.
func TestAFieldThatReplacesAnotherIsRefusedBesideIt(t *testing.T) {
	_, c := editor(t, interceptor.Funcs{}, nil)
	_, page := get(t, c, "/reservations/new")
	status, page := send(t, c, "/reservations", page, reviewForm, func(v url.Values) {
		v.Set("metadata.namespace", "shop")
		v.Set("metadata.name", "hold")
		v.Set("spec.podSelector.matchLabels", "app=web")
		v.Set("spec.podName", "web-0")
	})
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Contains(t, page, `<div id="spec.podName-problems"><p class="bad">it is in place of spec.podSelector: remove one of the two</p></div>`)
	assert.Equal(t, "app=web", posted(t, page).Get("spec.podSelector.matchLabels"))
	status, page = send(t, c, "/reservations", page, reviewForm, func(v url.Values) { v.Set("spec.podSelector.matchLabels", "") })
	require.Equal(t, http.StatusOK, status, page)
	assert.Contains(t, added(t, page), "podName: web-0")
	assert.NotContains(t, added(t, page), "podSelector")
}

// A rule on several fields is shown at the first of them, and one on the whole spec at none.
func TestACauseIsShownAtAField(t *testing.T) {
	fields := []string{"metadata.name", "spec.podSelector.matchLabels", "spec.podName", "spec.podSelector.other"}
	for cause, want := range map[string]string{
		"spec.podName": "spec.podName", "spec.podSelector.matchLabels[a]": "spec.podSelector.matchLabels", "spec.podSelector": "spec.podSelector.matchLabels",
		"spec.podSelector.matchLabels.a": "spec.podSelector.matchLabels", "spec": "", "spec.pod": "", "": "",
	} {
		assert.Equal(t, want, fieldOf(cause, fields), cause)
	}
}

// A status that is written at the same time is no conflict: the next attempt has it.
func TestAStatusThatChangesIsNoConflict(t *testing.T) {
	conflicts := 2
	mix := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	k, c := editor(t, interceptor.Funcs{Update: func(ctx context.Context, k client.WithWatch, o client.Object, options ...client.UpdateOption) error {
		if conflicts--; conflicts >= 0 {
			return apierrors.NewConflict(v1alpha1.SchemeGroupVersion.WithResource("capacitymixes").GroupResource(), "web", nil)
		}
		return k.Update(ctx, o, options...)
	}}, nil, mix)
	_, page := get(t, c, "/mixes/shop/web/edit")
	sent := posted(t, page)
	sent.Set("spec.spotPercent", "20")
	sent.Set("do", reviewForm)
	w := post(t, c, "/mixes/shop/web", sent)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, http.StatusSeeOther, post(t, c, "/mixes/shop/web", applyOf(t, w.Body.String())).Code)
	require.NoError(t, k.Get(t.Context(), client.ObjectKeyFromObject(mix), mix))
	assert.EqualValues(t, 20, mix.Spec.SpotPercent)
}

func TestAReadOnlyConsoleEditsNoObjects(t *testing.T) {
	_, c := start(t, overviewOf())
	for id := range editedKinds {
		for _, path := range []string{"/new", "/shop/web/edit", "/shop/web/delete"} {
			w, _ := get(t, c, "/"+id+path)
			assert.Equal(t, http.StatusNotFound, w.Code, id+path)
		}
		for _, path := range []string{"", "/shop/web", "/shop/web/delete"} {
			assert.Equal(t, http.StatusForbidden, post(t, c, "/"+id+path, url.Values{}).Code, id+path)
		}
		_, page := get(t, c, "/"+id)
		assert.NotContains(t, page, "/"+id+"/new")
	}
}

// A form of another site is refused by the door, before the console sees it.
func TestObjectsOfOtherSitesAreNotWritten(t *testing.T) {
	mix := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	k, c := editor(t, interceptor.Funcs{}, nil, mix)
	server := httptest.NewUnstartedServer(nil)
	local := NewLocal(c, server.Listener.Addr())
	for _, path := range []string{"/mixes", "/mixes/shop/web", "/mixes/shop/web/delete"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, http.NoBody)
		r.Host = server.Listener.Addr().String()
		r.AddCookie(&http.Cookie{Name: local.cookie, Value: local.session})
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		w := httptest.NewRecorder()
		local.ServeHTTP(w, r)
		assert.Equal(t, http.StatusForbidden, w.Code)
	}
	require.NoError(t, server.Listener.Close())
	require.NoError(t, k.Get(t.Context(), client.ObjectKeyFromObject(mix), mix))
}

// The removed lines of a comparison lead to the one text, and the added ones to the other.
func TestADifferenceHasBothTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 8)
		before, after := text.Draw(t, "before"), text.Draw(t, "after")
		var first, second []string
		for _, l := range diffOf(strings.Join(before, "\n"), strings.Join(after, "\n")) {
			if l.Op != "+" {
				first = append(first, l.Text)
			}
			if l.Op != "-" {
				second = append(second, l.Text)
			}
		}
		require.Equal(t, fmt.Sprint(before), fmt.Sprint(first))
		require.Equal(t, fmt.Sprint(after), fmt.Sprint(second))
	})
}

// A line that is too long to be shown begins where it differs.
func TestTheDifferenceOfLongLinesIsShown(t *testing.T) {
	for _, same := range []string{strings.Repeat("x", 2*maxLine), strings.Repeat("\u202e", maxLine/2), strings.Repeat("\u00e4", maxLine)} {
		lines := diffOf("a\n"+same+"before"+same+"\nz", "a\ninserted\n"+same+"after"+same+"\nz")
		var all []string
		for _, l := range lines {
			require.LessOrEqual(t, len(l.Text), maxLine)
			all = append(all, l.Op+l.Text)
		}
		require.Len(t, all, 5, all)
		shown := strings.Join(all, "\n")
		assert.Contains(t, shown, "before")
		assert.Contains(t, shown, "after")
		assert.Contains(t, shown, "-... ")
		assert.NotContains(t, shown, `\xe2`, "no character is cut")
		assert.NotContains(t, shown, `\xa4`)
	}
}
