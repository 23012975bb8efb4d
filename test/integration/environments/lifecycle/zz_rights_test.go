// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

// unused are granted rights that the tests do not exercise, and why they are granted.
var unused = map[string]string{
	"get gateway.networking.k8s.io/httproutes": "whether the name is taken, in the namespace of an environment's object and with a Gateway",

	"update /secrets":                          "the Secret of credentials that an update changes: services/environments has tests of that",
	"update berth.dev/environments/finalizers": "the admission plugin OwnerReferencesPermissionEnforcement asks for it, which is off here",
}

// The last test of the package: it looks back at all that the controller asked for in the whole run.
func TestZZEveryRightForEnvironmentsIsUsedOrExplainedAndNoneIsMissing(t *testing.T) {
	s := start(t)
	granted := map[string]bool{}
	for _, name := range []string{"berth-controller-environments", "berth-controller-environment-services"} {
		role, err := s.Kube.RbacV1().ClusterRoles().Get(s.Ctx, name, metav1.GetOptions{})
		require.NoError(t, err)
		for right := range testenv.RightsOf(role.Rules) {
			granted[right] = true
		}
	}
	testenv.LeaveOutApplied(granted)
	s.Eventually("every right that is granted is used, or stands in the list above", func() (bool, string) {
		used, refused := s.RightsUsedBy(cluster.BerthControllerUser)
		delete(refused, "create /events") // of what goes with its namespace: nothing is made in one that ends
		require.Empty(t, refused, "requests that were refused")
		left := testenv.Unused(granted, used, unused)
		return len(left) == 0, strings.Join(left, ", ")
	})
	for right := range unused {
		assert.True(t, granted[right], "%s is explained but not granted", right)
	}
}
