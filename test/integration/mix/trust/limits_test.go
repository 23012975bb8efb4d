// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/testenv"
)

func TestAPaceIsKeptByTheNextLeader(t *testing.T) {
	w := astray(t, func(m *v1alpha1.CapacityMix) {
		m.Spec.Rebalance = &v1alpha1.RebalanceSpec{MaxMovesPerHour: new(int32(2)), StabilizationSeconds: new(int32(0))}
	})
	c := w.Controller(testenv.Impatient)
	w.WaitEvictions(2)
	message := w.WaitBlocked("web", "Pace", "2 moves of this mix began within the last hour", "the next may begin at ")
	testenv.End(c, true)
	w.DropLease("berth-system", "berth-controller")
	w.Controller(testenv.Impatient)
	w.Always(testenv.Holds, "nothing is evicted", func() (bool, string) { return w.Evicted() == 2, fmt.Sprint(w.Evicted()) })
	assert.Equal(t, message, w.WaitBlocked("web", "Pace"))

	w.ChangeMix("web", func(m *v1alpha1.CapacityMix) { m.Spec.Rebalance.MaxMovesPerHour = nil })
	w.WaitRepaired("web", seventy, replicas, testenv.SettleTimeout)
}

func TestOnlyTheCanaryMoves(t *testing.T) {
	w := astray(t)
	c := w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Mix.Rebalance.Canary.Percent = 0 })
	w.WaitBlocked("web", "NotInCanary", "mix.rebalance.canary moves 0 % of the mixes")
	assert.Zero(t, w.Evicted())
	w.Reconfigure(c, func(c *controller.Configuration) {
		testenv.Impatient(c)
		c.Mix.Rebalance.Canary = controller.Canary{Namespaces: []string{w.Namespace}}
	})
	w.WaitRepaired("web", seventy, replicas, testenv.SettleTimeout)
}

// promises is a Prometheus that answers each query with the value that the test sets, and with an error below 0.
func promises(t *testing.T) (url string, value *atomic.Int32) {
	t.Helper()
	value = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		v := value.Load()
		if v < 0 {
			http.Error(out, "no", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(out, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"%d"]}]}}`, v)
	}))
	t.Cleanup(s.Close)
	return s.URL, value
}

func TestTheHealthGateStopsMoves(t *testing.T) {
	w := astray(t)
	url, value := promises(t)
	c := w.Controller(testenv.Impatient, func(c *controller.Configuration) {
		c.Mix.Rebalance.HealthGate = controller.HealthGate{PrometheusURL: url, Query: "good", IntervalSeconds: 5, TimeoutSeconds: 2}
	})
	w.WaitBlocked("web", "HealthGate", "is not good since", "1 values, one of which is 0")
	assert.Equal(t, 1, w.Metric(c, "berth_mix_health_gate", map[string]string{"state": "bad"}))
	value.Store(-1)
	w.WaitBlocked("web", "HealthGate", "it is unknown whether moves are safe")
	assert.Zero(t, w.Evicted())
	value.Store(1)
	w.WaitRepaired("web", seventy, replicas, testenv.SettleTimeout)
}
