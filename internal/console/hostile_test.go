// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/policies/decision"
)

// hostileText is what a tenant can write where the API server bounds no text: a script, a text from right to left, control characters, and
// 256 kB.
var hostileText = `"><script>alert(1)</script><img src=x onerror=alert(1)>javascript:alert(1)` + "\u202e\x1b[31m\x00\u200b\r\n" +
	strings.Repeat("<b>", 256<<10/3)

// fill sets every text of a value, to a depth, with one element in each list and map.
func fill(v reflect.Value, text string, depth int) {
	if depth == 0 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem(), text, depth-1)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), text, depth-1)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text, depth-1)
		fill(value, text, depth-1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, text, depth-1)
		}
	}
}

// hostile fills an object, but for its names, which the API server validates. A form is not a page that it is for: its fields have the texts
// of the object as they are, which the API server bounds.
func hostile[T client.Object](o T) T {
	fill(reflect.ValueOf(o).Elem(), hostileText, 8)
	o.SetName("web")
	o.SetNamespace("team")
	o.SetUID("uid")
	o.SetManagedFields(nil)
	return o
}

// Whatever texts a tenant writes into any field that a page can show, or an error, an event or a log has: each is shown as bounded text, and
// no page has an element or an attribute of it, a control character, or more than 1 MB.
func TestHostileTextsAreInertOnEveryPage(t *testing.T) {
	o := overviewOf(workload("team", "web"))
	fill(reflect.ValueOf(o).Elem(), display.Inert(hostileText, maxText), 8) // as the overview makes all of its texts
	w := &o.Workloads[0]
	w.Namespace, w.Name, w.Kind, w.Revision, w.ID = "team", "web", "Deployment", "", ""
	w.Source, w.Slots[0].Pod = "capacitymix/web", "web-1"
	r := &overview.Reading{
		Overview: o, Mixes: []*v1alpha1.CapacityMix{hostile(&v1alpha1.CapacityMix{})}, Limits: []*v1alpha1.ResourceLimit{hostile(&v1alpha1.ResourceLimit{})},
		Records: []*v1alpha1.DeploymentRecord{hostile(&v1alpha1.DeploymentRecord{})}, Environments: []*v1alpha1.Environment{hostile(&v1alpha1.Environment{})},
		Policies: []*v1alpha1.SchedulingPolicy{hostile(&v1alpha1.SchedulingPolicy{})}, Reservations: []*v1alpha1.Reservation{hostile(&v1alpha1.Reservation{})},
		Nodes: []overview.NodeDetail{{
			NodeStatus: overview.NodeStatus{Name: "node-1", Type: hostileText, Rule: hostileText, Domain: hostileText[:600], Departing: hostileText},
			Node:       hostile(&corev1.Node{}), Others: []*corev1.Pod{hostile(&corev1.Pod{})},
		}},
		Governed: map[[2]string][]overview.PolicyWorkload{{"team", "web"}: {{Namespace: "team", Kind: hostileText, Name: hostileText}}},
		Problems: []string{hostileText},
	}
	domain := url.QueryEscape(hostileText[:600])
	for _, e := range r.Environments {
		e.CreationTimestamp = metav1.Time{}
	}
	reports := &fakeReports{text: hostileText, err: errors.New(hostileText)}
	c := running(t, Options{
		Source: oneReading{r}, Interval: interval, Log: slog.New(slog.DiscardHandler),
		ClientOf: func(*http.Request) (client.Client, error) { return nil, errors.New(hostileText) },
		Plan: func(context.Context, Question) (*overview.Plan, []string, error) {
			p := &overview.Plan{}
			fill(reflect.ValueOf(p).Elem(), hostileText, 8)
			return p, []string{hostileText}, nil
		},
		Reports: reports,
	})
	record := &decision.Record{}
	fill(reflect.ValueOf(record).Elem(), hostileText, 8)
	reports.decisions = []*decision.Record{record}
	s := &state{Reading: r, failure: hostileText, writable: true, plans: true, reports: true, rows: &sync.Map{}}
	for _, path := range []string{
		"/", "/savings", "/savings?by=unit", "/savings?by=mix", "/nodes", "/workloads/team/Deployment/web", "/mixes", "/mixes/team/web", "/mixes/team/web/plan", "/policies", "/policies/team/web", "/reservations",
		"/reservations/team/web", "/nodes/node-1", "/domain?name=" + domain, "/limits", "/limits/team/web", "/limits/team/web/delete", "/records", "/records/team/web", "/environments", "/environments/team/web",
	} {
		at, err := url.Parse(path)
		require.NoError(t, err)
		p, err := pageOf(at, s)
		require.NoError(t, err, path)
		recorder := httptest.NewRecorder()
		c.write(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), http.StatusOK, p, at)
		requireInert(t, path, recorder.Body.String())
	}
	for _, err := range []error{reports.err, nil} {
		reports.err = err
		requireInertReports(t, c)
	}
}

// requireInertReports reads the pages with reports, and those of queries.
func requireInertReports(t *testing.T, c *Console) {
	t.Helper()
	for _, path := range []string{
		"/mixes/team/web/plan?spotPercent=30&minOnDemand=1&maxSpot=", "/pods/team/web-1", "/pods/team/web-1/scores", "/nodes?sort=-name&x=" + url.QueryEscape(hostileText[:4000]), "/workloads/team/Deployment/web/history",
		"/records/team/web/history", "/environments/team/web/logs", "/pods/team/web-1/logs", "/environments/team/web/history", "/environments/team/web/backups",
		"/?filter=" + url.QueryEscape(hostileText[:4000]), "/mixes/team/web/plan?spotPercent=" + url.QueryEscape(hostileText[:4000]),
		"/environments/team/web/logs?component=" + url.QueryEscape(hostileText[:4000]), "/savings?by=" + url.QueryEscape(hostileText[:4000]),
		"/mixes/team/web?applied=1&before=" + url.QueryEscape(url.Values{undoParameter: {`{"spec":{"` + hostileText[:20] + `":1}}`}}.Encode()),
		"/mixes/team/web?applied=1&before=" + url.QueryEscape(url.Values{undoParameter: {hostileText[:4000]}}.Encode()),
	} {
		_, page := get(t, c, path)
		requireInert(t, path, page)
	}
}

// requireInert demands a page with no elements but its own, and none of the characters that change how a text is shown.
func requireInert(t *testing.T, path, page string) {
	t.Helper()
	assert.Less(t, len(page), 1<<20, path)
	assert.NotContains(t, page, "\u202e", path)
	assert.NotContains(t, page, "\x1b", path)
	assert.NotContains(t, page, "\x00", path)
	assert.NotContains(t, page, "\u200b", path)
	all := elements(t, page)
	assert.Len(t, all["script"], 1, path)
	for _, name := range []string{"img", "b", "iframe", "style"} {
		assert.Empty(t, all[name], "%s: %s", path, name)
	}
	for _, list := range all {
		for _, n := range list {
			requireOwnAttributes(t, path, n)
		}
	}
}

func requireOwnAttributes(t *testing.T, path string, n *html.Node) {
	t.Helper()
	for _, a := range n.Attr {
		assert.False(t, strings.HasPrefix(a.Key, "on"), "%s: %s of %s", path, a.Key, n.Data)
		if a.Key == "href" || a.Key == "src" || a.Key == "action" {
			own := strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "//") || strings.HasPrefix(a.Val, "#")
			assert.True(t, own, "%s: %s is %.80q", path, a.Key, a.Val)
		}
	}
}

// oneReading is a Source of one reading.
type oneReading struct {
	r *overview.Reading
}

func (r oneReading) Read(context.Context) (*overview.Reading, error) { return r.r, nil }
