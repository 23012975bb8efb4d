// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/backup"
	"berth.dev/berth/test/clitest"
)

// credentials are the Secret of the store, as the gRPC service makes it.
func credentials() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "store-1a2b-credentials", UID: "secret", CreationTimestamp: clitest.Ago(time.Hour), OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "berth.dev/v1alpha1", Kind: "Environment", Name: "store-1a2b", UID: "store", Controller: new(true)},
		}},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{v1alpha1.DatabasePasswordKey: []byte("hunter2")},
	}
}

// small is an environment that names no Secret, in another namespace.
func small(t *testing.T) *v1alpha1.Environment {
	t.Helper()
	e, err := environmentOfStack("small", &createFlags{stack: "postgres"})
	require.NoError(t, err)
	e.Namespace, e.Labels, e.Annotations = "back", map[string]string{"cost": "1"}, map[string]string{
		"note": "keep", corev1.LastAppliedConfigAnnotation: "{}", v1alpha1.UpdatedAtAnnotation: "3/x",
	}
	return e
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// backedUp is what a backup prints.
func backedUp(t *testing.T, c client.Client, in string, names []string, withSecrets bool) (string, string) {
	t.Helper()
	o, out, errOut := clitest.Screen("")
	require.NoError(t, runBackup(t.Context(), o, c, in, names, withSecrets))
	return out.String(), errOut.String()
}

// restored restores a backup, and returns what it prints.
func restored(t *testing.T, c client.Client, text, into string, f restoreFlags) (string, string, error) {
	t.Helper()
	o, out, errOut := clitest.Screen("")
	o.In = strings.NewReader(text)
	objects, err := backupOf(o, "-", "default")
	if err == nil {
		if f.dryRun == "" {
			f.dryRun = command.DryRunNone
		}
		err = runRestore(t.Context(), o, c, objects, into, &f)
	}
	return out.String(), errOut.String(), err
}

func TestABackupHasOnlyTheRequestedEnvironments(t *testing.T) {
	going := small(t)
	going.Name, going.Finalizers, going.DeletionTimestamp = "going", []string{v1alpha1.EnvironmentFinalizer}, new(clitest.Ago(time.Minute))
	c := envCluster(t, interceptor.Funcs{}, store(), small(t), going, credentials())
	out, errOut := backedUp(t, c, "", nil, true)
	clitest.Golden(t, "backup-secrets.yaml", out)
	assert.Equal(t, "Warning: Environment back/going is being deleted and is not in the backup\n", errOut)

	out, errOut = backedUp(t, c, "shop", []string{"store-1a2b"}, false)
	clitest.Golden(t, "backup.yaml", out)
	assert.NotContains(t, out, "kind: Secret")
	assert.Equal(t, "Warning: Secret shop/store-1a2b-credentials of Environment shop/store-1a2b is not in the backup (use --with-secrets)\n", errOut)

	require.NoError(t, c.Delete(t.Context(), credentials()))
	_, errOut = backedUp(t, c, "shop", nil, true)
	assert.Contains(t, errOut, "Secret shop/store-1a2b-credentials of Environment shop/store-1a2b does not exist")
}

// Half a backup looks like a whole one.
func TestABackupIsWholeOrNone(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if obj.GetObjectKind().GroupVersionKind().Kind == "Secret" {
			return errors.New("not now")
		}
		return c.Get(ctx, key, obj, opts...)
	}}, store(), small(t))
	for _, tc := range []struct {
		in    string
		names []string
		err   string
	}{
		{"", nil, "read Secret shop/store-1a2b-credentials: not now"},
		{"shop", []string{"store-1a2b", "unknown"}, `environment "unknown" not found in namespace shop`},
		{"empty", nil, "no environments found in namespace empty"},
	} {
		o, out, _ := clitest.Screen("")
		require.EqualError(t, runBackup(t.Context(), o, c, tc.in, tc.names, true), tc.err)
		assert.Empty(t, out.String())
	}
}

// A backup restored into another namespace has an equal spec, and its Secrets go with it.
func TestABackupIsRestoredIntoAnotherNamespace(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{}, store(), credentials(), namespace("shop"), namespace("copy"))
	text, _ := backedUp(t, c, "shop", nil, true)
	out, errOut, err := restored(t, c, text, "copy", restoreFlags{})
	require.NoError(t, err, errOut)
	assert.Equal(t, "Secret copy/store-1a2b-credentials created\nEnvironment copy/store-1a2b created\n", out)
	assert.Empty(t, errOut)
	copied := &v1alpha1.Environment{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "copy", Name: "store-1a2b"}, copied))
	assert.Equal(t, store().Spec, copied.Spec)
	assert.Empty(t, copied.Status)
	assert.Equal(t, "bob", copied.Annotations[v1alpha1.ActorAnnotation])
	secret := &corev1.Secret{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "copy", Name: "store-1a2b-credentials"}, secret))
	assert.Equal(t, credentials().Data, secret.Data)
	assert.NotContains(t, secret.Annotations, v1alpha1.AnnotationPrefix+"/owned-by")
	owner := metav1.GetControllerOf(secret)
	require.NotNil(t, owner, "the Secret goes with the environment that was restored")
	assert.Equal(t, copied.UID, owner.UID)

	out, errOut, err = restored(t, c, text, "copy", restoreFlags{})
	require.NoError(t, err, errOut)
	assert.Equal(t, "Secret copy/store-1a2b-credentials unchanged\nEnvironment copy/store-1a2b unchanged\n", out, "it can be run again")
}

// All environments are there again in a cluster that has nothing.
func TestAllIsRestoredIntoAnEmptyCluster(t *testing.T) {
	text, _ := backedUp(t, envCluster(t, interceptor.Funcs{}, store(), small(t), credentials()), "", nil, true)
	writes := 0
	empty := envCluster(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		writes++
		return c.Create(ctx, obj, opts...)
	}})
	_, errOut, err := restored(t, empty, text, "", restoreFlags{})
	require.ErrorIs(t, err, command.ErrFailed)
	assert.Contains(t, errOut, "namespace back does not exist: create it, or use --create-namespaces")
	assert.Contains(t, errOut, "Environment shop/store-1a2b is not restored: its Secret store-1a2b-credentials is not as in the backup")
	assert.Zero(t, writes)

	out, errOut, err := restored(t, empty, text, "", restoreFlags{createNamespaces: true, dryRun: command.DryRunClient})
	require.NoError(t, err, errOut)
	assert.Contains(t, out, "Namespace shop created (dry run)\n")
	assert.Contains(t, out, "Environment shop/store-1a2b created, not validated because its namespace does not exist yet (dry run)")
	assert.Zero(t, writes)

	out, errOut, err = restored(t, empty, text, "", restoreFlags{createNamespaces: true})
	require.NoError(t, err, errOut)
	assert.Equal(t, "Namespace back created\nNamespace shop created\nSecret shop/store-1a2b-credentials created\n"+
		"Environment back/small created\nEnvironment shop/store-1a2b created\n", out)
	have := &v1alpha1.Environment{}
	require.NoError(t, empty.Get(t.Context(), client.ObjectKeyFromObject(small(t)), have))
	assert.Equal(t, small(t).Spec, have.Spec)
	assert.Equal(t, map[string]string{"cost": "1"}, have.Labels)
	assert.Equal(t, map[string]string{"note": "keep", v1alpha1.ActorAnnotation: "bob"}, have.Annotations)
	assert.Equal(t, store().Spec, reread(t, empty).Spec)
}

func TestARestoreNamesTheSecretsThatAreMissing(t *testing.T) {
	text, _ := backedUp(t, envCluster(t, interceptor.Funcs{}, store(), small(t), credentials()), "", nil, false)
	c := envCluster(t, interceptor.Funcs{}, namespace("shop"), namespace("back"))
	_, errOut, err := restored(t, c, text, "", restoreFlags{})
	require.NoError(t, err, errOut)
	assert.Equal(t, "Warning: Secret store-1a2b-credentials of Environment shop/store-1a2b is neither in the backup nor in the cluster: "+
		"the environment does not run without it\n", errOut)
	reread(t, c)
}

// What is there and is something else is not touched, and no environment begins with the password of another.
func TestARestoreOverwritesOnlyWithItsFlag(t *testing.T) {
	text, _ := backedUp(t, envCluster(t, interceptor.Funcs{}, store(), small(t), credentials()), "", nil, true)
	others := credentials()
	others.OwnerReferences, others.Data = nil, map[string][]byte{"key": []byte("of another owner")}
	other := small(t)
	other.Spec.Description = "changed since"
	c := envCluster(t, interceptor.Funcs{}, namespace("shop"), namespace("back"), others, other)
	out, errOut, err := restored(t, c, text, "", restoreFlags{})
	require.ErrorIs(t, err, command.ErrFailed)
	assert.Empty(t, out)
	assert.Contains(t, errOut, "error: Secret shop/store-1a2b-credentials already exists and differs from the backup: use --overwrite to replace it\n")
	assert.Contains(t, errOut, "error: Environment back/small already exists")
	assert.Contains(t, errOut, "error: Environment shop/store-1a2b is not restored: its Secret store-1a2b-credentials")
	assert.NotContains(t, errOut, "hunter2")
	secret := &corev1.Secret{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(others), secret))
	assert.Equal(t, others.Data, secret.Data)

	for _, dryRun := range []string{command.DryRunClient, command.DryRunServer} {
		_, errOut, err = restored(t, c, text, "", restoreFlags{overwrite: true, dryRun: dryRun})
		require.NoError(t, err, errOut)
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(others), secret))
		assert.Equal(t, others.Data, secret.Data, "a dry run keeps nothing")
	}
	out, errOut, err = restored(t, c, text, "", restoreFlags{overwrite: true})
	require.NoError(t, err, errOut)
	assert.Equal(t, "Secret shop/store-1a2b-credentials overwritten\nEnvironment back/small overwritten\nEnvironment shop/store-1a2b created\n", out)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(others), secret))
	assert.Equal(t, credentials().Data, secret.Data)
	have := &v1alpha1.Environment{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(other), have))
	assert.Empty(t, have.Spec.Description)
}

// The Secret of an environment of the same name that was deleted just now would be deleted with that one.
func TestASecretIsTakenOverFromAnEnvironmentThatIsGone(t *testing.T) {
	text, _ := backedUp(t, envCluster(t, interceptor.Funcs{}, store(), credentials()), "", nil, true)
	left := credentials()
	left.OwnerReferences[0].UID = "gone"
	foreign := credentials()
	foreign.Namespace, foreign.OwnerReferences[0].Name = "copy", "another"
	c := envCluster(t, interceptor.Funcs{}, namespace("shop"), namespace("copy"), left, foreign)
	for in, want := range map[string]bool{"shop": true, "copy": false} {
		_, errOut, err := restored(t, c, text, in, restoreFlags{})
		require.NoError(t, err, errOut)
		secret, env := &corev1.Secret{}, &v1alpha1.Environment{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: in, Name: left.Name}, secret))
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: in, Name: "store-1a2b"}, env))
		require.Len(t, secret.OwnerReferences, 1)
		assert.Equal(t, want, secret.OwnerReferences[0].Name == env.Name && secret.OwnerReferences[0].UID == env.UID)
	}
}

func TestAnInvalidBackupIsRefusedBeforeAnyWrite(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{}, store(), small(t), credentials(), namespace("shop"))
	text, _ := backedUp(t, c, "shop", nil, true)
	twice := strings.ReplaceAll(text, "namespace: shop", "namespace: other")
	for want, tc := range map[string]struct{ text, into string }{
		"ConfigMap default/x of v1 cannot be part of a backup: only Environments and Secrets can": {text + "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n", ""},
		"the file has no Environment": {"apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\n", ""},
		"the backup has Secret copy/store-1a2b-credentials twice, from namespaces shop and other": {text + "---\n" + twice, "copy"},
	} {
		out, _, err := restored(t, c, tc.text, tc.into, restoreFlags{createNamespaces: true})
		require.EqualError(t, err, want)
		assert.Empty(t, out)
	}
}

// What is written as YAML is read as it was, whatever texts are in it.
func TestASpecComesThroughABackupAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "on", "1e3", "0x1f", "null", "~", "---", "a: b", "- a", "\t", "\"", "2001-01-01", "|", "\u009f", "\x7f\ufeff", "\U0001f600", "é\n\n x", "#"}))
		e := store()
		e.Spec.Description = text.Draw(t, "description")
		e.Spec.Stack.Version = text.Draw(t, "version")
		e.Spec.Labels = map[string]v1alpha1.AttributeValue{text.Draw(t, "key"): v1alpha1.AttributeValue(text.Draw(t, "value"))}
		e.Spec.Stack.Backend.Container.Args = rapid.SliceOf(text).Draw(t, "args")
		e.Spec.Stack.Backend.Container.Env = map[string]v1alpha1.ConfigValue{"A": v1alpha1.ConfigValue(text.Draw(t, "env"))}
		e.Spec.Stack.Frontend.Replicas = rapid.Ptr(rapid.Int32Range(0, 1000), true).Draw(t, "replicas")
		e.APIVersion, e.Kind = v1alpha1.SchemeGroupVersion.String(), "Environment"
		// As the API server has it: what is no text of Unicode is none there either.
		stored, err := json.Marshal(e)
		require.NoError(t, err)
		u := &unstructured.Unstructured{}
		require.NoError(t, u.UnmarshalJSON(stored))
		var file bytes.Buffer
		require.NoError(t, backup.Write(&file, []*unstructured.Unstructured{backup.Plain(u), backup.Plain(u)}))
		o, _, _ := clitest.Screen("")
		o.In = &file
		objects, err := backupOf(o, "-", "default")
		require.NoError(t, err)
		require.Len(t, objects, 2)
		for _, got := range objects {
			want, err := json.Marshal(u.Object["spec"])
			require.NoError(t, err)
			have, err := json.Marshal(got.Object["spec"])
			require.NoError(t, err)
			require.Equal(t, string(want), string(have))
		}
	})
}
