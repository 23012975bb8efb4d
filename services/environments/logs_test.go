// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/endedlogs"
	"berth.dev/berth/internal/environments/podlogs"
	"berth.dev/berth/services/server"
)

// at is a line of a log as the kubelet writes it, so many seconds after a certain time.
func at(seconds float64, text string) string {
	t := time.Unix(1_000_000, 0).UTC().Add(time.Duration(seconds * float64(time.Second)))
	return t.Format(time.RFC3339Nano) + " " + text + "\n"
}

// running is a pod whose container runs, or ran, as a container of an id.
func running(component, name, id string, ended bool) corev1.Pod {
	return *podOf(component, name, func(p *corev1.Pod) {
		s := corev1.ContainerStatus{Name: "main", ContainerID: id, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
		if ended {
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: id}}
		}
		p.Labels[v1alpha1.EnvironmentLabel] = smokeID
		p.Status.ContainerStatuses = []corev1.ContainerStatus{s}
	})
}

// logging is a world with an environment whose pods are given.
func logging(t testing.TB, pods ...corev1.Pod) (*world, *service) {
	w, c := newWorld(t)
	e := &environment{}
	e.Namespace, e.Name, e.UID, e.Status.Namespace = "default", smokeID, "e", "run"
	a, err := fromWire(smoke())
	require.NoError(t, err)
	e.Spec = a.spec
	w.environments["default/"+smokeID] = e
	w.pods = pods
	return w, c
}

// collect are the lines that a call sends.
func collect(ctx context.Context, c *service, req *schedulerv1.GetEnvironmentLogsRequest) ([]string, error) {
	var out []string
	req.Id = smokeID
	err := c.logs(ctx, "default", req, func(m *schedulerv1.GetEnvironmentLogsResponse) error {
		out = append(out, m.GetContainerName()+": "+m.GetMessage())
		return nil
	})
	return out, err
}

func TestLogsAreInTheOrderOfTheirTimes(t *testing.T) {
	w, c := logging(t, running("backend", "b1", "1", false), running("backend", "b2", "2", false), running("database", "d", "3", true),
		*podOf("frontend", "f"), running("redis-cache", "r", "4", false))
	for i := range w.pods {
		w.pods[i].Labels[v1alpha1.EnvironmentLabel] = smokeID
	}
	var mu sync.Mutex
	asked := map[string]string{}
	w.log = func(rw http.ResponseWriter, r *http.Request, pod string) {
		mu.Lock()
		asked[pod] = r.URL.Query().Encode()
		mu.Unlock()
		switch pod {
		case "b1":
			fmt.Fprint(rw, at(1, "b1 first"), at(4, "b1 ERROR"))
		case "b2":
			fmt.Fprint(rw, at(2, "b2 first"), at(3, "b2 second"))
		case "d":
			fmt.Fprint(rw, at(0.5, "d first"), strings.TrimSuffix(at(5, "d last"), "\n"))
		default:
			answer(rw, nil, apierrors.NewBadRequest("container is waiting to start"))
		}
	}
	got, err := collect(t.Context(), c, &schedulerv1.GetEnvironmentLogsRequest{})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"database: d first", "backend: b1 first", "backend: b2 first", "backend: b2 second", "backend: b1 ERROR", "database: d last",
	}, got)
	assert.Equal(t, "container=main&timestamps=true", asked["b1"])
	assert.NotContains(t, asked, "f", "has not run yet")

	got, err = collect(t.Context(), c, &schedulerv1.GetEnvironmentLogsRequest{
		ContainerName: "backend", Since: timestamppb.New(time.Unix(1_000_001, 5e8)), TailLines: 20000,
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"backend: b2 first", "backend: b2 second", "backend: b1 ERROR"}, got, "not what is earlier within the second")
	assert.Equal(t, "container=main&sinceTime=1970-01-12T13%3A46%3A41Z&tailLines=10000&timestamps=true", asked["b1"])

	got, err = collect(t.Context(), c, &schedulerv1.GetEnvironmentLogsRequest{ContainerName: "web-backend", Since: timestamppb.New(time.Unix(1_000_003, 0))})
	require.NoError(t, err)
	assert.Equal(t, []string{"backend: b2 second", "backend: b1 ERROR"}, got, "by the name that the client has given the container")

	var last *schedulerv1.GetEnvironmentLogsResponse
	require.NoError(t, c.logs(t.Context(), "default", &schedulerv1.GetEnvironmentLogsRequest{Id: smokeID, ContainerName: "backend"},
		func(m *schedulerv1.GetEnvironmentLogsResponse) error { last = m; return nil }))
	assert.Equal(t, "error", last.GetLevel())
	assert.EqualValues(t, 1_000_004, last.GetTimestamp().GetSeconds())
}

// What a container wrote before it ended is between the lines of those that run, once.
func TestLogsOfContainersThatEnded(t *testing.T) {
	w, c := logging(t, running("backend", "b1", "1", false), running("database", "d", "3", true))
	w.log = func(rw http.ResponseWriter, _ *http.Request, pod string) { fmt.Fprint(rw, at(2, pod+" now")) }
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "run", Name: endedlogs.Secret, Labels: map[string]string{
		v1alpha1.EnvironmentLabel: smokeID, v1alpha1.EnvironmentNamespaceLabel: "default",
	}}}
	secret.Data = endedlogs.Add(nil, endedlogs.Key("backend", "0"), []byte(at(1, "before")+at(1.5, "panic")))
	secret.Data = endedlogs.Add(secret.Data, endedlogs.Key("database", "3"), []byte(at(2, "is read from the kubelet")))
	w.secrets["run/"+endedlogs.Secret] = secret
	got, err := collect(t.Context(), c, &schedulerv1.GetEnvironmentLogsRequest{})
	require.NoError(t, err)
	assert.Equal(t, []string{"backend: before", "backend: panic", "backend: b1 now", "database: d now"}, got)
	got, err = collect(t.Context(), c, &schedulerv1.GetEnvironmentLogsRequest{ContainerName: "backend", TailLines: 1})
	require.NoError(t, err)
	assert.Equal(t, []string{"backend: panic", "backend: b1 now"}, got)
	got, err = collect(t.Context(), c, &schedulerv1.GetEnvironmentLogsRequest{ContainerName: "database"})
	require.NoError(t, err)
	assert.Equal(t, []string{"database: d now"}, got)
	secret.Labels[v1alpha1.EnvironmentLabel] = "another"
	got, err = collect(t.Context(), c, &schedulerv1.GetEnvironmentLogsRequest{})
	require.NoError(t, err)
	assert.Equal(t, []string{"backend: b1 now", "database: d now"}, got, "a Secret of another owner is not served")
}

func TestInvalidRequestsForLogsAreRefused(t *testing.T) {
	_, c := logging(t)
	for field, req := range map[string]*schedulerv1.GetEnvironmentLogsRequest{
		"container_name": {ContainerName: "nginx"}, "tail_lines": {TailLines: -1}, "since": {Since: &timestamppb.Timestamp{Nanos: -1}},
	} {
		_, err := collect(t.Context(), c, req)
		requireCode(t, codes.InvalidArgument, err)
		assert.Equal(t, field, server.AsError(err).Violations[0].Field)
	}
	_, err := collect(t.Context(), c, &schedulerv1.GetEnvironmentLogsRequest{ContainerName: "nginx"})
	assert.ErrorContains(t, err, `is "nginx", and must be one of the names of environment "`+smokeID+`": `+
		"database, web-database, redis-cache, redis, backend, web-backend, frontend, web-frontend")
}

// The name of a component comes before that of a container, and a name of several containers is all of them.
func TestNamesOfContainers(t *testing.T) {
	_, c := logging(t)
	e, err := c.find(t.Context(), "default", smokeID)
	require.NoError(t, err)
	stack := &e.Spec.Stack
	stack.Frontend.Container.Name, stack.Backend.Container.Name, stack.Database.Container.Name = "app", "app", "redis-cache"
	for name, want := range map[string][]string{"app": {"backend", "frontend"}, "redis-cache": {"redis-cache"}, "redis": {"redis-cache"}, "": nil} {
		w := &wantedLogs{name: name}
		require.NoError(t, w.choose(e))
		assert.Equal(t, want, w.components, name)
	}
}

// A log that cannot be read is reported after all others.
func TestALogThatCannotBeRead(t *testing.T) {
	w, c := logging(t, running("backend", "b", "1", false), running("database", "d", "2", false))
	w.log = func(rw http.ResponseWriter, _ *http.Request, pod string) {
		if pod == "d" {
			answer(rw, nil, apierrors.NewInternalError(errors.New("dial tcp: refused")))
			return
		}
		fmt.Fprint(rw, at(1, "one"))
	}
	got, err := collect(t.Context(), c, &schedulerv1.GetEnvironmentLogsRequest{})
	assert.Contains(t, requireCode(t, codes.Unavailable, err), "database")
	assert.Equal(t, []string{"backend: one"}, got)
}

func TestALineThatIsTooLong(t *testing.T) {
	w, c := logging(t, running("backend", "b", "1", false))
	w.log = func(rw http.ResponseWriter, _ *http.Request, _ string) {
		fmt.Fprint(rw, at(1, strings.Repeat("ä", podlogs.MaxLine)), at(2, "next"))
	}
	got, err := collect(t.Context(), c, &schedulerv1.GetEnvironmentLogsRequest{})
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Len(t, got[0], len("backend: ")+podlogs.MaxLine)
	assert.Equal(t, "backend: next", got[1])
}

// following collects lines in the background until the test has what it waits for.
type following struct {
	mu    sync.Mutex
	lines []string
	ended chan error
	stop  context.CancelFunc
}

func startFollowing(t *testing.T, c *service) *following {
	ctx, cancel := context.WithCancel(t.Context())
	f := &following{ended: make(chan error, 1), stop: cancel}
	go func() {
		f.ended <- c.logs(ctx, "default", &schedulerv1.GetEnvironmentLogsRequest{Id: smokeID, Follow: true, TailLines: 7}, func(m *schedulerv1.GetEnvironmentLogsResponse) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.lines = append(f.lines, m.GetContainerName()+": "+m.GetMessage())
			return nil
		})
	}()
	t.Cleanup(cancel)
	return f
}

func (f *following) have() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.lines...)
}

func (f *following) eventually(t *testing.T, want ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.ElementsMatch(c, want, f.have()) }, 10*time.Second, 2*time.Millisecond)
}

func flush(rw http.ResponseWriter, text string) {
	_, _ = fmt.Fprint(rw, text)
	_ = http.NewResponseController(rw).Flush()
}

func TestFollow(t *testing.T) {
	w, c := logging(t, running("backend", "b", "1", false))
	more := make(chan string)
	var tails sync.Map
	w.log = func(rw http.ResponseWriter, r *http.Request, pod string) {
		tails.LoadOrStore(pod, r.URL.Query().Get("tailLines"))
		flush(rw, at(1, pod+" begins"))
		for {
			select {
			case text := <-more:
				flush(rw, text)
			case <-r.Context().Done():
				return
			}
		}
	}
	f := startFollowing(t, c)
	f.eventually(t, "backend: b begins")
	more <- at(2, "later")
	f.eventually(t, "backend: b begins", "backend: later")
	w.with(func() { w.pods = append(w.pods, running("frontend", "f", "2", false)) })
	f.eventually(t, "backend: b begins", "backend: later", "frontend: f begins")
	tail, _ := tails.Load("b")
	assert.Equal(t, "7", tail)
	tail, _ = tails.Load("f")
	assert.Empty(t, tail, "all of what came later")

	f.stop()
	require.ErrorIs(t, <-f.ended, context.Canceled)
}

// What is cut off goes on where it was: no line is lost, and none comes twice.
func TestFollowGoesOnAfterACut(t *testing.T) {
	w, c := logging(t, running("backend", "b", "1", false))
	var all []string
	for i := range 40 {
		all = append(all, at(float64(i/3)*0.25, fmt.Sprint(i))) // three of a time
	}
	var reads atomic.Int32
	w.log = func(rw http.ResponseWriter, r *http.Request, _ string) {
		since, _ := time.Parse(time.RFC3339, r.URL.Query().Get("sinceTime"))
		n := int(reads.Add(1))
		for i, text := range all {
			if stamp, err := time.Parse(time.RFC3339Nano, strings.Fields(text)[0]); err != nil || stamp.Before(since) {
				continue
			}
			if i >= n*5 {
				break
			}
			flush(rw, text)
		}
		if n%2 == 0 {
			panic(http.ErrAbortHandler) // as when an API server goes away
		}
	}
	f := startFollowing(t, c)
	var want []string
	for i := range all {
		want = append(want, fmt.Sprint("backend: ", i))
	}
	f.eventually(t, want...)
	assert.Equal(t, want, f.have())
}

// A container that was started again has a new log; one that has ended is read once.
func TestFollowARestartedContainer(t *testing.T) {
	w, c := logging(t, running("backend", "b", "1", true))
	var reads atomic.Int32
	w.log = func(rw http.ResponseWriter, _ *http.Request, _ string) {
		fmt.Fprint(rw, at(1, fmt.Sprint("run ", reads.Add(1))))
	}
	f := startFollowing(t, c)
	f.eventually(t, "backend: run 1")
	w.with(func() { w.pods[0] = running("backend", "b", "2", true) })
	f.eventually(t, "backend: run 1", "backend: run 2")
	w.with(func() { w.pods[0].UID = types.UID("another pod") })
	f.eventually(t, "backend: run 1", "backend: run 2", "backend: run 3")
	var lists atomic.Int32
	w.with(func() { w.before = countsPods(&lists) })
	require.Eventually(t, func() bool { return lists.Load() > 3 }, 10*time.Second, 2*time.Millisecond)
	assert.EqualValues(t, 3, reads.Load(), "not at each look")
	w.with(func() { delete(w.environments, "default/"+smokeID) })
	require.NoError(t, <-f.ended, "it is gone")
}

// countsPods counts how often pods are listed.
func countsPods(n *atomic.Int32) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/pods") {
			n.Add(1)
		}
		return false
	}
}

// An API server that does not answer does not end following at once, but ends it when it lasts.
func TestFollowWhileTheAPIServerIsAway(t *testing.T) {
	w, c := logging(t, running("backend", "b", "1", true))
	w.log = func(rw http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(rw, at(1, "one")) }
	f := startFollowing(t, c)
	f.eventually(t, "backend: one")
	var lists atomic.Int32
	count, down := countsPods(&lists), fails(http.MethodGet, "/pods", apierrors.NewServiceUnavailable("down"))
	w.with(func() {
		w.before = func(rw http.ResponseWriter, r *http.Request) bool { return count(rw, r) || down(rw, r) }
	})
	requireCode(t, codes.Unavailable, <-f.ended)
	assert.EqualValues(t, maxFailures, lists.Load())
}

// A caller who reads nothing has nothing kept for them but what waits in buffers of a fixed size.
func TestASlowCallerHoldsTheLogBack(t *testing.T) {
	w, c := logging(t, running("backend", "b", "1", false))
	var written atomic.Int64
	text := at(1, strings.Repeat("x", 64<<10))
	w.log = func(rw http.ResponseWriter, r *http.Request, _ string) {
		for r.Context().Err() == nil {
			if _, err := fmt.Fprint(rw, text); err != nil {
				return
			}
			written.Add(int64(len(text)))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- c.logs(ctx, "default", &schedulerv1.GetEnvironmentLogsRequest{Id: smokeID, Follow: true}, func(*schedulerv1.GetEnvironmentLogsResponse) error {
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	still, last := 0, int64(-1)
	require.Eventually(t, func() bool {
		now := written.Load()
		if still++; now != last || now == 0 {
			still, last = 0, now
		}
		return still >= 20 // as long as it takes to write hundreds of lines
	}, 20*time.Second, 10*time.Millisecond)
	assert.Less(t, last, int64(64<<20))
	cancel()
	require.Error(t, <-ended)
}
