// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

func TestOnlyLoopbackAddressesAreServed(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "127.1.2.3", "::1"} {
		_, err := (&flags{address: address}).listenAddress()
		assert.NoError(t, err, address)
	}
	for _, address := range []string{"", "0.0.0.0", "::", "10.0.0.1", "localhost", "example.com"} {
		_, err := (&flags{address: address}).listenAddress()
		assert.ErrorContains(t, err, "--address is "+`"`+address+`": it must be a loopback address`)
	}
}

func TestTargets(t *testing.T) {
	targets, err := (&flags{}).targets("system")
	require.NoError(t, err)
	assert.Equal(t, "https://berth.system.svc", targets[berth].url.String())
	assert.Equal(t, "https://berth-environments-api.system.svc", targets[environments].url.String())

	targets, err = (&flags{servers: [2]string{environments: "http://127.0.0.1:9445"}}).targets("system")
	require.NoError(t, err)
	assert.Equal(t, target{url: &url.URL{Scheme: "http", Host: "127.0.0.1:9445"}}, targets[environments])

	for _, bad := range []string{"127.0.0.1:9444", "ftp://host", "http://", "http://host/path", ":"} {
		_, err := (&flags{servers: [2]string{bad}}).targets("system")
		assert.ErrorContains(t, err, `--server-url is "`+bad+`": it must be a URL without a path`)
	}
}

func TestTargetOfACall(t *testing.T) {
	for path, want := range map[string]int{
		"/scheduler.v1.SchedulerService/CreateContainer":       environments,
		"/mcp.orchestrator.v1.McpOrchestratorService/Anything": berth,
		"/oaas.deployment.DeploymentService/Deploy":            berth,
		"/namespaces/shop/resource-limits":                     berth,
		"/grpc.health.v1.Health/Check":                         berth,
		"/x/scheduler.v1.SchedulerService/CreateContainer":     berth,
	} {
		assert.Equal(t, want, targetOf(path), path)
	}
}

// upstream answers with what it was sent.
type upstream struct{ got *http.Request }

func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	u.got = r
	w := httptest.NewRecorder()
	return w.Result(), nil
}

func call(t *testing.T, host string, header http.Header, allowed ...string) (*http.Request, *http.Response) {
	t.Helper()
	origins, err := (&flags{origins: allowed}).allowedOrigins()
	require.NoError(t, err)
	targets, err := (&flags{}).targets("system")
	require.NoError(t, err)
	u := &upstream{}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+host+"/scheduler.v1.SchedulerService/X", nil)
	r.Header = header
	w := httptest.NewRecorder()
	newHandler(targets, u, "shop", origins).ServeHTTP(w, r)
	return u.got, w.Result()
}

func TestCallsLoseTheirCredentialsAndGetANamespace(t *testing.T) {
	got, _ := call(t, "127.0.0.1:50051", http.Header{"Authorization": {"Bearer other"}, "Te": {"trailers"}})
	require.NotNil(t, got)
	assert.Empty(t, got.Header.Values("Authorization"))
	assert.Equal(t, []string{"shop"}, got.Header.Values("Berth-Namespace"))
	assert.Equal(t, "trailers", got.Header.Get("Te"), "gRPC requires it")
	assert.Equal(t, "berth-environments-api.system.svc", got.Host)

	got, _ = call(t, "localhost", http.Header{"Berth-Namespace": {"other"}})
	assert.Equal(t, []string{"other"}, got.Header.Values("Berth-Namespace"))
}

// A browser sends a page's calls to whatever its host name resolves to.
func TestCallsOfWebPagesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		host   string
		header http.Header
	}{
		"another host": {"evil.example.com:50051", http.Header{}},
		"an origin":    {"127.0.0.1:50051", http.Header{"Origin": {"https://evil.example.com"}}},
		"an image":     {"127.0.0.1:50051", http.Header{"Sec-Fetch-Site": {"cross-site"}}},
		"a subdomain":  {"127.0.0.1:50051", http.Header{"Sec-Fetch-Site": {"same-site"}}},
	} {
		got, answer := call(t, c.host, c.header)
		assert.Nil(t, got, name)
		assert.Equal(t, http.StatusForbidden, answer.StatusCode, name)
		c.header.Set("Content-Type", "application/grpc+proto")
		got, answer = call(t, c.host, c.header)
		assert.Nil(t, got, name)
		assert.Equal(t, "7", answer.Header.Get("Grpc-Status"), name)
	}
}

// A page that --allowed-origin names calls by gRPC-Web, and the services get gRPC.
func TestPagesOfAllowedOriginsCall(t *testing.T) {
	const page = "http://localhost:5173"
	header := func(origin string) http.Header {
		return http.Header{"Origin": {origin}, "Authorization": {"Bearer other"}, "Content-Type": {"application/grpc-web+proto"}}
	}
	got, answer := call(t, "127.0.0.1:50051", header(page), page)
	require.NotNil(t, got)
	assert.Equal(t, "application/grpc+proto", got.Header.Get("Content-Type"))
	assert.Empty(t, got.Header.Values("Origin"))
	assert.Empty(t, got.Header.Values("Authorization"))
	assert.Equal(t, "trailers", got.Header.Get("Te"))
	assert.Equal(t, page, answer.Header.Get("Access-Control-Allow-Origin"))

	// The proxy adds credentials, so that it is stricter than the services: pages of its own origin, and any page by GET, may not call.
	for _, origin := range []string{"http://localhost:5174", "https://localhost:5173", "null", "http://127.0.0.1:50051"} {
		got, answer = call(t, "127.0.0.1:50051", header(origin), page)
		assert.Nil(t, got, origin)
		assert.Equal(t, "7", answer.Header.Get("Grpc-Status"), origin)
		assert.Empty(t, answer.Header.Get("Access-Control-Allow-Origin"), origin)
	}
	got, _ = call(t, "evil.example:50051", header(page), page)
	assert.Nil(t, got, "another host")

	for _, wrong := range [][]string{{"*"}, {page, "*"}, {"localhost:5173"}, {"http://*.example"}, {page + "/path"}} {
		_, err := (&flags{origins: wrong}).allowedOrigins()
		assert.ErrorContains(t, err, "--allowed-origin", "%v", wrong)
	}
}

func TestAKubeconfigWithoutATokenNeedsAServiceAccount(t *testing.T) {
	_, _, err := authenticator(t.Context(), &rest.Config{}, "shop", "")
	assert.ErrorContains(t, err, "name a ServiceAccount with --service-account")
	_, who, err := authenticator(t.Context(), &rest.Config{BearerToken: "x"}, "shop", "")
	require.NoError(t, err)
	assert.Equal(t, "the user of the kubeconfig", who)
}

func TestThePodOfAService(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "berth"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "berth"}, Ports: []corev1.ServicePort{{TargetPort: intstr.FromString("services")}},
		},
	}
	pod := func(name string, ready corev1.ConditionStatus, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name, Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "services", ContainerPort: 9444}}}}},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	f := &forwarder{kube: fake.NewClientset(service, pod("a", corev1.ConditionFalse, service.Spec.Selector),
		pod("b", corev1.ConditionTrue, map[string]string{"app": "other"}), pod("c", corev1.ConditionTrue, service.Spec.Selector))}
	name, port, err := f.podOf(t.Context(), target{service: "berth", namespace: "system"})
	require.NoError(t, err)
	assert.Equal(t, "c", name)
	assert.Equal(t, 9444, port)

	require.NoError(t, f.kube.CoreV1().Pods("system").Delete(t.Context(), "c", metav1.DeleteOptions{}))
	_, _, err = f.podOf(t.Context(), target{service: "berth", namespace: "system"})
	assert.EqualError(t, err, "no pod of Service system/berth is Ready")
}
