// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func written(t require.TestingT, s *Snapshot) string {
	var b bytes.Buffer
	require.NoError(t, s.Write(&b))
	return b.String()
}

// A file has what was written, and the order in which objects are read does not matter.
func TestPropertyAFileHasWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		text := written(t, s)
		got, err := Read(strings.NewReader(text))
		require.NoError(t, err)
		require.True(t, equality.Semantic.DeepEqual(s, got), "%s\n%s", text, written(t, got))
		require.Equal(t, text, written(t, got))

		var whole Snapshot
		require.NoError(t, json.Unmarshal([]byte(text), &whole), "it is one document of JSON")

		b := NewBuilder(s.Header)
		for _, l := range s.lists() {
			for i := l.len() - 1; i >= 0; i-- {
				require.NoError(t, b.Add(l.at(i)))
			}
		}
		require.Equal(t, text, written(t, b.Snapshot()))
	})
}

// All fields of all kinds are read as they were written, from JSON and from YAML.
func TestAllFieldsAreRead(t *testing.T) {
	want := snapshotOf(t, filled()...)
	for _, l := range want.lists() { // a mark is no name
		l.at(0).SetName("a")
		l.at(0).SetNamespace("b")
	}
	text := written(t, want)
	got, err := Read(strings.NewReader(text))
	require.NoError(t, err)
	assert.Equal(t, text, written(t, got))
	got, err = Read(strings.NewReader("# by hand\n" + text))
	require.NoError(t, err)
	assert.Equal(t, text, written(t, got))
}

const empty = `{"apiVersion":"sim.berth.dev/v1alpha1","kind":"Snapshot","time":"2026-07-01T12:00:00Z"`

// Whoever writes a file by hand finds the place of the fault.
func TestFaultsOfAFileAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "line 1: the document ends early",
		"[]":                                 `must be an object`,
		"{":                                  "line 1: the document ends early",
		`{"kind": "List", "items": []}`:      `unknown field "items"`,
		`{"kind": "List"}`:                   `is apiVersion "", kind "List": must be "sim.berth.dev/v1alpha1", "Snapshot"`,
		empty + "}}":                         "line 1: ",
		empty + "} {}":                       "line 1: there is more behind the document",
		empty + `,"time":""}`:                `line 1: field "time" is there twice`,
		strings.Replace(empty, "T12", "", 1): "the document ends early",
		`{"apiVersion":"sim.berth.dev/v1alpha1","kind":"Snapshot"}`: "time: must be set",
		empty + ",\n\"pods\":{}}":                                   "line 2: pods must be a list",
		empty + ",\"pods\":[\n{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\"}},\n\n{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\"}}]}": "line 4: pods[1]: b/a is there twice",
		empty + ",\"pods\":[\n{\"metadata\":{\"name\":\"a\"}}]}":                                                                             "line 2: pods[0]: has no name, or no namespace",
		empty + ",\"nodes\":[{}]}": "line 1: nodes[0]: has no name, or no namespace",
		empty + ",\"nodes\":[\n{\"metadata\":{\"name\":\"a\"},\"spec\":{\"taint\":[]}}]}":                                                        `line 2: nodes[0]: unknown field "spec.taint"`,
		empty + ",\"nodes\":[\n{\"metadata\":{\"name\":\"a\"},\"spec\":{\"taints\":7}}]}":                                                        `line 2: nodes[0]: spec.taints has the JSON type number, must be array`,
		empty + ",\"nodes\":[\n{\"metadata\":{\"name\":\"a\",\"name\":\"b\"}}]}":                                                                 `line 2: nodes[0]: duplicate field "metadata.name"`,
		empty + ",\"nodes\":[\n{\"metadata\":{\"name\":\"a\"}},\n{\"metadata\":\n}]}":                                                            "line 3: is not valid JSON",
		empty + `,"missing":[{"list":"secrets","reason":"Forbidden"}]}`:                                                                          `missing[0]: "secrets" is no list`,
		"kind: Snapshot\nkind: Snapshot\n":                                                                                                       "YAML",
		"kind: &a Snapshot\n":                                                                                                                    "YAML line 1",
		"apiVersion: sim.berth.dev/v1alpha1\nkind: Snapshot\ntime: 2026-07-01T12:00:00Z\nnodes:\n- metadata: {name: a}\n- metadata: {name: a}\n": "nodes[1]: a is there twice",
	} {
		_, err := Read(strings.NewReader(text))
		if assert.Error(t, err, text) {
			assert.Contains(t, err.Error(), want, text)
		}
	}
}

// A file that would fill the memory is refused before it is decoded.
func TestAFileIsBounded(t *testing.T) {
	pods := `,"pods":[{"metadata":{"name":"a","namespace":"b"},"spec":{"containers":[` + strings.Repeat("{},", 500) + "{}]}}]}"
	for want, b := range map[string]bounds{
		"is larger than 1000 bytes":                   {bytes: 1000, objects: 1000, item: 1 << 20},
		"has more than 400 JSON objects":              {bytes: 1 << 20, objects: 400, item: 1 << 20},
		"line 1: an object is larger than 1024 bytes": {bytes: 1 << 20, objects: 1000, item: 1024},
	} {
		_, err := readJSON(strings.NewReader(empty+pods), b)
		assert.ErrorContains(t, err, want)
	}
	for _, quantity := range []string{`"1e99999999"`, "1E+9999", `"` + strings.Repeat("9", 70) + `"`} {
		text := empty + `,"nodes":[{"metadata":{"name":"a","labels":{"commit":"1e99999999"}},"status":{"capacity":{"cpu":` + quantity + `}}}]}`
		_, err := Read(strings.NewReader(text))
		assert.ErrorContains(t, err, "line 1: nodes[0]: cpu has a quantity that is too long")
	}
	_, err := Read(strings.NewReader(empty + `,"nodes":[{"metadata":{"name":"a","labels":{"cpu":"1e99999999"}}}]}`))
	require.NoError(t, err, "a label is no quantity")
	_, err = readJSON(strings.NewReader(empty+pods), bounds{bytes: 1 << 20, objects: 1000, item: 1 << 20})
	assert.NoError(t, err)
}

// Fields that a snapshot does not have are dropped from a file, too.
func TestAFileIsReducedAsACluster(t *testing.T) {
	s, err := Read(strings.NewReader(empty + `,"pods":[{"kind":"Pod","metadata":{"name":"a","namespace":"b","annotations":{"x":"secret"}},
		"spec":{"containers":[{"name":"c","image":"private","env":[{"name":"TOKEN","value":"secret"}]}]}}]}`))
	require.NoError(t, err)
	assert.NotContains(t, written(t, s), "secret")
	assert.Equal(t, []corev1.Container{{Name: "c", Image: "image"}}, s.Pods[0].Spec.Containers)
}

// A file is there as a whole or not at all, and its owner alone may read it.
func TestFiles(t *testing.T) {
	s := snapshotOf(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	for _, name := range []string{"snapshot.json", "snapshot.json.gz"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("former"), 0o644))
		require.NoError(t, s.WriteFile(t.Context(), path))
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		got, err := Load(path)
		require.NoError(t, err)
		assert.Equal(t, written(t, s), written(t, got))
		before, err := os.ReadFile(path)
		require.NoError(t, err)

		interrupted, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.WriteFile(interrupted, path), context.Canceled)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, before, after)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Len(t, left, 1)

		require.NoError(t, s.WriteFile(t.Context(), path))
		again, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, before, again, "the same bytes")
	}
	require.ErrorContains(t, s.WriteFile(t.Context(), t.TempDir()), "is no regular file")
	require.Error(t, s.WriteFile(t.Context(), filepath.Join(t.TempDir(), "none", "file")))
	_, err := Load(filepath.Join(t.TempDir(), "none.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
	broken := filepath.Join(t.TempDir(), "broken.json.gz")
	require.NoError(t, os.WriteFile(broken, []byte(empty+"}"), 0o600))
	_, err = Load(broken)
	require.ErrorContains(t, err, broken+": gzip")
}

func FuzzRead(f *testing.F) {
	f.Add(empty + "}")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "a-0", Labels: map[string]string{"app": "a"}}}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: "Gt", Value: "3"}}
	f.Add(written(f, snapshotOf(f, p))) // a larger one takes minutes to minimise
	f.Add("kind: Snapshot\napiVersion: sim.berth.dev/v1alpha1\ntime: 2026-07-01T12:00:00Z\n")
	f.Add(empty + `,"nodes":[{"metadata":{"name":"a"}},{"metadata":{"name":"a"}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		first := written(t, s)
		again, err := Read(strings.NewReader(first))
		require.NoError(t, err, first)
		require.Equal(t, first, written(t, again))
		_, err = s.Anonymise("seed")
		require.NoError(t, err)
	})
}

// A line that is far into a long file is found.
func TestLinesAreCounted(t *testing.T) {
	var b strings.Builder
	b.WriteString(empty + ",\n\"nodes\":[")
	for i := range 5000 {
		b.WriteString("{\"metadata\":\n{\"name\":\"node-" + time.Unix(int64(i), 0).UTC().Format("150405") + "\"}},\n")
	}
	b.WriteString("7]}")
	_, err := Read(strings.NewReader(b.String()))
	require.ErrorContains(t, err, "line 10002: nodes[5000]: ")
}
