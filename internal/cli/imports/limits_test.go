// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/internal/limits/mcpimport"
)

// configMap is one of a form.
func configMap(t *testing.T, form mcpimport.Form, namespace, name, cpu string) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: form.Selector()},
		Data:       map[string]string{"cpu": cpu},
	})
	require.NoError(t, err)
	return &unstructured.Unstructured{Object: fields}
}

func TestConvertGivesEveryConfigMapAnAnswer(t *testing.T) {
	t.Parallel()
	gone := configMap(t, mcpimport.FormQuoted, "a", "rl-gone", "1")
	gone.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	settings := configMap(t, mcpimport.FormQuoted, "a", "settings", "1")
	settings.SetLabels(nil)
	maps := []*unstructured.Unstructured{
		configMap(t, mcpimport.FormQuoted, "b", "rl-small", `"1"`), gone, settings,
		configMap(t, mcpimport.FormPlain, "a", "resource-limit-rl-small", "1"),
		configMap(t, mcpimport.FormQuoted, "a", "rl-small", `"2"`),
		configMap(t, mcpimport.FormQuoted, "a", "rl-bad", "lots"),
	}
	var got []string
	for _, r := range convert(maps, "", parseLimit) {
		switch {
		case r.Err != nil:
			got = append(got, "error: "+r.Err.Error())
		case r.Skipped != "":
			got = append(got, r.Key+" skipped: "+r.Skipped)
		default:
			got = append(got, r.Key+" gives "+r.Object.GetNamespace()+"/"+r.Object.GetName())
		}
	}
	assert.Equal(t, []string{
		"a/resource-limit-rl-small gives a/small",
		`error: ConfigMap a/rl-bad: data[cpu]: "lots" is not a quantity such as 500m or 2Gi`,
		"a/rl-gone skipped: it is being deleted",
		"error: ConfigMap a/rl-small: it defines ResourceLimit a/small differently from ConfigMap a/resource-limit-rl-small",
		"a/settings skipped: it is not a resource limit: it has neither the labels app.kubernetes.io/managed-by=mcp-orchestrator,mcp-orchestrator.egoavara.net/type-of=resource-limit nor mcp-orchestrator.egoavara.net/managed=true,mcp-orchestrator.egoavara.net/type=resource-limit",
		"b/rl-small gives b/small",
	}, got)

	// Into one namespace, limits of the same name meet.
	results := convert(maps, "there", parseLimit)
	require.Len(t, results, 6)
	assert.Equal(t, "there", results[0].Object.GetNamespace())
	assert.Nil(t, results[5].Object)
	assert.Equal(t, "it defines the same ResourceLimit there/small as ConfigMap a/resource-limit-rl-small", results[5].Skipped)
}

// What is applied is the spec and the labels: no status, no timestamps, nothing that others own.
func TestObjectHasNothingThatTheImportDoesNotSet(t *testing.T) {
	t.Parallel()
	r := convert([]*unstructured.Unstructured{configMap(t, mcpimport.FormQuoted, "a", "rl-small", `"1"`)}, "", parseLimit)[0]
	require.NoError(t, r.Err)
	assert.Equal(t, map[string]any{
		"apiVersion": "berth.dev/v1alpha1", "kind": "ResourceLimit",
		"metadata": map[string]any{"namespace": "a", "name": "small"},
		"spec":     map[string]any{"cpu": "1"},
	}, r.Object.Object)
}
