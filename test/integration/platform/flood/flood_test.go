// SPDX-License-Identifier: Apache-2.0

package flood_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
	"berth.dev/berth/test/wire/anyform"
)

const (
	many = 10000
	// perConnection is how many streams a connection may have.
	perConnection = 100
	// most is how much memory the process may have above that of its start. A call takes 13 kB while it is answered, and the
	// floods have ten thousand in flight. After the floods it may have calm.
	most, calm = 200 << 20, 100 << 20
	// mostGoroutines is how many goroutines it may have more than at the start once a flood is over, while peers that do not
	// read hold some.
	mostGoroutines = 1100

	health = "/grpc.health.v1.Health/"
	list   = "/mcp.orchestrator.v1.ResourceLimitService/ListResourceLimits"
	create = "/mcp.orchestrator.v1.ResourceLimitService/CreateResourceLimit"
)

// scene is a controller that serves and rebalances. One user floods it; another, alice, has Served.Editor's token.
type scene struct {
	*servicetest.Served
	flooder string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{Served: servicetest.New(t, "resourcelimits")}
	s.AddNodes(append(cluster.Nodes("spot", 4), cluster.Nodes("on-demand", 4)...)...)
	s.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	s.WaitReady("web", 10)
	s.Start("berth-controller", func(c *controller.Configuration) {
		c.Services.DefaultTimeoutSeconds, c.Services.Limits.Namespace = 5, s.Namespace
	})
	s.flooder = s.User("flooder", "*")
	return s
}

// resident is how much memory a process has, in bytes.
func resident(pid int) (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		return 0, errors.New("the process has no memory")
	}
	n, err := strconv.Atoi(string(found[1]))
	return n << 10, err
}

func (s *scene) goroutines() int { return s.Metric(s.Process, "go_goroutines", nil) }

// patient is how long a call of alice's may take: it is to fail if it is refused, not if the machine is busy.
const patient = 30 * time.Second

// alice calls all the time, and records what fails.
type alice struct {
	served, failed atomic.Int64
	longest        atomic.Int64
	last           atomic.Value
}

func (s *scene) alice(ctx context.Context) *alice {
	a := &alice{}
	one := func(conn grpc.ClientConnInterface) {
		ctx, cancel := context.WithTimeout(ctx, patient)
		defer cancel()
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.Editor, "berth-namespace", s.Namespace)
		began := time.Now()
		_, err := anyform.NewResourceLimitServiceClient(conn).ListResourceLimits(ctx, &anyform.ListResourceLimitsRequest{})
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
		case err != nil:
			a.failed.Add(1)
			a.last.Store(err.Error())
		default:
			a.served.Add(1)
			a.longest.Store(max(a.longest.Load(), int64(time.Since(began))))
		}
	}
	conn := s.Conn()
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if ctx.Err() != nil {
				return
			}
			one(conn)
		}
	}()
	s.T.Cleanup(func() { <-done })
	return a
}

// Whatever is sent to the services, the memory and the goroutines of berth-controller stay bounded, callers who are
// authenticated are served, and the rebalancer moves replicas.
func TestFloods(t *testing.T) {
	s := newScene(t)
	s.WaitExact("web", split.New(70, 2), 10, testenv.SettleTimeout)
	ctx, cancel := context.WithCancel(s.Ctx)
	defer cancel()
	known := s.alice(ctx)
	served := func() int { return int(known.served.Load()) }
	s.Reaches("the controller is warm", 21, served)
	goroutines := s.goroutines()
	start, err := resident(s.Process.PID())
	require.NoError(t, err)
	t.Logf("at the start: %d MB, %d goroutines", start>>20, goroutines)

	percent, moved := int32(70), 0
	for _, f := range []struct {
		name  string
		flood func(*testing.T, *scene)
	}{
		{"connections and slow headers", connections},
		{"endless bodies", endlessBodies},
		{"bodies of tiny frames", tinyFrames},
		{"oversized messages", oversized},
		{"watches", watches},
		{"calls without a token", callsWithoutToken},
		{"calls of one caller", callsOfOne},
		{"random tokens", randomTokens},
		{"cancelled streams", cancelled},
		{"peers that do not read", deaf},
	} {
		t.Run(f.name, func(t *testing.T) {
			evictions, before, began := s.Evicted(), served(), time.Now()
			percent = 110 - percent // 70 and 40
			s.ChangeMix("web", builders.SpotPercent(percent))
			peak := s.peak(func() { f.flood(t, s) })
			moved += s.Evicted() - evictions
			t.Logf("%s: %d MB at most, %d goroutines after it, alice was served %d times and waited %s at most", time.Since(began).Round(time.Millisecond),
				peak>>20, s.goroutines(), served()-before, time.Duration(known.longest.Swap(0)).Round(time.Millisecond))
			assert.Less(t, peak-start, most, "memory above that of the start")
			s.Within(patient, "the goroutines of the flood end", func() (bool, string) {
				now := s.goroutines()
				return now <= goroutines+mostGoroutines, fmt.Sprintf("%d now, %d at the start", now, goroutines)
			})
			s.UpTo(patient).Reaches("alice is served", before+1, served)
		})
	}
	assert.Zero(t, known.failed.Load(), "calls of alice's that failed: %v", known.last.Load())
	assert.Positive(t, moved, "evictions during the floods")
	s.WaitExact("web", split.New(percent, 2), 10, testenv.SettleTimeout)
	s.Within(90*time.Second, "the goroutines are those of the start", func() (bool, string) {
		now := s.goroutines()
		return now <= goroutines+goroutines/10, fmt.Sprintf("%d now, %d at the start", now, goroutines)
	})
	s.Within(90*time.Second, "the memory is given back", func() (bool, string) {
		now, err := resident(s.Process.PID())
		return err == nil && now-start <= calm, fmt.Sprintf("%d MB now, %d MB at the start, error %v", now>>20, start>>20, err)
	})
	end, _ := resident(s.Process.PID())
	t.Logf("at the end: %d MB, %d goroutines", end>>20, s.goroutines())
	require.Positive(t, s.Metric(s.Process, "berth_service_rejections_total", nil))
}

// peak runs a flood, and returns the most memory that the controller had meanwhile.
func (s *scene) peak(flood func()) int {
	peaks, done := make(chan int), make(chan struct{})
	go func() {
		peak := 0
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			now, err := resident(s.Process.PID())
			if peak = max(peak, now); err != nil {
				peak = 1 << 62 // it has ended
			}
			select {
			case <-done:
				peaks <- peak
				return
			case <-tick.C:
			}
		}
	}()
	flood()
	close(done)
	return <-peaks
}

// hold is how long some floods last.
const hold = 3 * time.Second

// connections opens ten thousand. Every second one begins a header and does not end it.
func connections(t *testing.T, s *scene) {
	var open []net.Conn
	for i := range many {
		c, err := net.DialTimeout("tcp", s.Address, patience)
		if err != nil {
			t.Errorf("connection %d: %v", i, err)
			break
		}
		if open = append(open, c); i%2 == 0 {
			_, _ = io.WriteString(c, "GET /health HTTP/1.1\r\nHost: berth\r\nX-Slow: ")
		}
	}
	kept := s.Metric(s.Process, "berth_service_connections", nil)
	assert.LessOrEqual(t, kept, 512, "connections that are open")
	for _, c := range open {
		_ = c.Close()
	}
}

// endlessBodies is the curl of D1, on open and other methods.
func endlessBodies(t *testing.T, s *scene) {
	var writers sync.WaitGroup
	zeros := make([]byte, 16<<10)
	for i := range 20 {
		method, token := []string{health + "Watch", health + "Check", create, list}[i%4], ""
		if i%4 >= 2 {
			token = s.flooder
		}
		p := connect(t, s.Address, 1<<16, false)
		go func() { _, _ = io.Copy(io.Discard, p.conn) }()
		writers.Go(func() {
			stream, err := p.open(method, token)
			for end := time.Now().Add(hold); err == nil && time.Now().Before(end); {
				_ = p.conn.SetWriteDeadline(end)
				// It ignores flow control.
				err = p.framer.WriteData(stream, false, zeros)
			}
		})
	}
	writers.Wait()
	// curl respects it.
	for range 4 {
		ctx, cancel := context.WithTimeout(s.Ctx, 2*time.Second)
		c := exec.CommandContext(ctx, "curl", "-sN", "--http2-prior-knowledge", "-X", "POST", "-H", "content-type: application/grpc", "-H", "te: trailers",
			"-T", "-", "-o", os.DevNull, "http://"+s.Address+health+"Watch")
		c.Stdin = io.MultiReader(newZeros(5), endless{})
		_ = c.Run() // it is reset, or its time is over
		cancel()
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func newZeros(n int64) io.Reader { return io.LimitReader(endless{}, n) }

// tinyFrames sends requests byte by byte: the transport takes a buffer of 16 KiB for each read.
func tinyFrames(t *testing.T, s *scene) {
	var writers sync.WaitGroup
	for range 20 {
		p := connect(t, s.Address, 1<<16, true)
		writers.Go(func() {
			stream, err := p.open(create, s.flooder)
			if err == nil {
				err = p.framer.WriteData(stream, false, []byte{0, 0, 0, 0xff, 0xff})
			}
			for end := time.Now().Add(hold); err == nil && time.Now().Before(end); {
				err = p.framer.WriteData(stream, false, []byte{0})
			}
		})
	}
	writers.Wait()
}

// oversized announces messages of gigabytes.
func oversized(t *testing.T, s *scene) {
	for range 10 {
		p := connect(t, s.Address, 1<<16, true)
		for range perConnection {
			if stream, err := p.open(create, s.flooder); err == nil {
				_ = p.framer.WriteData(stream, false, []byte{0, 0x7f, 0xff, 0xff, 0xff, 1, 2, 3})
			}
		}
		s.answered(p, perConnection)
		assert.Zero(t, p.count("0"))
	}
}

// answered waits until so many calls of a peer have ended.
func (s *scene) answered(p *peer, n int) {
	s.Within(30*time.Second, "the calls have ended", func() (bool, string) { return p.ended(n) })
}

// watches opens ten thousand streams of health, of which an address may have ten.
func watches(t *testing.T, s *scene) {
	var peers []*peer
	for range many / perConnection {
		p := connect(t, s.Address, 1<<16, true)
		peers = append(peers, p)
		for range perConnection {
			if p.call(health+"Watch", "") != nil {
				break
			}
		}
	}
	for _, p := range peers {
		s.answered(p, perConnection-10)
	}
	for _, p := range peers {
		_ = p.conn.Close()
	}
}

// calls makes ten thousand at once.
func (s *scene) calls(t *testing.T, method string, token func(i int) string) (peers []*peer) {
	for range many / perConnection {
		peers = append(peers, connect(t, s.Address, 1<<16, true))
	}
	for i := range many {
		_ = peers[i%len(peers)].call(method, token(i))
	}
	for _, p := range peers {
		s.answered(p, perConnection)
	}
	return peers
}

func callsWithoutToken(t *testing.T, s *scene) {
	for _, p := range s.calls(t, list, func(int) string { return "" }) {
		assert.Zero(t, p.count("0"))
		_ = p.conn.Close()
	}
}

// callsOfOne are of a caller who is authenticated and authorized.
func callsOfOne(t *testing.T, s *scene) {
	limited := 0
	for _, p := range s.calls(t, list, func(int) string { return s.flooder }) {
		limited += p.count("8")
		_ = p.conn.Close()
	}
	assert.Positive(t, limited, "calls that were refused by a limit")
}

// randomTokens must not take the reviews of others: there are as many as the limit allows.
func randomTokens(t *testing.T, s *scene) {
	reviews := s.Count(func(r testenv.Request) bool {
		return r.User == cluster.BerthControllerUser && r.Resource == "tokenreviews"
	})
	before, began := reviews(), time.Now()
	for _, p := range s.calls(t, list, func(i int) string { return fmt.Sprintf("random-%d-%d", began.UnixNano(), i) }) {
		assert.Zero(t, p.count("0"))
		_ = p.conn.Close()
	}
	// Alice and the flooder are reviewed every ten seconds. An address may have twenty at once, and ten a second.
	took := int(time.Since(began)/time.Second) + 1
	assert.LessOrEqual(t, reviews()-before, 20+10*took+2*took, "reviews")
}

// cancelled resets streams as soon as they are open.
func cancelled(t *testing.T, s *scene) {
	for range 10 {
		p := connect(t, s.Address, 1<<16, true)
		for range many / 10 {
			stream, err := p.open(list, s.flooder)
			if err != nil {
				break // the server has ended the connection
			}
			_ = p.framer.WriteData(stream, true, empty)
			_ = p.framer.WriteRSTStream(stream, 8)
		}
		_ = p.conn.Close()
	}
}

// deaf does not read answers, or has a window of no byte for them.
func deaf(t *testing.T, s *scene) {
	for i := range 20 {
		p := connect(t, s.Address, uint32(i%2)<<20, false)
		for range perConnection {
			method, token := list, s.flooder
			if i%4 >= 2 {
				method, token = health+"Check", ""
			}
			if p.call(method, token) != nil {
				break
			}
		}
		t.Cleanup(func() { _ = p.conn.Close() })
	}
	s.Always(hold, "the controller runs", func() (bool, string) { _, err := resident(s.Process.PID()); return err == nil, fmt.Sprint(err) })
}
