// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedconfig "k8s.io/kube-scheduler/config/v1"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/test/perf/bench"
)

// envSpec passes to the benchmark, in the process of a peer, what to do.
const envSpec = "BERTH_UPSTREAM_SPEC"

// spec is what the process of a peer needs beside the configuration.
type spec struct {
	// CRDs are the files of the definitions that the plugins watch.
	CRDs []string
	// Mixes are the namespaces with a CapacityMix, as prefixes with their number.
	Mixes map[string]int
	// Gangs is the number of PodGroups.
	Gangs int
	// Replaces: pods are deleted on the way.
	Replaces bool
	// Out is the file for what was recorded.
	Out string
}

// runner runs peers.
type runner struct {
	// module is this module's folder, repository Berth's.
	module, repository string
	// etcd is the folder of the command, as scheduler_perf looks for it on PATH.
	etcd string
	// gangs is the definition of PodGroup.
	gangs string
	// modules is the module cache.
	modules string
}

// run measures one peer with a workload, in a process of its own.
func (r *runner) run(ctx context.Context, w workload, name string) (bench.Values, error) {
	p := peers[name]
	dir, err := os.MkdirTemp("", "berth-upstream-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := layOut(r.module, dir, p); err != nil {
		return nil, err
	}
	s := r.spec(w, p, filepath.Join(dir, "recorded.json"))
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	items := filepath.Join(dir, "items")
	began := time.Now()
	out, err := r.benchmark(ctx, dir, w, []string{"-data-items-dir=" + items}, envSpec+"="+string(text))
	if err != nil && !leavesOnly(out, p.leaves) {
		return nil, fmt.Errorf("%s/%s: %w\n%s", w.test, w.size, err, tail(out, 60))
	}
	v, err := recorded(s.Out)
	if err != nil {
		return nil, err
	}
	if w.mixes == nil { // no pod was to have a mix
		maps.DeleteFunc(v, func(name string, _ float64) bool { return strings.HasPrefix(name, "mix_error") })
	}
	v["run_s"] = time.Since(began).Seconds()
	return v, addItems(v, items)
}

// spec is what the process of a peer does with a workload.
func (r *runner) spec(w workload, p peer, out string) spec {
	s := spec{Replaces: w.replaces, Out: out}
	switch {
	case p.sample > 0:
		s.Mixes = w.mixes
		s.CRDs = []string{
			filepath.Join(r.repository, "manifests/crds/berth.dev_capacitymixes.yaml"),
			filepath.Join(r.repository, "manifests/crds/berth.dev_resourcelimits.yaml"),
			filepath.Join(r.repository, "manifests/crds/berth.dev_schedulingpolicies.yaml"),
			filepath.Join(r.repository, "manifests/crds/berth.dev_reservations.yaml"),
		}
	case p.gangs:
		s.CRDs, s.Gangs = []string{r.gangs}, int(w.at["pods"])/podsPerGang
	}
	return s
}

// layOut puts a configuration together: what all peers share, and the profile and the pods of one.
func layOut(module, dir string, p peer) error {
	config := filepath.Join(module, "config")
	files := map[string]string{
		"performance-config.yaml": "performance-config.yaml",
		"templates":               "templates",
		"pods/" + p.pod + ".yaml": "pod.yaml",
	}
	if p.sample > 0 {
		if err := writeShipped(module, filepath.Join(dir, "scheduler.yaml"), p.sample); err != nil {
			return err
		}
	} else {
		files["profiles/"+p.profile+".yaml"] = "scheduler.yaml"
	}
	for from, to := range files {
		from = filepath.Join(config, from)
		if _, err := os.Stat(from); err != nil {
			return err
		}
		if err := os.Symlink(from, filepath.Join(dir, to)); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) benchmark(ctx context.Context, dir string, w workload, args []string, env ...string) (output string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	logs := filepath.Join(dir, "logs")
	if err := os.Mkdir(logs, 0o700); err != nil {
		return "", err
	}
	args = append([]string{
		"-test.run=^$", "-test.benchtime=1ns", "-test.timeout=25m",
		fmt.Sprintf("-test.bench=^BenchmarkScheduling$/^%s$/^%s$", w.test, w.size),
	}, args...)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append(env, "PATH="+r.etcd+string(os.PathListSeparator)+os.Getenv("PATH"), "ARTIFACTS="+logs,
		// Built with -trimpath, the test API server finds its own directory by these.
		"TEST_SRCDIR="+filepath.Dir(r.modules), "TEST_WORKSPACE="+filepath.Base(r.modules), bench.EnvDepth+"=")...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// A process that gets SIGINT ends its etcd as well.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	return out.String(), err
}

var leftGoroutine = regexp.MustCompile(`Goroutine \d+ in state .*`)

// leavesOnly reports whether a run failed for nothing but goroutines that were
// to be expected. A run that failed before its end has no results, which addItems finds.
func leavesOnly(output, expected string) bool {
	left := leftGoroutine.FindAllString(output, -1)
	return expected != "" && len(left) > 0 &&
		!slices.ContainsFunc(left, func(line string) bool { return !strings.Contains(line, expected) })
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func recorded(file string) (bench.Values, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	v := bench.Values{}
	return v, json.Unmarshal(text, &v)
}

// addItems adds what scheduler_perf itself measured. Its latencies are in
// milliseconds and those of all pods, also of such that were there before.
func addItems(v bench.Values, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	if len(files) != 1 {
		return fmt.Errorf("%s has %d results, not one", dir, len(files))
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	var items perf.DataItems
	if err := json.Unmarshal(text, &items); err != nil {
		return err
	}
	if len(items.DataItems) == 0 {
		return fmt.Errorf("%s is empty: the run failed before its end", files[0])
	}
	for _, item := range items.DataItems {
		add(v, item)
	}
	return nil
}

func add(v bench.Values, item perf.DataItem) {
	switch item.Labels["Metric"] {
	case "SchedulingThroughput":
		v["upstream_pods_per_s"] = item.Data["Average"]
	case "scheduler_scheduling_attempt_duration_seconds":
		if item.Labels["result"] == "scheduled" {
			v["attempt_p50_ms"], v["attempt_p99_ms"] = item.Data["Perc50"], item.Data["Perc99"]
		}
	case "scheduler_scheduling_algorithm_duration_seconds":
		v["algorithm_mean_ms"] = item.Data["Average"]
	case "scheduler_framework_extension_point_duration_seconds":
		v[strings.ToLower(item.Labels["extension_point"])+"_mean_ms"] = item.Data["Average"]
	case "heap_memory_usage":
		v["heap_max_mb"] = item.Data["Max"]
	}
}

// parallelism of the scheduler, the same for every peer.
const parallelism = 16

// manifest is the profile that Berth ships, from this module's folder.
const manifest = "../../../manifests/scheduler/second-scheduler.yaml"

// writeShipped writes Berth's profile as the other peers have theirs: under the
// name that scheduler_perf counts, with the recorder, with no settings of its
// own but its plugins. A pod is tried on a sample of so many nodes first.
func writeShipped(module, to string, sample int) error {
	text, err := os.ReadFile(filepath.Join(module, manifest))
	if err != nil {
		return err
	}
	var shipped schedconfig.KubeSchedulerConfiguration
	if err := yaml.UnmarshalStrict(text, &shipped); err != nil {
		return fmt.Errorf("%s: %w", manifest, err)
	}
	if len(shipped.Profiles) != 1 {
		return fmt.Errorf("%s: %d profiles, want 1", manifest, len(shipped.Profiles))
	}
	p := shipped.Profiles[0]
	p.SchedulerName = new(corev1.DefaultSchedulerName)
	p.Plugins.MultiPoint.Enabled = append([]schedconfig.Plugin{{Name: recorderName}}, p.Plugins.MultiPoint.Enabled...)
	for i := range p.PluginConfig {
		if c := &p.PluginConfig[i]; c.Name == capacitymix.Name {
			args := map[string]any{}
			if err := json.Unmarshal(c.Args.Raw, &args); err != nil {
				return fmt.Errorf("%s: arguments of %s: %w", manifest, c.Name, err)
			}
			args["nodeSampleSize"] = sample
			if c.Args.Raw, err = json.Marshal(args); err != nil {
				return err
			}
		}
	}
	out := map[string]any{
		"apiVersion": shipped.APIVersion, "kind": shipped.Kind,
		"parallelism": parallelism, "profiles": []schedconfig.KubeSchedulerProfile{p},
	}
	if text, err = yaml.Marshal(out); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}
