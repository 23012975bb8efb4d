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

// Nodes are chosen by text, whose mistakes are found before the API server has it.
func TestTheRulesOfALimitAreWrittenAsText(t *testing.T) {
	k, c := editor(t, interceptor.Funcs{}, nil)
	_, page := get(t, c, "/limits/new")
	sent := posted(t, page)
	sent.Set("metadata.namespace", "shop")
	sent.Set("metadata.name", "gpu")
	sent.Set("do", reviewForm)
	sent.Set(nodeAffinity+"preferredDuringSchedulingIgnoredDuringExecution", "gpu In a100")
	w := post(t, c, "/limits", sent)
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	assert.Contains(t, w.Body.String(), "must begin with a weight from 1 to 100")
	sent.Set(nodeAffinity+"preferredDuringSchedulingIgnoredDuringExecution", "30: gpu In a100,h100")
	sent.Set("spec.nodeSelector", "disk=ssd")
	w = post(t, c, "/limits", applyOf(t, post(t, c, "/limits", sent).Body.String()))
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	require.Equal(t, "/limits/shop/gpu?applied=1", w.Header().Get("Location"))
	_, page = get(t, c, "/limits/shop/gpu")
	assert.Contains(t, page, "<li>weight 30: gpu In a100, h100</li>")
	assert.Contains(t, page, "<li>disk=ssd</li>")
	var l v1alpha1.ResourceLimit
	require.NoError(t, k.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "gpu"}, &l))
	assert.Equal(t, []string{"a100", "h100"}, l.Spec.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Preference.MatchExpressions[0].Values)

	l.Status.PodCount, l.Status.WorkloadCount = 3, 1
	assert.Equal(t, "It is in use by 1 workload and 3 pods, and is deleted once nothing uses it any more.", limitDeleted(&l))
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
