// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"net/http"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
)

// counted are the calls of a method that ended with a code, and how many calls of it were timed and took how many seconds.
func counted(t require.TestingT, method, code string) (calls float64, timed uint64, took float64) {
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch {
			case f.GetName() == "berth_service_requests_total" && is(m, "method", method) && is(m, "code", code):
				calls = m.GetCounter().GetValue()
			case f.GetName() == "berth_service_request_duration_seconds" && is(m, "method", method):
				timed, took = m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
			}
		}
	}
	return calls, timed, took
}

// is says whether a series is one of the service, and has a label.
func is(m *dto.Metric, label, value string) bool {
	want := map[string]string{"service": schedulerv1.SchedulerService_ServiceDesc.ServiceName, label: value}
	for _, l := range m.GetLabel() {
		if want[l.GetName()] == l.GetValue() {
			delete(want, l.GetName())
		}
	}
	return len(want) == 0
}

// Calls are counted by their codes, and timed.
func TestCallsAreCountedAndTimed(t *testing.T) {
	w, _ := logging(t)
	conn, ctx := dial(t, w)
	client := schedulerv1.NewSchedulerServiceClient(conn)
	get := func(id string) error {
		return errOf(client.GetEnvironment(ctx, &schedulerv1.GetEnvironmentRequest{Id: id}))
	}
	logs := func(id string) error {
		logs, err := client.GetEnvironmentLogs(ctx, &schedulerv1.GetEnvironmentLogsRequest{Id: id})
		for err == nil {
			_, err = logs.Recv()
		}
		return err
	}
	for _, tc := range []struct {
		method, code string
		call         func() error
	}{
		{"GetEnvironment", "OK", func() error { return get(smokeID) }},
		{"GetEnvironment", "NOT_FOUND", func() error { return get("nothing") }},
		{"GetEnvironment", "INVALID_ARGUMENT", func() error { return get("") }},
		{"GetEnvironmentLogs", "OK", func() error { return logs(smokeID) }},
		{"GetEnvironmentLogs", "NOT_FOUND", func() error { return logs("nothing") }},
	} {
		t.Run(tc.method+" "+tc.code, func(t *testing.T) {
			calls, timed, took := counted(t, tc.method, tc.code)
			_ = tc.call()
			// The caller has the answer before it is counted.
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				now, times, sum := counted(c, tc.method, tc.code)
				assert.InDelta(c, calls+1, now, 0)
				assert.Equal(c, timed+1, times)
				assert.Greater(c, sum, took)
			}, 10*time.Second, 5*time.Millisecond)
		})
	}
}

// The caller while the API server is gone is told so, and the same connection works once it is back.
func TestTheAPIServerComesBack(t *testing.T) {
	w, _ := logging(t)
	conn, ctx := dial(t, w)
	client := schedulerv1.NewSchedulerServiceClient(conn)
	get := func() codes.Code {
		return status.Code(errOf(client.GetEnvironment(ctx, &schedulerv1.GetEnvironmentRequest{Id: smokeID})))
	}
	logs := func() codes.Code {
		logs, err := client.GetEnvironmentLogs(ctx, &schedulerv1.GetEnvironmentLogsRequest{Id: smokeID})
		require.NoError(t, err)
		return status.Code(errOf(logs.Recv()))
	}
	gone := func(rw http.ResponseWriter, _ *http.Request) bool {
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err == nil {
			_ = conn.Close()
		}
		return true
	}
	for range 2 { // no one knows the caller the first time
		w.with(func() { w.before = gone })
		assert.Equal(t, codes.Unavailable, get())
		assert.Equal(t, codes.Unavailable, logs())
		w.with(func() { w.before = nil })
		require.Equal(t, codes.OK, get())
	}
}
