// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// nonroot is the user that distroless images and the manifests name as well.
	nonroot = "65532:65532"
	// Where crypto/x509 looks first on Linux.
	authorities = "etc/ssl/certs/ca-certificates.crt"
)

// build makes the image of a program for a platform.
func build(o options, program, platform string) (v1.Image, error) {
	p, err := v1.ParsePlatform(platform)
	if err != nil {
		return nil, err
	}
	binary, err := compile(o, program, p)
	if err != nil {
		return nil, err
	}
	// The authorities change seldom: a layer of their own is fetched once.
	roots, err := layer(authorities, 0o444, webRoots())
	if err != nil {
		return nil, err
	}
	code, err := layer(program, 0o555, binary)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, roots, code)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = p.OS, p.Architecture, p.Variant
	file.Config = v1.Config{
		User:       nonroot,
		Entrypoint: []string{"/" + program},
		Env:        []string{"PATH=/", "SSL_CERT_FILE=/" + authorities},
		Labels:     labels(o, program),
	}
	return mutate.ConfigFile(image, file)
}

// labels are those of OCI for the program and where it is from.
func labels(o options, program string) map[string]string {
	all := map[string]string{"title": program, "version": o.tag, "licenses": "Apache-2.0", "revision": o.revision, "source": o.source}
	labels := map[string]string{}
	for key, value := range all {
		if value != "" {
			labels["org.opencontainers.image."+key] = value
		}
	}
	return labels
}

// compile builds the program statically and returns it.
func compile(o options, program string, p *v1.Platform) ([]byte, error) {
	dir, err := os.MkdirTemp("", "berth-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if o.programs != "" {
		dir = filepath.Join(o.programs, p.OS+"_"+p.Architecture+p.Variant)
	}
	file := filepath.Join(dir, program)
	// grpcnotrace: hack/cluster.BuildTags.
	cmd := exec.Command("go", "build", "-trimpath", "-tags=grpcnotrace", "-ldflags=-s -w "+o.ldflags, "-o", file)
	if program == gangs {
		cmd.Dir, cmd.Args = filepath.Join(o.root, "cmd", program), append(cmd.Args, "-modfile="+o.gangs, ".")
	} else {
		cmd.Dir, cmd.Args = o.root, append(cmd.Args, "./cmd/"+program)
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly", "GOOS="+p.OS, "GOARCH="+p.Architecture)
	if p.Architecture == "arm" {
		cmd.Env = append(cmd.Env, "GOARM="+strings.TrimPrefix(p.Variant, "v"))
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, output)
	}
	return os.ReadFile(file)
}

// layer is a layer with one file, its folders, and no times.
func layer(file string, mode int64, content []byte) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	var folders []string
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		folders = append([]string{dir}, folders...)
	}
	for _, dir := range folders {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
			return nil, err
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: mode, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// webRoots are the authorities that Mozilla trusts without conditions, as PEM.
// One with a condition, which this format cannot express, is left out.
func webRoots() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return b.Bytes()
}
