// SPDX-License-Identifier: Apache-2.0

// Package profiles_test starts the real binary with every profile that Berth
// ships, and with broken ones, under the rights that the manifests give it.
package profiles_test

import (
	"os"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

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
	w.T.Cleanup(func() { w.DropLease(leaseNamespace, lease) }) // a killed leader leaves it behind
	o := testenv.SchedulerOptions(profile)
	o.LeaderElection = nil
	s := w.RunScheduler(o)
	testenv.WaitForIn(w, leaseNamespace, lease, "the scheduler leads", func(l *coordinationv1.Lease) bool {
		return ptr.Deref(l.Spec.HolderIdentity, "") != ""
	})
	return s
}
