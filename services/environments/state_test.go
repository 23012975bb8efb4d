// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

func TestStatusOfPhase(t *testing.T) {
	const run, stop = v1alpha1.RunPolicyRunning, v1alpha1.RunPolicyStopped
	for name, tc := range map[string]struct {
		phase    v1alpha1.EnvironmentPhase
		run      v1alpha1.RunPolicy
		seen     bool
		deleting bool
		want     string
	}{
		"new":                          {"", run, false, false, "PENDING"},
		"pending":                      {"Pending", run, true, false, "PENDING"},
		"creating":                     {"Creating", run, true, false, "CREATING"},
		"running":                      {"Running", run, true, false, "RUNNING"},
		"updating":                     {"Updating", run, true, false, "UPDATING"},
		"stopping":                     {"Stopping", stop, true, false, "STOPPING"},
		"stopped":                      {"Stopped", stop, true, false, "STOPPED"},
		"failed":                       {"Failed", run, true, false, "FAILED"},
		"deleting":                     {"Deleting", run, true, true, "STOPPING"},
		"deleted a moment ago":         {"Running", run, true, true, "STOPPING"},
		"deleted after a change":       {"Stopped", run, false, true, "STOPPING"},
		"stopped a moment ago":         {"Running", stop, false, false, "STOPPING"},
		"stopped while it was started": {"Creating", stop, false, false, "STOPPING"},
		"stopped after it failed":      {"Failed", stop, false, false, "STOPPING"},
		"started a moment ago":         {"Stopped", run, false, false, "CREATING"},
		"started while it stopped":     {"Stopping", run, false, false, "CREATING"},
		"changed a moment ago":         {"Running", run, false, false, "UPDATING"},
		"changed while it is stopped":  {"Stopped", stop, false, false, "STOPPED"},
		"changed while it is created":  {"Creating", run, false, false, "CREATING"},
		"changed before it began":      {"Pending", run, false, false, "PENDING"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &environment{}
			e.Generation, e.Status.Phase, e.Spec.RunPolicy = 2, tc.phase, tc.run
			e.Status.ObservedGeneration = 1
			if tc.seen {
				e.Status.ObservedGeneration = 2
			}
			if tc.deleting {
				e.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			assert.Equal(t, tc.want, strings.TrimPrefix(statusOf(e).String(), statusPrefix))
		})
	}
}

func TestUpdatedAtIsThatOfTheLastChange(t *testing.T) {
	made, now := time.Unix(100, 0).UTC(), time.Unix(100, 5000).UTC()
	e := &environment{}
	e.CreationTimestamp, e.Generation = metav1.NewTime(made), 1
	assert.Equal(t, made, updatedAt(e).AsTime())
	e.Annotations = map[string]string{v1alpha1.UpdatedAtAnnotation: stamp(2, now)}
	e.Generation = 2
	assert.Equal(t, now, updatedAt(e).AsTime(), "within the same second")
	e.Status.UpdatedAt = &metav1.Time{Time: time.Unix(101, 0)}
	assert.Equal(t, now, updatedAt(e).AsTime(), "the controller saw it a second later")
	e.Generation = 3
	assert.Equal(t, e.Status.UpdatedAt.UTC(), updatedAt(e).AsTime(), "changed by kubectl since then")
	e.Status.UpdatedAt = &metav1.Time{Time: made.Add(-time.Second)}
	assert.Equal(t, made, updatedAt(e).AsTime())
	rapid.Check(t, func(t *rapid.T) {
		e.Annotations[v1alpha1.UpdatedAtAnnotation] = rapid.StringMatching(`3/.*|.*`).Draw(t, "annotation")
		assert.NoError(t, updatedAt(e).CheckValid())
	})
}
