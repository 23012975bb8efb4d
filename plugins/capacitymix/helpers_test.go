// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/internal/mix/capacity"
)

// bindingOf is the Binding that an action created.
func bindingOf(t *testing.T, action clienttesting.Action) *corev1.Binding {
	t.Helper()
	create, ok := action.(clienttesting.CreateAction)
	require.True(t, ok)
	return create.GetObject().(*corev1.Binding)
}

func typeOf(f *fixture, node string) capacity.Type {
	n, _ := f.plugin.Ledger.Node(node)
	return n.Type
}
