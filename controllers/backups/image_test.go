// SPDX-License-Identifier: Apache-2.0

package backups

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
)

// keyOf is the Secret of an encrypted dump of the test.
func keyOf() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "k"}, Data: map[string][]byte{"key": []byte("0123456789abcdef")},
	}
}

// setImage is what another author does, who may change the Environment and may not get the key.
func setImage(t *testing.T, o Options, image string, stopped bool) {
	t.Helper()
	env := shop()
	require.NoError(t, o.Client.Get(t.Context(), client.ObjectKeyFromObject(env), env))
	env.Spec.Stack.Database.Container.Image = image
	env.Status.Components[0].Ready = !stopped
	require.NoError(t, o.Client.Update(t.Context(), env))
}

// While it waits for its Environment to start, whoever starts it may also set its image.
func TestAnEncryptedDumpThatWaitsKeepsItsFirstImage(t *testing.T) {
	b := aBackup("b", "")
	b.Status = v1alpha1.DatabaseBackupStatus{}
	b.CreationTimestamp = ago(time.Minute)
	b.Spec.Method, b.Spec.EncryptionSecretRef = v1alpha1.DatabaseBackupDump, &v1alpha1.EnvironmentSecret{Name: "k"}
	o := options(t, shop(), keyOf(), b)
	setImage(t, o, "postgres:17", true)
	reconciled := func() {
		_, err := (&backups{o}).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
		require.NoError(t, err)
		require.NoError(t, o.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b))
	}
	for range 4 {
		reconciled()
	}
	require.Equal(t, v1alpha1.DatabaseBackupPending, b.Status.Phase, "the database is not ready")
	assert.Equal(t, "postgres:17", b.Status.Image)

	setImage(t, o, "of-another-author", false)
	for range 4 {
		reconciled()
	}
	require.Equal(t, v1alpha1.DatabaseBackupRunning, b.Status.Phase)
	env := shop()
	require.NoError(t, o.Client.Get(t.Context(), client.ObjectKeyFromObject(env), env))
	for _, c := range render.DumpJob(env, b).Spec.Template.Spec.Containers {
		assert.Equal(t, "postgres:17", c.Image)
	}
}

func TestAnEncryptedDumpFailsWithoutAFirstImage(t *testing.T) {
	without := shop()
	without.Spec.Stack.Database = nil
	for name, objects := range map[string][]client.Object{"no environment": nil, "no database": {without}} {
		b := aBackup("b", "")
		b.Status = v1alpha1.DatabaseBackupStatus{}
		b.CreationTimestamp = ago(time.Minute)
		b.Spec.Method, b.Spec.EncryptionSecretRef = v1alpha1.DatabaseBackupDump, &v1alpha1.EnvironmentSecret{Name: "k"}
		o := options(t, append(objects, keyOf(), b)...)
		_, err := (&backups{o}).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
		require.NoError(t, err)
		require.NoError(t, o.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b))
		assert.Equal(t, v1alpha1.DatabaseBackupFailed, b.Status.Phase, name)
		assert.Contains(t, b.Status.Message, "spec.environment: Environment shop did not exist or had no database", name)
		assert.Empty(t, b.Status.Image, name)
	}
}

// Whoever may change or create an Environment may not be allowed to get the key of its schedule.
func TestAnEncryptedScheduleKeepsTheImageOfItsGeneration(t *testing.T) {
	s := &v1alpha1.DatabaseBackupSchedule{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "s", CreationTimestamp: ago(72 * time.Hour), Generation: 1,
	}}
	s.Spec = v1alpha1.DatabaseBackupScheduleSpec{Environment: "shop", Schedule: "0 3 * * *", Keep: 7}
	s.Spec.EncryptionSecretRef = &v1alpha1.EnvironmentSecret{Name: "backup-key"}
	r := &schedules{options(t, s)}
	// images are those of the backups that a schedule creates for times that are due now.
	images := func() (all []string) {
		for range 3 {
			_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)})
			require.NoError(t, err)
		}
		require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s))
		list := &v1alpha1.DatabaseBackupList{}
		require.NoError(t, r.Client.List(t.Context(), list))
		for i := range list.Items {
			all = append(all, list.Items[i].Spec.Image)
			require.NoError(t, r.Client.Delete(t.Context(), &list.Items[i]))
		}
		s.Status.LastScheduleTime = nil
		require.NoError(t, r.Client.Status().Update(t.Context(), s))
		return all
	}
	changed := func() {
		s.Generation++
		require.NoError(t, r.Client.Update(t.Context(), s))
	}
	refused := func() {
		t.Helper()
		assert.Empty(t, images())
		c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionBackupCurrent)
		require.NotNil(t, c)
		assert.Equal(t, v1alpha1.ReasonInvalidSchedule, c.Reason)
		assert.Equal(t, metav1.ConditionFalse, c.Status)
		assert.Contains(t, c.Message, "spec.environment: Environment shop did not exist or had no database")
		assert.Equal(t, s.Generation, s.Status.ObservedGeneration)
	}
	refused()
	env := shop()
	env.Spec.Stack.Database.Container.Image = "of-another-author"
	require.NoError(t, r.Client.Create(t.Context(), env))
	refused()

	setImage(t, r.Options, "postgres:17", false)
	changed()
	assert.Equal(t, []string{"postgres:17"}, images(), "its author has written it again")
	setImage(t, r.Options, "of-another-author", false)
	assert.Equal(t, []string{"postgres:17"}, images())
	require.NoError(t, r.Client.Delete(t.Context(), env))
	assert.Equal(t, []string{"postgres:17"}, images())
	changed()
	refused()
}
