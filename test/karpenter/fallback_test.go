// SPDX-License-Identifier: Apache-2.0

package karpenter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/autoscaler"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// defaultWait is spotWaitSeconds of pods with a gate.
const defaultWait = 15 * time.Minute

// nodeClassObject identifies the class of all nodes.
func nodeClassObject() client.Object {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "karpenter.kwok.sh/v1alpha1", Kind: "KWOKNodeClass"},
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
	}
}

// noCapacity has the launches of a capacity type or a zone fail, "" those of none.
func (w *autoscaled) noCapacity(of string) {
	w.T.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, cluster.KarpenterNoCapacity, of)
	require.NoError(w.T, w.Client.Patch(w.Ctx, nodeClassObject(), client.RawPatch(types.MergePatchType, []byte(patch))))
}

// firstReport is when Karpenter first reported that it launches no node for a pod.
func (w *autoscaled) firstReport() time.Time {
	w.T.Helper()
	var first time.Time
	for _, e := range testenv.List(w.World, &corev1.EventList{}).Items {
		o, ok := autoscaler.Observe(&e)
		if _, ends := o.EndsAfter(2); !ok || !ends || e.Namespace != w.Namespace {
			continue
		}
		if at := e.CreationTimestamp.Time; first.IsZero() || at.Before(first) {
			first = at
		}
	}
	require.False(w.T, first.IsZero())
	return first
}

// fallsBack requires that all replicas run on on-demand, and returns how long that took from the start, and from the first report.
func (w *autoscaled) fallsBack(replicas int, began time.Time) (all, sinceReport time.Duration) {
	w.T.Helper()
	w.Within(patience, "all replicas run on on-demand", func() (bool, string) {
		s := w.Split("web")
		return s.OnDemand == replicas && s.Pending == 0 && len(testenv.Where(w.Live("web"), testenv.Ready)) == replicas, s.String()
	})
	now := time.Now()
	return now.Sub(began), now.Sub(w.firstReport())
}

// Each launch of a spot node fails: the replicas of spot slots run on on-demand nodes once Karpenter has reported it twice, although their
// mix waits for 15 minutes. It reports a launch that failed every two minutes at most. Its KWOK provider does not remember what failed:
// other providers do, and then Karpenter reports after seconds that there is no node to launch, as in the test of placeholders.
func TestWhereLaunchesOfSpotFailReplicasGoToOnDemandAndReturn(t *testing.T) {
	w := start(t, both)
	w.noCapacity("spot")
	w.ApplyFiles("manifests/rbac/placeholders")
	controller := w.Controller(testenv.Impatient)
	const replicas = 10 // Karpenter records as many events at once
	began := time.Now()
	w.Create(
		builders.CapacityMix("web", web.SpotPercent, web.MinOnDemand,
			builders.Rebalance(func(r *v1alpha1.RebalanceSpec) { r.Provisioning = v1alpha1.ProvisioningPlaceholder })),
		builders.Deployment("web", replicas, builders.CPU(cpu), builders.Gated),
	)
	all, since := w.fallsBack(replicas, began)
	t.Logf("all replicas run on on-demand after %s, %s after the first report; by time alone after more than %s", all.Round(time.Second), since.Round(time.Second), defaultWait)
	assert.Less(t, all, defaultWait/3)
	assert.Empty(t, w.Evictions())

	w.noCapacity("")
	back := time.Now()
	w.waitMix(replicas)
	t.Logf("in its mix %s after spot was back, with %d evictions", time.Since(back).Round(time.Second), len(w.Evictions()))
	assert.Zero(t, w.Metric(controller, "berth_mix_moves_total", map[string]string{"outcome": "failed"}))
}
