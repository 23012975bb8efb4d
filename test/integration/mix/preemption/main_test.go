// SPDX-License-Identifier: Apache-2.0

// Package preemption_test proves, on a real control plane, that pods with a mix
// preempt for their own capacity type only, as a last resort, and keep their
// slot while they wait for their victims.
package preemption_test

import (
	"os"
	"testing"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

const (
	spot     = v1alpha1.CapacityTypeSpot
	onDemand = v1alpha1.CapacityTypeOnDemand

	// stays is how long something that must not happen is watched for.
	stays = 3 * time.Second
)

var (
	// oneCPU makes every pod take a whole CPU, so that nodes are filled exactly.
	oneCPU = builders.CPU("1")

	spotOrWait       = builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableWait, 0)
	spotThenOnDemand = builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableOnDemand, 0)
	onDemandOrWait   = builders.WhenOnDemandUnavailable(v1alpha1.WhenOnDemandUnavailableWait)
	onDemandThenSpot = builders.WhenOnDemandUnavailable(v1alpha1.WhenOnDemandUnavailableSpot)
)

// highPriority makes a priority class for a test and returns its name.
func highPriority(w *testenv.World) string {
	w.T.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}, Value: 1000}
	w.CreateForTest(class)
	return class.Name
}
