// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/specs"
	"berth.dev/berth/test/testenv"
)

// What Berth places runs: its containers write logs and answer their probes.
func TestPodsRunWhereTheyArePlaced(t *testing.T) {
	w := testenv.New(t)
	w.Create(builders.CapacityMix("web", 60, 2), builders.Deployment("web", 5, probed))
	w.WaitReady("web", 5)
	for _, p := range w.RequireExact("web", split.New(60, 2), 5) {
		assert.Equal(t, p.Name+" serves on :8080\n", logs(w, w.Namespace, p.Name))
	}
}

// A revision whose probe fails gets stuck; what is Ready keeps running, and the way back is exact.
func TestARevisionThatNeverBecomesReadyIsRolledBack(t *testing.T) {
	stuck(t, specs.First, func(pod *corev1.PodTemplateSpec) { pod.Spec.Containers[0].Args = []string{"-unready"} }, func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && !testenv.Ready(p)
	})
}

// So does one whose image is nowhere: its pods hold slots without ever running.
func TestARevisionWhoseImageCannotBePulledIsRolledBack(t *testing.T) {
	stuck(t, "registry.invalid/app:1", func(*corev1.PodTemplateSpec) {}, func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && slices.Contains([]string{"ErrImagePull", "ImagePullBackOff"}, s[0].State.Waiting.Reason)
	})
}

// stuck rolls out a revision that fails in a way, sees that the old one stays and is in the mix, and rolls back.
func stuck(t *testing.T, image string, change func(*corev1.PodTemplateSpec), failed func(*corev1.Pod) bool) {
	t.Helper()
	r := specs.StartRollout(testenv.New(t), 8, 50, 2, func(d *appsv1.Deployment) { probed(&d.Spec.Template) })
	before := r.Web.Spec.Template.DeepCopy()
	// A quarter of 8 is taken away, and a quarter is made more: four pods are new.
	r.Update(image, change)
	testenv.Becomes(r.World, "new pods that have failed", 4, func() int { return len(testenv.Where(r.Live("web"), failed)) })
	assert.Len(t, testenv.Where(r.Live("web"), testenv.Ready), 6, "Ready pods of the old revision")
	testenv.Patch(r.World, r.Web, func(d *appsv1.Deployment) { d.Spec.Template = *before })
	r.RequireDone(specs.First)
	r.Record.RequireOnTheirTypes(r.Mix)
}

// A container that ends is started again where it was: no slot moves.
func TestAContainerThatRestartsKeepsItsSlot(t *testing.T) {
	w := testenv.New(t)
	w.Create(builders.CapacityMix("web", 60, 2), builders.Deployment("web", 5, probed))
	w.WaitReady("web", 5)
	before := w.RequireExact("web", split.New(60, 2), 5)
	victim := before[0]
	// The answer is the end of the connection.
	_, err := w.Kube.CoreV1().Pods(w.Namespace).ProxyGet("http", victim.Name, "8080", "exit", nil).DoRaw(w.Ctx)
	require.Error(t, err)
	w.Eventually("the container was restarted", func() (bool, string) {
		for _, p := range w.Live("web") {
			if p.UID == victim.UID {
				s := p.Status.ContainerStatuses[0]
				return s.RestartCount == 1 && testenv.Ready(&p), fmt.Sprintf("%+v", s)
			}
		}
		return false, "it is gone"
	})
	assert.Contains(t, logs(w, w.Namespace, "--previous", victim.Name), "asked to exit")
	assert.Equal(t, assignments(w, before), assignments(w, w.RequireExact("web", split.New(60, 2), 5)))
}

// assignments is which pod has which slot on which node.
func assignments(w *testenv.World, pods []corev1.Pod) map[string]string {
	w.T.Helper()
	assignments := map[string]string{}
	for slot, p := range w.Slots(pods) {
		assignments[string(p.UID)] = fmt.Sprint(slot, " ", p.Spec.NodeName)
	}
	return assignments
}

// The webhook is called through its Service, with the certificate that the controller made for it.
func TestTheWebhookFillsInASize(t *testing.T) {
	w := testenv.New(t)
	w.Tool("kubectl", "label", "namespace", w.Namespace, "berth.dev/inject=enabled")
	w.Create(builders.ResourceLimit("small", builders.SizeCPU("20m", "50m")))
	pod := func(name string) *corev1.Pod {
		return builders.Pod("web", name, builders.OfSize("small"), func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Resources = corev1.ResourceRequirements{} })
	}
	// It fails open, and its caches are not those of this test.
	n := 0
	w.Eventually("a pod is filled in", func() (bool, string) {
		n++
		p := pod(fmt.Sprintf("web-%d", n))
		w.Create(p)
		r := p.Spec.Containers[0].Resources
		return r.Requests.Cpu().String() == "20m" && r.Limits.Cpu().String() == "50m", fmt.Sprintf("%+v", r)
	})
	w.WaitReady("web", n)
}

// The kubelet brings a changed ConfigMap into the running pods, and every replica uses it.
func TestAChangedConfigMapTakesEffectWithoutARestart(t *testing.T) {
	w := testenv.New(t)
	waitRolledOut(w, "berth-controller")
	before := starts(w)
	require.Len(t, before, 2)

	setDryRun(w, true)
	t.Cleanup(func() { setDryRun(w, false) })
	waitChangeLogged(w, "from=false to=true")
	setDryRun(w, false)
	waitChangeLogged(w, "from=true to=false")
	assert.Equal(t, before, starts(w), "no pod was replaced, and no container started again")
}

// starts are the restarts of the controller's containers, by pod.
func starts(w *testenv.World) map[types.UID]int32 {
	w.T.Helper()
	of := map[types.UID]int32{}
	for _, p := range berthPods(w, "berth-controller") {
		of[p.UID] = p.Status.ContainerStatuses[0].RestartCount
	}
	return of
}

func setDryRun(w *testenv.World, is bool) {
	w.T.Helper()
	const file = "config.yaml"
	testenv.Patch(w, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: berthNamespace, Name: "berth-controller-config"}}, func(c *corev1.ConfigMap) {
		config := map[string]any{}
		require.NoError(w.T, yaml.Unmarshal([]byte(c.Data[file]), &config))
		config["dryRun"] = is
		b, err := yaml.Marshal(config)
		require.NoError(w.T, err)
		c.Data[file] = string(b)
	})
}

// waitChangeLogged waits until every replica logs that dryRun was changed.
func waitChangeLogged(w *testenv.World, change string) {
	w.T.Helper()
	w.Within(startTimeout, "every replica uses the changed dryRun, "+change, func() (bool, string) {
		pods := berthPods(w, "berth-controller")
		told := len(testenv.Where(pods, func(p *corev1.Pod) bool {
			return strings.Contains(logs(w, berthNamespace, p.Name), fmt.Sprintf("field=%q %s", "dryRun", change))
		}))
		return told == len(pods), fmt.Sprintf("%d of %d", told, len(pods))
	})
}
