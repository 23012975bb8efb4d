// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/simulator/clock"
	"berth.dev/berth/simulator/store"
)

// acts records what is more than a write.
type acts struct{ bound, evicted, deleted []string }

func (a *acts) Bind(pod *corev1.Pod, b *corev1.Binding) error {
	a.bound = append(a.bound, pod.Name+" "+b.Target.Name+" "+b.Annotations["slot"])
	return nil
}

func (a *acts) Evict(pod *corev1.Pod, _ *policyv1.Eviction) error {
	a.evicted = append(a.evicted, pod.Name)
	if pod.Name == "kept" {
		return apierrors.NewTooManyRequests("a budget", 0)
	}
	return nil
}

func (a *acts) Delete(o store.Object) error {
	a.deleted = append(a.deleted, o.GetName())
	return errors.New("not today")
}

func serve(t *testing.T) (*kubernetes.Clientset, *store.Store, *acts, *Server) {
	t.Helper()
	s := store.New(clock.New(time.Date(2026, 1, 1, 0, 0, 0, 500, time.UTC)))
	a := &acts{}
	server := &Server{Store: s, Cluster: a}
	client, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	for _, name := range []string{"a", "kept"} {
		s.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": name}}})
	}
	return client, s, a, server
}

func TestClientsReadAndWrite(t *testing.T) {
	client, s, _, _ := serve(t)
	pods := client.CoreV1().Pods("shop")
	list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "app=a", FieldSelector: "metadata.name=a"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	assert.Equal(t, s.Version(), list.ResourceVersion)
	all, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, all.Items, 2)

	pod := list.Items[0]
	for kind, text := range map[types.PatchType]string{
		types.MergePatchType:          `{"metadata":{"annotations":{"merge":"1"}}}`,
		types.StrategicMergePatchType: `{"metadata":{"annotations":{"strategic":"1"}}}`,
		types.JSONPatchType:           `[{"op":"add","path":"/metadata/labels/json","value":"1"}]`,
	} {
		_, err := pods.Patch(t.Context(), "a", kind, []byte(text), metav1.PatchOptions{})
		require.NoError(t, err, kind)
	}
	_, err = pods.Patch(t.Context(), "a", types.ApplyPatchType, []byte(`{}`), metav1.PatchOptions{FieldManager: "x"})
	assert.True(t, apierrors.IsMethodNotSupported(err), err)
	got, err := pods.Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"merge": "1", "strategic": "1"}, got.Annotations)
	assert.Equal(t, "1", got.Labels["json"])
	assert.Zero(t, got.CreationTimestamp.Nanosecond())
	_, err = pods.Update(t.Context(), &pod, metav1.UpdateOptions{})
	assert.True(t, apierrors.IsConflict(err), "it was read before the patches: %v", err)

	created, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}, metav1.CreateOptions{DryRun: []string{"All"}})
	require.NoError(t, err)
	assert.NotEmpty(t, created.UID)
	_, err = pods.Get(t.Context(), created.Name, metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "a dry run")
	_, err = pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	assert.True(t, apierrors.IsAlreadyExists(err), err)
}

func TestWhatIsMoreThanAWrite(t *testing.T) {
	client, s, a, server := serve(t)
	pods := client.CoreV1().Pods("shop")
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"slot": "3"}}, Target: corev1.ObjectReference{Name: "n1"}}
	require.NoError(t, pods.Bind(t.Context(), binding, metav1.CreateOptions{}))
	assert.Equal(t, []string{"a n1 3"}, a.bound)
	require.NoError(t, pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a"}}))
	assert.True(t, apierrors.IsTooManyRequests(pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "kept"}})))
	assert.True(t, apierrors.IsConflict(pods.Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")})))
	assert.True(t, apierrors.IsInternalError(pods.Delete(t.Context(), "a", metav1.DeleteOptions{})))
	assert.Equal(t, []string{"a"}, a.deleted)

	s.Create(&appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	})
	scale, err := client.AppsV1().ReplicaSets("shop").GetScale(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	assert.EqualValues(t, 3, scale.Spec.Replicas)
	assert.Equal(t, "app=web", scale.Status.Selector)

	_, err = client.CoreV1().Secrets("shop").List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsNotFound(err), err)
	assert.Equal(t, map[string]int{"GET /api/v1/namespaces/shop/secrets": 1}, server.Refused())
	found, err := client.Discovery().ServerPreferredResources()
	require.NoError(t, err)
	assert.NotEmpty(t, found)
}
