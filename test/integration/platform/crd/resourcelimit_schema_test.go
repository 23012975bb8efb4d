// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// TestResourceLimitSchema has what the schema itself refuses, without a CEL rule.
func TestResourceLimitSchema(t *testing.T) {
	t.Parallel()
	operator := `supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"`
	term := func(requirement string) string {
		return "{nodeAffinity: " + required.in("{matchExpressions: ["+requirement+"]}") + "}"
	}
	cases := map[string]schemaCase{
		"an empty limit is accepted":                     {"{}", ""},
		"eight volumes are accepted":                     {"{volumes: {" + many(8, "{size: 1Gi}") + "}}", ""},
		"a ninth volume is refused":                      {"{volumes: {" + many(9, "{size: 1Gi}") + "}}", "spec.volumes: Too many: 9: must have at most 8 items"},
		"a volume without a size is refused":             {"{volumes: {data: {storageClass: fast}}}", "spec.volumes.data.size: Required value"},
		"an empty storage class is refused":              {"{volumes: {data: {size: 1Gi, storageClass: ''}}}", "spec.volumes.data.storageClass: Invalid value: \"\": spec.volumes.data.storageClass in body should be at least 1 chars long"},
		"16 labels of a node are accepted":               {"{nodeSelector: {" + many(16, "v") + "}}", ""},
		"17 labels of a node are refused":                {"{nodeSelector: {" + many(17, "v") + "}}", "spec.nodeSelector: Too many: 17: must have at most 16 items"},
		"a label value of 64 letters is refused":         {"{nodeSelector: {disk: n" + longestName + "}}", "spec.nodeSelector.disk: Too long: may not be more than 63 bytes"},
		"half a core as a number is refused":             {"{cpu: 0.5}", `spec.cpu: Invalid value: "number": spec.cpu in body must be of type integer,string: "number"`},
		"an unknown operator is refused":                 {term("{key: disk, operator: Is}"), `Unsupported value: "Is": ` + operator},
		"an operator in lower case is refused":           {term("{key: disk, operator: exists}"), `Unsupported value: "exists": ` + operator},
		"an operator that fields do not have is refused": {"{nodeAffinity: " + required.in("{matchFields: [{key: metadata.name, operator: Exists, values: [a]}]}") + "}", `Unsupported value: "Exists": supported values: "In", "NotIn"`},
		"two names of nodes are refused":                 {"{nodeAffinity: " + required.in("{matchFields: [{key: metadata.name, operator: In, values: [a, b]}]}") + "}", "matchFields[0].values: Too many: 2: must have at most 1 item"},
		"required rules without terms are refused":       {"{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}", "spec.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value"},
		"a preference without a weight is refused":       {"{nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{preference: {matchExpressions: [{key: disk, operator: Exists}]}}]}}", "preferredDuringSchedulingIgnoredDuringExecution[0].weight: Required value"},
		"the wrapper of a whole affinity is refused":     {"{nodeAffinity: {nodeAffinity: {}}}", `strict decoding error: unknown field "spec.nodeAffinity.nodeAffinity"`},
		"upstream's spelling of a field is refused":      {"{cpu_limit: 2}", `strict decoding error: unknown field "spec.cpu_limit"`},
		"a description of 1025 characters is refused":    {"{description: " + strings.Repeat("d", 1025) + "}", "spec.description: Too long: may not be more than 1024 bytes"},
	}
	checkSchema(t, resourceLimit, cases)
}

// The schema fills in nothing: what a field means when it is absent is the controller's and the scheduler's to decide.
func TestResourceLimitHasNoDefaults(t *testing.T) {
	t.Parallel()
	got, err := create(t, resourceLimit, "{volumes: {data: {size: 1Gi}}, nodeAffinity: {}, selector: {}}")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{
		"volumes": map[string]any{"data": map[string]any{"size": "1Gi"}}, "nodeAffinity": map[string]any{}, "selector": map[string]any{},
	}, got.Object["spec"])
}

func TestResourceLimitGoTypesKeepEveryField(t *testing.T) {
	t.Parallel()
	c := typed(t)
	name := v1alpha1.NodeTerm{MatchFields: []v1alpha1.NodeFieldRequirement{{Key: "metadata.name", Operator: v1alpha1.NodeFieldOpNotIn, Values: []string{"node-1"}}}}
	labels := v1alpha1.NodeTerm{MatchExpressions: []v1alpha1.NodeRequirement{
		{Key: "disk", Operator: v1alpha1.NodeOpIn, Values: []string{"ssd", ""}},
		{Key: "old", Operator: v1alpha1.NodeOpDoesNotExist},
		{Key: "cores", Operator: v1alpha1.NodeOpGt, Values: []string{"15"}},
	}}
	spec := v1alpha1.ResourceLimitSpec{
		Description: "for small services",
		CPU:         new(resource.MustParse("500m")), CPULimit: new(resource.MustParse("2")),
		Memory: new(resource.MustParse("512Mi")), MemoryLimit: new(resource.MustParse("1Gi")),
		EphemeralStorage: new(resource.MustParse("2Gi")),
		Volumes: map[string]v1alpha1.VolumeLimit{
			"data":  {Size: resource.MustParse("10Gi"), StorageClass: new("fast"), MountPath: "/var/lib/data"},
			"cache": {Size: resource.MustParse("1Gi")},
		},
		NodeSelector: map[string]string{"disk": "ssd"},
		NodeAffinity: &v1alpha1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  &v1alpha1.NodeTerms{NodeSelectorTerms: []v1alpha1.NodeTerm{labels, name}},
			PreferredDuringSchedulingIgnoredDuringExecution: []v1alpha1.PreferredNodeTerm{{Weight: 7, Preference: labels}},
		},
		Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}},
	}
	sent := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Name: "typed", Namespace: namespace}, Spec: spec}
	require.NoError(t, c.Create(t.Context(), sent.DeepCopy()))

	got := &v1alpha1.ResourceLimit{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(sent), got))
	assert.Equal(t, spec, got.Spec)
	assert.Equal(t, int64(1), got.Generation)
}

// A quantity may be a number or text. The server keeps what was written, and the Go types read both.
func TestQuantitiesMayBeNumbersOrText(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]struct {
		cpu, memory       any
		parsedCPU, parsed string
	}{
		"{cpu: 1, memory: 1073741824}":       {int64(1), int64(1073741824), "1", "1Gi"},
		"{cpu: '1', memory: '1073741824'}":   {"1", "1073741824", "1", "1Gi"},
		"{cpu: 1000m, memory: 1Gi}":          {"1000m", "1Gi", "1", "1Gi"},
		"{cpu: '1.0', memory: 1048576Ki}":    {"1.0", "1048576Ki", "1", "1Gi"},
		"{cpu: 1e0, memory: '1.073741824G'}": {int64(1), "1.073741824G", "1", "1Gi"},
	} {
		t.Run(written, func(t *testing.T) {
			t.Parallel()
			got, err := create(t, resourceLimit, written)
			require.NoError(t, err)
			assert.Equal(t, map[string]any{"cpu": want.cpu, "memory": want.memory}, got.Object["spec"])
			assert.Equal(t, 0, parsed(t, got).Spec.CPU.Cmp(resource.MustParse(want.parsedCPU)))
			assert.Equal(t, 0, parsed(t, got).Spec.Memory.Cmp(resource.MustParse(want.parsed)))
		})
	}
}

// parsed is an object as the Go type.
func parsed(t *testing.T, u *unstructured.Unstructured) *v1alpha1.ResourceLimit {
	t.Helper()
	data, err := u.MarshalJSON()
	require.NoError(t, err)
	out := &v1alpha1.ResourceLimit{}
	require.NoError(t, json.Unmarshal(data, out))

	return out
}

func TestResourceLimitStatusIsASubresource(t *testing.T) {
	t.Parallel()
	c := typed(t)
	object := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Name: "status", Namespace: namespace}}
	object.Status.PodCount = 7
	require.NoError(t, c.Create(t.Context(), object))
	assert.Zero(t, object.Status, "a create takes no status")

	object.Spec.CPU = new(resource.MustParse("1"))
	object.Status = v1alpha1.ResourceLimitStatus{
		ObservedGeneration: 1, PodCount: 3, WorkloadCount: 1,
		Workloads: []v1alpha1.WorkloadReference{{Kind: "Deployment", Namespace: namespace, Name: "web"}},
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionInUse, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReferenced, LastTransitionTime: metav1.Now(),
		}},
	}
	want := object.Status.DeepCopy()
	require.NoError(t, c.Status().Update(t.Context(), object))

	got := &v1alpha1.ResourceLimit{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), got))
	got.Status.Conditions[0].LastTransitionTime = want.Conditions[0].LastTransitionTime // the server keeps whole seconds
	assert.Equal(t, *want, got.Status)
	assert.Nil(t, got.Spec.CPU, "a status update changes no spec")
	assert.Equal(t, int64(1), got.Generation)
}

func TestTableShowsTheResourceLimit(t *testing.T) {
	t.Parallel()
	normal, wide, cells := tableOf(t, resourceLimit, "{description: for small services, cpu: 1, memory: 512Mi, cpuLimit: '2'}")
	assert.Equal(t, []string{"Name", "CPU", "Memory", "Pods", "Workloads", "Age"}, normal)
	assert.Equal(t, []string{"CPU-Limit", "Memory-Limit", "Description"}, wide)
	// A number is shown as one that is text. No controller has written a status here.
	assert.Equal(t, []any{"table", "1", "512Mi", nil, nil, "2", nil, "for small services"}, cells[:8])
	assert.NotEmpty(t, cells[8], "age")
}

// What is a rule as a whole has one owner: two halves would be a third rule.
func TestNodeRulesHaveOneOwner(t *testing.T) {
	t.Parallel()
	apply := func(owner, spec string) error {
		_, err := objects(t, resourceLimit).Apply(t.Context(), "applied", object(t, resourceLimit, "applied", spec), metav1.ApplyOptions{FieldManager: owner})

		return err
	}
	term := func(key string) string {
		return "{nodeAffinity: " + required.in("{matchExpressions: [{key: "+key+", operator: Exists}]}") + "}"
	}
	require.NoError(t, apply("team", term("disk")))
	assert.ErrorContains(t, apply("platform", term("gpu")), `conflict with "team": .spec.nodeAffinity`)
	require.NoError(t, apply("platform", "{cpu: 1, nodeSelector: {disk: ssd}}"), "other fields may have others")
	assert.ErrorContains(t, apply("team", "{cpu: 2}"), `conflict with "platform": .spec.cpu`)
}
