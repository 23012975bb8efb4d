// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

func TestLastWriter(t *testing.T) {
	entry := func(manager, subresource string, minute int, fields string) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(time.Unix(int64(60*minute), 0))
		out := metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Time: &at, FieldsV1: &metav1.FieldsV1{}}
		out.FieldsV1.SetRawString(fields)
		return out
	}
	const spec, other = `{"f:spec":{"f:runPolicy":{}}}`, `{"f:metadata":{"f:annotations":{"f:spec":{}}}}`
	for what, c := range map[string]struct {
		managed       []metav1.ManagedFieldsEntry
		client, actor string
		generation    string // of the policy's annotation
	}{
		"none":                                  {nil, "", "", ""},
		"kubectl, by the policy":                {[]metav1.ManagedFieldsEntry{entry("kubectl-edit", "", 2, spec)}, "kubectl-edit", "alice", "7"},
		"kubectl, after the policy was removed": {[]metav1.ManagedFieldsEntry{entry("kubectl-edit", "", 2, spec)}, "kubectl-edit", "", "6"},
		"the service, before the controller wrote status and finalizer": {[]metav1.ManagedFieldsEntry{
			entry(v1alpha1.ServiceFieldManager, "", 1, spec), entry("berth-environments", "status", 2, `{"f:status":{}}`), entry("berth-environments", "", 3, other),
		}, v1alpha1.ServiceFieldManager, "alice", ""},
		"kubectl after the service: its user is unknown, and not alice": {[]metav1.ManagedFieldsEntry{
			entry(v1alpha1.ServiceFieldManager, "", 1, spec), entry("kubectl-edit", "", 2, spec),
		}, "kubectl-edit", "", ""},
		"the command after kubectl": {[]metav1.ManagedFieldsEntry{
			entry(CommandManager, "", 3, spec), entry("kubectl-edit", "", 2, spec),
		}, CommandManager, "alice", ""},
		"fields that cannot be read": {[]metav1.ManagedFieldsEntry{entry("x", "", 1, "{"), {Manager: "y"}}, "", "", ""},
	} {
		e := &v1alpha1.Environment{}
		e.Generation, e.ManagedFields = 7, c.managed
		e.Annotations = map[string]string{v1alpha1.ActorAnnotation: "alice", v1alpha1.ActorGenerationAnnotation: c.generation}
		trimmed, err := TrimWriters(e.DeepCopy())
		require.NoError(t, err)
		client, actor := LastWriter(trimmed.(*v1alpha1.Environment))
		assert.Equal(t, c.client, client, "%s, from a cache", what)
		assert.Equal(t, c.actor, actor, "%s, from a cache", what)
		client, actor = LastWriter(e)
		assert.Equal(t, c.client, client, what)
		assert.Equal(t, c.actor, actor, what)
	}
}
