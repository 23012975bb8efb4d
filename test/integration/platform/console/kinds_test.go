// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// editedKinds are the kinds that pages edit: their resource, a field with two values, what the page of an object shows of the second, and
// a value that the API server refuses, with its reason.
var editedKinds = []struct {
	id, kind, resource   string
	fields               map[string]string
	field, second, shows string
	refused, reason      string
}{
	{
		id: "mixes", kind: "CapacityMix", resource: "capacitymixes",
		fields: map[string]string{"spec.selector.matchLabels": "app=web", "spec.spotPercent": "70", "spec.minOnDemand": "2"},
		field:  "spec.spotPercent", second: "30", shows: "30% spot, at least 2 on-demand", refused: "130", reason: "Invalid value: 130",
	},
	{
		id: "policies", kind: "SchedulingPolicy", resource: "schedulingpolicies",
		fields: map[string]string{"spec.podSelector.matchLabels": "app=web", "spec.score.preset": "Pack", "spec.decisions.candidates": "5"},
		field:  "spec.decisions.candidates", second: "7", shows: "Pack", refused: "51", reason: "50",
	},
	{
		id: "reservations", kind: "Reservation", resource: "reservations",
		fields: map[string]string{"spec.podSelector.matchLabels": "app=web", "spec.cpu": "100m", "spec.replicas": "2"},
		field:  "spec.replicas", second: "3", shows: "<dt>Pods</dt><dd>3</dd>", refused: "101", reason: "100",
	},
}

// hidden are the values of the form that applies what a page shows.
func hidden(t *testing.T, page string) url.Values {
	t.Helper()
	_, form, found := strings.Cut(page, `aria-label="Changes"`)
	require.True(t, found, page)
	form, _, _ = strings.Cut(form, "</section>")
	sent := url.Values{"do": {"apply"}}
	for _, name := range []string{"version", "yaml"} {
		if value := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(form); value != nil {
			sent.Set(name, html.UnescapeString(value[1]))
		}
	}
	return sent
}

// created are the fields of the page that creates an object, of which some have values.
func (b *browser) created(id, namespace, name string, fields map[string]string) url.Values {
	page := b.shows("/"+id+"/new", `name="yaml"`).body
	form := url.Values{"metadata.namespace": {namespace}, "metadata.name": {name}, "do": {"form"}, "yaml": {yamlOf(b.T, page)}}
	for name, value := range fields {
		form.Set(name, value)
	}
	return form
}

// opened are the version and the YAML of the page that edits an object.
func opened(t *testing.T, page answer) (version, text string) {
	t.Helper()
	require.Equal(t, http.StatusOK, page.status, page.body)
	found := regexp.MustCompile(`name="version" value="([^"]*)"`).FindStringSubmatch(page.body)
	require.NotNil(t, found, page.body)
	return found[1], yamlOf(t, page.body)
}

// yamlOf is the YAML that the form of a page has.
func yamlOf(t *testing.T, page string) string {
	t.Helper()
	area := regexp.MustCompile(`(?s)<textarea name="yaml"[^>]*>(.*?)</textarea>`).FindStringSubmatch(page)
	require.NotNil(t, area, page)
	return html.UnescapeString(area[1])
}

// The API server judges each object in a dry run, and again when it is written, with the rights of the user.
func TestObjectsAreEditedWithTheRightsOfTheUser(t *testing.T) {
	s := serve(t, testenv.New(t))
	resources := []string{"capacitymixes", "schedulingpolicies", "reservations"}
	writer := append(slices.Clone(viewer), builders.Rule("berth.dev", resources, "get", "create", "update", "delete"))
	b := s.signIn(s.account("writer", writer...)).in(s.Namespace)
	reader := s.signIn(s.account("reader", append(slices.Clone(viewer), builders.Rule("berth.dev", resources, "get"))...)).in(s.Namespace)
	blind := s.signIn(s.account("blind")).in(s.Namespace)
	for _, kind := range editedKinds {
		t.Run(kind.id, func(t *testing.T) {
			at := "/" + kind.id + "/" + s.Namespace + "/web"
			stored := func() *unstructured.Unstructured {
				o := &unstructured.Unstructured{}
				o.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind.kind))
				err := s.Client.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: "web"}, o)
				if apierrors.IsNotFound(err) {
					return nil
				}
				require.NoError(t, err)
				return o
			}
			b.shows("/"+kind.id+"/new", `name="`+kind.field+`"`)
			form := b.created(kind.id, s.Namespace, "web", kind.fields)
			a := reader.post("/"+kind.id, form)
			assert.Equal(t, http.StatusUnprocessableEntity, a.status)
			assert.Contains(t, a.body, "cannot create resource &#34;"+kind.resource+"&#34;")
			refused := url.Values{}
			for name := range form {
				refused.Set(name, form.Get(name))
			}
			refused.Set(kind.field, kind.refused)
			a = b.post("/"+kind.id, refused)
			assert.Equal(t, http.StatusUnprocessableEntity, a.status)
			assert.Regexp(t, `aria-invalid="true" aria-describedby="`+kind.field+`-problems">.*</label><div id="[^"]*"><p class="bad">[^<]*`+regexp.QuoteMeta(kind.reason), a.body)
			a = b.post("/"+kind.id, form)
			require.Equal(t, http.StatusOK, a.status, a.body)
			assert.Nil(t, stored(), "a review writes nothing")
			apply := hidden(t, a.body)
			assert.Equal(t, http.StatusUnprocessableEntity, reader.post("/"+kind.id, apply).status)
			assert.Nil(t, stored())
			a = b.post("/"+kind.id, apply)
			require.Equal(t, http.StatusSeeOther, a.status, a.body)
			to, _, _ := strings.Cut(a.header.Get("Location"), "?")
			require.Equal(t, at, to)
			require.NotNil(t, stored())
			b.shows(at, "app=web")
			reader.shows("/"+kind.id, ">web</a>")
			assert.NotContains(t, blind.get("/"+kind.id).body, ">web</a>")
			assert.Equal(t, http.StatusNotFound, blind.get(at).status)
			assert.Equal(t, http.StatusUnprocessableEntity, blind.get(at+"/edit").status)

			version, text := opened(t, b.get(at+"/edit"))
			name := kind.field[strings.LastIndex(kind.field, ".")+1:]
			changed := strings.Replace(text, name+": "+kind.fields[kind.field], name+": "+kind.second, 1)
			require.NotEqual(t, text, changed)
			edit := url.Values{"version": {version}, "yaml": {changed}, "do": {"yaml"}}
			a = reader.post(at, edit)
			assert.Equal(t, http.StatusUnprocessableEntity, a.status)
			assert.Contains(t, a.body, "cannot update resource")
			a = b.post(at, url.Values{"version": {version}, "yaml": {text + "  unheard: of\n"}, "do": {"yaml"}})
			assert.Equal(t, http.StatusUnprocessableEntity, a.status)
			assert.Contains(t, a.body, "unknown field")
			a = b.post(at, edit)
			require.Equal(t, http.StatusOK, a.status, a.body)
			assert.Contains(t, a.body, "<ins>+ ")
			a = b.post(at, hidden(t, a.body))
			require.Equal(t, http.StatusSeeOther, a.status, a.body)
			b.shows(at, kind.shows)

			a = b.post(at, edit)
			assert.Equal(t, http.StatusUnprocessableEntity, a.status)
			assert.Contains(t, a.body, "it was changed since this form was opened")
			assert.Contains(t, a.body, name+": "+kind.second, "what the user wrote is kept")

			uid := url.Values{"uid": {string(stored().GetUID())}}
			assert.Equal(t, http.StatusUnprocessableEntity, reader.post(at+"/delete", uid).status)
			assert.Equal(t, http.StatusUnprocessableEntity, b.post(at+"/delete", url.Values{"uid": {"another"}}).status)
			require.NotNil(t, stored())
			b.header.Set("Sec-Fetch-Site", "cross-site")
			assert.Equal(t, http.StatusForbidden, b.post(at+"/delete", uid).status)
			b.header.Del("Sec-Fetch-Site")
			a = b.post(at+"/delete", uid)
			require.Equal(t, http.StatusSeeOther, a.status, a.body)
			b.Eventually("it is gone", func() (bool, string) {
				o := stored()
				return o == nil || o.GetDeletionTimestamp() != nil, "it is there"
			})
		})
	}
}

// Nodes, domains, pods, workloads and mixes lead to one another, as the cluster is.
func TestPagesOfNodesAndPodsLeadToOneAnother(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10), builders.SchedulingPolicy("all"))
	pods := w.RequireExact("web", split.New(70, 2), 10)
	s := serve(t, w)
	b := s.signIn(s.account("viewer", viewer...)).in(w.Namespace)
	workload := "/workloads/" + w.Namespace + "/Deployment/web"
	for i := range pods {
		node := "/nodes/" + pods[i].Spec.NodeName
		b.shows(workload, `<a href="`+node+`">`)
		b.shows(node, `<a href="`+workload, pods[i].Name)
		b.shows("/nodes?sort=-spot", `<a href="`+node+`">`)
	}
	b.shows(workload, "/mixes/"+w.Namespace+"/web")
	b.shows("/mixes/"+w.Namespace+"/web", `<a href="`+workload)
	b.shows("/policies/"+w.Namespace+"/all", `<a href="`+workload, `data-label="Pods">10</td>`)
	b.in("default")
	assert.NotContains(t, b.get("/nodes/"+pods[0].Spec.NodeName).body, pods[0].Name, "a pod of another namespace")
}
