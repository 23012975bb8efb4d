// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/testenv"
)

const newImage = "example.com/app:2"

// app is a container of the image that hack/kind makes.
func app() v1alpha1.EnvironmentContainer {
	return v1alpha1.EnvironmentContainer{
		Image: "example.com/app:1", Ports: []v1alpha1.EnvironmentPort{{ContainerPort: 8080}},
		Resources:   &v1alpha1.EnvironmentResources{CPU: "50m", Memory: "32Mi"},
		HealthCheck: &v1alpha1.EnvironmentHealthCheck{HTTPGet: &v1alpha1.EnvironmentHTTPGet{Path: "/ready", Port: 8080}, IntervalSeconds: 2},
	}
}

// postgres is that of a database, of the image of hack/kind/postgres.
func postgres() v1alpha1.EnvironmentContainer {
	return v1alpha1.EnvironmentContainer{
		Image: "example.com/postgres:15", Ports: []v1alpha1.EnvironmentPort{{ContainerPort: 5432}},
		Resources: &v1alpha1.EnvironmentResources{CPU: "200m", Memory: "256Mi"},
	}
}

// created makes an environment, which is deleted at the end of the test, and waits until it has a namespace.
func created(w *testenv.World, stack v1alpha1.ApplicationStack) *v1alpha1.Environment {
	w.T.Helper()
	stack.Name = shop
	e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Name: shop}, Spec: v1alpha1.EnvironmentSpec{Stack: stack}}
	w.Create(e)
	w.T.Cleanup(func() { w.Tool("kubectl", "--namespace", w.Namespace, "delete", "environment", shop, "--timeout=3m") })
	return testenv.WaitFor(w, shop, "it has a namespace", func(e *v1alpha1.Environment) bool { return e.Status.Namespace != "" })
}

// running makes an environment and waits until all of it is ready.
func running(w *testenv.World, stack v1alpha1.ApplicationStack) *v1alpha1.Environment {
	w.T.Helper()
	e := created(w, stack)
	w.Within(startTimeout, "the environment is running", func() (bool, string) {
		e = testenv.Read(w, shop, &v1alpha1.Environment{})
		b, _ := json.Marshal(e.Status)
		return e.Status.Phase == v1alpha1.EnvironmentRunning, string(b)
	})
	return e
}

// podsOf are the pods of a component that are not on their way out.
func podsOf(w *testenv.World, e *v1alpha1.Environment, component string) []corev1.Pod {
	w.T.Helper()
	all := w.Pods(client.InNamespace(e.Status.Namespace), client.MatchingLabels{v1alpha1.EnvironmentComponentLabel: component})
	return slices.DeleteFunc(all, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

func restarts(pods []corev1.Pod) (n int32) {
	for i := range pods {
		for _, s := range pods[i].Status.ContainerStatuses {
			n += s.RestartCount
		}
	}
	return n
}

// seen describes the state of pods.
func seen(pods []corev1.Pod) string {
	var all []string
	for i := range pods {
		p := &pods[i]
		all = append(all, fmt.Sprintf("%s is %s, ready: %t, %d restarts", p.Name, p.Status.Phase, testenv.Ready(p), restarts(pods[i:i+1])))
	}
	return strings.Join(all, "; ")
}

func nodesBelow(pods []corev1.Pod) (nodes []string) {
	for i := range pods {
		nodes = append(nodes, pods[i].Spec.NodeName)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// waitNode waits until a node that was restarted is Ready.
func waitNode(w *testenv.World, name string) {
	w.T.Helper()
	w.Tool("kubectl", "wait", "--for=condition=Ready", "node/"+name, "--timeout=2m")
}

// ask returns what a container of an app gets from a URL.
func ask(w *testenv.World, e *v1alpha1.Environment, component, url string) string {
	w.T.Helper()
	return string(w.Tool("kubectl", "--namespace", e.Status.Namespace, "exec", "deployment/"+component, "--", "/app", "-get", url))
}

// memoryLimit is what a container may have, as the kernel has it.
func memoryLimit(w *testenv.World, e *v1alpha1.Environment, component string) string {
	w.T.Helper()
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if out, err := w.TryTool("kubectl", "--namespace", e.Status.Namespace, "exec", "deployment/"+component, "--", "/app", "-get", "file://"+file); err == nil {
			return string(out)
		}
	}
	return ""
}

// field is a line of /proc/N/status.
func field(t *testing.T, status, name string) string {
	t.Helper()
	for line := range strings.Lines(status) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			return strings.TrimSpace(value)
		}
	}
	require.Fail(t, "there is no line "+name, status)
	return ""
}

// sql is what the database of an environment answers.
func sql(w *testenv.World, e *v1alpha1.Environment, url, query string) string {
	w.T.Helper()
	out := w.Tool("kubectl", "--namespace", e.Status.Namespace, "exec", "database-0", "--", "psql", "--no-align", "--tuples-only", "-v", "ON_ERROR_STOP=1", "-c", query, url)
	return strings.TrimSpace(string(out))
}

// volume makes a PersistentVolume on the first of some nodes that takes pods: nothing provisions them here.
func volume(w *testenv.World, nodes []string) {
	w.T.Helper()
	node := nodes[slices.IndexFunc(nodes, func(name string) bool { return !strings.HasSuffix(name, "-control-plane") })]
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", w.Namespace, time.Now().UnixNano())}}
	path := "/var/lib/volumes/" + v.Name
	docker(w, "exec", node, "mkdir", "-p", path)
	v.Spec = corev1.PersistentVolumeSpec{
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("50Gi")},
		AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		StorageClassName:              "standard",
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}}},
	}
	w.CreateAsIs(v)
	w.T.Cleanup(func() {
		_ = w.Client.Delete(context.WithoutCancel(w.Ctx), v)
		_ = exec.Command("docker", "exec", node, "rm", "-rf", path).Run()
	})
}

// buildCLI has kubectl-berth built once.
var buildCLI sync.Once

// command is a command of kubectl-berth in the test's namespace.
func command(w *testenv.World, args ...string) *exec.Cmd {
	w.T.Helper()
	dir := testenv.Path("out/kind")
	buildCLI.Do(func() { w.BuildCLI(dir) })
	cmd := exec.CommandContext(w.Ctx, dir+"/kubectl-berth", append(args, "--namespace", w.Namespace)...)
	cmd.Env = append(os.Environ(), "HOME="+w.T.TempDir(), "KUBECONFIG="+testenv.Path(".kind/kubeconfig"))
	return cmd
}

// berth runs kubectl-berth in the test's namespace, and returns what it prints.
func berth(w *testenv.World, args ...string) string {
	w.T.Helper()
	cmd := command(w, args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(w.T, err, "kubectl berth %v: %s", args, &said)
	return string(out)
}
