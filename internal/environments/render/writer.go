// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// CommandManager is the field manager of kubectl berth env. Like the gRPC service, it records the user who changes an environment.
const CommandManager = "kubectl-berth-env"

// LastWriter returns the client that last changed the spec of an environment, by its field manager, and the user, "" if it is
// unknown: without the policy berth-environment-actor, the annotation of the user stays when a client that does not record users
// changes the spec.
func LastWriter(e *v1alpha1.Environment) (client, actor string) {
	var last metav1.Time
	for i := range e.ManagedFields {
		f := &e.ManagedFields[i]
		if f.Subresource == "" && f.Time != nil && !f.Time.Before(&last) && hasSpec(f.FieldsV1) {
			client, last = f.Manager, *f.Time
		}
	}
	byPolicy := e.Annotations[v1alpha1.ActorGenerationAnnotation] == strconv.FormatInt(e.Generation, 10)
	if byPolicy || client == v1alpha1.ServiceFieldManager || client == CommandManager {
		actor = e.Annotations[v1alpha1.ActorAnnotation]
	}
	return client, actor
}

// TrimWriters is a transform of a cache: of the managed fields of an Environment it keeps what LastWriter reads, which is which
// client last wrote the spec, and when.
func TrimWriters(o any) (any, error) {
	e, is := o.(*v1alpha1.Environment)
	if !is {
		return o, nil
	}
	var kept []metav1.ManagedFieldsEntry
	for i := range e.ManagedFields {
		if f := &e.ManagedFields[i]; f.Subresource == "" && hasSpec(f.FieldsV1) {
			kept = append(kept, metav1.ManagedFieldsEntry{Manager: f.Manager, Time: f.Time, FieldsV1: onlySpec})
		}
	}
	e.ManagedFields = kept
	return e, nil
}

// onlySpec represents any fields of the spec.
var onlySpec = metav1.NewFieldsV1(`{"f:spec":{}}`)

func hasSpec(fields *metav1.FieldsV1) bool {
	if fields == nil {
		return false
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(fields.GetRawBytes(), &top) != nil {
		return false
	}
	_, has := top["f:spec"]
	return has
}
