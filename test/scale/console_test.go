// SPDX-License-Identifier: Apache-2.0

package scale_test

import (
	"bufio"
	"crypto/tls"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/perf/bench"
	"berth.dev/berth/test/testenv"
)

// openPages are how many pages are open, maxConsoleRSS what memory berth-console may have resident then, in MB: the limit of its
// Deployment is 512 MiB.
const openPages, maxConsoleRSS = 100, 400

// 100 pages are open that show 1,000 workloads with 10,000 pods on 500 nodes.
func TestTheConsoleShowsAThousandWorkloadsInLittleMemory(t *testing.T) {
	s := sizes[""]
	w := testenv.New(t, s.nodes()...)
	names := fill(t, w, s)
	c, address := w.Console(func(c *controller.Console) {
		c.AcceptAuthorizationHeader, c.IntervalSeconds = true, controller.Default().Console.IntervalSeconds
		c.Limits.Streams, c.Limits.StreamsPerUser, c.Limits.Connections = 2*openPages, 2*openPages, 4*openPages
	})
	w.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}})
	w.CreateForTest(builders.ClusterGrant(w.Namespace, builders.ServiceAccount(w.Namespace, "viewer"), builders.Rule("*", []string{"*"}, "list"))...)
	token := w.Token("viewer")
	t.Logf("without a page: %d MB resident at peak", peakRSS(t, c.PID()))

	events := atomic.Int32{}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	began := time.Now()
	for range openPages {
		r, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, "https://"+address+"/stream?page=%2F", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(r)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, response.StatusCode)
		t.Cleanup(func() { _ = response.Body.Close() })
		go func() {
			lines := bufio.NewScanner(response.Body)
			lines.Buffer(nil, 16<<20)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "data: ") {
					events.Add(1)
				}
			}
		}()
	}
	w.Reaches("each page has its first event", openPages, func() int { return int(events.Load()) })
	t.Logf("%d pages were open after %s", openPages, time.Since(began).Round(time.Millisecond))

	before := events.Load()
	testenv.Patch(w, &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: names[0], Name: "app-0"}}, builders.SpotPercent(30))
	w.Reaches("each page shows the change", int(before)+openPages, func() int { return int(events.Load()) })
	const calm = 30 * time.Second
	used, err := bench.ReadProcess(c.PID())
	require.NoError(t, err)
	w.Always(calm, "the program runs", func() (bool, string) { return testenv.Runs(c) })
	now, err := bench.ReadProcess(c.PID())
	require.NoError(t, err)
	rss := peakRSS(t, c.PID())
	t.Logf("with %d pages: %d MB resident at peak, %.3f of a core at rest", openPages, rss, (now.Processor-used.Processor).Seconds()/calm.Seconds())
	assert.Less(t, rss, maxConsoleRSS, "peak RSS in MB")
}
