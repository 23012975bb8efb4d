// SPDX-License-Identifier: Apache-2.0

// Package docs_test holds the documentation to what is there: every command that it prints is run on a control plane with
// Berth installed, or checked against what it names, or listed here as run elsewhere.
package docs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{NoCRDs: true, NoRBAC: true, NoScheduler: true}))
}

// meanings are what a reader puts in place of words of the pages.
func meanings(pod string) *strings.Replacer {
	return strings.NewReplacer("NAMESPACE", "shop", "POD", pod, "MIX", "web", "web-…", pod, "n1 n2", "on-demand-0 on-demand-1", "n3 n4", "spot-0 spot-1")
}

// explained is a pod of an example.
var explained = regexp.MustCompile(`^(kubectl berth (?:explain|policies --pod)) (-n \S+ )?[a-z][-a-z0-9]*$`)

// fails are commands that end with an error, as their page shows.
var fails = map[string]string{
	"kubectl apply -f wrong.yaml": "cpuLimit must not be below cpu",
	// No scheduler and no controller lead here.
	"kubectl berth doctor": "RESULT",
	"kubectl berth doctor --scheduler-config scheduler.yaml": "RESULT",
	// There is no operator of units.
	"kubectl delete pod inference-3 --cascade=foreground":     `pods "inference-3" not found`,
	"kubectl delete job train-workers-3 --cascade=foreground": `jobs.batch "train-workers-3" not found`,
}

// Files that examples name.
var files = map[string]string{
	"mix.yaml":   `{apiVersion: berth.dev/v1alpha1, kind: CapacityMix, metadata: {name: web, namespace: shop}, spec: {selector: {matchLabels: {app: web}}, spotPercent: 30}}`,
	"wrong.yaml": `{apiVersion: berth.dev/v1alpha1, kind: ResourceLimit, metadata: {name: small}, spec: {cpu: "2", cpuLimit: 1500m}}`,
}

// What the commands of the pages are about.
const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: mcp-servers}
---
apiVersion: berth.dev/v1alpha1
kind: CapacityMix
metadata: {name: web, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, spotPercent: 70}
---
apiVersion: berth.dev/v1alpha1
kind: ResourceLimit
metadata: {name: small, namespace: shop}
spec: {cpu: "1"}
---
apiVersion: berth.dev/v1alpha1
kind: Reservation
metadata: {name: checkout, namespace: shop}
spec: {podSelector: {matchLabels: {app: checkout}}, cpu: 500m}
---
apiVersion: berth.dev/v1alpha1
kind: DeploymentRecord
metadata: {name: cart, namespace: shop}
spec:
  deploymentUnit:
    classKey: shop.Cart
    functions: [{functionKey: add, image: "registry.example/add:1"}]
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: rl-large
  namespace: mcp-servers
  labels: {app.kubernetes.io/managed-by: mcp-orchestrator, mcp-orchestrator.egoavara.net/type-of: resource-limit}
data: {cpu: "1"}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop, labels: {app: web}}
spec: {containers: [{name: main, image: "example.com/app:1"}]}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: berth-scheduler, namespace: berth-system}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: berth-controller, namespace: berth-system}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: berth-records, namespace: berth-system}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: berth-environments, namespace: berth-system}
`

// Every kubectl command of the pages, plugin included, does what it is for on a cluster with Berth.
func TestCommandsRun(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.StartStock()
	sh := newShell(w)
	_, err := sh.run("kubectl kustomize manifests/overlays/second-scheduler >install.yaml; kubectl apply --server-side -f install.yaml")
	require.NoError(t, err)
	require.NoError(t, w.Cluster.Apply(w.Ctx, objects))
	for _, kind := range []string{"ServiceMonitor", "PodMonitor", "PrometheusRule"} {
		require.NoError(t, w.Cluster.Apply(w.Ctx, builders.CRD("monitoring.coreos.com", "v1", kind, "")))
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, err := sh.run("kubectl --namespace berth-system get deployments,replicasets,pods --output wide; kubectl --namespace berth-system get events")
			t.Logf("Berth: %s%v", out, err)
		}
		_, err := sh.run("kubectl delete namespace shop mcp-servers; kubectl delete -f install.yaml --ignore-not-found")
		assert.NoError(t, err)
	})

	var last []command
	ran := map[string]bool{}
	run := func(c command) {
		text := explained.ReplaceAllString(meanings("web-0").Replace(c.text), "$1 ${2}web-0")
		if ran[text] {
			return
		}
		ran[text] = true
		out, err := sh.run("kubectl config set-context --current --namespace=shop >/dev/null; " + text)
		if said := fails[text]; said != "" {
			assert.Error(t, err, "%s", c)
			assert.Contains(t, out, said, "%s", c)
			return
		}
		assert.NoError(t, err, "%s", c)
	}
	for _, c := range commandsOf(t) {
		switch words := strings.Fields(c.text); {
		case words[0] != "kubectl", elsewhereOf(c) >= 0:
		case strings.Contains(c.text, "jq ") && !installed("jq"): // a tool of the user's
		case slices.Contains(words, "delete"):
			last = append(last, c)
		default:
			run(c)
		}
	}
	assert.Greater(t, len(ran), 40)
	for _, c := range last {
		run(c)
	}
}

func installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// shell runs commands where a reader would: in the repository, with kubectl and the plugin in the PATH.
type shell struct {
	ctx context.Context
	dir string
	env []string
}

func newShell(w *testenv.World) *shell {
	w.T.Helper()
	home := w.T.TempDir()
	bin := filepath.Join(home, "bin")
	dir := filepath.Join(home, "berth")
	require.NoError(w.T, os.MkdirAll(bin, 0o755))
	require.NoError(w.T, os.MkdirAll(dir, 0o755))
	for _, folder := range []string{"manifests", "hack"} {
		require.NoError(w.T, os.Symlink(testenv.Path(folder), filepath.Join(dir, folder)))
	}
	for name, text := range files {
		require.NoError(w.T, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(w.T, os.Symlink(testenv.Path(testenv.SecondScheduler), filepath.Join(dir, "scheduler.yaml")))
	kubectl, err := cluster.Binary(w.Ctx, os.Stderr, cluster.Kubectl)
	require.NoError(w.T, err)
	require.NoError(w.T, os.Symlink(kubectl, filepath.Join(bin, "kubectl")))
	w.BuildCLI(bin)
	// A copy: the context's namespace is changed.
	kubeconfig := testenv.WriteFile(w.T, "kubeconfig", testenv.ReadFile(w.T, w.Cluster.KubeconfigPath()))
	return &shell{
		ctx: context.WithoutCancel(w.Ctx), dir: dir,
		env: append(os.Environ(), "HOME="+home, "KUBECONFIG="+kubeconfig, "PATH="+bin+":"+os.Getenv("PATH")),
	}
}

// commandTimeout bounds one command. Some, such as kubectl rollout status, have no timeout by default.
const commandTimeout = 5 * time.Minute

// run returns what a command prints on both outputs, which the error has too.
func (s *shell) run(text string) (string, error) {
	ctx, cancel := context.WithTimeout(s.ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", text)
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.dir, s.env, time.Second // its children keep the output open
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return string(out), err
}
