// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// The status of an environment does not name environments of other namespaces.
func TestHoldersOfOtherNamespacesAreNotNamed(t *testing.T) {
	ports := func(port int32) []v1alpha1.AllocatedPort {
		return []v1alpha1.AllocatedPort{{HostPort: port, Protocol: v1alpha1.ProtocolTCP}}
	}
	assert.Equal(t, map[stack.PortKey]string{{Number: 80, Protocol: v1alpha1.ProtocolTCP}: "same", {Number: 81, Protocol: v1alpha1.ProtocolTCP}: ""},
		holders("shop", map[client.ObjectKey][]v1alpha1.AllocatedPort{
			{Namespace: "shop", Name: "same"}:    ports(80),
			{Namespace: "other", Name: "secret"}: ports(81),
		}))
}
