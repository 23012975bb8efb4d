// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

func startStockScheduler(t *testing.T, o ProgramOptions) (*Scheduler, error) {
	t.Helper()
	var err error
	o.Binary, err = Binary(t.Context(), os.Stderr, StockScheduler)
	require.NoError(t, err)
	o.User = "system:kube-scheduler"
	s, err := shared.StartScheduler(t.Context(), o)
	if err == nil {
		t.Cleanup(func() {
			s.Kill()
			<-s.Done()
		})
	}
	return s, err
}

func TestStockSchedulerPlacesPods(t *testing.T) {
	s, err := startStockScheduler(t, ProgramOptions{Name: "stock"}) // a leader, with the durations of a release
	require.NoError(t, err)
	createPod(t, barePod("for-the-scheduler", "", nil))
	pod := waitPod(t, "for-the-scheduler", "pod is ready", isReady)
	require.NotEmpty(t, pod.Spec.NodeName)

	// A pod can be ready before the scheduler has counted the attempt or read the authority of client certificates.
	eventually(t, "the attempt is counted", func(ctx context.Context) (bool, error) {
		metrics, err := s.Get(ctx, "/metrics")
		if err != nil {
			t.Log(err)
		}
		return err == nil && strings.Contains(string(metrics), "scheduler_schedule_attempts_total"), nil
	})
}

func TestSchedulerThatCannotStartReportsTheCause(t *testing.T) {
	_, err := startStockScheduler(t, ProgramOptions{Name: "broken", Args: []string{"--no-such-flag"}})
	require.ErrorContains(t, err, "broken ended")
	require.ErrorContains(t, err, "unknown flag: --no-such-flag")
}

func TestSchedulerConfigChangesOnlyTheGivenFields(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.yaml"), filepath.Join(dir, "out.yaml")
	require.NoError(t, os.WriteFile(in, []byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: berth, leaseDuration: 15s}
clientConnection: {qps: 5000, kubeconfig: /etc/kubeconfig}
profiles:
- schedulerName: berth-scheduler
  pluginConfig:
  - name: CapacityMix
    args: {sampleSize: 16, defaultMix: {spotPercent: 70}}
`), 0o600))
	read := func() (config map[string]any) {
		b, err := os.ReadFile(out)
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(b, &config))
		return config
	}

	require.NoError(t, writeSchedulerConfig(out, ProgramOptions{ConfigFile: in, Kubeconfig: "/k"}))
	config := read()
	require.Equal(t, map[string]any{"qps": 5000.0, "kubeconfig": "/k"}, config["clientConnection"])
	require.Equal(t, map[string]any{"leaderElect": true, "resourceName": "berth", "leaseDuration": "15s"}, config["leaderElection"])
	args := config["profiles"].([]any)[0].(map[string]any)["pluginConfig"].([]any)[0].(map[string]any)["args"]
	require.Equal(t, map[string]any{"sampleSize": 16.0, "defaultMix": map[string]any{"spotPercent": 70.0}}, args)

	require.NoError(t, writeSchedulerConfig(out, ProgramOptions{
		ConfigFile: in, Kubeconfig: "/k",
		LeaderElection: &LeaderElection{Enabled: new(false), RetryPeriod: 500 * time.Millisecond},
	}))
	require.Equal(t, map[string]any{"leaderElect": false, "resourceName": "berth", "leaseDuration": "15s", "retryPeriod": "500ms"},
		read()["leaderElection"])
}

func TestBuildSchedulerBuildsTheGivenTree(t *testing.T) {
	t.Setenv("BERTH_CACHE", t.TempDir())
	root := t.TempDir()
	main := filepath.Join(root, "cmd", "berth-scheduler")
	require.NoError(t, os.MkdirAll(main, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module example\n\ngo 1.26\n"), 0o600))
	source := filepath.Join(main, "main.go")
	require.NoError(t, os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600))
	path, err := BuildScheduler(t.Context(), root, os.Stderr, false)
	require.NoError(t, err)
	require.FileExists(t, path)

	require.NoError(t, os.WriteFile(source, []byte("package main\n\nfunc main() { undefined() }\n"), 0o600))
	_, err = BuildScheduler(t.Context(), root, os.Stderr, false)
	require.ErrorContains(t, err, "undefined: undefined")
}

// Where both modules need a module they must agree, or they share no build cache and may behave differently.
func TestControlPlaneModuleRepeatsTheVersionsOfTheRepository(t *testing.T) {
	root, err := RepoRoot()
	require.NoError(t, err)
	main := moduleVersions(t, filepath.Join(root, "go.mod"))
	own := moduleVersions(t, filepath.Join(root, "hack/cluster/controlplane/go.mod"))
	require.Equal(t, kubeVersion, own["k8s.io/kubernetes"])
	common := 0
	for path, version := range own {
		if want, ok := main[path]; ok {
			require.Equal(t, want, version, path)
			common++
		}
	}
	require.Greater(t, common, 50)
}

// moduleVersions reads the versions that a go.mod file requires; those it replaces count as replaced.
func moduleVersions(t *testing.T, file string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	required, replaced := map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "//")
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		switch {
		case len(fields) == 2 && strings.HasPrefix(fields[1], "v"):
			required[fields[0]] = fields[1]
		case len(fields) == 4 && fields[1] == "=>":
			replaced[fields[0]] = fields[3]
		}
	}
	for path := range required {
		if version, ok := replaced[path]; ok {
			required[path] = version
		}
	}
	return required
}

const widgets = `
apiVersion: example.com/v1
kind: Widget
metadata: {name: one, namespace: widgets}
spec: {size: 3}
---
apiVersion: v1
kind: Namespace
metadata: {name: widgets}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {size: {type: integer}}
            x-kubernetes-validations: [{rule: "self.size < 10", message: too large}]
`

func TestApplyOrdersCRDsAndNamespacesFirst(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(widgets), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("no manifest"), 0o600))
	for range 2 {
		require.NoError(t, shared.ApplyFiles(t.Context(), dir))
	}
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	widget, err := dynamic.NewForConfigOrDie(shared.Config()).Resource(resource).Namespace("widgets").Get(t.Context(), "one", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "Widget", widget.GetKind())

	err = shared.Apply(t.Context(), "{apiVersion: example.com/v1, kind: Widget, metadata: {name: two, namespace: widgets}, spec: {size: 11}}")
	require.ErrorContains(t, err, "too large")
	require.ErrorIs(t, shared.ApplyFiles(t.Context(), filepath.Join(dir, "none")), fs.ErrNotExist)
}

func TestDeploymentAndJobPodsLive(t *testing.T) {
	_, err := startStockScheduler(t, ProgramOptions{Name: "stock-workloads", LeaderElection: &LeaderElection{Enabled: new(false)}})
	require.NoError(t, err)
	namespace := newNamespace(t)
	t.Cleanup(func() {
		_ = shared.Client().CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{})
	})
	require.NoError(t, shared.Apply(t.Context(), strings.ReplaceAll(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAMESPACE}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: fake}], initContainers: [{name: i, image: fake}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: batch, namespace: NAMESPACE}
spec:
  completions: 3
  parallelism: 3
  template:
    metadata: {annotations: {pod-complete.stage.kwok.x-k8s.io/delay: 50ms}}
    spec: {restartPolicy: Never, containers: [{name: c, image: fake}]}
`, "NAMESPACE", namespace)))
	client := shared.Client()
	eventually(t, "the deployment is available and the job complete", func(ctx context.Context) (bool, error) {
		d, err := client.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		j, err := client.BatchV1().Jobs(namespace).Get(ctx, "batch", metav1.GetOptions{})
		return d.Status.AvailableReplicas == 5 && j.Status.Succeeded == 3 && j.Status.CompletionTime != nil, err
	})
	require.NoError(t, client.CoreV1().Pods(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=web"}))
	eventually(t, "deleted pods are replaced", func(ctx context.Context) (bool, error) {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return false, err
		}
		ready := 0
		for i := range pods.Items {
			if pods.Items[i].DeletionTimestamp == nil && isReady(&pods.Items[i]) {
				ready++
			}
		}
		return ready == 5 && len(pods.Items) == 5, nil
	})
}
