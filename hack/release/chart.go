// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// images are the programs whose images the release has, and the chart names.
var images = []string{"berth-scheduler", "berth-controller", "berth-console", "berth-scheduler-gangs"}

// writeChart packages the chart with the version, and the registry as the default of its images.
func writeChart(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "berth-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	chart := filepath.Join(dir, "berth")
	if err := os.CopyFS(chart, os.DirFS(filepath.Join(o.root, "manifests/chart"))); err != nil {
		return err
	}
	changelog, err := os.ReadFile(filepath.Join(o.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	err = errors.Join(
		edit(filepath.Join(chart, "values.yaml"), func(text []byte) ([]byte, error) { return withRegistry(text, o.registry) }),
		edit(filepath.Join(chart, "README.md"), func(text []byte) ([]byte, error) { return withDefault(text, o.registry) }),
		edit(filepath.Join(chart, "Chart.yaml"), func(text []byte) ([]byte, error) {
			return withAnnotations(text, changes(string(changelog), o.version), o)
		}),
	)
	if err != nil {
		return err
	}
	number := strings.TrimPrefix(o.version, "v")
	_, err = command(ctx, o, o.helm, "package", chart, "--version", number, "--app-version", o.version, "--destination", dir)
	if err != nil {
		return err
	}
	name := "berth-" + number + ".tgz"
	archive, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if archive, err = repack(archive, o.date); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return write(filepath.Join(o.out, name), archive)
}

func edit(file string, change func([]byte) ([]byte, error)) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if text, err = change(text); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return os.WriteFile(file, text, 0o644)
}

// withRegistry changes the default registry of values, and keeps their comments.
func withRegistry(values []byte, registry string) ([]byte, error) {
	const line = "\n  registry: localhost\n"
	if n := bytes.Count(values, []byte(line)); n != 1 {
		return nil, fmt.Errorf("want one line %q, found %d", strings.TrimSpace(line), n)
	}
	return bytes.Replace(values, []byte(line), fmt.Appendf(nil, "\n  registry: %q\n", registry), 1), nil
}

// withDefault changes the default registry in the table of values.
func withDefault(readme []byte, registry string) ([]byte, error) {
	const row = "| `image.registry` | `localhost` |"
	if !bytes.Contains(readme, []byte(row)) {
		return nil, fmt.Errorf("no row %q", row)
	}
	return bytes.Replace(readme, []byte(row), fmt.Appendf(nil, "| `image.registry` | `%s` |", registry), 1), nil
}

// change is an entry of Artifact Hub's annotation artifacthub.io/changes.
type change struct {
	Kind        string `json:"kind"`
	Description string `json:"description"`
}

// section is how the changes of a version begin.
var section = regexp.MustCompile(`(?m)^## \[(.+?)\].*$`)

// changes returns the items of a version of CHANGELOG.md, or else of what is not released yet.
func changes(changelog, version string) []change {
	found := section.FindAllStringSubmatchIndex(changelog, -1)
	texts := map[string]string{}
	for i, s := range found {
		end := len(changelog)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		texts[strings.TrimPrefix(changelog[s[2]:s[3]], "v")] = changelog[s[1]:end]
	}
	text, released := texts[strings.TrimPrefix(version, "v")]
	if !released {
		text = texts["Unreleased"]
	}
	return items(text)
}

// items returns the items of lists below headings, each as plain text on one line.
func items(text string) (all []change) {
	kind, open := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		switch {
		case strings.HasPrefix(line, "### "):
			kind, open = strings.ToLower(strings.TrimPrefix(line, "### ")), false
		case strings.HasPrefix(line, "- ") && kind != "":
			all, open = append(all, change{kind, strings.TrimPrefix(line, "- ")}), true
		case open && strings.HasPrefix(line, "  "):
			all[len(all)-1].Description += " " + strings.TrimSpace(line)
		default:
			open = false
		}
	}
	for i := range all {
		all[i].Description = plain(all[i].Description)
	}
	return all
}

var (
	markup = strings.NewReplacer("**", "", "`", "")
	// links are removed with their parentheses: their pages are not in the chart.
	links = regexp.MustCompile(` \(\[[^\]]*\]\([^)]*\)\)`)
	link  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

func plain(text string) string {
	return markup.Replace(link.ReplaceAllString(links.ReplaceAllString(text, ""), "$1"))
}

// withAnnotations adds to Chart.yaml what only a release has.
func withAnnotations(chart []byte, changes []change, o options) ([]byte, error) {
	var fields map[string]any
	if err := yaml.Unmarshal(chart, &fields); err != nil {
		return nil, err
	}
	annotations, ok := fields["annotations"].(map[string]any)
	if !ok {
		return nil, errors.New("no annotations")
	}
	type image struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	}
	var list []image
	for _, name := range images {
		list = append(list, image{name, o.registry + "/" + name + ":" + o.version})
	}
	for name, value := range map[string]any{"changes": changes, "images": list} {
		text, err := yaml.Marshal(value)
		if err != nil {
			return nil, err
		}
		annotations["artifacthub.io/"+name] = string(text)
	}
	annotations["artifacthub.io/prerelease"] = fmt.Sprint(strings.Contains(o.version, "-"))
	return yaml.Marshal(fields)
}

// repack writes an archive again, with its files in order and of one time: helm package writes the time of day.
func repack(archive []byte, at time.Time) ([]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	contents := map[string][]byte{}
	var names []string
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if contents[h.Name], err = io.ReadAll(r); err != nil {
			return nil, err
		}
		names = append(names, h.Name)
	}
	// Helm requires no order but reads Chart.yaml first where it streams.
	slices.SortFunc(names, func(a, b string) int {
		if first := strings.HasSuffix(a, "/Chart.yaml"); first != strings.HasSuffix(b, "/Chart.yaml") {
			return map[bool]int{true: -1, false: 1}[first]
		}
		return strings.Compare(a, b)
	})
	var packed bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(zipped)
	for _, name := range names {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(contents[name])), ModTime: at}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(contents[name]); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// writeManifest renders install.yaml: the overlay second-scheduler, with the images of the registry.
func writeManifest(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp(o.out, "kustomize-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := filepath.Abs(filepath.Join(o.root, "manifests/overlays/second-scheduler"))
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	base, err := filepath.Rel(dir, overlay)
	if err != nil {
		return err
	}
	text, err := kustomization(base, o)
	if err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "kustomization.yaml"), text); err != nil {
		return err
	}
	out, err := command(ctx, o, o.kubectl, "kustomize", dir)
	if err != nil {
		return err
	}
	head := fmt.Sprintf("# SPDX-License-Identifier: Apache-2.0\n# Berth %s: manifests/overlays/second-scheduler of commit %s.\n", o.version, o.revision)
	return write(filepath.Join(o.out, "install.yaml"), append([]byte(head), out...))
}

// kustomization names the images of the release in an overlay.
func kustomization(base string, o options) ([]byte, error) {
	type image struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	}
	var list []image
	for _, name := range images {
		list = append(list, image{"localhost/" + name, o.registry + "/" + name, o.version})
	}
	// JSON is YAML.
	return json.Marshal(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": []string{filepath.ToSlash(base)}, "images": list,
	})
}
