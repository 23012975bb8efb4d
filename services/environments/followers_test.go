// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth.dev/berth/apis/config/controller"
	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
)

const (
	// followers are there at a time.
	followers = 50
	// heapMargin is how much more may be in use after a round than after the one before, in bytes.
	heapMargin = 1 << 19
)

// crowd are callers who follow an environment's logs, and leave when they like.
type crowd struct {
	t      *testing.T
	client schedulerv1.SchedulerServiceClient
	world  *world
	// logs is how many logs are being read of the kubelet, and lines and calls count what was read.
	logs         atomic.Int32
	lines, calls atomic.Int64
}

// write writes a line every few milliseconds, until no one reads.
func (c *crowd) write(rw http.ResponseWriter, r *http.Request, _ string) {
	c.logs.Add(1)
	defer c.logs.Add(-1)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		flush(rw, at(float64(i), "a line"))
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// follow reads lines for a time, and leaves. The time of one who is patient begins with the first line.
func (c *crowd) follow(ctx context.Context, stay time.Duration, patient bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leave := time.AfterFunc(stay, cancel)
	defer leave.Stop()
	if patient {
		leave.Stop()
	}
	c.calls.Add(1)
	logs, err := c.client.GetEnvironmentLogs(ctx, &schedulerv1.GetEnvironmentLogsRequest{Id: smokeID, Follow: true})
	for err == nil {
		if _, err = logs.Recv(); err == nil {
			c.lines.Add(1)
			if patient {
				patient = false
				leave.Reset(stay)
			}
		}
	}
	assert.Equal(c.t, codes.Canceled, status.Code(err), "%v", err)
}

// round has all of them come and go for a time, twice at least. None stays for long. On a busy machine many leave before the first line,
// but not those of a first call.
func (c *crowd) round(ctx context.Context, total time.Duration) {
	end := time.Now().Add(total)
	var all sync.WaitGroup
	for range followers {
		all.Go(func() {
			for n := 0; n < 2 || time.Now().Before(end) && !c.t.Failed(); n++ {
				c.follow(ctx, rand.N(max(total/20, time.Second)), n == 0)
			}
		})
	}
	all.Wait()
}

// settle waits until no more goroutines are left than that. It is counted here, and not by Eventually, which counts from a
// goroutine of its own.
func (c *crowd) settle(goroutines int) {
	c.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; c.logs.Load() > 0 || goroutines > 0 && runtime.NumGoroutine() > goroutines; n++ {
		if n == 1000 {
			defer c.world.server.CloseClientConnections() // or its end would wait for them
			stacks := make([]byte, 1<<16)
			c.t.Fatalf("%d goroutines, and %d before; %d logs are read without a caller\n%s",
				runtime.NumGoroutine(), goroutines, c.logs.Load(), stacks[:runtime.Stack(stacks, true)])
		}
		c.world.config.Transport.(*http.Transport).CloseIdleConnections()
		<-tick.C
	}
}

// steady waits until no log is read and the goroutines stay the same for a fifth of a second, and returns their number.
func (c *crowd) steady() (goroutines int) {
	c.t.Helper()
	c.settle(0)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n, same := 0, 0; same < 20; n++ {
		require.Less(c.t, n, 1000, "the number of goroutines does not settle")
		c.world.config.Transport.(*http.Transport).CloseIdleConnections()
		<-tick.C
		if now := runtime.NumGoroutine(); now != goroutines {
			goroutines, same = now, 0
		} else {
			same++
		}
	}
	return goroutines
}

// inUse is how many bytes are in use.
func inUse() int64 {
	for range 5 { // pools are emptied by the second
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Of 50 who follow and leave at any time nothing stays, neither goroutines nor memory.
func TestFollowersLeaveNothingBehind(t *testing.T) {
	total := 2 * time.Second
	if os.Getenv("BERTH_TEST_LONG") != "" {
		total = time.Minute
	}
	w, _ := logging(t, running("backend", "b", "1", false), running("frontend", "f", "2", false))
	conn, caller := dial(t, w, func(s *controller.Services) { s.RequestLimits.StreamsPerCaller = 2 * followers })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), 2*total+time.Minute)
	defer cancel()
	c := &crowd{t: t, client: schedulerv1.NewSchedulerServiceClient(conn), world: w}
	w.log = c.write

	c.round(ctx, total/4) // what stays open between calls, and what is kept to be used again, is there now
	goroutines := c.steady()
	before := inUse()

	c.round(ctx, total)
	require.NoError(t, ctx.Err())
	require.Greater(t, c.calls.Load(), int64(2*followers), "no caller returned")
	require.Positive(t, c.lines.Load(), "no caller has read anything")
	c.settle(goroutines)
	more := inUse() - before
	assert.Less(t, more, int64(heapMargin))
	t.Logf("%d calls read %d lines; %d bytes more are in use", c.calls.Load(), c.lines.Load(), more)
}

// A log that is still being read when the environment is deleted is closed.
func TestFollowEndsWithTheEnvironment(t *testing.T) {
	w, service := logging(t, running("backend", "b", "1", false), running("frontend", "f", "2", false))
	c := &crowd{t: t, world: w}
	w.log = c.write
	f := startFollowing(t, service)
	require.Eventually(t, func() bool { return c.logs.Load() == 2 }, 10*time.Second, 5*time.Millisecond)
	w.with(func() { delete(w.environments, "default/"+smokeID) })
	select {
	case err := <-f.ended:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		w.server.CloseClientConnections()
		t.Fatal("it goes on")
	}
	c.settle(0)
}

// No one follows indefinitely, but for longer than other calls may take.
func TestAFollowerIsCutOffInTheEnd(t *testing.T) {
	w, _ := logging(t, running("backend", "b", "1", false))
	c := &crowd{t: t, world: w}
	w.log = c.write
	conn, ctx := dial(t, w, func(s *controller.Services) {
		s.DefaultTimeoutSeconds, s.MaxTimeoutSeconds, s.MaxStreamSeconds = 1, 1, 2
	})
	began := time.Now()
	logs, err := schedulerv1.NewSchedulerServiceClient(conn).GetEnvironmentLogs(ctx, &schedulerv1.GetEnvironmentLogsRequest{Id: smokeID, Follow: true})
	for err == nil {
		_, err = logs.Recv()
	}
	assert.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)
	assert.GreaterOrEqual(t, time.Since(began), 1900*time.Millisecond)
	require.Eventually(t, func() bool { return c.logs.Load() == 0 }, 10*time.Second, 5*time.Millisecond)
}
