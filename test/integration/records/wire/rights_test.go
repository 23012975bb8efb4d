// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

// rights are checked after all tests.
var rights = testenv.Rights{
	User: cluster.BerthControllerUser, ClusterRoles: []string{"berth-controller-services"},
	// The controller records, which one test runs beside the services, has another role: it watches all namespaces, and patches.
	Counts: func(right string, r *testenv.Request) bool {
		return strings.Contains(right, " berth.dev/deployment") && (r == nil || r.Namespace != "" && r.Verb != "patch")
	},
}

// The rights that no other test of the package uses: every rpc is called.
func TestEveryCallHasItsRights(t *testing.T) {
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
			require.NoError(t, call(s.As(s.Editor)), rpc)
		}
	}
	require.NoError(t, s.deploy(headUnit("known")))
	require.NoError(t, s.every()["DeleteDeployment"](s.As(s.Editor)))
}
