// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"crypto/x509"
	"debug/elf"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// repository is a folder that has programs of the names that Berth's have, and
// that compile in a second.
func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{"go.mod": "module example.org/small\n\ngo 1.26\n"}
	for _, p := range programs {
		files["cmd/"+p+"/main.go"] = "package main\n\nvar who = \"nobody\"\n\nfunc main() { println(who) }\n"
	}
	for file, text := range files {
		file = filepath.Join(root, file)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return root
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// some are options that are fine.
func some(t *testing.T) options {
	return options{root: repository(t), out: t.TempDir(), registry: "localhost", tag: "v1", platforms: []string{"linux/amd64"}, ldflags: "-X main.who=me"}
}

// files are what an image has, unpacked.
func files(t *testing.T, image v1.Image) map[string][]byte {
	t.Helper()
	unpacked := mutate.Extract(image)
	defer unpacked.Close()
	all := map[string][]byte{}
	for r := tar.NewReader(unpacked); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if h.Mode&0o222 != 0 {
			t.Errorf("%s can be written: %o", h.Name, h.Mode)
		}
		all[h.Name], err = io.ReadAll(r)
		must(t, err)
	}
}

func TestAnImageIsAStaticProgramAndAuthorities(t *testing.T) {
	o := some(t)
	must(t, run(o))
	for _, program := range programs {
		ref, err := name.NewTag("localhost/"+program+":v1", name.WeakValidation)
		must(t, err)
		image, err := tarball.ImageFromPath(filepath.Join(o.out, program+".tar"), &ref)
		must(t, err)
		all := files(t, image)
		var names []string
		for file := range all {
			names = append(names, file)
		}
		slices.Sort(names)
		if want := []string{program, authorities}; !slices.Equal(names, want) {
			t.Fatalf("%s has %q, and should have %q: no shell, nothing else", program, names, want)
		}
		binary, err := elf.NewFile(strings.NewReader(string(all[program])))
		must(t, err)
		if libraries, _ := binary.ImportedLibraries(); len(libraries) > 0 {
			t.Errorf("%s needs %q", program, libraries)
		}
		if !strings.Contains(string(all[program]), "me") {
			t.Error("the linker's flags are those that were given")
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(all[authorities]) || len(pool.Subjects()) < 50 { //nolint:staticcheck // not the system's pool
			t.Error("the authorities of the web are there")
		}
		config, err := image.ConfigFile()
		must(t, err)
		if c := config.Config; c.User != nonroot || !slices.Equal(c.Entrypoint, []string{"/" + program}) || c.Labels["org.opencontainers.image.version"] != "v1" {
			t.Errorf("configuration of %s: %+v", program, c)
		}
		if config.OS != "linux" || config.Architecture != "amd64" {
			t.Errorf("platform of %s: %s/%s", program, config.OS, config.Architecture)
		}
	}
}

func TestTheProgramOfAnotherModuleHasAnImageOnRequest(t *testing.T) {
	o := some(t)
	module := filepath.Join(o.root, "cmd", gangs)
	must(t, os.MkdirAll(module, 0o755))
	// Without the edited file it does not compile.
	must(t, os.WriteFile(filepath.Join(module, "go.mod"), []byte("module example.org/gangs\n\ngo 1.0\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(module, "main.go"), []byte("package main\n\nfunc main() { print(min(1, 2)) }\n"), 0o600))
	o.gangs = filepath.Join(t.TempDir(), "go.mod")
	must(t, os.WriteFile(o.gangs, []byte("module example.org/gangs\n\ngo 1.26\n"), 0o600))
	must(t, run(o))
	ref, err := name.NewTag("localhost/"+gangs+":v1", name.WeakValidation)
	must(t, err)
	image, err := tarball.ImageFromPath(filepath.Join(o.out, gangs+".tar"), &ref)
	must(t, err)
	if all := files(t, image); len(all[gangs]) == 0 {
		t.Error("the image has no program")
	}
}

func TestTheSameSourceGivesTheSameDigest(t *testing.T) {
	o := some(t)
	var digests []string
	for range 2 {
		image, err := build(o, programs[0], "linux/amd64")
		must(t, err)
		digest, err := image.Digest()
		must(t, err)
		digests = append(digests, digest.String())
	}
	if digests[0] != digests[1] {
		t.Error(digests)
	}
}

func TestALayoutHasTheImagesWithTheirLabels(t *testing.T) {
	for _, platforms := range [][]string{{"linux/amd64"}, {"linux/amd64", "linux/arm64"}} {
		o := some(t)
		o.layouts, o.platforms, o.programs, o.revision, o.source = true, platforms, t.TempDir(), "4711", "https://git.example/berth"
		must(t, run(o))
		must(t, run(o)) // an old layout is replaced
		dir := filepath.Join(o.out, programs[0])
		index, err := layout.ImageIndexFromPath(dir)
		must(t, err)
		manifest, err := index.IndexManifest()
		must(t, err)
		if len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations[refName] != "v1" {
			t.Fatalf("%s has %+v", dir, manifest.Manifests)
		}
		if len(platforms) > 1 {
			index, err = index.ImageIndex(manifest.Manifests[0].Digest)
			must(t, err)
			manifest, err = index.IndexManifest()
			must(t, err)
		}
		for i, platform := range platforms {
			if got := manifest.Manifests[i].Platform.String(); got != platform {
				t.Errorf("want %s, got %s", platform, got)
			}
			image, err := index.Image(manifest.Manifests[i].Digest)
			must(t, err)
			if kind, err := image.MediaType(); err != nil || kind != types.OCIManifestSchema1 {
				t.Errorf("the image is of type %s (%v)", kind, err)
			}
			config, err := image.ConfigFile()
			must(t, err)
			for key, want := range map[string]string{"revision": o.revision, "source": o.source, "version": "v1", "licenses": "Apache-2.0", "title": programs[0]} {
				if got := config.Config.Labels["org.opencontainers.image."+key]; got != want {
					t.Errorf("label %s is %q, want %q", key, got, want)
				}
			}
			kept, err := os.ReadFile(filepath.Join(o.programs, strings.ReplaceAll(platform, "/", "_"), programs[0]))
			must(t, err)
			if !slices.Equal(kept, files(t, image)[programs[0]]) {
				t.Error("the program that is kept is not that of the image")
			}
		}
	}
}

func TestImagesOfSeveralPlatformsArePushedUnderOneName(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	o := some(t)
	o.registry, o.push, o.platforms = strings.TrimPrefix(server.URL, "http://")+"/berth", true, []string{"linux/amd64", "linux/arm64"}
	must(t, run(o))
	for _, program := range programs {
		ref, err := name.ParseReference(o.registry+"/"+program+":v1", name.WeakValidation)
		must(t, err)
		index, err := remote.Index(ref)
		must(t, err)
		manifest, err := index.IndexManifest()
		must(t, err)
		var platforms []string
		for _, m := range manifest.Manifests {
			platforms = append(platforms, m.Platform.String())
		}
		if !slices.Equal(platforms, o.platforms) {
			t.Errorf("%s is there for %q", program, platforms)
		}
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for want, change := range map[string]func(*options){
		"-tag is required":            func(o *options) { o.tag = "" },
		"holds one platform":          func(o *options) { o.platforms = []string{"linux/amd64", "linux/arm64"} },
		"repository can only contain": func(o *options) { o.registry = "Not A Registry" },
		"unsupported GOOS/GOARCH":     func(o *options) { o.platforms = []string{"plan10/amd64"} },
		"cannot find module": func(o *options) {
			must(t, os.WriteFile(filepath.Join(o.root, "cmd", programs[0], "main.go"), []byte("package main\n\nimport _ \"example.org/absent\"\n\nfunc main() {}\n"), 0o600))
		},
	} {
		o := some(t)
		change(&o)
		if err := run(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
