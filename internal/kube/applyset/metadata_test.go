// SPDX-License-Identifier: Apache-2.0

package applyset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"berth.dev/berth/apis/v1alpha1"
)

func TestOnlyRelevantChangesAreReconciled(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.DeploymentRecord)
		want   bool
	}{
		"nothing":             {func(*v1alpha1.DeploymentRecord) {}, false},
		"its status":          {func(r *v1alpha1.DeploymentRecord) { r.Status.Message = "x" }, false},
		"its spec":            {func(r *v1alpha1.DeploymentRecord) { r.Generation++ }, true},
		"its end":             {func(r *v1alpha1.DeploymentRecord) { r.DeletionTimestamp = &metav1.Time{} }, true},
		"another one":         {func(r *v1alpha1.DeploymentRecord) { r.UID = "b" }, true},
		"who requested it":    {func(r *v1alpha1.DeploymentRecord) { r.Annotations = map[string]string{"a": "b"} }, true},
		"our finalizer goes":  {func(r *v1alpha1.DeploymentRecord) { r.Finalizers = nil }, true},
		"a finalizer is more": {func(r *v1alpha1.DeploymentRecord) { r.Finalizers = append(r.Finalizers, "x/y") }, false},
	} {
		before := &v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{UID: "a", Generation: 1, Finalizers: []string{v1alpha1.RecordFinalizer}}}
		after := before.DeepCopy()
		tc.change(after)
		update := event.UpdateEvent{ObjectOld: before, ObjectNew: after}
		assert.Equal(t, tc.want, SpecOrMetadataChanged(v1alpha1.RecordFinalizer).Update(update), name)
	}
	fresh := &v1alpha1.DeploymentRecord{}
	guarded := fresh.DeepCopy()
	guarded.Finalizers = []string{v1alpha1.RecordFinalizer}
	assert.False(t, SpecOrMetadataChanged(v1alpha1.RecordFinalizer).Update(event.UpdateEvent{ObjectOld: fresh, ObjectNew: guarded}), "our own finalizer")
	assert.True(t, SpecOrMetadataChanged(v1alpha1.RecordFinalizer).Create(event.CreateEvent{Object: fresh}))
	assert.True(t, SpecOrMetadataChanged(v1alpha1.RecordFinalizer).Delete(event.DeleteEvent{Object: fresh}))
}

func TestShortenCutsBetweenCharacters(t *testing.T) {
	assert.Equal(t, "short", Shorten("short", 5))
	assert.Equal(t, "sh...", Shorten("shorts", 5))
	assert.Equal(t, "ééé...", Shorten(strings.Repeat("é", 10), 10))
}

func TestListOf(t *testing.T) {
	list, err := ListOf(&corev1.Pod{}, clientgoscheme.Scheme)
	require.NoError(t, err)
	assert.IsType(t, &corev1.PodList{}, list)
	_, err = ListOf(&v1alpha1.DeploymentRecord{}, clientgoscheme.Scheme)
	assert.Error(t, err, "a kind that the scheme does not know")
}
