// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/perf/bench"
	"berth.dev/berth/test/testenv"
)

// served is a running controller that serves, and a caller who may do everything
// with limits: through the service and at the API server itself.
type served struct {
	*testenv.World
	process *cluster.Controller
	conn    *grpc.ClientConn
	token   string
	direct  client.Client
	// grown is a second namespace, of the limits that are created: those that are read and listed stay so many.
	grown string
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{World: testenv.New(t)}
	s.ApplyFiles("manifests/rbac/records", "manifests/rbac/records/services")
	s.grown = s.Namespace + "-grown"
	require.NoError(t, s.Cluster.CreateNamespace(s.Ctx, s.grown))
	s.token = s.caller()
	s.direct = s.asCaller()
	address := s.FreeAddress()
	s.process = s.StartController("berth-controller", func(c *controller.Configuration) { c.Services.BindAddress = address })
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s.conn = conn
	s.Eventually("the services are served", func() (bool, string) {
		r, err := healthpb.NewHealthClient(conn).Check(s.Ctx, &healthpb.HealthCheckRequest{})
		return err == nil && r.Status == healthpb.HealthCheckResponse_SERVING, fmt.Sprint(r, err)
	})
	return s
}

// caller makes a service account with every right on limits of both namespaces, and returns a token of it.
func (s *served) caller() string {
	const name = "caller"
	s.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}})
	for _, namespace := range []string{s.Namespace, s.grown} {
		account := builders.ServiceAccount(s.Namespace, name)
		grant := builders.Grant(name, account, builders.Rule("berth.dev", []string{"resourcelimits"}, "*"))
		for _, o := range grant {
			o.SetNamespace(namespace)
		}
		s.CreateAsIs(grant...)
	}
	return s.Token(name)
}

// asCaller is a plain client with the caller's token, without a limit of its own.
func (s *served) asCaller() client.Client {
	c, err := client.New(&rest.Config{
		Host: s.Cluster.URL(), BearerToken: s.token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.Cluster.Config().CAData},
	}, client.Options{Scheme: s.Client.Scheme()})
	require.NoError(s.T, err)
	return c
}

// in is the context of a call in a namespace.
func (s *served) in(namespace string) context.Context {
	return metadata.NewOutgoingContext(s.Ctx, metadata.Pairs("berth-namespace", namespace, "authorization", "Bearer "+s.token))
}

// server is what the controller and the API server have used until a moment.
type server struct {
	controllerMS, apiMS, allocations, bytes float64
}

func (s *served) server() (u server) {
	s.T.Helper()
	ms := func(pid int) float64 {
		p, err := bench.ReadProcess(pid)
		require.NoError(s.T, err)
		return float64(p.Processor.Milliseconds())
	}
	u.controllerMS = ms(s.process.PID())
	u.apiMS = ms(s.Cluster.Component(cluster.APIServer).PID()) + ms(s.Cluster.Component(cluster.Etcd).PID())
	u.allocations = float64(s.Metric(s.process, "go_memstats_mallocs_total", nil))
	u.bytes = float64(s.Metric(s.process, "go_memstats_alloc_bytes_total", nil))
	return u
}

// idle waits until the controller has done what earlier turns gave it to do: it
// looks at every limit that is written, whoever writes it. Its own pace bounds it.
func (s *served) idle(ctx context.Context) {
	s.T.Helper()
	const every, busy, longest = 500 * time.Millisecond, 10 * time.Millisecond, 2 * time.Minute
	last := time.Duration(-1)
	err := wait.PollUntilContextTimeout(ctx, every, longest, true, func(context.Context) (bool, error) {
		p, err := bench.ReadProcess(s.process.PID())
		idle := last >= 0 && p.Processor-last <= busy
		last = p.Processor
		return idle, err
	})
	require.NoError(s.T, err, "the controller is not idle")
}
