// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/internal/sim/snapshot"
	"berth.dev/berth/test/clitest"
)

// shop has a Deployment with a token in its environment, and a pod of another namespace.
func shop() []client.Object {
	s := &clitest.Shop{}
	s.Node("o1", "on-demand")
	s.Deployment("web", map[string]string{"note": "token-5"}, "o1", "o1")
	s.Pods[0].Spec.Containers = []corev1.Container{{
		Name: "a", Image: "registry/token-1", Command: []string{"token-2"}, Env: []corev1.EnvVar{{Name: "TOKEN", Value: "token-3"}},
	}}
	other := s.Pods[0].DeepCopy()
	other.Namespace, other.Name, other.OwnerReferences = "other", "away", nil
	objects := []client.Object{
		other, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "token-4"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
	}
	for _, n := range s.Nodes() {
		objects = append(objects, n)
	}
	for _, p := range s.Pods {
		objects = append(objects, p)
	}
	return objects
}

// run runs the command with a client, and returns what was written and noted.
func run(t *testing.T, f flags, c client.Client, namespace string) (out, errOut string, err error) {
	t.Helper()
	o, stdout, stderr := clitest.Screen("")
	err = f.run(t.Context(), o, c, namespace, "v1.37.2")
	return stdout.String(), stderr.String(), err
}

func TestASnapshotHasNoSecrets(t *testing.T) {
	c := clitest.Client(t, interceptor.Funcs{}, shop()...)
	for _, anonymise := range []bool{false, true} {
		out, errOut, err := run(t, flags{file: stdout, anonymise: anonymise}, c, "")
		require.NoError(t, err)
		assert.NotContains(t, out, "token")
		assert.Equal(t, "Wrote 2 Namespaces, 1 node, 1 Deployment, 3 pods.\n", errOut)
		s, err := snapshot.Read(strings.NewReader(out))
		require.NoError(t, err)
		assert.Len(t, s.Pods, 3)
		assert.Equal(t, s.Nodes[0].Name, s.Pods[1].Spec.NodeName)
		assert.Equal(t, clitest.Now, s.Time.UTC())
		assert.Equal(t, anonymise, strings.HasPrefix(s.Nodes[0].Name, "x"))
		assert.Equal(t, anonymise, s.Anonymised)
		again, _, err := run(t, flags{file: stdout, anonymise: anonymise}, c, "")
		require.NoError(t, err)
		assert.Equal(t, anonymise, again != out, "the same bytes, unless the seed is random")
	}
	one, _, err := run(t, flags{file: stdout, anonymise: true, seed: "a", keepLabels: []string{"app"}}, c, "")
	require.NoError(t, err)
	other, _, err := run(t, flags{file: stdout, anonymise: true, seed: "a", keepLabels: []string{"app"}}, c, "")
	require.NoError(t, err)
	assert.Equal(t, one, other)
	assert.Contains(t, one, `"app":"web"`)
}

// The pods of one namespace only: what others use of the nodes is unknown, which the user is warned of.
func TestASnapshotOfANamespace(t *testing.T) {
	out, errOut, err := run(t, flags{file: stdout}, clitest.Client(t, interceptor.Funcs{}, shop()...), "shop")
	require.NoError(t, err)
	s, err := snapshot.Read(strings.NewReader(out))
	require.NoError(t, err)
	assert.Equal(t, "shop", s.Namespace)
	assert.Len(t, s.Pods, 2)
	assert.Len(t, s.Namespaces, 1)
	assert.Contains(t, errOut, "nodes seem to have the capacity")
}

// refuse answers lists and gets of some resources with an error.
func refuse(with map[string]error) interceptor.Funcs {
	return interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := with[strings.TrimPrefix(fmt.Sprintf("%T", list), "*")]; err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if err := with[strings.TrimPrefix(fmt.Sprintf("%T", o), "*")]; err != nil {
				return err
			}
			return c.Get(ctx, key, o, options...)
		},
	}
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no right"))
}

// That a list is empty does not mean that there is nothing: the file and the user have what is missing.
func TestWhatIsMissingIsNamed(t *testing.T) {
	funcs := refuse(map[string]error{
		"v1.PodDisruptionBudgetList": forbidden("poddisruptionbudgets"), "v1.Namespace": forbidden("namespaces"),
		"v1alpha1.CapacityMixList": &meta.NoKindMatchError{}, "v1.PriorityClassList": forbidden("priorityclasses"),
	})
	out, errOut, err := run(t, flags{file: stdout}, clitest.Client(t, funcs, shop()...), "shop")
	require.NoError(t, err)
	s, err := snapshot.Read(strings.NewReader(out))
	require.NoError(t, err)
	assert.Equal(t, []snapshot.Missing{
		{List: "podDisruptionBudgets", Reason: snapshot.Forbidden},
		{List: "capacityMixes", Reason: snapshot.NotServed},
		{List: "priorityClasses", Reason: snapshot.Forbidden},
		{List: "namespaces", Reason: snapshot.Forbidden},
	}, s.Missing)
	for _, line := range []string{
		"Left out: poddisruptionbudgets.policy. You may not list poddisruptionbudgets.policy in namespace shop.",
		"Left out: capacitymixes.berth.dev. The API server does not serve them.",
		"Left out: priorityclasses.scheduling.k8s.io. You may not list priorityclasses.scheduling.k8s.io.",
		"Left out: namespaces. You may not get namespace shop.",
	} {
		assert.Contains(t, errOut, line+"\n")
	}
}

// Without pods or nodes there is nothing to simulate, and no file.
func TestPodsAndNodesAreRequired(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot.json")
	for kind, want := range map[string]string{
		"v1.PodList": "a snapshot requires the right to list pods", "v1.NodeList": "a snapshot requires the right to list nodes",
	} {
		_, _, err := run(t, flags{file: path}, clitest.Client(t, refuse(map[string]error{kind: forbidden("x")}), shop()...), "")
		require.ErrorContains(t, err, want)
		_, _, err = run(t, flags{file: path}, clitest.Client(t, refuse(map[string]error{kind: errors.New("away")}), shop()...), "")
		require.ErrorContains(t, err, "away")
	}
	_, _, err := run(t, flags{file: path}, clitest.Client(t, refuse(map[string]error{"v1.JobList": errors.New("away")}), shop()...), "")
	require.ErrorContains(t, err, "list jobs.batch: away", "only a missing right is no failure")
	assert.NoFileExists(t, path)
}

// pages serves pods page by page: the second page expires once.
func pages(n int, requests *[]string) interceptor.Funcs {
	expired := false
	return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		pods, ok := list.(*corev1.PodList)
		if !ok {
			return c.List(ctx, list, options...)
		}
		o := client.ListOptions{}
		o.ApplyOptions(options)
		start := 0
		_, _ = fmt.Sscan(o.Continue, &start) // "" is the first page
		*requests = append(*requests, fmt.Sprint(start))
		if start > 0 && !expired {
			expired = true
			return apierrors.NewResourceExpired("expired")
		}
		for i := start; i < min(start+int(o.Limit), n); i++ {
			pods.Items = append(pods.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("pod-%06d", n-i)}})
		}
		if next := start + int(o.Limit); next < n {
			pods.Continue = fmt.Sprint(next)
		}
		return nil
	}}
}

// A list whose pages expire is begun again, without what was read before. The progress is shown.
func TestListsAreReadPageByPage(t *testing.T) {
	var requests []string
	out, errOut, err := run(t, flags{file: stdout}, clitest.Client(t, pages(6100, &requests)), "")
	require.NoError(t, err)
	assert.Equal(t, []string{"0", "500", "0", "500", "1000"}, requests[:5])
	assert.Equal(t, "Read 5000 pods.\nWrote 6100 pods.\n", errOut)
	s, err := snapshot.Read(strings.NewReader(out))
	require.NoError(t, err)
	assert.Len(t, s.Pods, 6100)
}

// An interrupted run leaves no file, nor part of one.
func TestAnInterruptedRunLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	funcs := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, last := list.(*policyv1.PodDisruptionBudgetList); last {
			cancel()
		}
		return errors.Join(ctx.Err(), c.List(ctx, list, options...))
	}}
	o, _, _ := clitest.Screen("")
	f := flags{file: filepath.Join(dir, "snapshot.json")}
	require.ErrorIs(t, f.run(ctx, o, clitest.Client(t, funcs, shop()...), "", ""), context.Canceled)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestTheFileIsOfItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot.json.gz")
	out, errOut, err := run(t, flags{file: path}, clitest.Client(t, interceptor.Funcs{}, shop()...), "")
	require.NoError(t, err)
	assert.Empty(t, out)
	assert.Contains(t, errOut, "Wrote 2 Namespaces")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	s, err := snapshot.Load(path)
	require.NoError(t, err)
	assert.Equal(t, "v1.37.2", s.ServerVersion)
}

func TestFlagsAreChecked(t *testing.T) {
	o, _, _ := clitest.Screen("")
	for args, want := range map[string]string{
		"--seed a":          "require --anonymise",
		"--keep-labels a/b": "require --anonymise",
		"--output=":         "--output is empty",
		"all":               `unexpected argument "all"`,
	} {
		cmd := New(o)
		cmd.SetArgs(strings.Fields(args))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		assert.ErrorContains(t, err, want, args)
	}
}

// Each list of the document is read, and named in the summary.
func TestEachListIsRead(t *testing.T) {
	read := map[string]bool{namespaces: true}
	for _, l := range lists {
		read[l.list] = true
	}
	for _, c := range (&snapshot.Snapshot{}).Counts() {
		assert.True(t, read[c.List], c.List)
		assert.NotEmpty(t, things[c.List], c.List)
	}
}
