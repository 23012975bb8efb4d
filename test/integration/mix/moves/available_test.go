// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// A PodDisruptionBudget counts Ready pods: only the owner has how long a replica has to be so before the next one may go.
func TestTheNextReplicaMovesOnceTheLastOneIsAvailable(t *testing.T) {
	const minReady = 5
	w := testenv.New(t, cluster.Nodes(onDemand, 4)...)
	deployment, set := builders.Deployment("web", 4), builders.StatefulSet("db", 4, appsv1.ParallelPodManagement)
	deployment.Spec.MinReadySeconds, set.Spec.MinReadySeconds = minReady, minReady
	owners := map[string]client.Object{"web": deployment, "db": set}
	for app, o := range owners {
		w.Create(builders.CapacityMix(app, 50, 0), o)
		w.WaitReady(app, 4)
	}
	w.AddNodes(cluster.Nodes(spot, 4)...)
	recording := w.RecordAll()
	w.Controller(testenv.Impatient)
	for app := range owners {
		w.WaitRepaired(app, split.New(50, 0), 4, testenv.SettleTimeout)
		var gone []time.Time
		for _, e := range recording.Deleting(app) {
			gone = append(gone, e.At)
		}
		require.Len(t, gone, 2, app)
		// Condition times are whole seconds.
		assert.GreaterOrEqual(t, gone[1].Sub(gone[0]).Abs(), (minReady-1)*time.Second, app)
	}
}
