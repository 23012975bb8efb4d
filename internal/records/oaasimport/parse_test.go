// SPDX-License-Identifier: Apache-2.0

package oaasimport

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/records/render"
)

func read(t require.TestingT, text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
	return u
}

// every field of the latest version.
const classRuntime = `
apiVersion: oaas.io/v1alpha1
kind: ClassRuntime
metadata:
  name: shop-cart-1a2b3c4d
  namespace: oaas
  creationTimestamp: "2026-03-05T10:00:00Z"
  labels: {oaas.io/deployment-id: shop-cart-1a2b3c4d}
  annotations: {oaas.io/correlation-id: c-1}
spec:
  package_class_key: example.shop.Cart
  selected_template: knative
  addons: [odgm, redis]
  odgm_config:
    collections: [carts]
    partition_count: 4
    replica_count: 3
    shard_type: raft
    invocations:
      fn_routes: {add: {url: "http://cart-add", stateless: false, standby: true, active_group: [1, 2], function_key: add}}
      disabled_fn: [drop]
    options: {retention: "7"}
    log: info
    env_node_ids: {edge: [1, 2], cloud: []}
    node_id: 1
    collection_assignments: {carts: [{primary: 1, replica: [1, 2], shard_ids: [9]}]}
  functions:
  - function_key: add
    description: Adds an item
    available_location: edge
    qos_requirement: {throughput: 50, availability: 0.999}
    provision_config:
      container_image: registry.example/cart:1
      port: 9090
      max_concurrency: 8
      need_http2: true
      cpu_request: 100m
      memory_request: 64Mi
      cpu_limit: "1"
      memory_limit: 128Mi
      min_scale: 2
      max_scale: 5
    config: {LEVEL: debug}
  - function_key: sum
    provision_config: {wasm_module_url: "http://modules/sum.wasm"}
    color: blue
  nfr_requirements: {min_throughput_rps: 500, max_latency_ms: 100, availability_pct: 99.9, consistency: strong}
  enforcement: {mode: enforce, dimensions: [replicas, memory, disk]}
  telemetry: {enabled: true, traces: true, metrics: false, logs: true, sampling_rate: 0.1, service_name: cart, resource_attributes: {team: shop}}
status: {phase: available}
`

func TestParseOfAClassRuntime(t *testing.T) {
	t.Parallel()
	record, notes, err := Parse(read(t, classRuntime))
	require.NoError(t, err)
	assert.Equal(t, []string{
		`spec: unknown field "functions[1].color": it is left out`,
		`spec.addons: "redis" is left out: only odgm is known`,
		`spec.enforcement.dimensions: "disk" is left out: only replicas, cpu and memory are known`,
	}, notes)
	created := metav1.NewTime(time.Date(2026, 3, 5, 10, 0, 0, 0, time.UTC))
	record.Spec.DeploymentUnit.CreatedAt.Time = record.Spec.DeploymentUnit.CreatedAt.UTC()
	assert.Equal(t, &v1alpha1.DeploymentRecord{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "oaas", Name: "shop-cart-1a2b3c4d",
			Labels: map[string]string{v1alpha1.DeploymentIDLabel: render.Hash("shop-cart-1a2b3c4d")},
			Annotations: map[string]string{
				v1alpha1.DeploymentIDAnnotation: "shop-cart-1a2b3c4d", v1alpha1.CorrelationIDAnnotation: "c-1",
			},
		},
		Spec: v1alpha1.DeploymentRecordSpec{
			DeploymentUnit: v1alpha1.DeploymentUnit{
				ID: "shop-cart-1a2b3c4d", PackageName: "example.shop", ClassKey: "Cart", CreatedAt: &created,
				Functions: []v1alpha1.FunctionSpec{{
					FunctionKey: "add", Description: "Adds an item", AvailableLocation: "edge", Image: "registry.example/cart:1",
					Port: 9090, MaxConcurrency: 8, HTTP2: true, MinScale: new(int32(2)), MaxScale: new(int32(5)),
					Resources:       &v1alpha1.ResourceAllocation{CPU: "100m", Memory: "64Mi", CPULimit: "1", MemoryLimit: "128Mi"},
					NFRRequirements: &v1alpha1.NFRRequirements{MinThroughputRPS: new(int32(50)), Availability: new("0.999")},
					Config:          map[string]v1alpha1.ConfigValue{"LEVEL": "debug"},
				}, {FunctionKey: "sum", WASMModuleURL: "http://modules/sum.wasm"}},
			},
			TemplateHint: "knative", Addons: &[]v1alpha1.Addon{v1alpha1.AddonODGM},
			NFRRequirements: &v1alpha1.NFRRequirements{
				MinThroughputRPS: new(int32(500)), MaxLatencyMS: new(int32(100)), Availability: new("0.999"),
				Consistency: v1alpha1.ConsistencyStrong,
			},
			Enforcement: &v1alpha1.NFREnforcement{
				Mode: v1alpha1.EnforcementEnforce, Dimensions: []v1alpha1.NFRDimension{v1alpha1.DimensionReplicas, v1alpha1.DimensionMemory},
			},
			ODGMConfig: &v1alpha1.ODGMConfig{
				Collections: []string{"carts"}, PartitionCount: new(int32(4)), ReplicaCount: new(int32(3)), ShardType: "raft",
				Invocations: &v1alpha1.InvocationRoutes{Disabled: []string{"drop"}, Routes: map[string]v1alpha1.FunctionRoute{"add": {
					URL: "http://cart-add", FunctionKey: "add", Stateless: new(false), Standby: new(true), ActiveGroup: v1alpha1.NodeIDs{"1", "2"},
				}}},
				Options: map[string]v1alpha1.AttributeValue{"retention": "7"}, Log: "info", NodeID: new(v1alpha1.NodeID("1")),
				NodeIDs: map[string]v1alpha1.NodeIDs{"edge": {"1", "2"}, "cloud": {}},
				Assignments: map[string]v1alpha1.ShardAssignments{"carts": {{
					Primary: new(v1alpha1.NodeID("1")), Replica: v1alpha1.NodeIDs{"1", "2"}, ShardIDs: v1alpha1.NodeIDs{"9"},
				}}},
			},
			Telemetry: &v1alpha1.Telemetry{
				Enabled: true, Traces: new(true), Metrics: new(false), Logs: new(true), SamplingRate: "0.1", ServiceName: "cart",
				ResourceAttributes: map[string]v1alpha1.AttributeValue{"team": "shop"},
			},
		},
	}, record)
}

func TestParseOfTheEarlierGeneration(t *testing.T) {
	t.Parallel()
	record, notes, err := Parse(read(t, `
apiVersion: oaas.io/v1alpha1
kind: DeploymentRecord
metadata: {name: my-deployment, namespace: oaas, labels: {oaas.io/deployment-id: My_Deployment}}
spec:
  selected_template: edge
  functions:
  - {function_key: f, replicas: 3, container_image: "registry.example/f:1", resource_requirements: {cpu_request: 50m}}
  nfr: {enforcement: {mode: "off"}}
`))
	require.NoError(t, err)
	assert.Empty(t, notes)
	assert.Equal(t, "my-deployment", record.Name)
	assert.Equal(t, "My_Deployment", record.Annotations[v1alpha1.DeploymentIDAnnotation])
	assert.Equal(t, v1alpha1.DeploymentRecordSpec{
		DeploymentUnit: v1alpha1.DeploymentUnit{ID: "My_Deployment", Functions: []v1alpha1.FunctionSpec{{
			FunctionKey: "f", Image: "registry.example/f:1", MinScale: new(int32(3)), Resources: &v1alpha1.ResourceAllocation{CPU: "50m"},
		}}},
		TemplateHint: "edge", Enforcement: &v1alpha1.NFREnforcement{Mode: v1alpha1.EnforcementOff},
	}, record.Spec, "no addons is the default of the configuration, which an empty list is not")
}

func TestErrorsOfParseNameTheObjectAndTheField(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"":                        "it has no spec",
		"spec: {functions: [{}]}": "spec.functions[0].function_key is missing",
		"spec: {functions: none}": "spec: json: cannot unmarshal string into Go struct field runtimeSpec.functions",
		"spec: {telemetry: {enabled: true, sampling_rate: 2}}":   "spec.telemetry.sampling_rate must be from 0 to 1, not 2",
		"spec: {nfr_requirements: {availability_pct: 100.1}}":    "spec.nfr_requirements.availability_pct must be from 0 to 100, not 100.1",
		"spec: {functions: [{function_key: f, replicas: 1.5}]}":  "spec: json: cannot unmarshal number 1.5",
		"spec: {functions: [{function_key: f, config: {a: 1}}]}": "spec: json: cannot unmarshal number",
	} {
		_, _, err := Parse(read(t, "apiVersion: oaas.io/v1alpha1\nkind: ClassRuntime\nmetadata: {namespace: a, name: b}\n"+spec))
		require.Error(t, err, spec)
		assert.ErrorContains(t, err, "ClassRuntime a/b: "+want)
	}
	_, _, err := Parse(read(t, "kind: ClassRuntime\nmetadata: {namespace: a, name: b, labels: {oaas.io/deployment-id: _}}\nspec: {}"))
	assert.ErrorContains(t, err, `ClassRuntime a/b: deployment ID "_" has no letter`)
}

func TestShares(t *testing.T) {
	t.Parallel()
	for percent, want := range map[float64]string{0: "0", 100: "1", 99.9: "0.999", 99.99: "0.9999", 50: "0.5", 99.999: "0.99999"} {
		assert.Equal(t, want, *(&parser{}).share("f", &percent, 100))
	}
}

// Whatever a spec has, there is a record or an error, and no record is invalid for a number that is written as text.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"functions":[{"function_key":"f","replicas":3}]}`))
	f.Add([]byte(`{"nfr_requirements":{"availability_pct":1e-300},"telemetry":{"sampling_rate":0.3}}`))
	f.Fuzz(func(t *testing.T, spec []byte) {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": "ClassRuntime"}}
		u.SetName("b")
		var fields any
		if json.Unmarshal(spec, &fields) != nil {
			return
		}
		u.Object["spec"] = fields
		record, _, err := Parse(u)
		require.Equal(t, err == nil, record != nil)
		if err == nil && record.Spec.NFRRequirements != nil && record.Spec.NFRRequirements.Availability != nil {
			require.Regexp(t, `^(0(\.[0-9]+)?|1(\.0+)?)$`, *record.Spec.NFRRequirements.Availability)
		}
	})
}
