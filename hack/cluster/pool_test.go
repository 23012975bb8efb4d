// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const poolCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.pool.example.com}
spec:
  group: pool.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: of-the-first}
---
apiVersion: pool.example.com/v1
kind: Widget
metadata: {name: kept, namespace: of-the-first, finalizers: [pool.example.com/never]}
`

// use changes data of every sort that suites change.
func use(t *testing.T, c *Cluster) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, c.AddNodes(ctx, Nodes("spot", 1)...))
	require.NoError(t, c.Apply(ctx, poolCRD))
	pod := barePod("left", "spot-0", nil)
	pod.Namespace = "of-the-first"
	require.NoError(t, waitServiceAccount(ctx, c.Client(), pod.Namespace))
	_, err := c.Client().CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.Client().RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "left"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	namespace, err := c.Client().CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
	require.NoError(t, err)
	namespace.Labels["left"] = "yes"
	_, err = c.Client().CoreV1().Namespaces().Update(ctx, namespace, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// requireUnused demands that nothing is left of use.
func requireUnused(t *testing.T, c *Cluster) {
	t.Helper()
	ctx := t.Context()
	namespaces, err := c.Client().CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	names := map[string]corev1.Namespace{}
	for _, n := range namespaces.Items {
		names[n.Name] = n
	}
	assert.Len(t, names, 4, "default and three of the system")
	assert.NotContains(t, names["default"].Labels, "left")
	nodes, err := c.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, nodes.Items)
	pods, err := c.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, pods.Items)
	_, err = c.Client().RbacV1().ClusterRoles().Get(ctx, "left", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
	err = c.Client().CoreV1().RESTClient().Get().AbsPath("/apis/pool.example.com/v1/widgets").Do(ctx).Error()
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
	before, err := c.ReadAuditLog(func(e *AuditEvent) bool {
		// The API server can still be reading a namespace of the borrower before for itself.
		return e.User.Username != "system:apiserver" && (e.ObjectRef.Namespace == "of-the-first" || e.ObjectRef.Name == "left" && e.Verb == "create")
	})
	require.NoError(t, err)
	assert.Empty(t, before, "requests of the borrower before")
}

func TestPoolLendsAControlPlaneAgainAsItWasAtFirst(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "pool.sock")
	p, err := StartPool(socket, 1, os.Stderr)
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	t.Setenv(PoolEnv, socket)
	lent := func() *Cluster {
		c, err := StartOrBorrow(t.Context(), os.Stderr)
		require.NoError(t, err)
		t.Cleanup(c.Stop)
		return c
	}

	first := lent()
	use(t, first)
	pid := first.Component(APIServer).PID()
	require.NoError(t, first.StopComponent(APIServer))
	require.NoError(t, first.StartComponent(t.Context(), APIServer))
	require.NotEqual(t, pid, first.Component(APIServer).PID())
	first.Component(APIServer).Pause() // as a borrower does that is killed in the middle of a test
	first.Stop()

	second := lent()
	require.Equal(t, first.URL(), second.URL())
	requireUnused(t, second)
	use(t, second)
	require.NoError(t, second.StopComponent(Etcd))
	second.Stop()

	third := lent()
	require.NotEqual(t, second.URL(), third.URL(), "one without etcd is replaced")
	requireUnused(t, third)
	processes := third.running()
	p.Stop()
	requireGone(t, processes)
	_, err = StartOrBorrow(context.Background(), os.Stderr)
	require.Error(t, err)
}
