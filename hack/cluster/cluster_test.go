// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// shared is the cluster that the tests of this package use together.
var shared *Cluster

const patience = 30 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(parentMode) != "" {
		actAsParent()
		return
	}
	if os.Getenv(holderMode) != "" {
		actAsHolder()
		return
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	ctx := context.Background()
	start := time.Now()
	c, err := Start(ctx, Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Stop()
	shared = c
	fmt.Printf("cluster started in %.1f s\n", time.Since(start).Seconds())
	if err := c.AddNodes(ctx, append(Nodes("spot", 3), Nodes("on-demand", 3)...)...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// eventually polls with a bound; what names what is waited for.
func eventually(t *testing.T, what string, f func(ctx context.Context) (bool, error)) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, f)
	require.NoError(t, err, what)
}

func barePod(name, node string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Annotations: annotations},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "fake"}}},
	}
}

func createPod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	pods := shared.Client().CoreV1().Pods(pod.Namespace)
	_, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	})
}

// newNamespace creates a namespace that no other test, nor an earlier run of the same one, has used.
func newNamespace(t *testing.T) string {
	t.Helper()
	name := "test-" + strings.ToLower(rand.Text()[:8])
	require.NoError(t, shared.CreateNamespace(t.Context(), name))
	return name
}

func waitPod(t *testing.T, name, what string, ok func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, what, func(ctx context.Context) (bool, error) {
		var err error
		pod, err = shared.Client().CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		return err == nil && ok(pod), err
	})
	return pod
}

func waitPodGone(t *testing.T, name string) {
	t.Helper()
	eventually(t, "pod "+name+" is gone", func(ctx context.Context) (bool, error) {
		_, err := shared.Client().CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

func isReady(pod *corev1.Pod) bool { return condition(pod, corev1.PodReady) == corev1.ConditionTrue }

func condition(pod *corev1.Pod, of corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == of {
			return c.Status
		}
	}
	return ""
}

func TestNodesAreReadyAndDescribed(t *testing.T) {
	node, err := shared.Client().CoreV1().Nodes().Get(t.Context(), "spot-1", metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, takesPods(node))
	require.Equal(t, "spot", node.Labels[CapacityTypeLabel])
	require.Equal(t, "zone-b", node.Labels[corev1.LabelTopologyZone])
	require.Equal(t, "16", node.Status.Allocatable.Cpu().String())
	require.Equal(t, "64Gi", node.Status.Allocatable.Memory().String())
	require.Equal(t, "110", node.Status.Allocatable.Pods().String())
}

func TestNodeThatComesBackUnderItsNameTakesPods(t *testing.T) {
	spec := Nodes("spot", 1, func(s *NodeSpec) { s.Name = "returning" })
	for i := range 2 {
		require.NoError(t, shared.AddNodes(t.Context(), spec...))
		name := fmt.Sprintf("on-returning-%d", i)
		createPod(t, barePod(name, "returning", nil))
		waitPod(t, name, "pod is ready", isReady)
		require.NoError(t, shared.Client().CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}))
		waitPodGone(t, name)
		require.NoError(t, shared.Client().CoreV1().Nodes().Delete(t.Context(), "returning", metav1.DeleteOptions{}))
	}
}

func TestPodRunsAndIsDeletedAfterItsDelay(t *testing.T) {
	const delay = 2 * time.Second
	createPod(t, barePod("slow-end", "spot-0", map[string]string{PodDeleteDelay: delay.String()}))
	waitPod(t, "slow-end", "pod is ready", isReady)
	start := time.Now()
	require.NoError(t, shared.Client().CoreV1().Pods("default").Delete(t.Context(), "slow-end", metav1.DeleteOptions{}))
	waitPod(t, "slow-end", "pod is terminating", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	waitPodGone(t, "slow-end")
	require.GreaterOrEqual(t, time.Since(start), delay)
}

func TestPodBecomesReadyAfterItsDelay(t *testing.T) {
	const delay = 2 * time.Second
	start := time.Now()
	createPod(t, barePod("slow-start", "spot-0", map[string]string{PodReadyDelay: delay.String()}))
	pod := waitPod(t, "slow-start", "pod runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	require.Equal(t, corev1.ConditionFalse, condition(pod, corev1.PodReady))
	waitPod(t, "slow-start", "pod is ready", isReady)
	require.GreaterOrEqual(t, time.Since(start), delay)
}

func TestPodCompletesOnlyOnRequest(t *testing.T) {
	createPod(t, barePod("ends", "spot-0", map[string]string{PodCompleteDelay: "100ms"}))
	waitPod(t, "ends", "pod succeeded", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
}

func TestManyPodsBecomeReadyQuickly(t *testing.T) {
	const n = 200
	start := time.Now()
	for i := range n {
		pod := barePod(fmt.Sprintf("many-%d", i), fmt.Sprintf("on-demand-%d", i%3), nil)
		pod.Labels = map[string]string{"app": "many"}
		createPod(t, pod)
	}
	created := time.Since(start)
	many := metav1.ListOptions{LabelSelector: "app=many"}
	eventually(t, "all pods are ready", func(ctx context.Context) (bool, error) {
		list, err := shared.Client().CoreV1().Pods("default").List(ctx, many)
		if err != nil {
			return false, err
		}
		ready := 0
		for i := range list.Items {
			if isReady(&list.Items[i]) {
				ready++
			}
		}
		return ready == n, nil
	})
	t.Logf("%d pods created in %s, all ready after %s", n, created, time.Since(start))
	require.NoError(t, shared.Client().CoreV1().Pods("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, many))
}

func TestIdentityHasOnlyTheRightsOfItsRoles(t *testing.T) {
	ctx := t.Context()
	// Its own namespace, so that an earlier run's role is not still in the authorizer's cache.
	namespace := newNamespace(t)
	config, err := shared.ConfigFor("system:serviceaccount:" + namespace + ":tester")
	require.NoError(t, err)
	tester, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)

	_, err = tester.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "got %v", err)

	_, err = shared.Client().RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tester"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-proxier"},
		Subjects:   []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + namespace}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = shared.Client().RbacV1().ClusterRoleBindings().Delete(context.Background(), "tester", metav1.DeleteOptions{})
	})
	eventually(t, "the role gives the right", func(ctx context.Context) (bool, error) {
		_, err := tester.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
}

func TestAuditLogRecordsUserRequestAndResult(t *testing.T) {
	user := "audited-" + strings.ToLower(rand.Text())
	path, err := shared.Kubeconfig(user)
	require.NoError(t, err)
	require.FileExists(t, path)
	config, err := shared.ConfigFor(user)
	require.NoError(t, err)
	_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("kube-system").Get(t.Context(), "s", metav1.GetOptions{})
	require.True(t, apierrors.IsForbidden(err), "got %v", err)

	var found []AuditEvent
	eventually(t, "the request is in the audit log", func(context.Context) (bool, error) {
		found, err = shared.ReadAuditLog(func(e *AuditEvent) bool { return e.User.Username == user })
		return len(found) > 0, err
	})
	require.Len(t, found, 1)
	require.Equal(t, "get", found[0].Verb)
	require.Equal(t, "secrets", found[0].ObjectRef.Resource)
	require.Equal(t, "kube-system", found[0].ObjectRef.Namespace)
	require.Equal(t, 403, found[0].ResponseStatus.Code)
}
