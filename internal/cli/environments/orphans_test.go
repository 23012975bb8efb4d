// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/orphans"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/test/clitest"
)

// madeFor marks an object as that of an environment.
func madeFor[T client.Object](object T, in, name, home, id string) T {
	object.SetNamespace(in)
	object.SetName(name)
	object.SetUID(types.UID(in + "/" + name))
	object.SetCreationTimestamp(clitest.Ago(time.Hour))
	object.SetLabels(map[string]string{v1alpha1.EnvironmentLabel: id, v1alpha1.EnvironmentNamespaceLabel: home})
	return object
}

func spaceOf(home, id string) string { return render.NamespaceOf("env-", home, id) }

// litter is what is there of an environment that exists, and of some that do not.
func litter() []client.Object {
	kept := madeFor(&corev1.Namespace{}, "", spaceOf("shop", "kept"), "shop", "kept")
	kept.Labels[v1alpha1.RetainedLabel] = "true"
	owned := madeFor(&corev1.Pod{}, "plain", "owned", "shop", "lost")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "x", UID: "x", Controller: new(true)}}
	half := madeFor(&corev1.Service{}, "plain", "half", "", "lost")
	delete(half.Labels, v1alpha1.EnvironmentNamespaceLabel)
	return []client.Object{
		store(),
		madeFor(&corev1.Namespace{}, "", spaceOf("shop", "store-1a2b"), "shop", "store-1a2b"),
		madeFor(&appsv1.Deployment{}, spaceOf("shop", "store-1a2b"), "backend", "shop", "store-1a2b"),
		madeFor(&corev1.Namespace{}, "", spaceOf("shop", "lost"), "shop", "lost"),
		madeFor(&appsv1.Deployment{}, spaceOf("shop", "lost"), "backend", "shop", "lost"),
		madeFor(&corev1.PersistentVolumeClaim{}, spaceOf("shop", "lost"), "database-data", "shop", "lost"),
		kept,
		madeFor(&corev1.PersistentVolumeClaim{}, kept.Name, "database-data", "shop", "kept"),
		madeFor(&corev1.Namespace{}, "", "production", "shop", "lost"),
		madeFor(&corev1.Service{}, "production", "backend", "shop", "lost"),
		// Of an environment of the same id, in another namespace.
		madeFor(&appsv1.StatefulSet{}, "back", "database", "back", "store-1a2b"),
		madeFor(&corev1.PersistentVolumeClaim{}, "back", "database-data", "back", "store-1a2b"),
		madeFor(&corev1.Secret{}, "back", "database", "back", "store-1a2b"),
		owned, half,
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "plain", Name: "free"}},
	}
}

// orphansOf lists or deletes the orphans of the environments of a namespace.
func orphansOf(t *testing.T, c client.Client, namespace string, f orphansFlags) func(o *command.Options) error {
	return func(o *command.Options) error { return runOrphans(t.Context(), o, c, namespace, &f) }
}

func TestOrphansAreListedAndLeftAlone(t *testing.T) {
	deleted := 0
	c := envCluster(t, interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
		deleted++
		return nil
	}}, litter()...)
	clitest.Goldens(t, "", map[string]string{"orphans.txt": printers.Text, "orphans.json": printers.JSON, "orphans.names": printers.Name},
		orphansOf(t, c, "", orphansFlags{}))
	out, _ := clitest.Printed(t, printers.Name, orphansOf(t, c, "back", orphansFlags{}))
	assert.Equal(t, "persistentvolumeclaim/database-data\nsecret/database\nstatefulset.apps/database\n", out)
	out, errOut := clitest.Printed(t, printers.Text, orphansOf(t, c, "elsewhere", orphansFlags{}))
	assert.Empty(t, out)
	assert.Equal(t, "No orphans found.\n", errOut)
	assert.Zero(t, deleted)
}

func TestOrphansAreDeletedButForVolumes(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{}, litter()...)
	there := func(object client.Object, namespace, name string) bool {
		err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object)
		require.NoError(t, client.IgnoreNotFound(err))
		return err == nil
	}
	out, _ := clitest.Printed(t, printers.Text, orphansOf(t, c, "", orphansFlags{remove: true}))
	clitest.Golden(t, "orphans-deleted.txt", out)
	assert.False(t, there(&corev1.Namespace{}, "", spaceOf("shop", "lost")))
	assert.False(t, there(&appsv1.StatefulSet{}, "back", "database"))
	assert.False(t, there(&corev1.Service{}, "production", "backend"))
	assert.True(t, there(&corev1.Namespace{}, "", spaceOf("shop", "store-1a2b")))
	assert.True(t, there(&corev1.Namespace{}, "", spaceOf("shop", "kept")))
	assert.True(t, there(&corev1.Namespace{}, "", "production"))
	assert.True(t, there(&corev1.PersistentVolumeClaim{}, "back", "database-data"))
	assert.True(t, there(&corev1.Service{}, "plain", "half"))

	clitest.Printed(t, printers.Text, orphansOf(t, c, "", orphansFlags{remove: true, retained: true}))
	assert.False(t, there(&corev1.Namespace{}, "", spaceOf("shop", "kept")))
	assert.False(t, there(&corev1.PersistentVolumeClaim{}, "back", "database-data"))
	assert.True(t, there(&corev1.Namespace{}, "", "production"))
	assert.True(t, there(&corev1.Namespace{}, "", spaceOf("shop", "store-1a2b")))
}

// Between the list and the deletion an environment may come back, and an object be another one.
func TestAnOrphanIsReadAgainBeforeItIsDeleted(t *testing.T) {
	back := store()
	back.Namespace = "back"
	var preconditions *metav1.Preconditions
	c := envCluster(t, interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
		options := &client.DeleteOptions{}
		options.ApplyOptions(opts)
		preconditions = options.Preconditions
		return nil
	}}, back)
	orphan := &orphans.Orphan{APIVersion: "v1", Kind: "Secret", Namespace: "back", Name: "database", Environment: "back/store-1a2b", State: orphans.Unused, UID: "u"}
	said, err := deleteOrphan(t.Context(), c, orphan, &orphansFlags{})
	require.NoError(t, err)
	assert.Equal(t, "skipped: Environment back/store-1a2b exists again", said)
	assert.Nil(t, preconditions)
	orphan.Environment = "back/lost"
	said, err = deleteOrphan(t.Context(), c, orphan, &orphansFlags{})
	require.NoError(t, err)
	assert.Equal(t, "deleted", said)
	assert.Equal(t, orphan.UID, *preconditions.UID)
}

func TestAForbiddenListIsReportedAndTheRestIsShown(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if list.GetObjectKind().GroupVersionKind().Kind == "SecretList" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil)
		}
		return c.List(ctx, list, opts...)
	}}, madeFor(&corev1.Secret{}, "back", "database", "back", "lost"))
	out, errOut := clitest.Printed(t, printers.Text, orphansOf(t, c, "", orphansFlags{}))
	assert.Empty(t, out)
	assert.Equal(t, "Warning: not allowed: list Secret of all namespaces\nNo orphans found among what could be read.\n", errOut)
}
