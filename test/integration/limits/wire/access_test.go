// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	rbacv1 "k8s.io/api/rbac/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
	"berth.dev/berth/test/wire/anyform"
)

// every is one call of each rpc that is served.
func every(c anyform.ResourceLimitServiceClient) map[string]func(context.Context) error {
	update := &anyform.UpdateResourceLimitRequest{Name: "old", Limits: &anyform.ResourceLimit{Cpu: "2"}}
	forced := &anyform.DeleteResourceLimitRequest{Name: "old", Force: true}
	return map[string]func(context.Context) error{
		"create": func(ctx context.Context) error { return servicetest.Err(c.CreateResourceLimit(ctx, small("new"))) },
		"get":    func(ctx context.Context) error { return servicetest.Err(c.GetResourceLimit(ctx, named("old"))) },
		"list": func(ctx context.Context) error {
			return servicetest.Err(c.ListResourceLimits(ctx, &anyform.ListResourceLimitsRequest{}))
		},
		"update": func(ctx context.Context) error { return servicetest.Err(c.UpdateResourceLimit(ctx, update)) },
		"delete": func(ctx context.Context) error {
			return servicetest.Err(c.DeleteResourceLimit(ctx, &anyform.DeleteResourceLimitRequest{Name: "old"}))
		},
		"force": func(ctx context.Context) error { return servicetest.Err(c.DeleteResourceLimit(ctx, forced)) },
	}
}

// named is the request for a limit.
func named(name string) *anyform.GetResourceLimitRequest {
	return &anyform.GetResourceLimitRequest{Name: name}
}

// calls are the services' requests about limits of the test's namespace. The controller of ResourceLimits, in the same
// process, watches and patches.
func (s *scene) calls() []testenv.Request {
	s.T.Helper()
	return s.Audit(func(r testenv.Request) bool {
		return r.User == cluster.BerthEnvironmentsUser && r.Resource == "resourcelimits" && r.Verb != "watch" && r.Verb != "patch"
	})
}

func TestUnauthorizedCallersChangeNothing(t *testing.T) {
	s := serve(t)
	c := s.any()
	require.NoError(t, servicetest.Err(c.CreateResourceLimit(s.as(s.Editor), small("old"))))
	before := s.stored("old")
	asked := len(s.calls())

	parts := strings.Split(s.Editor, ".")
	forged := parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2]))
	for verb, call := range every(c) {
		anotherScheme := s.as("", "authorization", "Basic ZWRpdG9yOg==")
		for _, ctx := range []context.Context{s.as(""), s.as("nonsense"), s.as(forged), anotherScheme} {
			servicetest.Refused(t, call(ctx), codes.Unauthenticated, "")
		}
		servicetest.Refused(t, call(s.as(s.Nobody)), codes.PermissionDenied, "", "nobody", "may not", s.Namespace)
		if verb != "get" && verb != "list" {
			servicetest.Refused(t, call(s.as(s.Viewer)), codes.PermissionDenied, "", "viewer", "resourcelimits.berth.dev")
		}
		// A right in one namespace is none in another.
		servicetest.Refused(t, call(s.as(s.Editor, "berth-namespace", "default")), codes.InvalidArgument, "berth-namespace", "more than once")
		servicetest.Refused(t, call(s.As(s.Editor)), codes.PermissionDenied, "", `"default"`)
	}
	for _, token := range []string{"", "nonsense", forged} {
		a := s.rest(token, "DELETE", "/old", "")
		a.refuses(t, http.StatusUnauthorized, "UNAUTHENTICATED", "")
		assert.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
	}
	s.rest(s.Viewer, "DELETE", "/old", "").refuses(t, http.StatusForbidden, "PERMISSION_DENIED", "")
	s.rest(s.Viewer, "PUT", "/old", `{"limits":{"cpu":"2"}}`).refuses(t, http.StatusForbidden, "PERMISSION_DENIED", "")
	s.rest(s.Nobody, "POST", "", `{"name":"new","limits":{}}`).refuses(t, http.StatusForbidden, "PERMISSION_DENIED", "")

	assert.Equal(t, before.Generation, s.stored("old").Generation)
	assert.Empty(t, s.stored("old").Annotations[v1alpha1.ForceDeleteAnnotation])
	assert.Equal(t, 1, s.count())
	assert.Len(t, s.calls(), asked, "no request reached the API server")

	// A right that was taken away is gone at once.
	s.Delete(testenv.Read(s.World, "editor", &rbacv1.RoleBinding{}))
	s.WaitCode("the right is gone", codes.PermissionDenied, func() error { return every(c)["update"](s.as(s.Editor)) })
	// Logs have neither tokens nor bodies.
	log := s.Process.LogTail(100000)
	require.Contains(t, log, "Served a call")
	for _, secret := range []string{s.Editor, parts[2], "nonsense"} {
		assert.NotContains(t, log, secret)
	}
}

// A right to one limit by its name is one, and a right to delete is none to force.
func TestEachCallRequiresItsVerb(t *testing.T) {
	s := serve(t)
	c := s.any()
	require.NoError(t, servicetest.Err(c.CreateResourceLimit(s.as(s.Editor), small("old"))))
	one := builders.Rule("berth.dev", []string{"resourcelimits"}, "get", "delete")
	one.ResourceNames = []string{"old"}
	s.Create(builders.Grant("one", builders.ServiceAccount(s.Namespace, "nobody"), one)...)
	ctx := s.as(s.Nobody)
	s.WaitCode("the right counts", codes.OK, func() error { return every(c)["get"](ctx) })
	_, err := c.GetResourceLimit(ctx, named("other"))
	servicetest.Refused(t, err, codes.PermissionDenied, "", `get resourcelimits.berth.dev "other"`)
	servicetest.Refused(t, every(c)["list"](ctx), codes.PermissionDenied, "")
	servicetest.Refused(t, every(c)["force"](ctx), codes.PermissionDenied, "", "patch")
	require.NoError(t, every(c)["delete"](ctx))
}
