// SPDX-License-Identifier: Apache-2.0

package profiles_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// gangs returns the program with the plugins of scheduler-plugins.
func gangs(t *testing.T) string {
	t.Helper()
	binary, err := cluster.BuildGangs(t.Context(), testenv.Path("."), os.Stderr, testenv.Race())
	require.NoError(t, err)
	return binary
}

// schedulerPluginsCRDs are the CustomResourceDefinitions of the scheduler-plugins
// release that the binary is built with.
func schedulerPluginsCRDs(t *testing.T) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/scheduler-plugins")
	list.Dir = testenv.Path("cmd/berth-scheduler-gangs")
	out, err := list.Output()
	require.NoError(t, err)
	manifests := filepath.Join(strings.TrimSpace(string(out)), "manifests")
	return []string{filepath.Join(manifests, "coscheduling", "crd.yaml"), filepath.Join(manifests, "capacityscheduling", "crd.yaml")}
}

// gangWorld is a world with the gangs-and-quota profile running.
func gangWorld(t *testing.T, nodes ...cluster.NodeSpec) *testenv.World {
	t.Helper()
	w := testenv.New(t, nodes...)
	require.NoError(t, w.Cluster.ApplyFiles(w.Ctx, schedulerPluginsCRDs(t)...))
	w.ApplyFiles("manifests/rbac/gangs-and-quota")
	asShipped(w, testenv.GangsAndQuota, "berth-system", "berth-scheduler", func(o *cluster.ProgramOptions) { o.Binary = gangs(t) })
	return w
}

// plugin makes an object of scheduler-plugins.
func plugin(kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// member makes a template's pods members of a gang.
func member(gang string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Labels["scheduling.x-k8s.io/pod-group"] = gang }
}

func TestAGangWithAMixIsPlacedAllOrNothingAndThenExactly(t *testing.T) {
	for name, template := range map[string][]func(*corev1.PodTemplateSpec){"by Filter": nil, "by the gate": {builders.Gated}} {
		t.Run(name, func(t *testing.T) { placesAGang(t, template...) })
	}
}

func placesAGang(t *testing.T, template ...func(*corev1.PodTemplateSpec)) {
	// Room for 7 spot pods and 2 of the 3 on-demand pods.
	roomFor := func(pods int) func(*cluster.NodeSpec) { return func(n *cluster.NodeSpec) { n.CPU = fmt.Sprint(pods) } }
	w := gangWorld(t, append(cluster.Nodes("spot", 1, roomFor(8)), cluster.Nodes("on-demand", 1, roomFor(2))...)...)
	h := w.History()
	gang := plugin("PodGroup", "gang", map[string]any{"minMember": int64(10), "scheduleTimeoutSeconds": int64(5)})
	w.Create(gang)
	w.Create(builders.CapacityMix("gang", 70, 1), builders.Deployment("gang", 10, append(template, member("gang"), builders.CPU("1"))...))
	w.Reaches("members that were refused", 1, func() int {
		return len(testenv.Where(w.Live("gang"), func(p *corev1.Pod) bool {
			c := testenv.PodCondition(p, corev1.PodScheduled)
			return c.Status == corev1.ConditionFalse && c.Reason != corev1.PodReasonSchedulingGated
		}))
	})
	testenv.Stays(w, testenv.Short, "no member is bound before all can be", 0, h.Bound)
	w.AddNodes(cluster.NodeSpec{Name: "late", CapacityType: "on-demand", CPU: "4"})
	// Coscheduling, with or without Berth, does not wake a gang for a new node,
	// only for a new pod or a change of the PodGroup.
	testenv.Patch(w, gang, func(g *unstructured.Unstructured) { g.SetAnnotations(map[string]string{"nudged": "true"}) })
	for _, p := range w.RequireExact("gang", split.New(70, 1), 10) {
		_, ungated := gate.LimitedTo(&p)
		assert.Equal(t, len(template) > 0, ungated, "%s had the gate", p.Name)
	}
}

func TestPodsWithinAnElasticQuotaHaveTheExactMix(t *testing.T) {
	w := gangWorld(t, testenv.Roomy()...)
	quota := func(cpu string) map[string]any {
		// CapacityScheduling takes a resource that max does not name for one of which there is none.
		amount := map[string]any{"cpu": cpu, "memory": "64Gi"}
		return map[string]any{"min": amount, "max": amount}
	}
	eq := plugin("ElasticQuota", "quota", quota("5"))
	w.Create(eq)
	w.Create(builders.CapacityMix("web", 60, 1), builders.Deployment("web", 10, builders.CPU("1")))
	full := func() (bool, string) {
		s := w.Split("web")
		return s.Spot+s.OnDemand == 5 && s.Pending == 5, s.String()
	}
	w.Eventually("the quota is used up", full)
	w.Always(testenv.Short, "the quota is kept", full)
	w.RequireExactPods(testenv.Where(w.Live("web"), testenv.Bound), split.New(60, 1))
	testenv.Patch(w, eq, func(eq *unstructured.Unstructured) { eq.Object["spec"] = quota("10") })
	// CapacityScheduling, with or without Berth, learns of the change by another
	// watch than the scheduling queue does: a pod that is tried in between is not
	// tried again until the quota changes once more.
	nudges := 0
	testenv.Becomes(w, "the pods that waited are bound", 10, func() int {
		nudges++
		testenv.Patch(w, eq, func(eq *unstructured.Unstructured) {
			eq.SetAnnotations(map[string]string{"nudges": fmt.Sprint(nudges)})
		})
		return len(testenv.Where(w.Live("web"), testenv.Bound))
	})
	w.RequireExact("web", split.New(60, 1), 10)
}

func TestGangsAndQuotaProfileNeedsOnlyTheRightsOfItsManifests(t *testing.T) {
	w := gangWorld(t, testenv.Roomy()...)
	w.Create(plugin("PodGroup", "pair", map[string]any{"minMember": int64(2)}))
	w.Create(builders.CapacityMix("pair", 50, 1), builders.Deployment("pair", 2, member("pair")))
	w.RequireExact("pair", split.New(50, 1), 2)
	used := map[string]bool{}
	for _, r := range w.AuditAll(func(r testenv.Request) bool {
		return r.User == cluster.BerthSchedulerUser && r.Group == "scheduling.x-k8s.io"
	}) {
		assert.NotEqual(t, 403, r.Code, r)
		for _, right := range r.Rights() {
			used[right] = true
		}
	}
	granted := testenv.RightsOf(testenv.ReadIn(w, "", "berth-scheduler-gangs-and-quota", &rbacv1.ClusterRole{}).Rules)
	assert.Equal(t, used, granted)
}

func TestArgumentsOfSchedulerPluginsWorkBesideOurs(t *testing.T) {
	w := testenv.New(t)
	w.Run("an unknown field stops the program", func(t *testing.T, w *testenv.World) {
		o := w.Variant(testenv.GangsAndQuota, testenv.PluginArgs("Coscheduling", map[string]any{"permitWaitingTime": 60}))
		o.Binary, o.Name = gangs(t), "wrong-gangs"
		said := w.RequireStartFails(o)
		assert.Contains(t, said, "unknown field")
		assert.Contains(t, said, `permitWaitingTime\"`)
	})
	w.Run("fields of both arrive", func(t *testing.T, w *testenv.World) {
		written := filepath.Join(t.TempDir(), "written.yaml")
		o := w.Variant(testenv.GangsAndQuota,
			testenv.PluginArgs("CapacityMix", map[string]any{"nodeSampleSize": 17}),
			testenv.PluginArgs("Coscheduling", map[string]any{"permitWaitingTimeSeconds": 7}))
		o.Binary, o.Name, o.NoWait, o.Args = gangs(t), "writes", true, []string{"--write-config-to=" + written}
		code, err := w.StartScheduler(o).Wait(w.Ctx)
		require.NoError(t, err)
		require.Zero(t, code)
		text := testenv.ReadFile(t, written)
		assert.Contains(t, text, "nodeSampleSize: 17")
		assert.Contains(t, text, "permitWaitingTimeSeconds: 7")
	})
}
