// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// importer has the rights that an import takes, and no other.
var importer = []rbacv1.PolicyRule{
	builders.Rule("", []string{"configmaps"}, "list"),
	builders.Rule("berth.dev", []string{"resourcelimits"}, "get", "create", "patch"),
}

const (
	selectorJSON = `{"disk":"ssd"}`
	affinityJSON = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"example.com/pool","operator":"In","values":["mcp","shared"]},{"key":"example.com/cores","operator":"Gt","values":["7"]}]}]}}}`
)

// upstreamFile is a file with a ConfigMap of each form, one in a list, and another object.
const upstreamFile = `
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata:
    name: rl-small
    labels: {app.kubernetes.io/managed-by: mcp-orchestrator, mcp-orchestrator.egoavara.net/type-of: resource-limit}
  data: {cpu: '"500m"', memory: '"512Mi"', cpu_limit: 'null'}
---
apiVersion: v1
kind: Secret
metadata: {name: other}
---
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "resource-limit-rl-large", "namespace": "elsewhere",
 "labels": {"mcp-orchestrator.egoavara.net/type": "resource-limit", "mcp-orchestrator.egoavara.net/managed": "true"}},
 "data": {"cpu": "2", "memory": "4Gi"}}
`

// coded is a ConfigMap as upstream's code writes it, planned one as its plan has it.
func coded(namespace, name string, data map[string]string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rl-" + name}, Data: data}
	cm.Labels = map[string]string{
		"app.kubernetes.io/managed-by": "mcp-orchestrator", "mcp-orchestrator.egoavara.net/type-of": "resource-limit",
		"namespace.mcp-orchestrator.egoavara.net/" + namespace: "1", "custom.mcp-orchestrator.egoavara.net/team": "a",
	}
	cm.Annotations = map[string]string{"mcp-orchestrator.egoavara.net/description": "for servers"}
	return cm
}

func planned(namespace, name string, data map[string]string) *corev1.ConfigMap {
	cm := coded(namespace, name, data)
	cm.Name = "resource-limit-rl-" + name
	cm.Labels = map[string]string{
		"mcp-orchestrator.egoavara.net/type": "resource-limit", "mcp-orchestrator.egoavara.net/managed": "true",
		"custom.mcp-orchestrator.egoavara.net/team": "a",
	}
	return cm
}

// asText is a JSON text as upstream's code keeps it.
func asText(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

// versions are those of the test's objects of a list, by name.
func versions(w *testenv.World, list client.ObjectList) map[string]string {
	w.T.Helper()
	all := map[string]string{}
	require.NoError(w.T, meta.EachListItem(testenv.List(w, list), func(o runtime.Object) error {
		object := o.(client.Object)
		all[object.GetName()] = object.GetResourceVersion()
		return nil
	}))
	return all
}

// bothForms are the same four limits in both forms, with and without the scheduling keys.
func bothForms(namespace string) []client.Object {
	volumes := `{"data":{"size":"10Gi","storage_class":"fast"}}`
	return []client.Object{
		coded(namespace, "coded", map[string]string{
			"cpu": `"500m"`, "memory": `"512Mi"`, "cpu_limit": `"1"`, "memory_limit": "null", "ephemeral_storage": "null", "volumes": volumes,
		}),
		planned(namespace, "planned", map[string]string{"cpu": "500m", "memory": "512Mi", "cpu_limit": "1", "volumes": volumes}),
		coded(namespace, "coded-on", map[string]string{
			"cpu": `"500m"`, "memory": `"512Mi"`, "cpu_limit": `"1"`, "memory_limit": "null", "ephemeral_storage": "null", "volumes": volumes,
			"node_selector": selectorJSON, "node_affinity": asText(affinityJSON),
		}),
		planned(namespace, "planned-on", map[string]string{
			"cpu": "500m", "memory": "512Mi", "cpu_limit": "1", "volumes": volumes, "node_selector": selectorJSON, "node_affinity": affinityJSON,
		}),
	}
}

// From the ConfigMaps as upstream writes them to the objects.
func TestImportMakesTheSameLimitsOfBothForms(t *testing.T) {
	w := begin(t)
	w.Create(bothForms(w.Namespace)...)
	other := coded(w.Namespace, "app", map[string]string{"cpu": "1"})
	other.Labels = nil
	w.Create(other)
	me := user(w, "importer", importer)

	r := kubectl(w, me, "", "import", "resource-limits", "-n", w.Namespace, "--dry-run=server").ok(t)
	assert.Equal(t, "resourcelimit.berth.dev/planned created (server dry run)", strings.Split(r.out, "\n")[0])
	kubectl(w, me, "", "import", "resource-limits", "-n", w.Namespace, "--dry-run=client").ok(t)
	assert.Empty(t, versions(w, &v1alpha1.ResourceLimitList{}), "a dry run writes nothing")

	r = kubectl(w, me, "", "import", "resource-limits", "-n", w.Namespace).ok(t)
	assert.Equal(t, "resourcelimit.berth.dev/planned created\nresourcelimit.berth.dev/planned-on created\nresourcelimit.berth.dev/coded created\nresourcelimit.berth.dev/coded-on created\n", r.out)
	assert.Empty(t, r.errOut)

	for _, suffix := range []string{"", "-on"} {
		a, b := testenv.Read(w, "coded"+suffix, &v1alpha1.ResourceLimit{}), testenv.Read(w, "planned"+suffix, &v1alpha1.ResourceLimit{})
		assert.Equal(t, a.Spec, b.Spec)
		assert.Equal(t, map[string]string{"team": "a"}, a.Labels)
		assert.Equal(t, a.Labels, b.Labels)
		assert.Equal(t, "for servers", a.Spec.Description)
		assert.Equal(t, "500m", a.Spec.CPU.String())
		assert.Nil(t, a.Spec.MemoryLimit)
		assert.Equal(t, "fast", *a.Spec.Volumes["data"].StorageClass)
		assert.Equal(t, suffix != "", a.Spec.NodeAffinity != nil)
	}
	on := testenv.Read(w, "coded-on", &v1alpha1.ResourceLimit{})
	assert.Equal(t, map[string]string{"disk": "ssd"}, on.Spec.NodeSelector)
	assert.Equal(t, []string{"7"}, on.Spec.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[1].Values)

	before := versions(w, &v1alpha1.ResourceLimitList{})
	r = kubectl(w, me, "", "import", "resource-limits", "--from-namespace", w.Namespace).ok(t)
	assert.Equal(t, 4, strings.Count(r.out, " unchanged\n"))
	assert.Equal(t, before, versions(w, &v1alpha1.ResourceLimitList{}), "a second import writes nothing")
}

func TestImportReportsErrorsAndContinues(t *testing.T) {
	w := begin(t)
	gone := coded(w.Namespace, "gone", nil)
	gone.Finalizers = []string{"mcp-orchestrator.egoavara.net/resource-limit"}
	w.Create(gone,
		coded(w.Namespace, "bad", map[string]string{"cpu": `"lots"`, "memory": "1GB"}),
		coded(w.Namespace, "refused", map[string]string{"cpu": `"2"`, "cpu_limit": `"1"`}),
		coded(w.Namespace, "good", map[string]string{"cpu": `"1"`, "gpu": "1"}),
		coded(w.Namespace, "twice", map[string]string{"cpu": `"1"`}), planned(w.Namespace, "twice", map[string]string{"cpu": "2"}),
	)
	w.Delete(gone)
	t.Cleanup(func() {
		gone.Finalizers = nil
		_ = w.Client.Patch(w.Ctx, gone, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	me := user(w, "importer", importer)

	r := kubectl(w, me, "", "import", "resource-limits", "-n", w.Namespace)
	require.ErrorIs(t, r.err, command.ErrFailed)
	ns := w.Namespace
	for _, want := range []string{
		"Skipped ConfigMap " + ns + "/rl-gone: it is being deleted\n",
		"error: ConfigMap " + ns + "/rl-bad: data[cpu]: \"lots\" is not a quantity such as 500m or 2Gi\ndata[memory]: \"1GB\" is not a quantity",
		"error: resourcelimit.berth.dev/refused of ConfigMap " + ns + "/rl-refused: ResourceLimit.berth.dev \"refused\" is invalid: spec.cpuLimit: Invalid value: cpuLimit must not be below cpu: 1 is below 2\n",
		"Warning: ConfigMap " + ns + "/rl-good: data[gpu]: the key is not known: left out\n",
		"error: ConfigMap " + ns + "/rl-twice: it defines ResourceLimit " + ns + "/twice differently from ConfigMap " + ns + "/resource-limit-rl-twice\n",
	} {
		assert.Contains(t, r.errOut, want)
	}
	assert.Equal(t, "resourcelimit.berth.dev/twice created\nresourcelimit.berth.dev/good created\n", r.out)

	r = kubectl(w, user(w, "viewer", viewer), "", "import", "resource-limits", "-n", w.Namespace)
	require.ErrorIs(t, r.err, command.ErrFailed)
	assert.Contains(t, r.errOut, "is forbidden")
	r = kubectl(w, me, "", "import", "resource-limits", "-n", "default").ok(t)
	assert.Equal(t, "No resource limits of the MCP orchestrator found in namespace default.\n", r.errOut)
}

func TestImportLeavesAConflictAlone(t *testing.T) {
	w := begin(t)
	cm := coded(w.Namespace, "small", map[string]string{"cpu": `"1"`, "memory": `"1Gi"`})
	w.Create(cm)
	me := user(w, "importer", importer)
	again := func(args ...string) result {
		return kubectl(w, me, "", append([]string{"import", "rlim", "-n", w.Namespace}, args...)...)
	}
	again().ok(t)

	// What is taken out of the ConfigMap goes, what changes there changes here.
	testenv.Patch(w, cm, func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"cpu": `"2"`, "memory": `""`} })
	before := testenv.Read(w, "small", &v1alpha1.ResourceLimit{}).ResourceVersion
	assert.Equal(t, "resourcelimit.berth.dev/small configured (server dry run)\n", again("--dry-run=server").ok(t).out)
	assert.Equal(t, before, testenv.Read(w, "small", &v1alpha1.ResourceLimit{}).ResourceVersion)
	assert.Equal(t, "resourcelimit.berth.dev/small configured\n", again().ok(t).out)
	limit := testenv.Read(w, "small", &v1alpha1.ResourceLimit{})
	assert.Equal(t, "2", limit.Spec.CPU.String())
	assert.Nil(t, limit.Spec.Memory)

	unchanged := limit.DeepCopy()
	limit.Spec.CPU = new(resource.MustParse("3"))
	limit.Spec.EphemeralStorage = new(resource.MustParse("1Gi"))
	require.NoError(t, w.Client.Patch(w.Ctx, limit, client.MergeFrom(unchanged), client.FieldOwner("somebody")))
	for _, args := range [][]string{nil, {"--dry-run=server"}} {
		r := again(args...)
		require.ErrorIs(t, r.err, command.ErrFailed)
		assert.Empty(t, r.out)
		assert.Contains(t, r.errOut, `conflict with "somebody"`)
		assert.Contains(t, r.errOut, ".spec.cpu")
		assert.Contains(t, r.errOut, "--force-conflicts")
	}
	assert.Equal(t, limit.ResourceVersion, testenv.Read(w, "small", &v1alpha1.ResourceLimit{}).ResourceVersion)

	assert.Equal(t, "resourcelimit.berth.dev/small configured\n", again("--force-conflicts").ok(t).out)
	limit = testenv.Read(w, "small", &v1alpha1.ResourceLimit{})
	assert.Equal(t, "2", limit.Spec.CPU.String())
	assert.Equal(t, "1Gi", limit.Spec.EphemeralStorage.String(), "what the import does not set stays")
}

func TestImportFromFiles(t *testing.T) {
	w := begin(t)
	file := testenv.WriteFile(t, "limits.yaml", upstreamFile)

	// Without a cluster.
	nowhere := testenv.WriteFile(t, "config", "apiVersion: v1\nkind: Config\n"+
		"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"+
		"contexts: [{name: c, context: {cluster: c, namespace: here}}]\ncurrent-context: c\n")
	r := kubectl(w, nowhere, "", "import", "resource-limits", "-f", file, "--dry-run=client").ok(t)
	assert.Equal(t, "resourcelimit.berth.dev/large converted (dry run)\nresourcelimit.berth.dev/small converted (dry run)\n", r.out)
	r = kubectl(w, nowhere, "", "import", "resource-limits", "-f", file, "--dry-run=client", "-o", "yaml").ok(t)
	var large v1alpha1.ResourceLimit
	require.NoError(t, yaml.UnmarshalStrict([]byte(strings.Split(r.out, "---\n")[0]), &large))
	assert.Equal(t, "elsewhere/large", large.Namespace+"/"+large.Name)
	assert.Equal(t, "ResourceLimit", large.Kind)
	list := decode[struct {
		Kind  string                   `json:"kind"`
		Items []v1alpha1.ResourceLimit `json:"items"`
	}](t, kubectl(w, nowhere, upstreamFile, "import", "resource-limits", "-f", "-", "--dry-run=client", "-o", "json", "--to-namespace", "there"))
	assert.Equal(t, "List", list.Kind)
	require.Len(t, list.Items, 2)
	assert.Equal(t, "there/small", list.Items[1].Namespace+"/"+list.Items[1].Name)

	// No right to read ConfigMaps is needed.
	me := user(w, "importer", importer[1:])
	r = kubectl(w, me, upstreamFile, "import", "resource-limits", "-f", "-", "-n", "ignored", "--to-namespace", w.Namespace).ok(t)
	assert.Equal(t, "resourcelimit.berth.dev/large created\nresourcelimit.berth.dev/small created\n", r.out)
	assert.Len(t, versions(w, &v1alpha1.ResourceLimitList{}), 2)
	r = kubectl(w, me, "", "import", "resource-limits", "-f", file, "--to-namespace", w.Namespace).ok(t)
	assert.Equal(t, 2, strings.Count(r.out, " unchanged\n"))

	plain := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: rl-x}\ndata: {cpu: 2}\n"
	r = kubectl(w, me, plain, "import", "resource-limits", "-f", "-", "-n", w.Namespace)
	require.ErrorIs(t, r.err, command.ErrFailed)
	assert.Contains(t, r.errOut, "Skipped ConfigMap "+w.Namespace+"/settings: it is not a resource limit: it has neither the labels app.kubernetes.io/managed-by=mcp-orchestrator,mcp-orchestrator.egoavara.net/type-of=resource-limit nor ")
	assert.Contains(t, r.errOut, "error: ConfigMap "+w.Namespace+"/rl-x: ")
	for args, want := range map[string]string{
		"-f " + file + " --from-namespace a": "none of the others can be",
		"--dry-run=maybe":                    `--dry-run is "maybe": it must be none, client or server`,
		"-o name":                            `--output is "name": it must be one of table, json, yaml`,
	} {
		r = kubectl(w, me, "", append([]string{"import", "resource-limits"}, strings.Fields(args)...)...)
		assert.ErrorContains(t, r.err, want)
	}
}
