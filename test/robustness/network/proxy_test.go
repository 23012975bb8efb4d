// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// soon bounds a call that must not wait, and long one that waits for a fault.
const soon, long = 300 * time.Millisecond, 5 * time.Second

// server answers as the API server does: each write with an object, and a watch with one event for each tick.
type server struct {
	writes atomic.Int32
	tick   chan string
}

func (s *server) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	switch {
	case watches(r):
		out.WriteHeader(http.StatusOK)
		out.(http.Flusher).Flush()
		for {
			select {
			case name := <-s.tick:
				_, _ = fmt.Fprintf(out, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q}}}`+"\n", name)
				out.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	case writes(r):
		s.writes.Add(1)
	}
	_, _ = fmt.Fprint(out, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`)
}

// begin starts a server, a connection to it, and a client like that of Berth's programs.
func begin(t *testing.T) (*server, *Proxy, kubernetes.Interface) {
	t.Helper()
	s := &server{tick: make(chan string, 8)}
	backend := httptest.NewServer(s)
	t.Cleanup(func() {
		backend.CloseClientConnections()
		backend.Close()
	})
	target, err := url.Parse(backend.URL)
	require.NoError(t, err)
	p := New(target, &http.Transport{}, 1)
	t.Cleanup(p.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, p.WriteKubeconfig(path))
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return s, p, kube
}

func create(kube kubernetes.Interface, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	_, err := kube.CoreV1().Pods("n").Create(ctx, &corev1.Pod{}, metav1.CreateOptions{})
	return err
}

func get(kube kubernetes.Interface, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	_, err := kube.CoreV1().Pods("n").Get(ctx, "a", metav1.GetOptions{})
	return err
}

func TestEachFaultIsWhatItsNameStates(t *testing.T) {
	status := func(is func(error) bool) func(*testing.T, error) {
		return func(t *testing.T, err error) {
			assert.True(t, is(err), "%v", err)
		}
	}
	broken := func(t *testing.T, err error) {
		require.Error(t, err)
		assert.Equal(t, metav1.StatusReasonUnknown, apierrors.ReasonForError(err), "no answer: %v", err)
	}
	for name, c := range map[string]struct {
		fault        Fault
		write, read  func(*testing.T, error)
		reachesWrite bool
	}{
		"conflicts are answers to writes": {
			fault: Fault{Refused: 100, Code: 409}, write: status(apierrors.IsConflict), read: status(func(err error) bool { return err == nil }),
		},
		"internal errors": {
			fault: Fault{Refused: 100, Code: 500}, write: status(apierrors.IsInternalError), read: status(apierrors.IsInternalError),
		},
		"an answer to a write is lost after the write": {
			fault: Fault{Lost: 100}, write: broken, read: status(func(err error) bool { return err == nil }), reachesWrite: true,
		},
		"connections are reset before the request": {fault: Fault{Reset: 100}, write: broken, read: broken},
		"other paths are left alone": {
			fault: Fault{Reset: 100, Lost: 100, Only: "/binding"}, write: status(func(err error) bool { return err == nil }),
			read: status(func(err error) bool { return err == nil }), reachesWrite: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, p, kube := begin(t)
			p.Set(c.fault)
			c.write(t, create(kube, long))
			assert.Equal(t, c.reachesWrite, s.writes.Load() > 0, "the write reached the server")
			c.read(t, get(kube, long))
			p.Set(Fault{})
			require.NoError(t, create(kube, long), "the fault is over")
		})
	}
}

func TestAThrottledClientIsTriedAgainByItself(t *testing.T) {
	s, p, kube := begin(t)
	p.Set(Fault{Refused: 100, Code: 429})
	require.Error(t, create(kube, soon), "client-go waits as long as the server requests")
	assert.Zero(t, s.writes.Load())
}

// A half-open connection answers nothing, and closes nothing: the same call is answered once the fault is over.
func TestAFrozenConnectionIsHalfOpen(t *testing.T) {
	s, p, kube := begin(t)
	require.NoError(t, get(kube, long))
	p.Set(Fault{Frozen: true})
	require.ErrorIs(t, get(kube, soon), context.DeadlineExceeded)
	answered := make(chan error, 1)
	go func() { answered <- create(kube, long) }()
	select {
	case err := <-answered:
		require.Fail(t, "answered through a frozen connection", "%v", err)
	case <-time.After(soon):
	}
	assert.Zero(t, s.writes.Load())
	p.Set(Fault{})
	require.NoError(t, <-answered)
	assert.EqualValues(t, 1, s.writes.Load())
}

func TestAStalledWatchDeliversLaterAndRequestsPass(t *testing.T) {
	s, p, kube := begin(t)
	events, err := kube.CoreV1().Pods("n").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer events.Stop()
	s.tick <- "before"
	require.Equal(t, "before", (<-events.ResultChan()).Object.(*corev1.Pod).Name)
	p.Set(Fault{Stalled: true})
	s.tick <- "meanwhile"
	select {
	case e := <-events.ResultChan():
		require.Fail(t, "delivered by a stalled watch", "%v", e)
	case <-time.After(soon):
	}
	require.NoError(t, get(kube, long))
	p.Set(Fault{})
	require.Equal(t, "meanwhile", (<-events.ResultChan()).Object.(*corev1.Pod).Name)
	p.Set(Fault{Stalled: true, Only: "/nodes"})
	s.tick <- "of pods"
	require.Equal(t, "of pods", (<-events.ResultChan()).Object.(*corev1.Pod).Name)
	assert.Equal(t, 1, p.Watches())
	events.Stop()
	require.Eventually(t, func() bool { return p.Watches() == 0 }, long, time.Millisecond, "it has ended")
}

func TestLatencyDelaysRequests(t *testing.T) {
	_, p, kube := begin(t)
	require.NoError(t, get(kube, long))
	p.Set(Fault{Latency: soon})
	began := time.Now()
	require.NoError(t, get(kube, long))
	assert.GreaterOrEqual(t, time.Since(began), soon)
}

// A server that is down breaks the connection, as it does without a proxy: the client gets no answer that it could take for one.
func TestAServerThatIsDownIsNoAnswer(t *testing.T) {
	target, err := url.Parse("http://127.0.0.1:1")
	require.NoError(t, err)
	p := New(target, failing{}, 1)
	t.Cleanup(p.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, p.WriteKubeconfig(path))
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	err = create(kube, long)
	require.Error(t, err)
	assert.Equal(t, metav1.StatusReasonUnknown, apierrors.ReasonForError(err), "%v", err)
}

type failing struct{}

func (failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }

func TestARateHitsItsShareOfTheRequests(t *testing.T) {
	p := New(&url.URL{Scheme: "http", Host: "127.0.0.1:1"}, failing{}, 7)
	t.Cleanup(p.Close)
	r := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/n/pods", nil)
	fates := map[fate]int{}
	for range 10_000 {
		fates[Fault{Reset: 20, Refused: 50, Code: 500}.fateOf(r, p.hit)]++
	}
	assert.InDelta(t, 2000, fates[reset], 300)
	assert.InDelta(t, 4000, fates[refused], 300)
	assert.InDelta(t, 4000, fates[passes], 300)
}
