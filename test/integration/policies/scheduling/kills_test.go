// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const (
	// expiry is when the Lease of a killed scheduler expires, slack what a slow machine adds until another one takes it.
	expiry, slack = 15 * time.Second, 30 * time.Second
	// nodeCPUs is what a node has, podCPU more than half of it.
	nodeCPUs, podCPU = 4, "3"
)

// request matches one of a scheduler that binds a pod to a node.
type request func(node string) func(*http.Request) bool

func to(method, path string) request {
	return func(node string) func(*http.Request) bool {
		suffix := strings.ReplaceAll(path, "NODE", node)
		return func(r *http.Request) bool { return r.Method == method && strings.HasSuffix(r.URL.Path, suffix) }
	}
}

var (
	readLease    = to(http.MethodGet, "/leases/node-lock-NODE")
	takeLease    = to(http.MethodPost, "/leases") // no one has locked the node before
	readNode     = to(http.MethodGet, "/api/v1/nodes/NODE")
	bindPod      = to(http.MethodPost, "/binding")
	releaseLease = to(http.MethodPut, "/leases/node-lock-NODE")
)

// readPods matches the list of the pods of a node.
func readPods(node string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.URL.Path == "/api/v1/pods" && r.URL.Query().Get("fieldSelector") == "spec.nodeName="+node
	}
}

// A scheduler is killed between two steps of a binding while another one has a pod for the same node. A successor binds the pod:
// none is lost or bound twice, no node is overcommitted, and no lock outlasts its Lease.
func TestKillsBetweenAnyTwoStepsOfALockedBinding(t *testing.T) {
	w := testenv.New(t)
	rival(w, "rival")
	for name, step := range map[string]killed{
		"after Reserve, before the Lease is read":      {request: readLease},
		"before the Lease is taken":                    {request: takeLease},
		"when the Lease is taken, before the answer":   {request: takeLease, answer: true, locked: true},
		"with the lock, before the node is read":       {request: readNode, locked: true},
		"when the node is read, before its pods are":   {request: readPods, locked: true},
		"when the pods are read, before the answer":    {request: readPods, answer: true, locked: true},
		"when the pod fits, before the Binding":        {request: bindPod, locked: true},
		"when the Binding is made, before its answer":  {request: bindPod, answer: true, locked: true, bound: true},
		"after the Binding, before the lock is given":  {request: releaseLease, locked: true, bound: true},
		"when the lock is given up, before the answer": {request: releaseLease, answer: true, bound: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step.run(w.In(t))
		})
	}
}

// killed is where a scheduler is killed.
type killed struct {
	request request
	// answer is set if the API server has answered the request, and the answer did not arrive.
	answer bool
	// locked and bound are what it leaves behind.
	locked, bound bool
}

func (k killed) run(w *testenv.World) {
	lane := pair(w, "a", "b")
	first, name := lane.Name("a"), "berth-"+w.Namespace
	claims, history := watchLock(w, first), w.History()
	w.Create(locking())
	hold := w.HoldRequest
	if k.answer {
		hold = w.HoldAnswer
	}
	kubeconfig, reached := hold(k.request(first))
	victim := through(w, name, kubeconfig)
	ours := builders.Pod("ours", "ours", lane.Pods, builders.SchedulerName(name), builders.CPU(podCPU))
	w.Create(ours)
	reached.Wait()

	theirs := builders.Pod("theirs", "theirs", lane.Pods, builders.SchedulerName("rival"), builders.CPU(podCPU))
	w.Create(theirs)
	if !k.locked {
		w.WaitBound("theirs", 1)
	}
	testenv.Kill(victim)
	testenv.Becomes(w, "the node is locked", k.locked, func() bool { return holder(claims()) != "" })
	assert.Equal(w.T, k.bound, testenv.Bound(testenv.Read(w, "ours", &corev1.Pod{})), "the pod is bound")

	rival(w, name)
	last := builders.Pod("last", "last", builders.OnNode(first), builders.SchedulerName("rival"), builders.CPU("500m"))
	w.Create(last)
	for _, pod := range []*corev1.Pod{ours, theirs, last} {
		bound := w.WaitBound(pod.Name, 1)[0]
		assert.Equal(w.T, pod.UID, bound.UID, "pod %s is not lost", pod.Name)
	}
	w.AssertBoundOnce(history)
	assert.Empty(w.T, overcommitted(w, nodeCPUs, w.Pods()))
	testenv.Becomes(w, "the node is locked by no one", "", func() string { return holder(claims()) })
	want := 0
	if k.locked {
		want = 1
	}
	assert.Equal(w.T, want, requireExpiry(w.T, claims()), "locks that expired")
}

// pair adds two nodes that only the test's pods run on.
func pair(w *testenv.World, names ...string) testenv.Lane {
	w.T.Helper()
	lane := testenv.Lane(w.Namespace)
	for _, name := range names {
		w.AddNodes(lane.Node(name, "", fmt.Sprint(nodeCPUs)))
	}
	return lane
}

// locking is a policy that locks the node of each pod, and has all schedulers prefer the same one.
func locking() *v1alpha1.SchedulingPolicy {
	return builders.SchedulingPolicy("all", preset(v1alpha1.ScorePresetPack), tieBreaker(v1alpha1.TieBreakerName),
		func(s *v1alpha1.SchedulingPolicySpec) {
			s.Bind = &v1alpha1.BindRules{Mode: v1alpha1.BindPessimistic, LockTimeoutSeconds: new(int32(60))}
		})
}

// through starts a scheduler for pods of its own that has another kubeconfig.
func through(w *testenv.World, name, kubeconfig string) *cluster.Scheduler {
	w.T.Helper()
	o := w.Variant(testenv.SecondScheduler, func(c testenv.Config) {
		for _, profile := range c.Profiles() {
			profile["schedulerName"] = name
		}
	})
	o.Name, o.Kubeconfig = name+"-proxied", kubeconfig
	s := w.StartScheduler(o)
	w.T.Cleanup(func() { testenv.Kill(s) })
	return s
}

// claim is the Lease of a node as it was written.
type claim struct {
	coordinationv1.LeaseSpec
	at time.Time
}

func (c *claim) holder() string { return ptr.Deref(c.HolderIdentity, "") }

// watchLock watches the lock of a node. It returns all that was written.
func watchLock(w *testenv.World, node string) func() []claim {
	w.T.Helper()
	events, err := w.Kube.CoordinationV1().Leases("berth-system").Watch(w.Ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", "node-lock-"+node).String(),
	})
	require.NoError(w.T, err)
	w.T.Cleanup(events.Stop)
	var mu sync.Mutex
	var claims []claim
	go func() {
		for e := range events.ResultChan() {
			if lease, ok := e.Object.(*coordinationv1.Lease); ok {
				mu.Lock()
				claims = append(claims, claim{lease.Spec, time.Now()})
				mu.Unlock()
			}
		}
	}()
	return func() []claim {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(claims)
	}
}

// holder is who holds the lock now, empty if no one does.
func holder(claims []claim) string {
	if len(claims) == 0 {
		return ""
	}
	return claims[len(claims)-1].holder()
}

// requireExpiry demands that each holder gave the lock up in time, or lost it when its Lease expired, and returns how many lost it.
func requireExpiry(t *testing.T, claims []claim) (expired int) {
	t.Helper()
	for i := 1; i < len(claims); i++ {
		before, after := &claims[i-1], &claims[i]
		if before.holder() == "" {
			continue
		}
		require.Less(t, after.at.Sub(before.RenewTime.Time), expiry+slack, "%s held it", before.holder())
		if after.holder() != "" && after.holder() != before.holder() {
			expired++
			require.GreaterOrEqual(t, after.AcquireTime.Sub(before.RenewTime.Time), expiry, "%s lost it", before.holder())
		}
	}
	return expired
}

// A pod that does not fit any more when its node is locked gives the node back, and is scheduled again.
func TestAConflictIsRolledBackAndThePodScheduledLater(t *testing.T) {
	for name, later := range map[string]struct {
		nodes []string
		// free makes the pod fit, and want is where.
		free func(w *testenv.World, other *corev1.Pod)
		want string
	}{
		"on another node": {nodes: []string{"a", "b"}, free: func(*testenv.World, *corev1.Pod) {}, want: "b"},
		"when its node has capacity again": {nodes: []string{"a"}, want: "a", free: func(w *testenv.World, other *corev1.Pod) {
			testenv.Stays(w, testenv.Short, "the pod waits", false, func() bool { return testenv.Bound(testenv.Read(w, "ours", &corev1.Pod{})) })
			w.Delete(other)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := testenv.New(t)
			lane := pair(w, later.nodes...)
			first := lane.Name("a")
			claims, history := watchLock(w, first), w.History()
			w.Create(locking())
			kubeconfig, hold := w.HoldRequest(readPods(first))
			through(w, "berth-conflict", kubeconfig)
			ours := builders.Pod("ours", "ours", lane.Pods, builders.SchedulerName("berth-conflict"), builders.CPU(podCPU))
			w.Create(ours)
			hold.Wait()

			other := builders.Pod("other", "other", builders.SchedulerName("none"), builders.CPU(podCPU))
			w.Create(other)
			bindTo(w, other, first)
			hold.Release()
			w.WaitEvent("ours", "it does not fit any more", func(e *corev1.Event) bool {
				return e.Reason == "FailedScheduling" && strings.Contains(e.Message, "node "+first+" does not admit the pod any more: Insufficient cpu")
			})
			testenv.Becomes(w, "the node is locked by no one", "", func() string { return holder(claims()) })
			later.free(w, other)
			bound := w.WaitBound("ours", 1)[0]
			assert.Equal(t, ours.UID, bound.UID)
			assert.Equal(t, lane.Name(later.want), bound.Spec.NodeName)
			w.AssertBoundOnce(history)
			assert.Empty(t, overcommitted(w, nodeCPUs, w.Pods()))
			assert.Zero(t, requireExpiry(t, claims()), "locks that expired")
		})
	}
}

// Without locks the API server detects the conflict: it refuses to bind a pod that another scheduler bound. The node that was selected
// has the capacity for the next pod.
func TestARefusedBindingGivesTheNodeBack(t *testing.T) {
	w := testenv.New(t)
	lane, history := pair(w, "a", "b"), w.History()
	w.Create(builders.SchedulingPolicy("all", bind(v1alpha1.BindOptimistic), preset(v1alpha1.ScorePresetPack),
		tieBreaker(v1alpha1.TieBreakerName)))
	kubeconfig, hold := w.HoldRequest(bindPod(lane.Name("a")))
	through(w, "berth-refused", kubeconfig)
	pod := func(name string) *corev1.Pod {
		return builders.Pod(name, name, lane.Pods, builders.SchedulerName("berth-refused"), builders.CPU(podCPU))
	}
	ours := pod("ours")
	w.Create(ours)
	hold.Wait()
	bindTo(w, ours, lane.Name("b"))
	hold.Release()
	w.Create(pod("next"))
	assert.Equal(t, lane.Name("a"), w.WaitBound("next", 1)[0].Spec.NodeName)
	assert.Equal(t, lane.Name("b"), w.WaitBound("ours", 1)[0].Spec.NodeName)
	refused := w.Audit(func(r testenv.Request) bool { return r.Resource == "pods/binding" && r.Code == http.StatusConflict })
	require.Len(t, refused, 1)
	assert.Equal(t, "ours", refused[0].Name)
	w.AssertBoundOnce(history)
	assert.Empty(t, overcommitted(w, nodeCPUs, w.Pods()))
}

// bindTo binds a pod to a node, as a scheduler does that locks none.
func bindTo(w *testenv.World, pod *corev1.Pod, node string) {
	w.T.Helper()
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	b.Target = corev1.ObjectReference{Kind: "Node", Name: node}
	require.NoError(w.T, w.Client.SubResource("binding").Create(w.Ctx, pod.DeepCopy(), b))
}
