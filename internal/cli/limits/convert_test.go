// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/limits/mcpimport"
)

// configMap is one of a form.
func configMap(form mcpimport.Form, namespace, name, cpu string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: form.Selector()},
		Data:       map[string]string{"cpu": cpu},
	}
}

func TestConvertGivesEveryConfigMapAnAnswer(t *testing.T) {
	t.Parallel()
	gone := configMap(mcpimport.FormQuoted, "a", "rl-gone", "1")
	gone.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	settings := configMap(mcpimport.FormQuoted, "a", "settings", "1")
	settings.Labels = nil
	maps := []*corev1.ConfigMap{
		configMap(mcpimport.FormQuoted, "b", "rl-small", `"1"`), gone, settings,
		configMap(mcpimport.FormPlain, "a", "resource-limit-rl-small", "1"),
		configMap(mcpimport.FormQuoted, "a", "rl-small", `"2"`),
		configMap(mcpimport.FormQuoted, "a", "rl-bad", "lots"),
	}
	var got []string
	for _, item := range convert(maps, "") {
		switch {
		case item.Err != nil:
			got = append(got, "error: "+item.Err.Error())
		case item.Skipped != "":
			got = append(got, item.ConfigMap+" skipped: "+item.Skipped)
		default:
			got = append(got, item.ConfigMap+" gives "+item.Limit.Namespace+"/"+item.Limit.Name)
		}
	}
	assert.Equal(t, []string{
		"a/resource-limit-rl-small gives a/small",
		`error: ConfigMap a/rl-bad: data[cpu]: "lots" is no quantity, such as 500m or 2Gi`,
		"a/rl-gone skipped: it is being deleted",
		"error: ConfigMap a/rl-small: it defines ResourceLimit a/small differently from ConfigMap a/resource-limit-rl-small",
		"a/settings skipped: it is not a resource limit: it has neither the labels app.kubernetes.io/managed-by=mcp-orchestrator,mcp-orchestrator.egoavara.net/type-of=resource-limit nor mcp-orchestrator.egoavara.net/managed=true,mcp-orchestrator.egoavara.net/type=resource-limit",
		"b/rl-small gives b/small",
	}, got)

	// Into one namespace, limits of the same name meet.
	items := convert(maps, "there")
	require.Len(t, items, 6)
	assert.Equal(t, "there", items[0].Limit.Namespace)
	assert.Nil(t, items[5].Limit)
	assert.Equal(t, "it defines the same ResourceLimit there/small as ConfigMap a/resource-limit-rl-small", items[5].Skipped)
}

// What is applied is the spec and the labels: no status, no timestamps, nothing that others own.
func TestObjectHasNothingThatTheImportDoesNotSet(t *testing.T) {
	t.Parallel()
	item := convert([]*corev1.ConfigMap{configMap(mcpimport.FormQuoted, "a", "rl-small", `"1"`)}, "")[0]
	object, err := limitObject(item.Limit)
	require.NoError(t, err)
	assert.Equal(t, map[string]any{
		"apiVersion": "berth.dev/v1alpha1", "kind": "ResourceLimit",
		"metadata": map[string]any{"namespace": "a", "name": "small"},
		"spec":     map[string]any{"cpu": "1"},
	}, object.Object)
}
