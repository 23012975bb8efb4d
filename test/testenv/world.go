// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
)

// SettleTimeout bounds the wait for a change to have its full effect. After an outage of the API server clients wait up to a
// minute before they retry, and a slow machine runs other suites at the same time. Only a test that fails waits for so long.
const SettleTimeout = 5 * time.Minute

// World is what one test runs in.
type World struct {
	T *testing.T
	// Ctx ends with the test.
	Ctx context.Context
	// Cluster is nil in a world of On.
	Cluster   *cluster.Cluster
	Kube      kubernetes.Interface
	Client    client.WithWatch
	Namespace string
	// began is when the test began.
	began time.Time
	// guest is set in a world that has its nodes from another one.
	guest bool
	// bound is how long it waits for something, 0 for SettleTimeout.
	bound time.Duration
}

// New makes a namespace and nodes for a test, and removes them at its end. Tests
// of one package must not run in parallel, but for those of one world (In): they
// share the nodes.
func New(t *testing.T, nodes ...cluster.NodeSpec) *World {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	w := &World{T: t, Ctx: ctx, Cluster: shared.cluster, Kube: shared.kube, Client: shared.client, began: auditTime()}
	w.Namespace = w.namespace()
	t.Cleanup(func() { w.cleanUp() })
	if len(nodes) > 0 {
		w.AddNodes(nodes...)
	}
	return w
}

// In returns the world of a test that runs at the same time as the one of this world, and ends before it: they share nodes and
// programs, and each has a namespace.
func (w *World) In(t *testing.T) *World {
	t.Helper()
	guest := *w
	guest.T, guest.guest, guest.began = t, true, auditTime()
	guest.Namespace = guest.namespace()
	t.Cleanup(func() { guest.cleanUp() })
	return &guest
}

// namespace creates one with a name that is new.
func (w *World) namespace() string {
	w.T.Helper()
	name := fmt.Sprintf("test-%x", time.Now().UnixNano())
	require.NoError(w.T, cluster.CreateNamespace(w.Ctx, w.Kube, name))
	return name
}

// AddNodes adds nodes and waits until they take pods.
func (w *World) AddNodes(nodes ...cluster.NodeSpec) {
	w.T.Helper()
	require.NoError(w.T, w.Cluster.AddNodes(w.Ctx, nodes...))
}

// cleanUp removes what the test made, and shows the scheduler's log if it failed.
func (w *World) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), SettleTimeout)
	defer cancel()
	if w.T.Failed() {
		w.T.Log(w.Picture(ctx))
		if s := shared.scheduler; s != nil {
			w.T.Log("end of the scheduler's log:\n" + s.LogTail(40))
		}
	}
	w.Ctx = ctx
	err := w.Kube.CoreV1().Namespaces().Delete(ctx, w.Namespace, metav1.DeleteOptions{})
	require.NoError(w.T, client.IgnoreNotFound(err))
	ownNodes := w.Cluster != nil && !w.guest
	if ownNodes {
		now := int64(0)
		err = w.Kube.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
		require.NoError(w.T, err)
	}
	w.Eventually("the pods and the nodes are gone", func() (bool, string) {
		w.removeStuckPods(ctx)
		pods, err := w.Kube.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{})
		if !ownNodes {
			return err == nil && len(pods.Items) == 0, fmt.Sprint(err)
		}
		nodes, listErr := w.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err == nil && listErr == nil && len(pods.Items)+len(nodes.Items) == 0, fmt.Sprint(err, listErr)
	})
}

// removeStuckPods deletes pods whose node is gone, or whose deletion takes long.
func (w *World) removeStuckPods(ctx context.Context) {
	now := int64(0)
	pods, err := w.Kube.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, p := range pods.Items {
		_ = w.Kube.CoreV1().Pods(w.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	}
}

// Scheduler returns the scheduler of the package's world.
func (w *World) Scheduler() *cluster.Scheduler { return shared.scheduler }

// SetScheduler makes another process the scheduler of the package's world, as a
// test does that ended the one before.
func (w *World) SetScheduler(s *cluster.Scheduler) { shared.scheduler = s }

// StartScheduler starts a scheduler and waits until it is ready.
func (w *World) StartScheduler(o cluster.ProgramOptions) *cluster.Scheduler {
	w.T.Helper()
	s, err := w.Cluster.StartScheduler(w.Ctx, o)
	require.NoError(w.T, err)
	return s
}

// Eventually waits until a condition holds, for a bounded time. The condition
// returns what it saw, which is part of the failure.
func (w *World) Eventually(what string, condition func() (bool, string)) {
	w.T.Helper()
	w.Within(cmp.Or(w.bound, SettleTimeout), what, condition)
}

// UpTo is this world with another bound of what it waits for.
func (w *World) UpTo(bound time.Duration) *World {
	bounded := *w
	bounded.bound = bound
	return &bounded
}

// Within is Eventually with a bound of its own.
func (w *World) Within(bound time.Duration, what string, condition func() (bool, string)) {
	w.T.Helper()
	began, deadline := time.Now(), time.After(bound)
	for {
		polled := time.Now()
		if ok, _ := condition(); ok {
			return
		}
		select {
		case <-deadline:
			// The last poll was a pause ago, which is as long as a short bound where polls are slow.
			ok, saw := condition()
			if ok {
				return
			}
			require.FailNow(w.T, fmt.Sprintf("not within %s: %s", bound, what), "last seen: %s", saw)
		case <-time.After(pause(time.Since(began), time.Since(polled))):
		}
	}
}

// pause is the time between two polls of a wait, after how long it waited, and how long a poll took. The longer the wait, the less a poll
// more at its end counts, and the more polls there are. Where polls are slow, the machine is busy: thirty tests that poll all the time
// would keep it so.
func pause(waited, took time.Duration) time.Duration {
	return max(min(max(waited/20, 100*time.Millisecond), 500*time.Millisecond), min(4*took, 5*time.Second))
}

// Becomes waits until what is counted, or read, is as wanted.
func Becomes[V comparable](w *World, what string, want V, read func() V) {
	w.T.Helper()
	w.Eventually(what, func() (bool, string) { now := read(); return now == want, fmt.Sprint(now) })
}

// Stays checks for a while that what is counted, or read, is as wanted.
func Stays[V comparable](w *World, during time.Duration, what string, want V, read func() V) {
	w.T.Helper()
	w.Always(during, what, func() (bool, string) { now := read(); return now == want, fmt.Sprint(now) })
}

// Reaches waits until at least so many are counted.
func (w *World) Reaches(what string, least int, count func() int) {
	w.T.Helper()
	w.Eventually(what, func() (bool, string) { now := count(); return now >= least, fmt.Sprint(now) })
}

// Succeeds waits until an attempt has no error.
func (w *World) Succeeds(what string, try func() error) {
	w.T.Helper()
	w.Fails(what, func(err error) bool { return err == nil }, try)
}

// Fails waits until an attempt has an error of a kind, as apierrors.IsForbidden recognizes them.
func (w *World) Fails(what string, kind func(error) bool, try func() error) {
	w.T.Helper()
	w.Eventually(what, func() (bool, string) { err := try(); return kind(err), fmt.Sprint(err) })
}

// Run runs a part of a test in this world.
func (w *World) Run(name string, part func(t *testing.T, w *World)) {
	w.T.Helper()
	w.T.Run(name, func(t *testing.T) {
		here := *w
		here.T = t
		part(t, &here)
	})
}

// Length returns how much a test does that replaces minutes, a time or a number of times: short, or full in
// `make test-faults`.
func Length[T time.Duration | int](short, full T) T {
	if os.Getenv("BERTH_TEST_LONG") != "" {
		return full
	}
	return short
}

// Always checks for a while that a condition holds.
func (w *World) Always(during time.Duration, what string, condition func() (bool, string)) {
	w.T.Helper()
	deadline := time.After(during)
	for {
		polled := time.Now()
		if ok, saw := condition(); !ok {
			require.FailNow(w.T, "did not hold: "+what, "seen: %s", saw)
		}
		select {
		case <-deadline:
			return
		case <-time.After(max(100*time.Millisecond, pause(0, time.Since(polled)))):
		}
	}
}

// Events returns the events about an object, newest last.
func (w *World) Events(name string) []corev1.Event {
	w.T.Helper()
	return List(w, &corev1.EventList{}, client.MatchingFields{"involvedObject.name": name}).Items
}

// WaitEvent waits for an event about an object that matches, and returns it.
func (w *World) WaitEvent(object, what string, match func(e *corev1.Event) bool) (found corev1.Event) {
	w.T.Helper()
	w.Eventually("an event about "+object+": "+what, func() (bool, string) {
		var saw []string
		for _, e := range w.Events(object) {
			if match(&e) {
				found = e
				return true, ""
			}
			saw = append(saw, fmt.Sprintf("%s, %d times: %s", e.Reason, e.Count, e.Message))
		}
		return false, strings.Join(saw, "\n")
	})
	return found
}

// mostShown is how many pods Picture shows whatever they do: of more, the running ones would bury the cause of a failure.
const mostShown = 50

// Picture describes the pods and the mixes of the namespace, for a failed test.
func (w *World) Picture(ctx context.Context) string {
	pods, err := w.Kube.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "pods of %s:\n", w.Namespace)
	shown := 0
	for _, p := range pods.Items {
		if len(pods.Items) > mostShown && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			continue
		}
		shown++
		fmt.Fprintf(&b, "  %-40s %-10s deleting=%-5t node=%-14s slot=%s\n", p.Name, p.Status.Phase, p.DeletionTimestamp != nil,
			p.Spec.NodeName, p.Annotations["berth.dev/slot"])
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				fmt.Fprintf(&b, "      %s\n", c.Message)
			}
		}
	}
	if rest := len(pods.Items) - shown; rest > 0 {
		fmt.Fprintf(&b, "  and %d that run\n", rest)
	}
	w.describeMixes(ctx, &b)
	return b.String()
}

func (w *World) describeMixes(ctx context.Context, b *strings.Builder) {
	var mixes v1alpha1.CapacityMixList
	if err := w.Client.List(ctx, &mixes, client.InNamespace(w.Namespace)); err != nil {
		fmt.Fprintln(b, err)
	}
	for _, cm := range mixes.Items {
		for _, c := range cm.Status.Conditions {
			fmt.Fprintf(b, "mix %s: %s=%s since %s, %s: %s\n", cm.Name, c.Type, c.Status, c.LastTransitionTime.Format(time.TimeOnly),
				c.Reason, c.Message)
		}
	}
}

// Together is what tests of a package share that run in parallel, such as a world with a controller. The zero value is ready for use.
type Together[S any] struct {
	mu    sync.Mutex
	host  *S
	users sync.WaitGroup
}

// Join has the test run in parallel with the others that call it, and returns what they share. The first of them starts it, and
// ends after all others.
func (g *Together[S]) Join(t *testing.T, start func() S) S {
	t.Helper()
	g.users.Add(1) // each has done so before one of them goes on
	t.Parallel()
	done := sync.OnceFunc(g.users.Done)
	t.Cleanup(done)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.host == nil {
		host := start()
		g.host = &host
		t.Cleanup(func() {
			done()
			g.users.Wait()
			g.host = nil
		})
	}
	return *g.host
}
