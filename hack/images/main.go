// SPDX-License-Identifier: Apache-2.0

// Command images builds the container images of berth-scheduler,
// berth-controller and berth-console: one static program and the certificate authorities of the
// web, no shell, no user but nonroot. It needs no container engine. The same
// source, flags and Go version give the same digests.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// programs are the images, and the packages of their programs.
var programs = []string{"berth-scheduler", "berth-controller", "berth-console"}

// gangs is the optional image of a program that is a module of its own.
const gangs = "berth-scheduler-gangs"

type options struct {
	// root is the repository.
	root string
	// out is where the tar files go.
	out string
	// registry is the first part of the images' names.
	registry string
	tag      string
	// revision and source are the commit and the address of the repository, for the labels of the images; empty for no label.
	revision string
	source   string
	// platforms are OS/ARCH. A tar file has one, an OCI layout and a registry may have several.
	platforms []string
	ldflags   string
	push      bool
	// layouts writes a folder in OCI's image layout for each image, in place of a tar file.
	layouts bool
	// programs is the folder for OS_ARCH/NAME: the programs of the images. Empty: they are not kept.
	programs string
	// gangs is the go.mod file that berth-scheduler-gangs is built with; empty for no image of it.
	gangs string
}

func main() {
	var o options
	var platforms string
	flag.StringVar(&o.root, "root", ".", "The `folder` of the repository.")
	flag.StringVar(&o.out, "out", "out/images",
		"The `folder` for NAME.tar, which docker load, kind load image-archive and ctr images import take.")
	flag.StringVar(&o.registry, "registry", "localhost", "The `registry` and, if any, the path in it: REGISTRY/berth-scheduler.")
	flag.StringVar(&o.tag, "tag", "", "The images' `tag`.")
	flag.StringVar(&o.revision, "revision", "", "The `commit` that the images are built from, for their labels.")
	flag.StringVar(&o.source, "source", "", "The `URL` of the repository, for the labels of the images.")
	flag.StringVar(&platforms, "platform", "linux/amd64", "`OS/ARCH`; with -push or -layouts several, separated by commas.")
	flag.StringVar(&o.ldflags, "ldflags", "", "`Flags` for the linker, in addition to -s -w.")
	flag.BoolVar(&o.push, "push", false, "Push the images to the registry, as the user that docker login has left.")
	flag.BoolVar(&o.layouts, "layouts", false, "Write folders NAME in OCI's image layout in place of NAME.tar.")
	flag.StringVar(&o.programs, "programs", "", "Keep the programs of the images in this `folder`, as OS_ARCH/NAME.")
	flag.StringVar(&o.gangs, "gangs", "",
		"Build an image of berth-scheduler-gangs as well, with this go.mod `file`: berth-cluster modfile cmd/berth-scheduler-gangs.")
	flag.Parse()
	o.platforms = strings.Split(platforms, ",")
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if o.tag == "" {
		return errors.New("-tag is required")
	}
	if len(o.platforms) > 1 && !o.push && !o.layouts {
		return fmt.Errorf("-platform %s: a tar file holds one platform; use -push or -layouts", strings.Join(o.platforms, ","))
	}
	built := programs
	if o.gangs != "" {
		built = append(slices.Clone(programs), gangs)
	}
	for _, program := range built {
		// weak: localhost and registries with a port are names as good as any.
		ref, err := name.NewTag(fmt.Sprintf("%s/%s:%s", o.registry, program, o.tag), name.WeakValidation)
		if err != nil {
			return err
		}
		images := map[string]v1.Image{}
		for _, platform := range o.platforms {
			if images[platform], err = build(o, program, platform); err != nil {
				return fmt.Errorf("%s for %s: %w", program, platform, err)
			}
		}
		if err := deliver(o, ref, images); err != nil {
			return fmt.Errorf("%s: %w", ref, err)
		}
	}
	return nil
}

// deliver writes the images of the platforms under one name: to a folder, to a registry, or the only one to a file.
func deliver(o options, ref name.Tag, images map[string]v1.Image) error {
	if o.layouts {
		if err := writeLayout(o, ref, images); err != nil {
			return err
		}
	}
	if o.push {
		return push(o, ref, images)
	}
	if o.layouts {
		return nil
	}
	image := images[o.platforms[0]]
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	file := filepath.Join(o.out, filepath.Base(ref.RepositoryStr())+".tar")
	if err := tarball.WriteToFile(file, ref, image); err != nil {
		return err
	}
	return say(file, ref, image)
}

// refName is the annotation of OCI for the name of an image in a layout.
const refName = "org.opencontainers.image.ref.name"

// writeLayout writes the images to a new folder in OCI's image layout: oras, skopeo, crane and ctr copy it to a registry.
func writeLayout(o options, ref name.Tag, images map[string]v1.Image) error {
	dir := filepath.Join(o.out, filepath.Base(ref.RepositoryStr()))
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	named := layout.WithAnnotations(map[string]string{refName: ref.TagStr()})
	if len(o.platforms) > 1 {
		index, err := indexOf(o, images)
		if err != nil {
			return err
		}
		if err := to.AppendIndex(index, named); err != nil {
			return err
		}
		digest, err := index.Digest()
		fmt.Printf("%s  %s  %s  %s\n", dir, ref, digest, strings.Join(o.platforms, ","))
		return err
	}
	p, err := v1.ParsePlatform(o.platforms[0])
	if err != nil {
		return err
	}
	image := images[o.platforms[0]]
	if err := to.AppendImage(image, named, layout.WithPlatform(*p)); err != nil {
		return err
	}
	return say(dir, ref, image)
}

func push(o options, ref name.Tag, images map[string]v1.Image) error {
	login := remote.WithAuthFromKeychain(authn.DefaultKeychain)
	if len(o.platforms) == 1 {
		image := images[o.platforms[0]]
		if err := remote.Write(ref, image, login); err != nil {
			return err
		}
		return say("pushed", ref, image)
	}
	index, err := indexOf(o, images)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(ref, index, login); err != nil {
		return err
	}
	digest, err := index.Digest()
	fmt.Printf("pushed  %s  %s  %s\n", ref, digest, strings.Join(o.platforms, ","))
	return err
}

func indexOf(o options, images map[string]v1.Image) (v1.ImageIndex, error) {
	var index v1.ImageIndex = empty.Index
	for _, platform := range o.platforms {
		p, err := v1.ParsePlatform(platform)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: images[platform], Descriptor: v1.Descriptor{Platform: p}})
	}
	return index, nil
}

func say(where string, ref name.Tag, image v1.Image) error {
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	size, err := unpacked(image)
	fmt.Printf("%s  %s  %s  %.1f MB\n", where, ref, digest, float64(size)/1e6)
	return err
}

func unpacked(image v1.Image) (size int64, err error) {
	layers, err := image.Layers()
	for _, layer := range layers {
		n, err := layer.Size()
		if err != nil {
			return 0, err
		}
		size += n
	}
	return size, err
}
