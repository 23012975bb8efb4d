// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

// The last test of the package: it looks back at all that the services asked for of records in the whole run, of which
// every rpc was a part.
func TestCR31TheServicesHaveTheRightsThatTheyUseAndNoOthers(t *testing.T) {
	s := serve(t)
	u := headUnit("x")
	u.SelectedTemplate = new("none")
	require.Error(t, s.deploy(u))
	u.SelectedTemplate = nil
	require.NoError(t, s.deploy(u))
	u.ClassKey = "changed"
	require.NoError(t, s.deploy(u))
	for rpc, call := range s.every() {
		if rpc != "DeleteDeployment" && !strings.HasPrefix(rpc, "GetDeployment") && rpc != "GetClassRuntime" {
			require.NoError(t, call(s.as(s.Editor)), rpc)
		}
	}
	require.NoError(t, s.deploy(headUnit("known")))
	require.NoError(t, s.every()["DeleteDeployment"](s.as(s.Editor)))

	role, err := s.Kube.RbacV1().ClusterRoles().Get(s.Ctx, "berth-controller-services", metav1.GetOptions{})
	require.NoError(t, err)
	var granted []string
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			if strings.HasPrefix(resource, "deployment") {
				for _, verb := range rule.Verbs {
					granted = append(granted, verb+" "+resource)
				}
			}
		}
	}
	slices.Sort(granted)
	s.Eventually("every right that is granted is used, and no other", func() (bool, string) {
		used := map[string]bool{}
		for _, r := range s.AuditAll(func(r testenv.Request) bool {
			// The controller of records, which one test runs beside the services, has rights of its own: it watches all
			// namespaces, and patches. The services would be refused that, and fail.
			if r.Namespace == "" || r.Verb == "patch" {
				return false
			}
			return r.User == cluster.BerthControllerUser && strings.HasPrefix(r.Resource, "deployment") && r.Group == "berth.dev" && r.Code != http.StatusForbidden
		}) {
			used[r.Verb+" "+r.Resource] = true
		}
		have := []string{}
		for right := range used {
			have = append(have, right)
		}
		slices.Sort(have)
		return slices.Equal(granted, have), strings.Join(have, ", ")
	})
	assert.NotContains(t, strings.Join(granted, " "), "*")
}
