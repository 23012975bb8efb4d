// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
)

// lists are the commands that list a kind, with its resource, by their words: each list command is tested without a test of its own.
func lists() map[string]string {
	found := map[string]string{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if resource, is := cmd.Annotations[command.ListAnnotation]; is {
			found[strings.TrimPrefix(cmd.CommandPath(), "kubectl berth ")] = resource
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(New(genericiooptions.NewTestIOStreamsDiscard()))
	return found
}

// fakeAPI serves three objects of each kind of Berth, unless it is refused or absent. The controllers have seen none of them.
type fakeAPI struct {
	t *testing.T
	// refused is answered to each list with Forbidden, and absent is not served.
	refused, absent bool
}

// refused is the response to a list that the user may not read.
var refused = metav1.Status{
	TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden,
	Code: http.StatusForbidden, Message: "you may not",
}

// kindOf is the kind of a resource, as its CustomResourceDefinition names it.
func kindOf(t *testing.T, resource string) (plural, kind string) {
	t.Helper()
	plural, group, _ := strings.Cut(resource, ".")
	text, err := os.ReadFile(fmt.Sprintf("../../manifests/crds/%s_%s.yaml", group, plural))
	require.NoError(t, err)
	var crd struct {
		Spec struct{ Names struct{ Kind string } }
	}
	require.NoError(t, yaml.Unmarshal(text, &crd))
	return plural, crd.Spec.Names.Kind
}

// ServeHTTP implements http.Handler.
func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	version := "/apis/" + v1alpha1.SchemeGroupVersion.String()
	switch {
	case r.URL.Path == "/api":
		f.answer(w, http.StatusOK, metav1.APIVersions{Versions: []string{"v1"}})
	case r.URL.Path == "/apis":
		served := metav1.GroupVersionForDiscovery{GroupVersion: v1alpha1.SchemeGroupVersion.String(), Version: v1alpha1.SchemeGroupVersion.Version}
		f.answer(w, http.StatusOK, metav1.APIGroupList{Groups: []metav1.APIGroup{{
			Name: v1alpha1.GroupName, Versions: []metav1.GroupVersionForDiscovery{served}, PreferredVersion: served,
		}}})
	case r.URL.Path == "/api/v1" || r.URL.Path == version:
		f.answer(w, http.StatusOK, f.resources(r.URL.Path))
	case f.refused:
		f.answer(w, http.StatusForbidden, refused)
	default:
		namespace, plural := path.Split(strings.TrimPrefix(r.URL.Path, version+"/"))
		namespace = strings.Trim(strings.TrimPrefix(namespace, "namespaces"), "/")
		f.answer(w, http.StatusOK, f.list(plural, namespace, r.URL.Query().Get("labelSelector")))
	}
}

func (f *fakeAPI) answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	assert.NoError(f.t, json.NewEncoder(w).Encode(v))
}

func (f *fakeAPI) resources(at string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: strings.TrimPrefix(strings.TrimPrefix(at, "/apis/"), "/api/")}
	if f.absent || at == "/api/v1" {
		return list
	}
	for _, resource := range lists() {
		plural, kind := kindOf(f.t, resource)
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: plural, Kind: kind, Namespaced: true, Verbs: metav1.Verbs{"get", "list"}})
	}
	return list
}

// list are the objects of a namespace, or with "" of all, without one that the selector does not match.
func (f *fakeAPI) list(plural, namespace, selector string) map[string]any {
	selects, err := labels.Parse(selector)
	assert.NoError(f.t, err)
	_, kind := kindOf(f.t, plural+"."+v1alpha1.GroupName)
	items := []any{}
	for _, key := range []string{"shop/b", "shop/a", "back/c"} {
		in, name, _ := strings.Cut(key, "/")
		if namespace != "" && in != namespace || !selects.Matches(labels.Set{"app": name}) {
			continue
		}
		items = append(items, map[string]any{
			"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": kind, "spec": map[string]any{},
			"metadata": metav1.ObjectMeta{Namespace: in, Name: name, Generation: 1, CreationTimestamp: metav1.NewTime(time.Now().Add(-3 * time.Hour))},
		})
	}
	return map[string]any{"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": kind + "List", "metadata": map[string]any{}, "items": items}
}

// listed is what a list command prints.
type listed struct {
	out, errOut string
	err         error
}

// table are the words of each line.
func (l listed) table() (lines [][]string) {
	for line := range strings.Lines(l.out) {
		lines = append(lines, strings.Fields(line))
	}
	return lines
}

// lister runs a list command against an API.
func lister(t *testing.T, api *fakeAPI, words string) func(args ...string) listed {
	t.Helper()
	api.t = t
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	cache := t.TempDir()
	return func(args ...string) listed {
		var out, errOut bytes.Buffer
		cmd := New(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
		cmd.SetArgs(slices.Concat(strings.Fields(words), []string{"--server", server.URL, "--cache-dir", cache}, args))
		err := cmd.ExecuteContext(t.Context())
		return listed{out.String(), errOut.String(), err}
	}
}

// eachList runs a test for each list command.
func eachList(t *testing.T, test func(t *testing.T, words, resource string)) {
	t.Helper()
	all := lists()
	require.GreaterOrEqual(t, len(all), 4)
	for words, resource := range all {
		t.Run(words, func(t *testing.T) { test(t, words, resource) })
	}
}

func TestEveryListHasATableByNamespaceAndName(t *testing.T) {
	eachList(t, func(t *testing.T, words, _ string) {
		list := lister(t, &fakeAPI{}, words)
		all := list("-A")
		require.NoError(t, all.err)
		lines := all.table()
		require.Len(t, lines, 4)
		assert.Equal(t, []string{"NAMESPACE", "NAME"}, lines[0][:2])
		assert.Equal(t, "AGE", lines[0][len(lines[0])-1])
		for i, want := range []string{"back c", "shop a", "shop b"} {
			assert.Equal(t, want, strings.Join(lines[i+1][:2], " "))
			assert.Equal(t, "3h", lines[i+1][len(lines[i+1])-1])
		}
		assert.Contains(t, all.errOut, "Warning: no status in back/c, shop/a, shop/b: ")

		one := list("-n", "shop").table()
		require.Len(t, one, 3)
		assert.Equal(t, lines[0][1:], one[0], "without the column NAMESPACE")
		assert.Equal(t, []string{"a", "b"}, []string{one[1][0], one[2][0]})
		wide := list("-n", "shop", "-o", "wide").table()
		require.Len(t, wide, 3)
		assert.Equal(t, one[0], wide[0][:len(one[0])])
		assert.Greater(t, len(wide[0]), len(one[0]))
		chosen := list("-n", "shop", "-l", "app=b").table()
		require.Len(t, chosen, 2)
		assert.Equal(t, "b", chosen[1][0])
	})
}

func TestEveryListHasTheFormatsOfKubectl(t *testing.T) {
	eachList(t, func(t *testing.T, words, resource string) {
		list := lister(t, &fakeAPI{}, words)
		_, kind := kindOf(t, resource)
		name := strings.ToLower(kind) + "." + v1alpha1.GroupName
		assert.Equal(t, name+"/c\n"+name+"/a\n"+name+"/b\n", list("-A", "-o", "name").out)
		for _, format := range []string{"json", "yaml"} {
			var got map[string][]any
			require.NoError(t, yaml.Unmarshal([]byte(list("-A", "-o", format).out), &got), format)
			require.Len(t, got, 2, format)
			assert.Len(t, got["notes"], 1, format)
			delete(got, "notes")
			for _, items := range got {
				require.Len(t, items, 3, format)
				for i, want := range []string{"c", "a", "b"} {
					assert.Equal(t, want, items[i].(map[string]any)["name"], format)
				}
			}
		}
		require.ErrorContains(t, list("-o", "text").err, `--output is "text": it must be one of table, wide, json, yaml, name`)
		require.ErrorContains(t, list("-l", "a in b").err, `--selector is "a in b": `)
		require.Error(t, list("web").err)
	})
}

func TestEveryListExplainsWhyItIsEmpty(t *testing.T) {
	eachList(t, func(t *testing.T, words, resource string) {
		list := lister(t, &fakeAPI{}, words)
		none := list("-n", "empty")
		require.NoError(t, none.err)
		assert.Empty(t, none.out)
		assert.Regexp(t, `^No [a-z ]+s found in namespace empty\.\n$`, none.errOut)
		assert.Regexp(t, `^\{\n    "[a-z]+": \[\]\n\}\n$`, list("-n", "empty", "-o", "json").out)
		require.ErrorContains(t, lister(t, &fakeAPI{refused: true}, words)("-A").err, "you may not")
		require.ErrorContains(t, lister(t, &fakeAPI{absent: true}, words)("-A").err, "the API server does not serve "+resource+": is Berth installed")
	})
}
