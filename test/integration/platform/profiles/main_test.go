// SPDX-License-Identifier: Apache-2.0

// Package profiles_test starts the real binary with every profile that Berth
// ships, and with broken ones, under the rights that the manifests give it.
package profiles_test

import (
	"os"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true, Rights: []testenv.Rights{rights}}))
}

// asShipped starts a scheduler with a profile as it is, leader election
// included, and waits until it leads. The lease goes with the test.
func asShipped(w *testenv.World, profile, leaseNamespace, lease string, changes ...func(*cluster.ProgramOptions)) *cluster.Scheduler {
	w.T.Helper()
	w.T.Cleanup(func() { w.DropLease(leaseNamespace, lease) }) // a killed leader leaves it behind
	o := testenv.SchedulerOptions(profile)
	o.LeaderElection = nil
	for _, change := range changes {
		change(&o)
	}
	s := w.RunScheduler(o)
	testenv.WaitForIn(w, leaseNamespace, lease, "the scheduler leads", func(l *coordinationv1.Lease) bool {
		return ptr.Deref(l.Spec.HolderIdentity, "") != ""
	})
	return s
}

func TestSecondSchedulerPlacesOnlyItsOwnPods(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	asShipped(w, testenv.SecondScheduler, "berth-system", "berth-scheduler")
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 20),
		builders.CapacityMix("other", 70, 2), builders.Deployment("other", 2, builders.SchedulerName(corev1.DefaultSchedulerName)))
	w.RequireExact("web", split.New(70, 2), 20)
	w.WaitSplit("other", "its pods are there", testenv.Split{Pending: 2})
	w.StaysSplit(testenv.Short, "other", "no scheduler binds the pods of another one", testenv.Split{Pending: 2})
}

func TestReplacementSchedulerPlacesPodsOfBothNames(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.ApplyFiles("manifests/rbac/replace-default")
	asShipped(w, testenv.ReplaceDefault, "kube-system", "kube-scheduler")
	unnamed := builders.SchedulerName("") // the API server writes default-scheduler
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 20, unnamed),
		builders.CapacityMix("named", 50, 1), builders.Deployment("named", 9),
		builders.Deployment("plain", 5, unnamed))
	w.RequireExact("web", split.New(70, 2), 20)
	w.RequireExact("named", split.New(50, 1), 9)
	w.WaitReady("plain", 5)
}
