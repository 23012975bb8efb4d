// SPDX-License-Identifier: Apache-2.0

// Command release completes out/release, to which hack/images has written the images and their programs: a list of the
// modules in each program (SPDX), the licences of these modules, the chart and install.yaml with the names of the images,
// and checksums: make release. The same commit, flags and Go version give the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

type options struct {
	// root is the repository, out the folder of the release.
	root, out string
	// version is vX.Y.Z, with a suffix or without.
	version string
	// registry is the first part of the images' names.
	registry string
	// revision is the commit, and date its time, which every file has as its own.
	revision string
	date     time.Time
	// helm and kubectl are paths of these programs.
	helm, kubectl string
}

func main() {
	var o options
	var date string
	flag.StringVar(&o.root, "root", ".", "The `folder` of the repository.")
	flag.StringVar(&o.out, "out", "out/release", "The `folder` of the release, which has the programs of hack/images -programs in programs/.")
	flag.StringVar(&o.version, "version", "", "The `version`, such as v0.1.0.")
	flag.StringVar(&o.registry, "registry", "", "The `registry` and, if any, the path in it: REGISTRY/berth-scheduler.")
	flag.StringVar(&o.revision, "revision", "", "The `commit`.")
	flag.StringVar(&date, "date", "", "The `time` of the commit, as in RFC 3339.")
	flag.StringVar(&o.helm, "helm", "helm", "The `path` of helm.")
	flag.StringVar(&o.kubectl, "kubectl", "kubectl", "The `path` of kubectl.")
	flag.Parse()
	var err error
	if o.date, err = time.Parse(time.RFC3339, date); err != nil {
		err = fmt.Errorf("-date: %w", err)
	} else {
		err = run(context.Background(), o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// semver is a version that Helm takes, with a v.
var semver = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func (o options) validate() error {
	switch {
	case !semver.MatchString(o.version):
		return fmt.Errorf("-version %q: want a version such as v0.1.0", o.version)
	case o.registry == "":
		return errors.New("-registry is required")
	case o.revision == "":
		return errors.New("-revision is required")
	}
	return nil
}

func run(ctx context.Context, o options) error {
	if err := o.validate(); err != nil {
		return err
	}
	o.date = o.date.UTC()
	for _, step := range []func(context.Context, options) error{writeModules, writeChart, writeManifest, writeSums} {
		if err := step(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program in the repository, and returns what it writes to stdout.
func command(ctx context.Context, o options, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = o.root
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w\n%s", err, failed.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", filepath.Base(name), args[0], err)
	}
	return out, nil
}

// write writes a file and the folders that it is in.
func write(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}
