// SPDX-License-Identifier: Apache-2.0

// Package hostile_test feeds the real scheduler and controller what a tenant can
// write, and checks that both stay small and keep serving another tenant.
package hostile_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{MeasuresMemory: true, Fills: true}))
}

const (
	// mostGrowth is how much memory each program may take at its peak beyond what it had at its start.
	mostGrowth = 150 << 20
	// writers is how many clients a tenant has.
	writers  = 4
	replicas = 5
)

var (
	neighbourMix = split.New(60, 1)
	// soon is the time in which a neighbour's workload is placed. In `make test-more` another suite and all of the control plane share
	// two processors with Berth, so that there the times of calm rows exceed five seconds as well.
	soon = testenv.Length(time.Minute, 5*time.Second)
)

// program is the scheduler or the controller.
type program interface {
	testenv.Measured
	PID() int
	Done() <-chan struct{}
	LogTail(n int) string
}

// peak returns the most memory that a process had since resetPeak.
func peak(t *testing.T, p program) int {
	t.Helper()
	text := testenv.ReadFile(t, fmt.Sprintf("/proc/%d/status", p.PID()))
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(text)
	require.NotNil(t, found)
	n, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	return n << 10
}

func resetPeak(t *testing.T, p program) {
	t.Helper()
	require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0))
}

// tenant writes objects into a namespace of its own.
type tenant struct {
	w         *testenv.World
	namespace string
	mu        sync.Mutex
	faults    []string
}

func newTenant(w *testenv.World, i int) *tenant {
	w.T.Helper()
	t := &tenant{w: w, namespace: fmt.Sprintf("%s-tenant-%d", w.Namespace, i)}
	require.NoError(w.T, cluster.CreateNamespace(w.Ctx, w.Kube, t.namespace))
	w.T.Cleanup(func() { // no one waits for its end
		_ = w.Kube.CoreV1().Namespaces().Delete(context.WithoutCancel(w.Ctx), t.namespace, metav1.DeleteOptions{})
	})
	return t
}

// quota is in force before what it bounds is created.
func (t *tenant) quota(pods int64) {
	if pods > 0 {
		of := *t.w
		of.Namespace = t.namespace
		of.Quota(corev1.ResourcePods, pods)
	}
}

// parallel calls f with 0 to n-1, in several goroutines.
func parallel(n int, f func(int)) {
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for j := i; j < n; j += writers {
				f(j)
			}
		})
	}
	all.Wait()
}

func (t *tenant) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, text[:min(len(text), 600)])
}

// write creates the objects of a row and changes its last one.
func (t *tenant) write(r row) {
	parallel(len(r.feeds), func(i int) { t.create(r.feeds[i]) })
	for _, patch := range r.patches { // one after the other: they are of one object
		o := r.feeds[len(r.feeds)-1].DeepCopyObject().(client.Object)
		if err := t.w.Client.Patch(t.w.Ctx, o, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.fault("patch %s: %v", patch, err)
		}
	}
}

// create creates an object, or has the API server refuse it for the field that the row names.
func (t *tenant) create(f feed) {
	if _, node := f.Object.(*corev1.Node); !node {
		f.SetNamespace(t.namespace)
	}
	err := t.w.Client.Create(t.w.Ctx, f.Object)
	switch {
	case f.refused != "" && err == nil:
		t.fault("%s: %s: the API server takes it", f.GetName(), f.refused)
	case f.refused != "" && !strings.Contains(err.Error(), f.refused):
		t.fault("%s: refused, but not for %s: %v", f.GetName(), f.refused, err)
	case f.refused == "" && err != nil:
		t.fault("%s: %v", f.GetName(), err)
	case f.refused == "":
		t.change(f)
	}
}

// change makes the changes to a pod that need its UID or its status.
func (t *tenant) change(f feed) {
	pod, ok := f.Object.(*corev1.Pod)
	if !ok || f.after == nil {
		return
	}
	before := pod.DeepCopy()
	f.after(pod)
	wanted := pod.DeepCopy()
	err := t.w.Client.Patch(t.w.Ctx, pod, client.MergeFrom(before))
	if err == nil {
		before.Status, wanted.ResourceVersion = pod.Status, pod.ResourceVersion
		err = t.w.Client.Status().Patch(t.w.Ctx, wanted, client.MergeFrom(before))
	}
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		t.fault("change %s: %v", f.GetName(), err)
	}
}

// taken waits until both programs have seen all that the tenant wrote: each pod was tried once, each mix has a status.
func (t *tenant) taken(r row) {
	t.w.T.Helper()
	testenv.Becomes(t.w, "pods that wait for their first try", 0, t.waiting)
	t.w.Eventually("the controller has a status of each mix", func() (bool, string) {
		for _, m := range testenv.List(t.w, &v1alpha1.CapacityMixList{}, client.InNamespace(t.namespace)).Items {
			if m.Status.ObservedGeneration != m.Generation {
				return false, m.Name
			}
		}
		return true, ""
	})
	if r.pods > 0 {
		t.w.Eventually(fmt.Sprintf("there are %d pods", r.pods), func() (bool, string) { return t.tried(r.pods) })
	}
}

// waiting is how many pods wait for the scheduler's first try.
func (t *tenant) waiting() int {
	t.w.T.Helper()
	return t.w.Metric(t.w.Scheduler(), "scheduler_pending_pods", map[string]string{"queue": "active"})
}

// tried reports whether so many pods were tried. All of them are read only once they are there and none waits for its first try: a
// list of a crowd has hundreds of megabytes.
func (t *tenant) tried(n int) (bool, string) {
	t.w.T.Helper()
	first, err := t.w.Kube.CoreV1().Pods(t.namespace).List(t.w.Ctx, metav1.ListOptions{Limit: 1})
	require.NoError(t.w.T, err)
	there := len(first.Items)
	if rest := first.RemainingItemCount; rest != nil {
		there += int(*rest)
	}
	if waits := t.waiting(); there < n || waits > 0 {
		return false, fmt.Sprintf("there are %d, and %d wait for their first try", there, waits)
	}
	pods := t.w.Pods(client.InNamespace(t.namespace))
	tried := len(testenv.Where(pods, func(p *corev1.Pod) bool { return testenv.Bound(p) || testenv.Unschedulable(p) != "" }))
	return tried >= n, fmt.Sprintf("%d of %d were tried", tried, len(pods))
}

// place creates a neighbour's workload and returns when all of it is exactly where it should be.
func place(w *testenv.World, app string) time.Duration {
	w.T.Helper()
	w.Create(builders.CapacityMix(app, neighbourMix.SpotPercent, neighbourMix.MinOnDemand), builders.Deployment(app, replicas))
	began := time.Now()
	w.UpTo(soon).WaitSplit(app, "the neighbour's workload is placed", testenv.SplitBy(neighbourMix, replicas))
	return time.Since(began)
}

// host is the two programs and the neighbours that they serve.
type host struct {
	*testenv.World
	programs   map[string]program
	pids       map[string]int
	start      map[string]int
	neighbours []string
	usual      usual
	// kept are the bytes of the objects that a tenant has written.
	kept int
	// records are those of the DeploymentRecords.
	records int
}

// feed gives a row to both programs while a neighbour's workload is placed.
func (h *host) feed(t *testing.T, i int, r row) {
	w := *h.World // failures are the row's
	w.T = t
	for name, p := range h.programs {
		h.alive(t, name)
		resetPeak(t, p)
	}
	hostile := newTenant(&w, i)
	hostile.quota(r.quota)
	var writes sync.WaitGroup
	writes.Go(func() { hostile.write(r) })
	if r.before {
		writes.Wait()
		hostile.taken(r)
	}
	app := fmt.Sprint("neighbour-", i)
	h.neighbours = append(h.neighbours, app)
	took := place(&w, app)
	writes.Wait()
	hostile.taken(r)
	assert.Empty(t, hostile.faults)
	text := fmt.Sprintf("%d objects, %d changes; a neighbour placed in %s", len(r.feeds), len(r.patches), took.Round(time.Millisecond))
	for name, p := range h.programs {
		h.alive(t, name)
		growth := peak(t, p) - h.start[name]
		text += fmt.Sprintf("; %s %+d MB", name, growth>>20)
		assert.Less(t, growth, mostGrowth, "memory of the %s at its peak", name)
	}
	t.Log(text)
}

// alive fails if a program is not the process that it was.
func (h *host) alive(t *testing.T, name string) {
	t.Helper()
	select {
	case <-h.programs[name].Done():
		require.FailNow(t, "a program has ended", "%s: %s", name, h.programs[name].LogTail(10))
	default:
		require.Equal(t, h.pids[name], h.programs[name].PID(), name)
	}
}

func TestATenantHarmsNeitherTheProgramsNorItsNeighbours(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	h := &host{World: w, programs: map[string]program{"scheduler": w.Scheduler(), "controller": w.Controller(testenv.Impatient, lasting)}}
	h.pids, h.start, h.neighbours = map[string]int{}, map[string]int{}, []string{"first"}
	place(w, "first")
	owners := testenv.List(w, &appsv1.ReplicaSetList{})
	for name, p := range h.programs {
		h.pids[name], h.start[name] = p.PID(), peak(t, p)
	}
	fed := 0
	for i, r := range rows(&owners.Items[0]) {
		fed += len(r.feeds)
		t.Run(r.name, func(t *testing.T) { h.feed(t, i, r) })
	}
	require.GreaterOrEqual(t, fed, 100)
	for _, app := range h.neighbours {
		w.RequireExact(app, neighbourMix, replicas)
		w.WaitCondition(app, v1alpha1.ConditionSatisfied, true, v1alpha1.ReasonExact)
	}
	assert.Empty(t, w.Evictions(), "no tenant's pods are moved for what another one writes")
}
