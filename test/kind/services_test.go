// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// proxied is a connection of a client that sends no token, as those of other systems. kubectl berth proxy passes its calls on, by
// connections that the API server forwards to the pods, as those of a ServiceAccount with some rights in the test's namespace.
func proxied(w *testenv.World, rules ...rbacv1.PolicyRule) *grpc.ClientConn {
	w.T.Helper()
	const account = "editor"
	w.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}})
	w.Create(builders.Grant("edits", builders.ServiceAccount(w.Namespace, account), rules...)...)

	cmd := command(w, "proxy", "--port", "0", "--service-account", account, "--services-ca", testenv.Path(".kind/services/tls.crt"))
	said, err := cmd.StdoutPipe()
	require.NoError(w.T, err)
	cmd.Stderr = os.Stderr
	require.NoError(w.T, cmd.Start())
	w.T.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(said)
	require.True(w.T, lines.Scan(), "the proxy ended")
	address := regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindString(lines.Text())
	require.NotEmpty(w.T, address, lines.Text())
	go func() { _, _ = io.Copy(io.Discard, said) }()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(w.T, err)
	w.T.Cleanup(func() { _ = conn.Close() })
	return conn
}

// What a client of the published service sees of real containers: their logs, what they use, and that one was restarted.
func TestAnEnvironmentByGRPC(t *testing.T) {
	w := testenv.New(t)
	ctx := w.Ctx
	c := schedulerv1.NewSchedulerServiceClient(proxied(w,
		builders.Rule(v1alpha1.GroupName, []string{"environments"}, "create", "get", "delete"),
		builders.Rule(v1alpha1.GroupName, []string{"environments/log"}, "get")))
	created, err := c.CreateEnvironment(ctx, &schedulerv1.CreateEnvironmentRequest{Spec: &schedulerv1.EnvironmentSpecification{
		Name: shop, ApplicationStack: &schedulerv1.ApplicationStack{Name: shop, Version: "1", Backend: &schedulerv1.BackendConfig{
			Container: &schedulerv1.ContainerConfig{
				Name: "shop-backend", Image: "example.com/app:1", Ports: []*schedulerv1.PortMapping{{ContainerPort: 8080}},
				RestartPolicy: schedulerv1.RestartPolicy_RESTART_POLICY_ALWAYS,
				Resources:     &schedulerv1.ResourceLimits{CpuCores: 0.05, MemoryMb: 32},
				HealthCheck:   &schedulerv1.HealthCheck{Command: []string{"/app", "-get", "http://localhost:8080/ready"}, IntervalSeconds: 2},
			},
		}},
	}})
	require.NoError(t, err)
	id := created.GetEnvironment().GetId()
	w.T.Cleanup(func() {
		w.Tool("kubectl", "--namespace", w.Namespace, "delete", "environment", id, "--ignore-not-found", "--timeout=3m")
	})
	backend := func(what string, ok func(*schedulerv1.ContainerInstance) bool) (found *schedulerv1.ContainerInstance) {
		t.Helper()
		w.Within(startTimeout, what, func() (bool, string) {
			r, err := c.GetEnvironment(ctx, &schedulerv1.GetEnvironmentRequest{Id: id})
			if err != nil {
				return false, err.Error()
			}
			e := r.GetEnvironment()
			for _, i := range e.GetContainers() {
				found = i
			}
			return e.GetStatus() == schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_RUNNING &&
				found.GetStatus() == schedulerv1.ContainerStatus_CONTAINER_STATUS_RUNNING && ok(found), e.String()
		})
		return found
	}
	first := backend("the container runs", func(*schedulerv1.ContainerInstance) bool { return true })

	logs := func() []string {
		t.Helper()
		stream, err := c.GetEnvironmentLogs(ctx, &schedulerv1.GetEnvironmentLogsRequest{Id: id, ContainerName: "shop-backend", TailLines: 100})
		require.NoError(t, err)
		var lines []string
		for {
			line, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return lines
			}
			require.NoError(t, err)
			assert.WithinDuration(t, time.Now(), line.GetTimestamp().AsTime(), 10*time.Minute, "the kubelet's time")
			lines = append(lines, line.GetMessage())
		}
	}
	assert.Regexp(t, `^backend-[0-9a-z-]+ serves on :8080$`, strings.Join(logs(), "\n"))

	w.Within(startTimeout, "metrics-server has what the container uses", func() (bool, string) {
		r, err := c.GetEnvironmentStatus(ctx, &schedulerv1.GetEnvironmentStatusRequest{Id: id})
		if err != nil || len(r.GetContainerMetrics()) != 1 {
			return false, fmt.Sprint(err, r)
		}
		m := r.GetContainerMetrics()[0]
		assert.EqualValues(t, 32<<20, m.GetMemoryLimitBytes())
		return m.GetMemoryUsageBytes() > 1<<20 && m.GetMemoryUsageBytes() < 32<<20, m.String()
	})

	// A process that ends is restarted by policy, and the client sees that.
	e := testenv.Read(w, id, &v1alpha1.Environment{})
	pod := podsOf(w, e, "backend")[0]
	_, err = w.Kube.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, "8080", "exit", nil).DoRaw(ctx)
	require.Error(t, err, "the answer is the end of the connection")
	second := backend("the container was restarted", func(i *schedulerv1.ContainerInstance) bool {
		return i.GetStartedAt().AsTime().After(first.GetStartedAt().AsTime())
	})
	assert.Equal(t, first.GetName(), second.GetName())
	assert.EqualValues(t, 1, restarts(podsOf(w, e, "backend")))
	// What the first container wrote before it ended is kept, and so is what the second wrote when its pod is gone.
	wrote := func(what string, pattern string) {
		t.Helper()
		w.Within(startTimeout, what, func() (bool, string) {
			text := strings.Join(logs(), "\n")
			return regexp.MustCompile(pattern).MatchString(text), text
		})
	}
	const serves = `backend-[0-9a-z-]+ serves on :8080`
	wrote("the log of the first is kept", "^"+serves+"\n.* asked to exit\n"+serves+"$")
	w.Tool("kubectl", "--namespace", pod.Namespace, "delete", "pod", pod.Name)
	wrote("the logs of the pod are kept", "^"+serves+"\n.* asked to exit\n"+serves+"\n"+serves+"$")

	_, err = c.DeleteEnvironment(ctx, &schedulerv1.DeleteEnvironmentRequest{Id: id})
	require.NoError(t, err)
	w.WaitDeleted(e)
}
