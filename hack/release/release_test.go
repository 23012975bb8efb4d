// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

var commit = time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("", 7200))

func some(t *testing.T) options {
	return options{root: "../..", out: t.TempDir(), version: "v1.2.3", registry: "registry.example/berth", revision: "4711", date: commit.UTC()}
}

func TestEachProgramOfAClusterHasAnImage(t *testing.T) {
	var programs []string
	dirs, err := filepath.Glob("../../cmd/*")
	require.NoError(t, err)
	for _, dir := range dirs {
		if name := filepath.Base(dir); name != "kubectl-berth" && name != "berth-sim" { // users run these
			programs = append(programs, name)
		}
	}
	assert.ElementsMatch(t, programs, images)
}

func TestABillListsTheModulesOfAProgram(t *testing.T) {
	modules := modulesOf(&debug.BuildInfo{Deps: []*debug.Module{
		{Path: "example.org/b", Version: "v2.0.0", Sum: "h1:b="},
		{Path: "example.org/a", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/fork", Version: "v1.0.1+incompatible"}},
		{Path: "berth.dev/berth/apis", Version: "v0.0.0", Replace: &debug.Module{Path: "./apis"}},
		{Path: "berth.dev/berth", Version: "v0.0.0", Replace: &debug.Module{Path: "../..", Version: "(devel)"}},
		{Path: "example.org/edited", Version: "v3.0.0", Replace: &debug.Module{Path: "/tmp/edited", Version: "(devel)"}},
	}}, "v1.2.3")
	d := bill(some(t), "berth-scheduler", "linux_amd64", []byte("binary"), "go1.26.1", modules)
	var names []string
	ids := map[string]bool{}
	for _, p := range d.Packages {
		names = append(names, p.ExternalRefs[0].Locator)
		ids[p.SPDXID] = true
	}
	assert.Equal(t, []string{
		"pkg:golang/berth.dev/berth/cmd/berth-scheduler@v1.2.3", "pkg:golang/stdlib@1.26.1",
		"pkg:golang/berth.dev/berth/apis@v1.2.3", "pkg:golang/berth.dev/berth@v1.2.3",
		"pkg:golang/example.org/b@v2.0.0", "pkg:golang/example.org/edited@v3.0.0", "pkg:golang/example.org/fork@v1.0.1%2Bincompatible",
	}, names)
	assert.Len(t, ids, len(names), "the ids are unique")
	assert.Equal(t, "2026-07-01T10:00:00Z", d.CreationInfo.Created)
	for _, r := range d.Relationships[1:] {
		assert.True(t, ids[r.Element] && ids[r.Related], "%v", r)
	}
	assert.Len(t, d.Relationships, len(names))
	assert.Equal(t, []checksum{{"SHA256", "9a3a45d01531a20e89ac6ae10b0b0beb0492acd7216a368aa062d1a5fecaf9cd"}}, d.Packages[0].Checksums)
}

// The test program is linked from modules too.
func TestModulesAreReadFromAProgram(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	info, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	var paths []string
	for _, m := range modulesOf(info, "v1.2.3") {
		assert.Equal(t, !ours(m), m.Sum != "", m.Path)
		paths = append(paths, m.Path)
	}
	assert.Contains(t, paths, "sigs.k8s.io/yaml")
	assert.NotContains(t, paths, "berth.dev/berth")
}

func TestLicencesAreCopied(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	for name := range map[string]bool{"LICENSE": true, "Licence.md": true, "NOTICE.txt": true, "COPYING": true, "license.go": true, "README.md": true} {
		require.NoError(t, os.WriteFile(filepath.Join(from, name), []byte(name), 0o600))
	}
	require.NoError(t, copyLicences(from, to))
	copied, err := filepath.Glob(to + "/*")
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{to + "/LICENSE", to + "/Licence.md", to + "/NOTICE.txt", to + "/COPYING"}, copied)
	assert.ErrorContains(t, copyLicences(t.TempDir(), to), "has no file with a licence")
}

func TestTheChartHasTheRegistryAndTheChanges(t *testing.T) {
	o := some(t)
	read := func(path string) []byte {
		text, err := os.ReadFile(filepath.Join(o.root, path))
		require.NoError(t, err)
		return text
	}
	values, err := withRegistry(read("manifests/chart/values.yaml"), o.registry)
	require.NoError(t, err)
	var parsed struct{ Image struct{ Registry string } }
	require.NoError(t, yaml.Unmarshal(values, &parsed))
	assert.Equal(t, o.registry, parsed.Image.Registry)
	_, err = withRegistry(values, o.registry)
	assert.ErrorContains(t, err, "found 0")
	readme, err := withDefault(read("manifests/chart/README.md"), o.registry)
	require.NoError(t, err)
	_, err = withDefault(readme, o.registry)
	assert.ErrorContains(t, err, "no row")

	all := changes(string(read("CHANGELOG.md")), o.version)
	require.NotEmpty(t, all)
	chart, err := withAnnotations(read("manifests/chart/Chart.yaml"), all, o)
	require.NoError(t, err)
	var fields struct {
		Name        string
		Annotations map[string]string
	}
	require.NoError(t, yaml.Unmarshal(chart, &fields))
	assert.Equal(t, "berth", fields.Name)
	assert.Equal(t, "Apache-2.0", fields.Annotations["artifacthub.io/license"])
	assert.Contains(t, fields.Annotations["artifacthub.io/images"], "image: registry.example/berth/berth-console:v1.2.3\n")
	var listed []change
	require.NoError(t, yaml.Unmarshal([]byte(fields.Annotations["artifacthub.io/changes"]), &listed))
	assert.Equal(t, all, listed)
	_, err = withAnnotations([]byte("name: berth"), nil, o)
	assert.ErrorContains(t, err, "no annotations")
}

func TestChangesAreThoseOfTheVersion(t *testing.T) {
	const text = "# Changelog\n\n- no change\n\n## [Unreleased]\n\n### Added\n\n- **New** `thing`, which\n  [links](a.md) ([page](b.md)).\n\nNot a change.\n\n" +
		"## [0.1.0] - 2026-07-01\n\n### Fixed\n\n- A fault.\n- Another.\n"
	assert.Equal(t, []change{{"fixed", "A fault."}, {"fixed", "Another."}}, changes(text, "v0.1.0"))
	assert.Equal(t, []change{{"added", "New thing, which links."}}, changes(text, "v0.2.0"))
	assert.Empty(t, changes("", "v0.2.0"))
}

func archive(t *testing.T, at time.Time, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	for _, name := range names {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(name)), ModTime: at}))
		_, err := w.Write([]byte(name))
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(w.Close(), zipped.Close()))
	return b.Bytes()
}

func TestAnArchiveDependsOnItsFilesOnly(t *testing.T) {
	one, err := repack(archive(t, commit, "berth/a", "berth/Chart.yaml", "berth/b"), commit)
	require.NoError(t, err)
	other, err := repack(archive(t, commit.Add(time.Hour), "berth/b", "berth/a", "berth/Chart.yaml"), commit)
	require.NoError(t, err)
	assert.Equal(t, one, other)
	unzipped, err := gzip.NewReader(bytes.NewReader(one))
	require.NoError(t, err)
	var names []string
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		assert.Equal(t, h.Name, string(content))
		names = append(names, h.Name)
	}
	assert.Equal(t, []string{"berth/Chart.yaml", "berth/a", "berth/b"}, names)
	_, err = repack([]byte("no archive"), commit)
	assert.Error(t, err)
}

func TestTheManifestNamesTheImagesOfTheRelease(t *testing.T) {
	text, err := kustomization("../overlay", some(t))
	require.NoError(t, err)
	assert.Contains(t, string(text), `"resources":["../overlay"]`)
	assert.Contains(t, string(text), `{"name":"localhost/berth-scheduler","newName":"registry.example/berth/berth-scheduler","newTag":"v1.2.3"}`)
}

func TestSumsHaveEveryFile(t *testing.T) {
	o := some(t)
	require.NoError(t, write(filepath.Join(o.out, "b/c"), []byte("c")))
	require.NoError(t, write(filepath.Join(o.out, "a"), []byte("a")))
	for range 2 { // the file has no sum of its own
		require.NoError(t, writeSums(context.Background(), o))
		sums, err := os.ReadFile(filepath.Join(o.out, sumsFile))
		require.NoError(t, err)
		assert.Equal(t, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a\n"+
			"2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6  b/c\n", string(sums))
	}
}

func TestInvalidReleasesAreRefused(t *testing.T) {
	for want, change := range map[string]func(*options){
		"want a version such as v0.1.0": func(o *options) { o.version = "1.2.3" },
		"-registry is required":         func(o *options) { o.registry = "" },
		"-revision is required":         func(o *options) { o.revision = "" },
		"has no programs":               func(*options) {},
	} {
		o := some(t)
		change(&o)
		assert.ErrorContains(t, run(context.Background(), o), want)
	}
}
