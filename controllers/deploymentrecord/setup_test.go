// SPDX-License-Identifier: Apache-2.0

package deploymentrecord

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"berth.dev/berth/apis/v1alpha1"
)

func TestWhichChangesOfARecordAreLookedAt(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.DeploymentRecord)
		want   bool
	}{
		"nothing":             {func(*v1alpha1.DeploymentRecord) {}, false},
		"its status":          {func(r *v1alpha1.DeploymentRecord) { r.Status.Message = "x" }, false},
		"its spec":            {func(r *v1alpha1.DeploymentRecord) { r.Generation++ }, true},
		"its end":             {func(r *v1alpha1.DeploymentRecord) { r.DeletionTimestamp = &metav1.Time{} }, true},
		"another one":         {func(r *v1alpha1.DeploymentRecord) { r.UID = "b" }, true},
		"who asked for it":    {func(r *v1alpha1.DeploymentRecord) { r.Annotations = map[string]string{"a": "b"} }, true},
		"our finalizer goes":  {func(r *v1alpha1.DeploymentRecord) { r.Finalizers = nil }, true},
		"a finalizer is more": {func(r *v1alpha1.DeploymentRecord) { r.Finalizers = append(r.Finalizers, "x/y") }, false},
	} {
		before := &v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{UID: "a", Generation: 1, Finalizers: []string{v1alpha1.RecordFinalizer}}}
		after := before.DeepCopy()
		tc.change(after)
		assert.Equal(t, tc.want, asksForMore(event.UpdateEvent{ObjectOld: before, ObjectNew: after}), name)
	}
	fresh := &v1alpha1.DeploymentRecord{}
	guarded := fresh.DeepCopy()
	guarded.Finalizers = []string{v1alpha1.RecordFinalizer}
	assert.False(t, asksForMore(event.UpdateEvent{ObjectOld: fresh, ObjectNew: guarded}), "our own finalizer")
}
