// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/internal/cli"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/wire/mapform"
)

// proxy runs kubectl berth proxy as a service account until the test ends. Connections of the scene then lead to it.
func (s *scene) proxy(serviceAccount string, args ...string) {
	s.T.Helper()
	// The only right that the command needs for itself, where it does not forward ports.
	s.Create(builders.Grant("proxy", builders.User("proxy"), builders.Rule("", []string{"serviceaccounts/token"}, "create"))...)
	s.Eventually("the API server has the right", func() (bool, string) {
		r, err := s.Kube.AuthorizationV1().SubjectAccessReviews().Create(s.Ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: "proxy", ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: s.Namespace, Verb: "create", Resource: "serviceaccounts", Subresource: "token",
			}},
		}, metav1.CreateOptions{})
		return err == nil && r.Status.Allowed, fmt.Sprint(r, err)
	})
	kubeconfig, err := s.Cluster.Kubeconfig("proxy")
	require.NoError(s.T, err)
	out, in := io.Pipe()
	cmd := cli.New(genericiooptions.IOStreams{In: strings.NewReader(""), Out: in, ErrOut: io.Discard})
	cmd.SetArgs(append([]string{
		"proxy", "--kubeconfig", kubeconfig, "-n", s.Namespace, "--port", "0", "--service-account", serviceAccount,
		"--server-url", "http://" + s.Address,
	}, args...))
	ctx, stop := context.WithCancel(s.Ctx)
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = in.CloseWithError(err)
		ended <- err
	}()
	s.T.Cleanup(func() {
		stop()
		assert.NoError(s.T, <-ended)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(s.T, err)
	parts := regexp.MustCompile(`^Calls to (127\.0\.0\.1:\d+) are passed on as those of ServiceAccount (\S+)\.\n$`).FindStringSubmatch(line)
	require.Len(s.T, parts, 3, line)
	require.Equal(s.T, s.Namespace+"/"+serviceAccount, parts[2])
	s.Address = parts[1]
}

// Clients of the systems that Berth takes over send neither a token nor a namespace.
func TestAClientWithoutATokenCallsThroughTheProxy(t *testing.T) {
	s := serve(t)
	direct := s.any()
	s.proxy("editor")
	c := s.mapped()
	for _, token := range []string{"", s.Nobody} {
		_, err := c.CreateResourceLimit(s.As(token), &mapform.CreateResourceLimitRequest{
			Name: "small" + token[:min(len(token), 1)], Limits: &mapform.ResourceLimit{Cpu: "1", Memory: "1Gi"},
		})
		require.NoError(t, err)
	}
	assert.Equal(t, 2, s.count(), "created in the namespace of -n")
	servicetest.Refused(t, servicetest.Err(direct.GetResourceLimit(s.Ctx, named("small"))), codes.Unauthenticated, "")

	// What follows a response: the code and its details.
	_, err := c.CreateResourceLimit(s.Ctx, &mapform.CreateResourceLimitRequest{Name: "Big!", Limits: &mapform.ResourceLimit{Cpu: "1"}})
	servicetest.Refused(t, err, codes.InvalidArgument, "name")

	watch, err := healthpb.NewHealthClient(s.Dial(nil)).Watch(s.Ctx, &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	first, err := watch.Recv()
	require.NoError(t, err, "a stream is passed on before it ends")
	assert.Equal(t, healthpb.HealthCheckResponse_SERVING, first.Status)

	got := s.rest("", http.MethodGet, "/small", "")
	assert.Equal(t, http.StatusOK, got.status, got.body)
}

func TestTheProxyGivesNoOtherRights(t *testing.T) {
	s := serve(t)
	s.proxy("viewer")
	servicetest.Refused(t, servicetest.Err(s.any().CreateResourceLimit(s.As(s.Editor), small("new"))), codes.PermissionDenied, "", "viewer", "may not")
}
