// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// oaasObject returns an object of the class runtime manager with a spec.
func oaasObject(t *testing.T, kind, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "oaas.io/v1alpha1", "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(map[string]string{"oaas.io/deployment-id": name})
	fields := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(spec), &fields))
	u.Object["spec"] = fields
	return u
}

// recordImporter has the rights that an import of records takes, and no other.
var recordImporter = []rbacv1.PolicyRule{
	builders.Rule("oaas.io", []string{"classruntimes", "deploymentrecords"}, "list"),
	builders.Rule("berth.dev", []string{"deploymentrecords"}, "get", "create", "patch"),
}

func TestImportOfRecordsOfBothGenerations(t *testing.T) {
	w := begin(t)
	me := user(w, "importer", recordImporter)
	args := []string{"import", "records", "-n", w.Namespace}
	r := kubectl(w, me, "", args...).ok(t)
	assert.Equal(t, "No ClassRuntimes or DeploymentRecords of OaaS found in namespace "+w.Namespace+".\n", r.errOut, "their kinds are not served")

	for _, kind := range []string{"ClassRuntime", "DeploymentRecord"} {
		require.NoError(t, w.Cluster.Apply(w.Ctx, builders.CRD("oaas.io", "v1alpha1", kind, "")))
	}
	w.Create(
		oaasObject(t, "ClassRuntime", w.Namespace, "shop-cart-1a2b3c4d", `
package_class_key: example.shop.Cart
addons: [odgm]
functions:
- {function_key: add, provision_config: {container_image: "registry.example/cart:1", port: 9090, min_scale: 2}, color: blue}
nfr_requirements: {availability_pct: 99.9, max_latency_ms: 100}
enforcement: {mode: enforce}
`),
		oaasObject(t, "ClassRuntime", w.Namespace, "refused", `
functions: [{function_key: f, provision_config: {container_image: "registry.example/f:1", min_scale: 3, max_scale: 2}}]
`),
		oaasObject(t, "DeploymentRecord", w.Namespace, "old", `
selected_template: edge
functions: [{function_key: f, replicas: 3, container_image: "registry.example/f:1"}]
`),
	)
	r = kubectl(w, me, "", append(args, "--dry-run=server")...)
	require.ErrorIs(t, r.err, command.ErrFailed)
	assert.Equal(t, "deploymentrecord.berth.dev/old created (server dry run)\ndeploymentrecord.berth.dev/shop-cart-1a2b3c4d created (server dry run)\n", r.out)
	assert.Empty(t, versions(w, &v1alpha1.DeploymentRecordList{}), "a dry run writes nothing")

	r = kubectl(w, me, "", args...)
	require.ErrorIs(t, r.err, command.ErrFailed)
	assert.Equal(t, "deploymentrecord.berth.dev/old created\ndeploymentrecord.berth.dev/shop-cart-1a2b3c4d created\n", r.out)
	assert.Contains(t, r.errOut, `Warning: ClassRuntime `+w.Namespace+`/shop-cart-1a2b3c4d: spec: unknown field "functions[0].color": it is left out`)
	assert.Contains(t, r.errOut, "error: deploymentrecord.berth.dev/refused of ClassRuntime "+w.Namespace+"/refused: ")
	assert.Contains(t, r.errOut, "maxScale must not be below minScale")

	cart := testenv.Read(w, "shop-cart-1a2b3c4d", &v1alpha1.DeploymentRecord{})
	assert.Equal(t, "shop-cart-1a2b3c4d", cart.Annotations[v1alpha1.DeploymentIDAnnotation])
	assert.Equal(t, "example.shop", cart.Spec.DeploymentUnit.PackageName)
	assert.Equal(t, "0.999", *cart.Spec.NFRRequirements.Availability)
	assert.Equal(t, int32(9090), cart.Spec.DeploymentUnit.Functions[0].Port)
	assert.NotNil(t, cart.Spec.DeploymentUnit.CreatedAt)
	old := testenv.Read(w, "old", &v1alpha1.DeploymentRecord{})
	assert.Equal(t, int32(3), *old.Spec.DeploymentUnit.Functions[0].MinScale)
	assert.Equal(t, "edge", old.Spec.TemplateHint)

	before := versions(w, &v1alpha1.DeploymentRecordList{})
	r = kubectl(w, me, "", args...)
	assert.Equal(t, 2, strings.Count(r.out, " unchanged\n"), r.out)
	assert.Equal(t, before, versions(w, &v1alpha1.DeploymentRecordList{}), "a second import writes nothing")

	r = kubectl(w, me, "kind: List\napiVersion: v1\nitems: []\n", "import", "records", "-f", "-", "--dry-run=client")
	require.ErrorContains(t, r.err, "the file has no ClassRuntime or DeploymentRecord of oaas.io")
}
