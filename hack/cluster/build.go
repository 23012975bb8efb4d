// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// kubeVersion is the version of the Kubernetes commands; controlplane/go.mod must require the same.
const kubeVersion = "v1.37.2"

// ServerEnv names a minor version of Kubernetes, such as "1.36", that the API server, the controller manager and the stock
// scheduler are of in place of ours: users upgrade Berth before or after those. etcd, kubectl and Berth stay what they are.
const ServerEnv = "BERTH_SERVER"

// servers are the versions that ServerEnv can name; server-<minor>/go.mod must require the same.
var servers = map[string]string{"1.35": "v1.35.4", "1.36": "v1.36.3"}

// Commands for Binary, beside the components.
const (
	// StockScheduler is the unchanged kube-scheduler.
	StockScheduler = "kube-scheduler"
	Kubectl        = "kubectl"
	Helm           = "helm"
	Kind           = "kind"
)

// source is where a command comes from: a package, built in one of the nested modules beside this file, with edits.
type source struct {
	module, pkg string
	edits       []edit
	// version of Kubernetes that the command reports as its own; default kubeVersion.
	version string
}

// sourceOf returns where a command comes from.
func sourceOf(name string) (source, error) {
	src, ok := sources[name]
	if !ok {
		return source{}, fmt.Errorf("build %s: not a command of the local cluster", name)
	}
	src.version = kubeVersion
	// The scheduler of a cluster is not newer than its API server: it would wait forever for kinds that are not served.
	if minor := os.Getenv(ServerEnv); minor != "" && slices.Contains([]string{APIServer, ControllerManager, StockScheduler}, name) {
		if src.version, ok = servers[minor]; !ok {
			return source{}, fmt.Errorf("%s=%s: not one of %s", ServerEnv, minor, strings.Join(slices.Sorted(maps.Keys(servers)), ", "))
		}
		src.module = "server-" + minor
	}
	return src, nil
}

var sources = map[string]source{
	Etcd:              {module: "controlplane", pkg: "go.etcd.io/etcd/server/v3"},
	APIServer:         {module: "controlplane", pkg: "k8s.io/kubernetes/cmd/kube-apiserver"},
	ControllerManager: {module: "controlplane", pkg: "k8s.io/kubernetes/cmd/kube-controller-manager"},
	StockScheduler:    {module: "controlplane", pkg: "k8s.io/kubernetes/cmd/kube-scheduler"},
	Kubectl:           {module: "controlplane", pkg: "k8s.io/kubernetes/cmd/kubectl"},
	Helm:              {module: "helm", pkg: "helm.sh/helm/v3/cmd/helm"},
	Kind:              {module: "kind", pkg: "sigs.k8s.io/kind"},
	KWOK:              {module: "kwok", pkg: kwokModule + "/cmd/kwok", edits: kwokEdits},
	KarpenterBinary:   {module: "karpenter", pkg: karpenterModule + "/kwok", edits: karpenterEdits},
	LWS:               {module: "lws", pkg: lwsModule + "/cmd"},
	JobSet:            {module: "jobset", pkg: jobSetModule},
	PrometheusBinary:  {module: "prometheus", pkg: prometheusModule + "/cmd/prometheus", edits: prometheusEdits},

	EvictionControllers: {module: "evictions", pkg: "."},
}

// Binary returns the path of a command (a component's name, StockScheduler, Kubectl, Helm, Kind, KarpenterBinary, LWS, JobSet,
// PrometheusBinary or EvictionControllers). One that is in KUBEBUILDER_ASSETS is taken from there, another one is built once and kept in
// the cache.
func Binary(ctx context.Context, out io.Writer, name string) (string, error) {
	if path := asset(name); path != "" {
		return path, nil
	}
	return built(ctx, out, name)
}

// asset returns the path of a command in KUBEBUILDER_ASSETS, "" if it is not there.
func asset(name string) string {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" && exists(filepath.Join(assets, name)) {
		return filepath.Join(assets, name)
	}
	return ""
}

// located is a command of the local cluster with the folder of its module, and its path in the cache.
type located struct {
	source
	dir, path string
}

func locate(name string) (c located, err error) {
	if c.source, err = sourceOf(name); err != nil {
		return c, err
	}
	here, err := sourceDir()
	if err != nil {
		return c, err
	}
	c.dir = filepath.Join(here, c.module)
	key, err := moduleKey(c.dir, c.source)
	if err != nil {
		return c, fmt.Errorf("build %s: %w", name, err)
	}
	cache, err := CacheDir()
	c.path = filepath.Join(cache, "controlplane", key, name)
	return c, err
}

// built returns a command from the cache. A build waits for any other process that builds the same one.
func built(ctx context.Context, out io.Writer, name string) (string, error) {
	c, err := locate(name)
	if err != nil || exists(c.path) {
		return c.path, err
	}
	lock, err := lockFile(ctx, c.path+".lock")
	if err != nil {
		return "", err
	}
	defer lock.unlock()
	if exists(c.path) {
		return c.path, nil
	}
	partial := c.path + ".partial"
	packed := filepath.Join("controlplane", filepath.Base(filepath.Dir(c.path)), name)
	found, err := unpackPrebuilt(out, filepath.Join(c.dir, "..", "..", ".."), packed, partial)
	if err == nil && !found {
		err = build(ctx, out, name, c, partial)
	}
	if err != nil {
		return "", err
	}
	return c.path, os.Rename(partial, c.path)
}

// build builds a command to a file.
func build(ctx context.Context, out io.Writer, name string, c located, file string) error {
	args := append(slices.Clone(BuildArgs), "-ldflags="+ldflags(c.version), "-o", file)
	if len(c.edits) > 0 {
		dir, err := os.MkdirTemp("", "berth-build-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		flag, err := editedModules(ctx, c.dir, dir, c.edits)
		if err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
		args = append(args, flag)
	}
	return GoCommand(ctx, out, name, c.dir, []string{"CGO_ENABLED=0", newerGo}, append(args, c.pkg)...)
}

// newerGo lets the go command run the version of Go that a nested module requires, if it is newer than ours, whatever the
// environment allows. The toolchain line of the module's go.mod file names that version, as Karpenter's does.
const newerGo = "GOTOOLCHAIN=auto"

// BuildTags are what all programs are built with. grpcnotrace leaves gRPC's trace pages out, and with them
// html/template: a program in which a template can be executed keeps every method of every type.
const BuildTags = "grpcnotrace"

// BuildArgs are those of each build, of the control plane and of Berth: packages that both have are compiled once, as long as both
// go.mod files have the same versions (test/layout), and by the tests as well (Makefile).
var BuildArgs = []string{"build", "-trimpath", "-tags=" + BuildTags}

// BuildScheduler builds ./cmd/berth-scheduler of the repository into the cache and returns its path. It is quick when
// nothing changed.
func BuildScheduler(ctx context.Context, repoRoot string, out io.Writer, race bool) (string, error) {
	return buildCommand(ctx, repoRoot, out, SchedulerProgram, race)
}

// BuildController builds ./cmd/berth-controller, as BuildScheduler does the scheduler.
func BuildController(ctx context.Context, repoRoot string, out io.Writer, race bool) (string, error) {
	return buildCommand(ctx, repoRoot, out, ControllerProgram, race)
}

// BuildConsole builds ./cmd/berth-console, as BuildScheduler does the scheduler.
func BuildConsole(ctx context.Context, repoRoot string, out io.Writer, race bool) (string, error) {
	return buildCommand(ctx, repoRoot, out, ConsoleProgram, race)
}

// inputsEnv has a hash of the sources of the programs (hack/inputs.sh). go test runs a cached test again when a variable that the
// test has read changes.
const inputsEnv = "BERTH_INPUTS"

// RaceEnv makes the suites, when it is set, build Berth's programs with the race detector: make test-race-integration.
const RaceEnv = "BERTH_TEST_RACE"

// BuiltEnv lists programs of Berth that were built just now, for all suites of a run: whether one is up to date takes the go command
// a second to find out.
const BuiltEnv = "BERTH_BUILT"

func buildCommand(ctx context.Context, repoRoot string, out io.Writer, name string, race bool) (string, error) {
	root, err := filepath.Abs(repoRoot)
	if err != nil {
		return "", err
	}
	return buildCommandIn(ctx, root, out, name, race, "./cmd/"+name)
}

// buildCommandIn builds a program of the module in a folder. The last of the arguments is its package.
func buildCommandIn(ctx context.Context, module string, out io.Writer, name string, race bool, last ...string) (string, error) {
	_ = os.Getenv(inputsEnv)
	path, err := commandPath(module, name, race)
	if err != nil {
		return "", err
	}
	args, env := slices.Clone(BuildArgs), []string{"CGO_ENABLED=0"}
	if race {
		args, env = append(args, "-race"), []string{"CGO_ENABLED=1"}
	}
	if slices.Contains(filepath.SplitList(os.Getenv(BuiltEnv)), path) {
		return path, nil
	}
	lock, err := lockFile(ctx, path+".lock")
	if err != nil {
		return "", err
	}
	defer lock.unlock()
	// Straight to its place: the go command then sees that an unchanged one is up to date and does not link again.
	return path, GoCommand(ctx, out, filepath.Base(path), module, env, append(append(args, "-o", path), last...)...)
}

// commandPath returns where a program of the module in a folder is built. Work trees have a binary each.
func commandPath(module, name string, race bool) (string, error) {
	cache, err := CacheDir()
	if race {
		name += "-race"
	}
	return filepath.Join(cache, "bin", ShortHash(module), name), err
}

// RepoRoot returns the root of the repository that this package was built from.
func RepoRoot() (string, error) {
	here, err := sourceDir()
	if err != nil {
		return "", err
	}
	return filepath.Dir(filepath.Dir(here)), nil
}

// sourceDir finds this package's source: where it was compiled or, if that path is not here (-trimpath, a moved tree),
// below the working directory or one above it.
func sourceDir() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	if dir := filepath.Dir(file); exists(filepath.Join(dir, "controlplane", "go.mod")) {
		return dir, nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		here := filepath.Join(dir, "hack", "cluster")
		if exists(filepath.Join(here, "controlplane", "go.mod")) {
			return here, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find hack/cluster above %s: run this inside the Berth repository", wd)
		}
	}
}

// CacheDir returns $BERTH_CACHE, or berth in the user's cache directory.
func CacheDir() (string, error) {
	if dir := os.Getenv("BERTH_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "berth"), nil
}

// moduleKey names a set of builds: all versions (go.mod, go.sum), the program of the module if it has one, the Go version, the platform,
// the flags, the tags and the edits.
func moduleKey(module string, src source) (string, error) {
	h := sha256.New()
	files := []string{"go.mod", "go.sum"}
	if src.pkg == "." {
		files = append(files, "main.go")
	}
	for _, name := range files {
		b, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		h.Write(b)
	}
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH, BuildArgs, ldflags(src.version))
	for _, e := range src.edits {
		fmt.Fprintf(h, "%q\n", e)
	}
	return filepath.Base(module) + "-" + hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// ldflags sets the version that the Kubernetes commands report; clients cannot parse the default. Linker flags leave the
// build cache shared with plain builds.
func ldflags(version string) string {
	major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	values := []string{
		"gitVersion=" + version, "gitMajor=" + major, "gitMinor=" + minor,
		"gitCommit=" + version, "gitTreeState=clean", "buildDate=1970-01-01T00:00:00Z",
	}
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, v := range values {
			flags = append(flags, "-X="+pkg+"."+v)
		}
	}
	return strings.Join(flags, " ")
}

// GoCommand runs the go command and reports progress; its output is shown when it fails.
func GoCommand(ctx context.Context, out io.Writer, what, dir string, env []string, args ...string) error {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &output, &output
	// A workspace file or a target platform around us must not reach these builds.
	cmd.Env = append(os.Environ(), append(env, "GOWORK=off", "GOOS=", "GOARCH=")...)
	done := reportProgress(out, what, 0)
	err := cmd.Run()
	done(err)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("build %s: %w\n%s", what, err, output.String())
	}
	return nil
}

// ShortHash returns a short name for a string, such as a path.
func ShortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
