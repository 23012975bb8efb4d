// SPDX-License-Identifier: Apache-2.0

// Package profiles_test starts the real binary with every profile that Berth
// ships, and with broken ones, under the rights that the manifests give it.
package profiles_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true, Rights: []testenv.Rights{rights}}))
}

// asShipped starts a scheduler with a profile as it is, leader election
// included, and waits until it leads. The lease goes with the test.
func asShipped(w *testenv.World, profile, leaseNamespace, lease string) *cluster.Scheduler {
	w.T.Helper()
	leases := w.Kube.CoordinationV1().Leases(leaseNamespace)
	w.T.Cleanup(func() { // a killed leader leaves it behind
		require.NoError(w.T, client.IgnoreNotFound(leases.Delete(w.Ctx, lease, metav1.DeleteOptions{})))
	})
	o := testenv.SchedulerOptions(profile)
	o.LeaderElection = nil
	s := w.RunScheduler(o)
	w.Eventually("the scheduler leads", func() (bool, string) {
		l, err := leases.Get(w.Ctx, lease, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "", l.String()
	})
	return s
}
