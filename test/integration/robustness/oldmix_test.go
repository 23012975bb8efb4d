// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/robustness/network"
	"berth.dev/berth/test/testenv"
)

// The scheduler does not see for a while that a mix was changed, and pods arrive: they are placed by the mix that it sees. No more than they
// are in the wrong place, neither version of the mix loses its floor, and the controller repairs the rest.
func TestPodsThatArriveWhileTheSchedulerSeesAnOldMix(t *testing.T) {
	slow(t)
	const few, many = 6, 12
	most, least := split.New(75, 3), split.New(25, 1)
	for name, c := range map[string]struct{ before, after split.Mix }{"less spot": {most, least}, "more spot": {least, most}} {
		t.Run(name, func(t *testing.T) {
			r := newRunner(testenv.New(t, nodes(8)...), 0)
			r.startScheduler()
			for _, name := range replicas {
				r.startController(name)
			}
			r.create(c.before, few)
			r.WaitExact(app, c.before, few, settle)
			ready := r.Record(app)
			scheduler := r.networks[string(history.Scheduler)]
			scheduler.Set(network.Fault{Stalled: true, Only: "/capacitymixes"})
			began := time.Now()
			r.mix(c.after)
			r.Scale(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: app}}, many)
			r.WaitBound(app, many)
			wrong := testenv.SplitBy(c.after, many).Spot - r.Split(app).Spot
			assert.LessOrEqual(t, max(wrong, -wrong), many-few, "pods on the wrong type; so many arrived")
			r.wait(time.Until(began.Add(10 * time.Second)))
			moved := len(r.moved())
			scheduler.Set(network.Fault{})
			r.WaitExact(app, c.after, many, settle)
			t.Logf("%d pods were on the wrong type; %d moves while the mix was old, and %d afterwards", wrong, moved, len(r.moved())-moved)
			onDemand, _ := ready.FewestReady(capacity.OnDemand, few)
			assert.GreaterOrEqual(t, onDemand, 3, "Ready on on-demand at any instant; the floors are 3 and 1")
			r.judged()
		})
	}
}
