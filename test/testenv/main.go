// SPDX-License-Identifier: Apache-2.0

// Package testenv is the real control plane that Berth's integration tests run
// against: one per test package, with a namespace and nodes of its own per test.
package testenv

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/hack/cluster"
)

// Profiles that Berth ships, relative to the repository.
const (
	SecondScheduler = "manifests/scheduler/second-scheduler.yaml"
	ReplaceDefault  = "manifests/scheduler/replace-default.yaml"
	GangsAndQuota   = "manifests/scheduler/gangs-and-quota.yaml"
)

// Race reports whether suites build Berth's programs with the race detector.
func Race() bool { return os.Getenv(cluster.RaceEnv) != "" }

// startTimeout covers a cold build of the control plane and of the scheduler, and the wait for the pool on a slow machine.
const startTimeout = 50 * time.Minute

// shared is what all tests of a package run against; set once by Main.
var shared struct {
	cluster *cluster.Cluster
	kube    kubernetes.Interface
	client  client.WithWatch
	// kubeconfig is the file of an administrator.
	kubeconfig string
	scheduler  *cluster.Scheduler
	binary     string
	// controller is the binary of the controller; built when a test needs it.
	controller string
}

// Options of a package's world.
type Options struct {
	// NoScheduler leaves it to the tests to start schedulers.
	NoScheduler bool
	// NoCRDs and NoRBAC leave the manifests to the tests.
	NoCRDs, NoRBAC bool
	// Profile is the scheduler's configuration; default SecondScheduler.
	Profile string
	// FeatureGates are those of kube-apiserver and kube-controller-manager; all API versions are then served.
	FeatureGates map[string]bool
	// Rights are compared with the audit log after all tests.
	Rights []Rights
	// MeasuresMemory is set where tests bound the memory of Berth's programs. They are built without the race detector, which
	// takes many times that memory, and collect garbage as they do by default, whatever the tests' own environment has.
	MeasuresMemory bool
	// Core are the tests that `go test -short` runs, as `make test` does: the suite's subject, in seconds. nil is all of them.
	Core []string
	// Fills is set where tests write so much that an API server keeps hundreds of megabytes in its watch caches for as long as it
	// lives, and collects garbage all the time. The pool does not lend it one: the suites that borrow it next would pay for that.
	Fills bool
}

// AfterCoreEnv is set where `make test` has run the core of the suites before, so that `make test-more` leaves it out.
const AfterCoreEnv = "BERTH_TEST_AFTER_CORE"

// Main starts the control plane and the scheduler, runs the package's tests and stops everything. Call it from TestMain:
// os.Exit(testenv.Main(m, testenv.Options{})).
func Main(m *testing.M, o Options) int {
	began := time.Now()
	defer func() {
		if err := cluster.WriteTimes(suite(), began); err != nil {
			fmt.Fprintln(os.Stderr, "write the processor times:", err)
		}
	}()
	log.SetLogger(logr.Discard()) // of the clients: they complain about none
	if err := setFlags(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := start(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "start the test cluster:", err)
		if shared.cluster != nil {
			shared.cluster.Stop()
		}
		return 1
	}
	defer shared.cluster.Stop()
	code := m.Run()
	if code == 0 && len(o.Rights) > 0 && wholePackage() {
		if err := checkRights(context.Background(), o.Rights); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if races := races(shared.cluster.LogDir()); len(races) > 0 {
		fmt.Fprintf(os.Stderr, "the race detector found in Berth's code:\n%s\n", strings.Join(races, "\n"))
		return 1
	}
	return code
}

func setFlags(o Options) error {
	flag.Parse()
	if name := selection(o); name != "" && len(o.Core) > 0 && wholePackage() {
		if err := flag.Set(name, "^("+strings.Join(o.Core, "|")+")$"); err != nil {
			return err
		}
	}
	// Tests that run in parallel wait for most of their time: all of them may begin, however few processors there are.
	return flag.Set("test.parallel", "32")
}

// selection is the flag of go test for the core of a suite, empty where all tests run. The rights of a program are compared with what
// all tests used, so that none of these is left out.
func selection(o Options) string {
	switch {
	case testing.Short():
		return "test.run"
	case os.Getenv(AfterCoreEnv) != "" && len(o.Rights) == 0:
		return "test.skip"
	}
	return ""
}

// suite returns the directory of the package under test, in which go test runs it, without those above that all suites share.
func suite() string {
	dir, err := os.Getwd()
	if err != nil {
		return err.Error()
	}
	return strings.TrimPrefix(strings.TrimPrefix(dir, Path("test")+"/"), "integration/")
}

// measureMemory sets the environment in which Berth's programs are built and started; the control plane has its own by then.
func measureMemory() error {
	return errors.Join(os.Unsetenv(cluster.RaceEnv), os.Unsetenv("GOGC"), os.Unsetenv("GOMEMLIMIT"))
}

// On runs the package's tests on a cluster that is there, with Berth installed: one of kind. Its nodes stay, and tests
// start no programs.
func On(m *testing.M, kubeconfig string) int {
	if err := connect(kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "connect to the cluster:", err)
		return 1
	}
	return m.Run()
}

func connect(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // no limit: tests poll
	if shared.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	shared.kubeconfig = kubeconfig
	shared.client, err = cluster.NewClient(config)
	return err
}

// races returns the reports of the race detector in the schedulers' logs that
// Berth's own code has a part in. The scheduler that it is built on has races
// of its own (the queue's nominator against pod updates, in 1.34.10), so a
// report alone neither ends the scheduler nor fails the tests.
func races(logs string) []string {
	files, _ := filepath.Glob(filepath.Join(logs, "*.log"))
	var found []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for report := range strings.SplitSeq(string(text), "==================\n") {
			if strings.HasPrefix(report, "WARNING: DATA RACE") && strings.Contains(report, "berth.dev/berth/") {
				found = append(found, report)
			}
		}
	}
	return found
}

// startCluster borrows a control plane, or starts one if the package needs one of its own.
func startCluster(ctx context.Context, o Options) (*cluster.Cluster, error) {
	if len(o.FeatureGates) == 0 && !o.Fills {
		return cluster.StartOrBorrow(ctx, os.Stderr)
	}
	return cluster.Start(ctx, cluster.Options{Out: os.Stderr, FeatureGates: o.FeatureGates})
}

func start(ctx context.Context, o Options) error {
	var err error
	shared.cluster, err = startCluster(ctx, o)
	if err != nil {
		return err
	}
	if o.MeasuresMemory {
		if err := measureMemory(); err != nil {
			return err
		}
	}
	shared.kube, shared.kubeconfig = shared.cluster.Client(), shared.cluster.KubeconfigPath()
	if shared.client, err = cluster.NewClient(shared.cluster.Config()); err != nil {
		return err
	}
	if !o.NoCRDs {
		if err := shared.cluster.ApplyFiles(ctx, Path("manifests/crds")); err != nil {
			return err
		}
	}
	if !o.NoRBAC {
		if err := shared.cluster.ApplyFiles(ctx, Path("manifests/rbac")); err != nil {
			return err
		}
	}
	if shared.binary, err = cluster.BuildScheduler(ctx, Path("."), os.Stderr, Race()); err != nil {
		return err
	}
	if o.NoScheduler {
		return nil
	}
	profile := o.Profile
	if profile == "" {
		profile = SecondScheduler
	}
	shared.scheduler, err = shared.cluster.StartScheduler(ctx, SchedulerOptions(profile))
	return err
}

// SchedulerOptions returns options that start Berth's scheduler with a profile,
// without leader election, so that a restarted one need not wait out its own
// dead lease.
func SchedulerOptions(profile string) cluster.ProgramOptions {
	off := false
	return cluster.ProgramOptions{
		Binary:         shared.binary,
		ConfigFile:     Path(profile),
		LeaderElection: &cluster.LeaderElection{Enabled: &off},
	}
}

// Path returns the path of a file of the repository.
func Path(relative string) string {
	root, err := cluster.RepoRoot()
	if err != nil {
		panic(err)
	}
	return filepath.Join(root, relative)
}

// ReadFile returns the text of a file.
func ReadFile(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// WriteFile writes a file of the test, and returns its path.
func WriteFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
