// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// operator keeps a number of pods, as an operator of a kind unknown to Berth: it makes a new pod some time after one
// is gone.
type operator struct {
	w    *testenv.World
	app  string
	pods int
	lag  time.Duration
	made int
	due  []time.Time
}

// owner creates the object of a kind unknown to Berth, with the template of its pods, and returns the reference of
// these.
func owner(w *testenv.World, app string) metav1.OwnerReference {
	w.T.Helper()
	o := set(w, app, "clone", "")
	w.Create(o)
	return *metav1.NewControllerRef(o, o.GroupVersionKind())
}

// set serves a kind, lets the controller read it, and returns an object of it.
func set(w *testenv.World, app, kind, subresources string) *unstructured.Unstructured {
	w.T.Helper()
	name := strings.ToUpper(kind[:1]) + kind[1:]
	require.NoError(w.T, w.Cluster.Apply(w.Ctx, builders.CRD("test.example.com", "v1", name, subresources)))
	for _, o := range builders.Grant(kind+"s", builders.User(cluster.BerthControllerUser), builders.Rule("test.example.com", []string{kind + "s"}, "get")) {
		o.SetNamespace(w.Namespace)
		require.NoError(w.T, client.IgnoreAlreadyExists(w.Client.Create(w.Ctx, o)))
	}
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(new(builders.PodTemplate(app)))
	require.NoError(w.T, err)
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": template}}}
	o.SetAPIVersion("test.example.com/v1")
	o.SetKind(name)
	o.SetName(app)
	return o
}

// fourOf creates the four pods of set, and waits until all are on spot.
func fourOf(w *testenv.World, owner metav1.OwnerReference, template ...func(*corev1.PodTemplateSpec)) {
	w.T.Helper()
	for i := range 4 {
		w.Create(builders.Pod("set", fmt.Sprint("set-", i), append(template, builders.OwnedBy(owner))...))
	}
	w.WaitExact("set", split.New(100, 0), 4, testenv.SettleTimeout)
}

func operate(w *testenv.World, app string, pods int, lag time.Duration) {
	w.T.Helper()
	o := &operator{w: w, app: app, pods: pods, lag: lag}
	ref := owner(w, app)
	for range pods {
		require.NoError(w.T, o.create(w.Ctx, ref))
	}
	ctx, stop := context.WithCancel(w.Ctx)
	done := make(chan struct{})
	w.T.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				o.reconcile(ctx, ref)
			}
		}
	}()
}

// reconcile makes the pods whose time has come. What fails is tried again.
func (o *operator) reconcile(ctx context.Context, ref metav1.OwnerReference) {
	list, err := o.w.Kube.CoreV1().Pods(o.w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + o.app})
	if err != nil {
		return
	}
	for len(list.Items)+len(o.due) < o.pods {
		o.due = append(o.due, time.Now().Add(o.lag))
	}
	for len(o.due) > 0 && !time.Now().Before(o.due[0]) {
		if o.create(ctx, ref) != nil {
			return
		}
		o.due = o.due[1:]
	}
}

func (o *operator) create(ctx context.Context, ref metav1.OwnerReference) error {
	pod := builders.Pod(o.app, fmt.Sprintf("%s-%d", o.app, o.made), builders.OwnedBy(ref))
	pod.Namespace = o.w.Namespace
	err := o.w.Client.Create(ctx, pod)
	if err == nil {
		o.made++
	}
	return err
}

// The owner's replicas are not known, and replacements come late, later than a move may take, too.
func TestLateReplacementsNeverExceedTheBudget(t *testing.T) {
	const pods = 5
	lags := []time.Duration{0, 2 * time.Second, 5 * time.Second}
	bound := testenv.SettleTimeout
	if os.Getenv("BERTH_TEST_LONG") != "" {
		lags = append(lags, 20*time.Second, time.Minute)
		bound = 15 * time.Minute
	}
	w := testenv.New(t, testenv.Roomy()...)
	type workload struct {
		name   string
		budget int
		states *testenv.Recording
	}
	var all []workload
	for _, lag := range lags {
		for _, budget := range []int{1, 3} {
			app := fmt.Sprintf("lag%d-k%d", int(lag.Seconds()), budget)
			w.Create(builders.CapacityMix(app, 100, 0, builders.MaxConcurrent(int32(budget))))
			operate(w, app, pods, lag)
			all = append(all, workload{name: app, budget: budget})
		}
	}
	for i := range all {
		w.WaitExact(all[i].name, split.New(100, 0), pods, testenv.SettleTimeout)
		all[i].states = w.Record(all[i].name)
	}
	w.Controller(testenv.Impatient, func(c *controller.Configuration) {
		c.Mix.Rebalance.MoveTimeoutSeconds, c.Mix.Rebalance.BackoffSeconds, c.Mix.Rebalance.MaxBackoffSeconds = 3, 1, 2
		c.Mix.Rebalance.ClusterMaxConcurrent = 100
	})
	for _, one := range all {
		w.WaitSatisfied(one.name)
		w.ChangeMix(one.name, builders.SpotPercent(0))
	}
	for _, one := range all {
		w.WaitExact(one.name, split.New(0, 0), pods, bound)
		fewest, all := pods, false // the recording begins with one pod after the other
		one.states.Replay(func(running map[types.UID]*corev1.Pod) {
			if all = all || len(running) == pods; all {
				fewest = min(fewest, len(running))
			}
		})
		assert.GreaterOrEqual(t, fewest, pods-one.budget, "%s: pods at any watch event", one.name)
		assert.Len(t, w.EvictionsOf(one.name), pods, "%s: one eviction for each pod", one.name)
		t.Logf("%s: fewest pods %d of %d, evictions %d", one.name, fewest, pods, len(w.EvictionsOf(one.name)))
	}
}

// An operator that was scaled down on purpose does not bring the pod back, and Berth gets no event of it.
func TestAUserAcceptsThatFewerPodsComeBack(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("set", 100, 0))
	fourOf(w, owner(w, "set"))
	w.Controller(testenv.Impatient, hasty(2))
	w.WaitSatisfied("set")
	w.ChangeMix("set", builders.SpotPercent(0))
	w.WaitEvictions(1)
	w.WaitBlocked("set", "ReplicasMissing", "3 of 4 pods that it had before the last move are available")
	testenv.Stays(w, testenv.Holds, "nothing more is evicted", 1, w.Evicted)
	testenv.Patch(w, &w.Live("set")[0], func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AcceptedReplicasAnnotation: "3"}
	})
	w.WaitEvictions(2)
}

// The scale subresource of an owner of an unknown kind has how many pods there must be, before and after a move.
func TestTheScaleOfAnOwnerIsTheNumberOfItsPods(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	scaled := "scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}"
	owner := set(w, "set", "set", scaled)
	require.NoError(t, unstructured.SetNestedField(owner.Object, int64(5), "spec", "replicas"))
	w.Create(builders.CapacityMix("set", 100, 0), owner)
	fourOf(w, *metav1.NewControllerRef(owner, owner.GroupVersionKind()))
	w.Controller(testenv.Impatient, hasty(2))
	w.WaitSatisfied("set")
	w.ChangeMix("set", builders.SpotPercent(0))
	w.WaitBlocked("set", "ReplicasMissing", "the owner has 4 replicas, and its scale requests 5")
	require.Empty(t, w.Evictions())

	scale := func(n int64) {
		testenv.Patch(w, owner, func(o *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedField(o.Object, n, "spec", "replicas"))
		})
	}
	scale(4) // Berth evaluates again in its own time, and nothing replaces the pod that it evicts
	w.WaitEvictions(1)
	w.WaitBlocked("set", "ReplicasMissing", "3 of 4 pods that it had before the last move are available")
	testenv.Stays(w, testenv.Holds, "nothing more is evicted", 1, w.Evicted)
	scale(3)
	w.WaitEvictions(2)
}

// The workload gets its mix by annotations, so no status reports to the next leader that a pod did not come back.
func TestLeadersThatFollowEachOtherEvictNoMoreThanOneWould(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	fourOf(w, owner(w, "set"), builders.PodAnnotation(v1alpha1.SpotPercentAnnotation, "100%"))
	for _, pod := range w.Live("set") {
		testenv.Patch(w, &pod, func(p *corev1.Pod) { p.Annotations[v1alpha1.SpotPercentAnnotation] = "0" })
	}
	for range 3 {
		c := w.Controller(testenv.Impatient, hasty(2))
		w.WaitEvictions(1)
		testenv.Stays(w, testenv.Holds/2, "no second pod is evicted", 1, w.Evicted)
		testenv.End(c, true)
	}
}

// A Job counts an evicted pod as failed, and seven of them end it. Whatever its mode, its size, its mix and the order in
// which its pods finish, Berth evicts none.
func TestPodsOfJobsAreNotEvicted(t *testing.T) {
	sizes := []int32{16, 30}
	if os.Getenv("BERTH_TEST_LONG") != "" {
		sizes = []int32{16, 100, 200}
	}
	w := testenv.New(t, testenv.Roomy()...)
	jobs := map[string]*batchv1.Job{}
	for _, mode := range []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion} {
		for _, n := range sizes {
			app := fmt.Sprintf("job-%d-%d", len(jobs), n)
			jobs[app] = builders.Job(app, n, mode, builders.CPU("10m"))
			jobs[app].Spec.Completions = new(2 * n)
			w.Create(builders.CapacityMix(app, 70, 1), jobs[app])
		}
	}
	for app, job := range jobs {
		w.WaitReady(app, int(*job.Spec.Parallelism))
	}
	w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Mix.Rebalance.ClusterMaxConcurrent = 100 })
	random := rand.New(rand.NewPCG(1, 2))
	for _, percent := range []int32{0, 100} {
		for app := range jobs {
			w.ChangeMix(app, builders.SpotPercent(percent))
			w.WaitBlocked(app, "CountsAsFailure", "restartPolicy is not Always")
			finish(w, app, func() bool { return random.IntN(4) == 0 })
		}
	}
	for app, job := range jobs {
		w.Eventually("job "+app+" completes", func() (bool, string) {
			finish(w, app, func() bool { return true })
			j := testenv.Read(w, app, &batchv1.Job{})
			require.Zero(t, j.Status.Failed, app)
			return j.Status.CompletionTime != nil && j.Status.Succeeded == *job.Spec.Completions, fmt.Sprintf("%d of %d succeeded", j.Status.Succeeded, *job.Spec.Completions)
		})
	}
	assert.Empty(t, w.Evictions())
}

// finish has some of the running pods of an app succeed.
func finish(w *testenv.World, app string, chosen func() bool) {
	w.T.Helper()
	for _, p := range w.Live(app) {
		if p.Status.Phase == corev1.PodRunning && chosen() {
			require.NoError(w.T, w.SetPhase(p.Name, corev1.PodSucceeded))
		}
	}
}
