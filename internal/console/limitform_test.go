// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// posted are the fields of the last form of a page as a browser sends them.
func posted(t testing.TB, page string) url.Values {
	t.Helper()
	sent := url.Values{}
	forms := elements(t, page)["form"]
	require.NotEmpty(t, forms, page)
	for field := range forms[len(forms)-1].Descendants() {
		if field.Type != html.ElementNode {
			continue
		}
		switch name := attribute(field, "name"); field.Data {
		case "input":
			sent.Add(name, attribute(field, "value"))
		case "textarea":
			sent.Add(name, text(field))
		case "select":
			sent.Add(name, chosen(field))
		}
	}
	return sent
}

// chosen is the value of a list, that of the first choice if none is selected.
func chosen(list *html.Node) string {
	var first *html.Node
	for option := range list.Descendants() {
		if option.Type != html.ElementNode {
			continue
		}
		if first == nil || slices.ContainsFunc(option.Attr, func(a html.Attribute) bool { return a.Key == "selected" }) {
			first = option
		}
	}
	for _, a := range first.Attr {
		if a.Key == "value" {
			return a.Val
		}
	}
	return text(first)
}

// editing is the page that edits a limit.
func editing(t testing.TB, l *v1alpha1.ResourceLimit) string {
	p := formPage(formOf(l), &state{writable: true})
	return string(p.parts[len(p.parts)-1].HTML())
}

// A form that is sent back as it is changes nothing, whatever the limit has.
func TestAFormThatIsNotEditedChangesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := limit("shop", "small")
		l.Generation = 7
		l.Spec = drawSpec(rt)
		f, err := readForm(posted(t, editing(t, l)))
		require.NoError(rt, err)
		after := l.DeepCopy()
		require.True(rt, f.apply(after), "%v", f.Problems)
		assert.Equal(rt, l, after)
	})
}

func drawSpec(t *rapid.T) (s v1alpha1.ResourceLimitSpec) {
	word := rapid.StringMatching(`[a-z][a-z0-9]{0,5}`)
	s.Description = rapid.StringMatching(`[a-z"<>& ]{0,20}`).Draw(t, "description")
	s.Volumes = map[string]v1alpha1.VolumeLimit{"data": {Size: resource.MustParse("1Gi")}}
	s.Selector = &v1alpha1.PodSelector{}
	for _, size := range sizes {
		if text := rapid.SampledFrom([]string{"", "1", "500m", "2Gi", "1e3", "0.50"}).Draw(t, size.name); text != "" {
			*size.of(&s) = new(resource.MustParse(text))
		}
	}
	if labels := rapid.MapOfN(word, rapid.SampledFrom([]string{"", "a", "b-c"}), 0, 3).Draw(t, "labels"); len(labels) > 0 {
		s.NodeSelector = labels
	}
	term := rapid.Custom(func(t *rapid.T) (term v1alpha1.NodeTerm) {
		for range rapid.IntRange(1, 3).Draw(t, "expressions") {
			r := v1alpha1.NodeRequirement{Key: word.Draw(t, "key"), Operator: rapid.SampledFrom([]v1alpha1.NodeOperator{"In", "NotIn", "Exists", "DoesNotExist"}).Draw(t, "operator")}
			if r.Operator == "In" || r.Operator == "NotIn" {
				r.Values = rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b-c"}), 1, 3).Draw(t, "values")
			}
			term.MatchExpressions = append(term.MatchExpressions, r)
		}
		if rapid.Bool().Draw(t, "field") {
			term.MatchFields = []v1alpha1.NodeFieldRequirement{{Key: "metadata.name", Operator: "NotIn", Values: []string{"n1"}}}
		}
		return term
	})
	required := rapid.SliceOfN(term, 0, 3).Draw(t, "required")
	preferred := rapid.SliceOfN(term, 0, 3).Draw(t, "preferred")
	if len(required)+len(preferred) > 0 {
		s.NodeAffinity = &v1alpha1.NodeAffinity{}
	}
	if len(required) > 0 {
		s.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1alpha1.NodeTerms{NodeSelectorTerms: required}
	}
	for i := range preferred {
		s.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(s.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
			v1alpha1.PreferredNodeTerm{Weight: int32(i + 1), Preference: preferred[i]})
	}
	return s
}

// store is a Source that has what its client has written.
type store struct{ client.Client }

func (s store) Read(ctx context.Context) (*overview.Reading, error) {
	var limits v1alpha1.ResourceLimitList
	var mixes v1alpha1.CapacityMixList
	var environments v1alpha1.EnvironmentList
	var policies v1alpha1.SchedulingPolicyList
	var reservations v1alpha1.ReservationList
	err := errors.Join(s.List(ctx, &limits), s.List(ctx, &mixes), s.List(ctx, &environments), s.List(ctx, &policies), s.List(ctx, &reservations))
	return &overview.Reading{
		Overview: overviewOf(workload("shop", "web")), Limits: pointers(limits.Items), Mixes: pointers(mixes.Items),
		Environments: pointers(environments.Items), Policies: pointers(policies.Items), Reservations: pointers(reservations.Items),
	}, err
}

func pointers[T any](items []T) (all []*T) {
	for i := range items {
		all = append(all, &items[i])
	}
	return all
}

// editor serves pages that change what there is.
func editor(t *testing.T, funcs interceptor.Funcs, change func(*Options), objects ...client.Object) (client.Client, *Console) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	k := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	o := Options{
		Source: store{k}, Interval: interval, Log: slog.New(slog.DiscardHandler),
		ClientOf: func(*http.Request) (client.Client, error) { return k, nil },
	}
	if change != nil {
		change(&o)
	}
	return k, running(t, o)
}

func post(t *testing.T, h http.Handler, path string, sent url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(sent.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// generations counts the changes of a spec, as the API server does.
var generations = interceptor.Funcs{
	Update: func(ctx context.Context, k client.WithWatch, o client.Object, options ...client.UpdateOption) error {
		o.SetGeneration(o.GetGeneration() + 1)
		return k.Update(ctx, o, options...)
	},
}

func TestALimitIsCreatedChangedAndDeleted(t *testing.T) {
	k, c := editor(t, generations, nil)
	_, page := get(t, c, "/limits/new")
	sent := posted(t, page)
	sent.Set("namespace", "shop")
	sent.Set("name", "gpu")
	sent.Set("cpu", "2")
	sent["label-key"][0], sent["label-value"][0] = "disk", "ssd"
	for column, value := range map[string]string{"rule": "preferred", "term": "1", "weight": "30", "key": "gpu", "values": "a100,h100"} {
		sent[column][1] = value
	}
	w := post(t, c, "/limits", sent)
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	require.Equal(t, "/limits/shop/gpu", w.Header().Get("Location"))
	_, page = get(t, c, "/limits/shop/gpu")
	assert.Contains(t, page, "<li>weight 30: gpu In a100, h100</li>", "the page shows what was written")
	assert.Contains(t, page, "<li>disk=ssd</li>")

	_, page = get(t, c, "/limits/shop/gpu/edit")
	stale := posted(t, page)
	sent = posted(t, page)
	sent.Set("cpu", "3")
	w = post(t, c, "/limits/shop/gpu", sent)
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	var l v1alpha1.ResourceLimit
	require.NoError(t, k.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "gpu"}, &l))
	assert.Equal(t, "3", l.Spec.CPU.String())
	assert.Equal(t, "ssd", l.Spec.NodeSelector["disk"])

	stale.Set("cpu", "4")
	w = post(t, c, "/limits/shop/gpu", stale)
	assert.Equal(t, http.StatusUnprocessableEntity, w.Code)
	assert.Contains(t, w.Body.String(), "was changed since this form was opened")
	assert.Contains(t, w.Body.String(), `value="4"`, "what the user wrote is kept")

	_, page = get(t, c, "/limits/shop/gpu/delete")
	w = post(t, c, "/limits/shop/gpu/delete", posted(t, page))
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	assert.True(t, apierrors.IsNotFound(k.Get(t.Context(), client.ObjectKeyFromObject(&l), &l)))
	status, _ := get(t, c, "/limits/shop/gpu")
	assert.Equal(t, http.StatusNotFound, status.Code)
}

func TestWhatTheAPIServerRefusesIsBesideItsField(t *testing.T) {
	refusal := apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("ResourceLimit").GroupKind(), "gpu", nil)
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{
		{Field: "spec.cpuLimit", Message: "must not be below cpu"},
		{Field: "spec.nodeAffinity.required[0]", Message: "<script>"},
		{Field: "spec.other", Message: "is unknown"},
	}
	k, c := editor(t, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return refusal
	}}, nil)
	_, page := get(t, c, "/limits/new")
	sent := posted(t, page)
	sent.Set("name", "gpu")
	sent.Set("cpuLimit", "1")
	w := post(t, c, "/limits", sent)
	assert.Equal(t, http.StatusUnprocessableEntity, w.Code)
	page = w.Body.String()
	assert.Contains(t, page, `placeholder="Defaults to CPU"></label><p class="bad">must not be below cpu</p>`)
	assert.Contains(t, page, `<p class="bad">spec.nodeAffinity.required[0]: &lt;script&gt;</p>`)
	assert.Contains(t, page, `<div role="alert"><p class="bad">spec.other: is unknown</p></div>`)
	var list v1alpha1.ResourceLimitList
	require.NoError(t, k.List(t.Context(), &list))
	assert.Empty(t, list.Items)
}

func TestWhatCannotBeReadIsNotWritten(t *testing.T) {
	_, c := editor(t, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return errors.New("written")
	}}, nil)
	_, page := get(t, c, "/limits/new")
	for name, change := range map[string]struct {
		do   func(url.Values)
		want string
	}{
		"a quantity":      {func(v url.Values) { v.Set("cpu", "much") }, "is not a quantity"},
		"a long quantity": {func(v url.Values) { v.Set("cpu", strings.Repeat("1", maxQuantity+1)) }, "at most 64 characters"},
		"a label twice":   {func(v url.Values) { v["label-key"] = []string{"a", "a"} }, "is there twice"},
		"a weight":        {func(v url.Values) { v["rule"][0], v["key"][0], v["weight"][0] = "preferred", "gpu", "heavy" }, "must be a number"},
		"a rule":          {func(v url.Values) { v["rule"][0], v["key"][0] = "wished", "gpu" }, "is not a rule"},
	} {
		t.Run(name, func(t *testing.T) {
			sent := posted(t, page)
			change.do(sent)
			w := post(t, c, "/limits", sent)
			assert.Equal(t, http.StatusUnprocessableEntity, w.Code)
			assert.Contains(t, w.Body.String(), change.want)
			assert.NotContains(t, w.Body.String(), "written")
		})
	}
	for name, sent := range map[string]url.Values{
		"columns of different lengths": {"label-key": {"a", "b"}, "label-value": {"c"}},
		"too many rows":                {"label-key": make([]string, maxRows+1), "label-value": make([]string, maxRows+1)},
	} {
		assert.Equal(t, http.StatusBadRequest, post(t, c, "/limits", sent).Code, name)
	}
	large := url.Values{"description": {strings.Repeat("a", maxForm)}}
	assert.Equal(t, http.StatusRequestEntityTooLarge, post(t, c, "/limits", large).Code)
}

func TestMoreRowsKeepWhatIsWritten(t *testing.T) {
	_, c := editor(t, interceptor.Funcs{}, nil)
	_, page := get(t, c, "/limits/new")
	sent := posted(t, page)
	sent["label-key"] = []string{"a", "b"}
	sent.Set("rows", "more")
	w := post(t, c, "/limits", sent)
	require.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, []string{"a", "b", "", ""}, posted(t, w.Body.String())["label-key"])
}

func TestAReadOnlyConsoleHasNoForms(t *testing.T) {
	_, c := start(t, overviewOf())
	for _, path := range []string{"/limits/new", "/limits/shop/gpu/edit", "/limits/shop/gpu/delete"} {
		w, _ := get(t, c, path)
		assert.Equal(t, http.StatusNotFound, w.Code, path)
	}
	for _, path := range []string{"/limits", "/limits/shop/gpu", "/limits/shop/gpu/delete"} {
		assert.Equal(t, http.StatusForbidden, post(t, c, path, url.Values{}).Code, path)
	}
	_, page := show(t, "/limits", limit("shop", "small"))
	assert.NotContains(t, page, "/limits/new")
	assert.NotContains(t, fmt.Sprint(show(t, "/limits/shop/small", limit("shop", "small"))), "/edit")
}

// A form of another site is refused by the door, before the console sees it.
func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	k, c := editor(t, interceptor.Funcs{}, nil, limit("shop", "small"))
	server := httptest.NewUnstartedServer(nil)
	local := NewLocal(c, server.Listener.Addr())
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/limits/shop/small/delete", http.NoBody)
	r.Host = server.Listener.Addr().String()
	r.AddCookie(&http.Cookie{Name: local.cookie, Value: local.session})
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	local.ServeHTTP(w, r)
	assert.Equal(t, http.StatusForbidden, w.Code)
	require.NoError(t, server.Listener.Close())
	var l v1alpha1.ResourceLimit
	require.NoError(t, k.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "small"}, &l))
}

// readings is a Source of one reading after the other.
type readings func() *overview.Reading

func (r readings) Read(context.Context) (*overview.Reading, error) { return r(), nil }

// What is written while the cluster is read may be missing in that reading.
func TestAWriteOutlivesTheReadingThatBeganBeforeIt(t *testing.T) {
	var h *hub
	n := 0
	h = newHub(readings(func() *overview.Reading {
		if n++; n == 1 {
			h.wrote("alice", func(r *overview.Reading) { r.Limits = append(r.Limits, limit("shop", "small")) })
		}
		return &overview.Reading{Overview: overviewOf()}
	}), interval, time.Now)
	h.read(t.Context())
	assert.Len(t, h.peek("alice").Limits, 1)
	assert.Same(t, h.peek("alice"), h.peek("alice"), "nothing has changed")
	h.read(t.Context())
	assert.Empty(t, h.peek("alice").Limits, "it was deleted meanwhile")
	assert.Empty(t, h.written)
}

// Users with the same rights share a reading, but one may create what the others may not list.
func TestWhatASessionWritesIsShownToNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stored := map[string]bool{}
		h := newHub(readings(func() *overview.Reading {
			r := &overview.Reading{Overview: overviewOf()}
			for name := range stored {
				r.Limits = append(r.Limits, limit("shop", name))
			}
			return r
		}), interval, time.Now)
		h.read(t.Context())
		wrote := map[string]map[string]bool{"alice": {}, "bob": {}, "": {}}
		sessions := slices.Sorted(maps.Keys(wrote))
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "read") == 0 {
				for session := range wrote {
					maps.Copy(stored, wrote[session])
					clear(wrote[session])
				}
				h.read(t.Context())
			} else {
				session, name := rapid.SampledFrom(sessions).Draw(t, "session"), fmt.Sprint("limit-", i)
				h.wrote(session, func(r *overview.Reading) {
					r.Limits = append(without(r.Limits, limit("shop", name)), limit("shop", name))
				})
				wrote[session][name] = true
			}
			for _, session := range sessions {
				shown := map[string]bool{}
				for _, l := range h.peek(session).Limits {
					shown[l.Name] = true
				}
				for name := range shown {
					require.True(t, stored[name] || wrote[session][name], "%s sees %s", session, name)
				}
				require.LessOrEqual(t, len(changesOf(h, session)), maxWritten)
				if len(wrote[session]) <= maxWritten {
					require.Len(t, shown, len(stored)+len(wrote[session]))
				}
			}
		}
	})
}

func changesOf(h *hub, session string) []writtenChange {
	if w := h.written[session]; w != nil {
		return w.changes
	}
	return nil
}
