// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// slowly starts a controller of which the API server holds up answers. That of a lease is not: a controller that loses it ends.
func slowly(w *testenv.World, delay func(*http.Request) time.Duration) *cluster.Controller {
	w.T.Helper()
	kubeconfig := w.DelayedKubeconfig(cluster.BerthControllerUser, func(r *http.Request) time.Duration {
		if strings.Contains(r.URL.Path, "/leases") {
			return 0
		}
		return delay(r)
	})
	c := w.StartControllerWith(cluster.ProgramOptions{Name: "slow", Kubeconfig: kubeconfig}, testenv.Impatient)
	w.WaitLeads(c)
	return c
}

// Each answer takes a fifth of a second, and that to a report a minute: there are more reports than are written at the same time. A
// move takes some fifteen answers, one after the other, and no report.
func TestReportsThatTakeLongHoldUpNoMove(t *testing.T) {
	w := astray(t)
	for i := range 20 {
		name := fmt.Sprintf("a%02d", i) // before web, in the order of reconciles
		w.Create(builders.CapacityMix(name, 50, 0), builders.Deployment(name, 2))
	}
	slowly(w, func(r *http.Request) time.Duration {
		if strings.HasSuffix(r.URL.Path, "/status") {
			return time.Minute
		}
		return 200 * time.Millisecond
	})
	began := time.Now()
	w.WaitExact("web", split.New(70, 2), 10, 50*time.Second)
	assert.Len(t, w.EvictionsOf("web"), 7)
	reports := 0
	for _, r := range w.StatusWrites() {
		if r.At.After(began) {
			reports++
		}
	}
	assert.LessOrEqual(t, reports, 4, "the others wait for the answers to these")
}
