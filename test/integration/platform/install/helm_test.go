// SPDX-License-Identifier: Apache-2.0

// Package install_test installs Berth as its users do, with the real helm and
// kubectl on a real API server: the chart and the overlays, also as one file, have the
// same objects, are accepted, and what they grant is what the programs need.
package install_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/cli"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/specs"
	"berth.dev/berth/test/testenv"
)

const (
	chart     = "manifests/chart"
	overlays  = "manifests/overlays/"
	namespace = "berth-system"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{NoCRDs: true, NoRBAC: true, NoScheduler: true}))
}

// template renders the chart for a namespace of a cluster that has the CRDs.
func template(w *testenv.World, namespace string, values ...string) []byte {
	w.T.Helper()
	args := []string{"template", "berth", chart, "--namespace", namespace, "--api-versions", "berth.dev/v1alpha1/DeploymentTemplate", "--kube-version", "1.37"}
	return w.Tool("helm", append(args, set(values...)...)...)
}

// set are helm's arguments for values.
func set(values ...string) (args []string) {
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return args
}

// The chart's life on one cluster: installed, its programs run with exactly its
// rights and its configuration, upgraded, rolled back, uninstalled. No custom
// resource and no pod's claim is lost on the way.
func TestTheChartsLife(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	since := time.Now()
	w.StartStock() // for Berth's own pods
	w.Tool("helm", "install", "berth", chart, "--namespace", namespace, "--create-namespace", "--wait", "--timeout", "3m")
	t.Cleanup(func() {
		_, _ = w.TryTool("helm", "uninstall", "berth", "--namespace", namespace, "--wait")
		_, err := w.TryTool("kubectl", "delete", "-k", "manifests/crds", "--wait", "--timeout=2m", "--ignore-not-found")
		assert.NoError(t, err)
	})
	requireRunning(w, "v0.1.0")

	w.RunScheduler(cluster.ProgramOptions{Binary: schedulerBinary(w), ConfigFile: savedConfig(w)})
	controller := w.Controller(testenv.Impatient)
	specs.ExpectedValuesHold(w)
	specs.ASizeIsEnforced(w)
	specs.SpotComesBack(w, "spot-0", "spot-1", "spot-2", "spot-3", "spot-4", "spot-5")
	web := builders.Deployment("web", 20)
	w.Create(builders.CapacityMix("web", 70, 2), web)
	w.RequireExact("web", split.New(70, 2), 20)
	w.Scale(web, 5)
	w.RequireExact("web", split.New(70, 2), 5)
	claims := claimsOf(w)

	for _, user := range []string{cluster.BerthSchedulerUser, cluster.BerthControllerUser} {
		refused := w.AuditAll(func(r testenv.Request) bool {
			return r.User == user && r.Code == http.StatusForbidden && r.At.After(since)
		})
		assert.Empty(t, refused, "requests of %s that the chart's rights do not cover", user)
	}
	// The controller releases a size that is not in use any more; without it the CRD could not be deleted in the end.
	for _, name := range []string{"within", "above"} {
		w.Delete(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}})
	}
	small := builders.ResourceLimit("small")
	small.Namespace = w.Namespace
	w.Delete(small)
	w.WaitDeleted(small)
	testenv.End(controller, false)

	assert.Contains(t, doctor(w), "CapacityMix is enabled for berth-scheduler by ConfigMap berth-system/berth-scheduler-config, key second-scheduler.yaml")

	next := nextChart(w)
	w.Tool("helm", "upgrade", "berth", next, "--namespace", namespace, "--wait", "--timeout", "3m")
	requireRunning(w, "v0.2.0")
	assert.Contains(t, crdDescription(w), "Next. ", "an upgrade of the chart upgrades the CRDs")
	assert.Equal(t, claims, claimsOf(w), "after the upgrade")

	w.Tool("helm", "rollback", "berth", "1", "--namespace", namespace, "--wait", "--timeout", "3m")
	requireRunning(w, "v0.1.0")
	assert.NotContains(t, crdDescription(w), "Next. ")
	assert.Equal(t, claims, claimsOf(w), "after the rollback")
	w.Scale(web, 12)
	w.RequireExact("web", split.New(70, 2), 12)
	claims = claimsOf(w)

	w.Tool("helm", "uninstall", "berth", "--namespace", namespace, "--wait")
	assert.Equal(t, claims, claimsOf(w), "after it was uninstalled")
	_, err := w.Kube.RbacV1().ClusterRoles().Get(w.Ctx, "berth-scheduler", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "its rights are gone: %v", err)
}

// The installation with one file, which make release renders in the same way.
func TestInstallYAML(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.StartStock()
	rendered := testenv.WriteFile(t, "install.yaml", string(w.Tool("kubectl", "kustomize", overlays+"second-scheduler")))
	w.Tool("kubectl", "apply", "--server-side", "-f", rendered)
	t.Cleanup(func() {
		_, err := w.TryTool("kubectl", "delete", "-f", rendered, "--wait", "--timeout=2m")
		assert.NoError(t, err)
	})
	w.Tool("kubectl", "--namespace", namespace, "rollout", "status", "--timeout=2m", "deployment/berth-scheduler")
	w.Tool("kubectl", "--namespace", namespace, "rollout", "status", "--timeout=2m", "deployment/berth-controller")

	// With the CRDs and the namespace there, a dry run shows whether the API server accepts the rest.
	for overlay, values := range variants {
		w.Tool("kubectl", "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", overlays+overlay)
		manifest := testenv.WriteFile(t, overlay+".yaml", string(template(w, namespace, values...)))
		w.Tool("kubectl", "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", manifest)
	}
	for _, more := range []string{"placeholders", "gangs-and-quota"} {
		w.Tool("kubectl", "apply", "--server-side", "--dry-run=server", "-k", "manifests/rbac/"+more)
	}
	assert.Regexp(t, `CapacityMix is enabled for berth-scheduler by ConfigMap berth-system/berth-scheduler-config-\w+, key second-scheduler.yaml`, doctor(w))

	// Applied once more it changes nothing.
	out := string(w.Tool("kubectl", "diff", "--server-side", "-f", rendered))
	assert.Empty(t, out)
}

// doctor returns what kubectl berth doctor prints.
func doctor(w *testenv.World) string {
	w.T.Helper()
	var out bytes.Buffer
	cmd := cli.New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})
	cmd.SetArgs([]string{"doctor", "--kubeconfig", w.Cluster.KubeconfigPath()})
	if err := cmd.ExecuteContext(w.Ctx); !errors.Is(err, command.ErrFailed) { // no controller leads here
		require.NoError(w.T, err)
	}
	return out.String()
}

// requireRunning demands that both programs are rolled out with a tag.
func requireRunning(w *testenv.World, tag string) {
	w.T.Helper()
	for _, name := range []string{"berth-scheduler", "berth-controller"} {
		testenv.WaitForIn(w, namespace, name, "it is rolled out as "+tag, func(d *appsv1.Deployment) bool {
			s := d.Status
			return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == 2 && s.AvailableReplicas == 2 && s.Replicas == 2 &&
				strings.HasSuffix(d.Spec.Template.Spec.Containers[0].Image, "/"+name+":"+tag)
		})
	}
}

// savedConfig returns a file with the scheduler's configuration as the cluster has it.
func savedConfig(w *testenv.World) string {
	w.T.Helper()
	cm := testenv.ReadIn(w, namespace, "berth-scheduler-config", &corev1.ConfigMap{})
	return testenv.WriteFile(w.T, "second-scheduler.yaml", cm.Data["second-scheduler.yaml"])
}

func schedulerBinary(w *testenv.World) string {
	w.T.Helper()
	binary, err := cluster.BuildScheduler(w.Ctx, testenv.Path("."), os.Stderr, testenv.Race())
	require.NoError(w.T, err)
	return binary
}

// claimsOf is what must survive: the mixes and the pods of the test, with what Berth wrote on them.
func claimsOf(w *testenv.World) map[string]string {
	w.T.Helper()
	claims := map[string]string{"mix": string(w.Mix("web").UID)}
	for _, pod := range w.Live("web") {
		claims[string(pod.UID)] = strings.Join([]string{
			pod.Spec.NodeName, pod.Annotations["berth.dev/slot"], pod.Annotations["berth.dev/capacity-type"], pod.Annotations["berth.dev/mix"], pod.Annotations[corev1.PodDeletionCost],
		}, " ")
	}
	return claims
}

// nextChart is the chart as its next version could be.
func nextChart(w *testenv.World) string {
	w.T.Helper()
	dir := filepath.Join(w.T.TempDir(), "berth")
	require.NoError(w.T, os.CopyFS(dir, os.DirFS(testenv.Path(chart))))
	edit(w, filepath.Join(dir, "Chart.yaml"), "version: 0.1.0", "version: 0.2.0", "appVersion: v0.1.0", "appVersion: v0.2.0")
	edit(w, filepath.Join(dir, "files/crds/berth.dev_capacitymixes.yaml"), "openAPIV3Schema:\n        description: ", "openAPIV3Schema:\n        description: Next. ")
	return dir
}

// edit replaces texts of a file, which must be there.
func edit(w *testenv.World, file string, pairs ...string) {
	w.T.Helper()
	text := testenv.ReadFile(w.T, file)
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(w.T, text, pairs[i])
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	require.NoError(w.T, os.WriteFile(file, []byte(text), 0o600))
}

func crdDescription(w *testenv.World) string {
	w.T.Helper()
	crd := testenv.ReadIn(w, "", "capacitymixes.berth.dev", testenv.CRD(""))
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	require.NotEmpty(w.T, versions)
	description, _, _ := unstructured.NestedString(versions[0].(map[string]any), "schema", "openAPIV3Schema", "description")
	return description
}
