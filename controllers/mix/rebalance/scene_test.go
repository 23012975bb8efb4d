// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/rebalance/stepqueue"
	"berth.dev/berth/controllers/mix/status"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/placeholder"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
	"berth.dev/berth/test/fakes"
)

// scene is a cluster with two controllers: some reconciles what changed, all everything.
type scene struct {
	pods   map[types.NamespacedName]*corev1.Pod
	nodes  map[string]*corev1.Node
	owners map[types.UID]metav1.Object
	mixes  *governing.Registry
	clock  *clocktesting.FakeClock
	some   *side
	all    *side
	// byTheClock has things in it that change with time alone, and are found out by the resync: then that comes whenever time passes.
	byTheClock bool
	// batches has several events come before they are reconciled.
	batches    bool
	generation int64
	lives      int
}

// side is one controller with all that it sees and does.
type side struct {
	scene      *scene
	controller *Controller
	cache      *fakes.Cache
	status     *status.Controller
	recorder   *record.FakeRecorder
	queue      *stepqueue.Queue
	// statuses are those to be written.
	statuses map[reconcile.Request]bool
	// asked are the requests to the API server that change something, evicted and created those pods that no event has shown.
	asked   []string
	evicted []types.NamespacedName
	created map[string]*corev1.Pod
}

func newScene(t *rapid.T) *scene {
	w := &scene{
		pods: map[types.NamespacedName]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, owners: map[types.UID]metav1.Object{},
		mixes: governing.NewRegistry(), clock: clocktesting.NewFakeClock(noon), byTheClock: rapid.Bool().Draw(t, "by the clock"), batches: rapid.Bool().Draw(t, "batches"),
	}
	limit := rapid.IntRange(1, 2).Draw(t, "cluster limit")
	w.some, w.all = w.newSide(limit), w.newSide(limit)
	w.some.controller.State = w.newState()
	w.some.controller.State.Changed = w.some.controller.Changed
	w.some.controller.State.NodeLeft = func(d clusterstate.Departure) {
		w.some.controller.NodeLeft(d)
		w.all.controller.NodeLeft(d)
	}
	w.some.controller.Decided = func(d workloads.Decision) {
		for _, req := range w.some.status.Wanted(d) {
			w.some.statuses[req] = true
		}
	}
	for _, ns := range sceneNamespaces { // otherwise they are seldom there with a pod
		for _, name := range []string{"deployment", "rs"} {
			w.setOwner(ownerOf(metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(ns + "-" + name), Generation: 1}, 3, 3))
		}
	}
	size := pick(t, "size of nodes", "4", "2")
	for i, name := range sceneNodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"karpenter.sh/capacity-type": []string{"spot", "on-demand"}[i%2]}}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: cpu(size), corev1.ResourceMemory: cpu("8Gi"), corev1.ResourcePods: cpu("10")}
		w.setNode(n)
	}
	for _, ns := range sceneNamespaces {
		cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "m"}}
		cm.Spec.SpotPercent, cm.Spec.Rebalance = 50, &v1alpha1.RebalanceSpec{StabilizationSeconds: new(int32(0))}
		w.setMix(cm)
	}
	w.some.controller.Changed(everything)
	if rapid.Bool().Draw(t, "crowded") {
		w.crowd(t)
	}
	return w
}

// crowd has workloads that are out of their mixes, so that they come into each
// other's way: what one does to the budgets and to the capacity, others wait for.
func (w *scene) crowd(t *rapid.T) {
	for _, ns := range sceneNamespaces {
		cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "m"}}
		cm.Spec.SpotPercent = pick[int32](t, "percent", 0, 50, 100)
		cm.Spec.Rebalance = &v1alpha1.RebalanceSpec{
			StabilizationSeconds: new(int32(0)), MaxConcurrent: new(rapid.Int32Range(1, 2).Draw(t, "concurrent")),
			Provisioning: pick(t, "provisioning", v1alpha1.ProvisioningWait, v1alpha1.ProvisioningPlaceholder),
		}
		w.setMix(cm)
		for _, o := range sceneOwners[:3] {
			for ordinal := range rapid.IntRange(0, 3).Draw(t, "replicas") {
				p := podOf(ns, o, ordinal, 0)
				p.Spec.NodeName = pick(t, "node", sceneNodes...)
				w.setPod(p)
			}
		}
	}
}

func (w *scene) newState() *clusterstate.State {
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	if err != nil {
		panic(err)
	}
	return clusterstate.New(clusterstate.Options{Classifier: classifier, Conventions: governing.Conventions{Prefixes: []string{governing.PrefixBerth}}, Mixes: w.mixes})
}

func (w *scene) newSide(limit int) *side {
	s := &side{scene: w, cache: fakes.NewCache(), recorder: record.NewFakeRecorder(1000), created: map[string]*corev1.Pod{}, statuses: map[reconcile.Request]bool{}}
	c, err := New(Options{
		Workloads: workloads.NewStore(), Clock: w.clock, Recorder: s.recorder, Reader: s.cache, Client: s.client(),
		Profile: &simulation.Profile{SchedulerNames: []string{"berth-scheduler"}, Label: gate.Label{Key: "karpenter.sh/capacity-type", Spot: "spot", OnDemand: "on-demand"}},
		Tuning: Tuning{
			Defaults:             rebalance.Settings{Mode: rebalance.Evict, MaxConcurrent: 1, Stabilization: time.Minute},
			ClusterMaxConcurrent: limit, Backoff: time.Minute, MaxBackoff: 10 * time.Minute, MoveTimeout: 2 * time.Minute,
		},
		Resync:       time.Hour,
		Storm:        rebalance.StormSettings{SharePercent: 50, MinNodes: 2, Window: time.Minute, Quiet: time.Minute},
		Journal:      types.NamespacedName{Namespace: "berth-system", Name: "moves"},
		Placeholders: Placeholders{SizeOf: func(*corev1.Pod) *v1alpha1.ResourceLimit { return nil }}, Decided: func(workloads.Decision) {},
	})
	if err != nil {
		panic(err)
	}
	s.controller, s.queue = c, stepqueue.New(c.Order(), w.clock)
	c.Use(s.queue)
	s.controller.proof.take = func(context.Context) (snapshot, error) { return roomByChance{}, nil }
	s.status = status.New(status.Options{Client: s.cache, Workloads: s.controller.Workloads, Mixes: w.mixes, Clock: w.clock})
	return s
}

// roomByChance has free capacity for two pods in three.
type roomByChance struct{}

func (roomByChance) Fits(_ context.Context, q simulation.Question) (simulation.Answer, error) {
	return simulation.Answer{Fits: chance(q.Pod.UID, 3) > 0, Node: "n0"}, nil
}
func (roomByChance) Assume(*corev1.Pod, string) {}
func (roomByChance) Domains(simulation.Question, simulation.Holder, []simulation.Holder) simulation.Domains {
	return simulation.Domains{}
}
func (roomByChance) Close() {}

func chance(uid types.UID, n uint32) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid))
	return h.Sum32() % n
}

// client is an API server that has the pods of the scene. It refuses every fifth eviction.
func (s *side) client() *fake.Clientset {
	c := &fake.Clientset{}
	c.AddReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		name := types.NamespacedName{Namespace: a.GetNamespace(), Name: a.(clienttesting.GetAction).GetName()}
		if p := s.scene.pods[name]; p != nil {
			return true, p.DeepCopy(), nil
		}
		return true, nil, apierrors.NewNotFound(corev1.Resource("pods"), name.Name)
	})
	c.AddReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		list := &corev1.PodList{}
		for name, p := range s.scene.pods {
			if name.Namespace == a.GetNamespace() {
				list.Items = append(list.Items, *p)
			}
		}
		slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) }) // as an API server does
		return true, list, nil
	})
	keepJournal(c)
	allowAll(c)
	c.AddReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if e, is := a.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction); is {
			name := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
			s.asked = append(s.asked, "evict "+name.String())
			if chance(s.scene.pods[name].UID, 5) == 0 {
				return true, nil, apierrors.NewTooManyRequests("not now", 0)
			}
			s.evicted = append(s.evicted, name)
			return true, nil, nil
		}
		p := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).DeepCopy()
		s.asked = append(s.asked, "create "+p.Namespace+"/"+p.Name)
		p.UID, p.CreationTimestamp = types.UID("uid-"+p.Name), metav1.NewTime(s.scene.clock.Now())
		s.created[p.Name] = p
		return true, p, nil
	})
	c.AddReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		name := a.(clienttesting.DeleteAction).GetName()
		s.asked = append(s.asked, "delete "+a.GetNamespace()+"/"+name)
		delete(s.created, name)
		return true, nil, nil
	})
	return c
}

func (s *side) reconcile(req reconcile.Request) {
	if req.Name == "" {
		return
	}
	if _, err := s.status.Reconcile(context.Background(), req); err != nil {
		panic(err)
	}
}

func (s *side) events() (list []string) {
	for len(s.recorder.Events) > 0 {
		list = append(list, <-s.recorder.Events)
	}
	return list
}

// reconcile has both reconcile until there is nothing more to be done.
func (w *scene) reconcile(t *rapid.T) {
	some, meanwhile := w.some, oneIn(t, 4, "resync meanwhile")
	for some.queue.Busy() {
		for some.queue.Step(context.Background(), some.controller) {
			if meanwhile {
				some.controller.Changed(everything)
				meanwhile = false
			}
		}
	}
	if oneIn(t, 4, "from scratch") { // a reconcile of everything in the end finds nothing else
		before, asked := some.entries(), len(some.asked)
		some.controller.Retune(some.controller.Tuning)
		some.queue.Drain(context.Background(), some.controller)
		require.Equal(t, before, some.entries())
		require.Len(t, some.asked, asked)
	}
	for req := range some.statuses {
		some.reconcile(req)
	}
	clear(some.statuses)
	w.reconcileAll(t)
}

// reconcileAll has the one that reconciles everything do so until nothing changes any more.
func (w *scene) reconcileAll(t *rapid.T) {
	const enough = 50
	for n, before := 0, []rebalance.Entry(nil); ; n++ {
		if n > enough {
			t.Fatal("everything is never done")
		}
		w.refill()
		w.all.controller.Retune(w.all.controller.Tuning)
		w.all.queue.Drain(context.Background(), w.all.controller)
		after := w.all.entries()
		if n > 0 && reflect.DeepEqual(before, after) {
			break
		}
		before = after
	}
	for _, cm := range w.all.cache.Mixes() {
		w.all.reconcile(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: cm.Namespace, Name: cm.Name}})
	}
}

// refill fills a cluster state again, so that no group is one that was reconciled before.
func (w *scene) refill() {
	f := w.newState()
	for _, n := range w.nodes {
		f.SetNode(n)
	}
	for _, o := range w.owners {
		f.SetOwner(o)
	}
	for _, p := range w.pods {
		f.SetPod(p)
	}
	w.all.controller.State = f
	for _, e := range w.all.controller.Workloads.All() { // its versions are those of the former one
		e.Group.Version = 0
		w.all.controller.Workloads.Put(e)
	}
}

func (w *scene) setPod(p *corev1.Pod) {
	w.pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = p
	w.some.controller.State.SetPod(p)
}

func (w *scene) removePod(name types.NamespacedName) {
	delete(w.pods, name)
	w.some.controller.State.DeletePod(name, "")
}

func byName(a, b types.NamespacedName) int {
	if a.String() < b.String() {
		return -1
	}
	return 1
}

func (w *scene) anyPod(t *rapid.T) *corev1.Pod {
	if len(w.pods) == 0 {
		t.Skip("no pods")
	}
	return w.pods[rapid.SampledFrom(slices.SortedFunc(maps.Keys(w.pods), byName)).Draw(t, "pod")]
}

func (w *scene) flip(t *rapid.T) {
	p := w.anyPod(t).DeepCopy()
	if len(p.Status.Conditions) == 0 { // a placeholder
		t.Skip("it is never Ready")
	}
	c := &p.Status.Conditions[0]
	if c.Status = corev1.ConditionFalse; oneIn(t, 2, "ready") {
		c.Status = corev1.ConditionTrue
	}
	c.LastTransitionTime = metav1.NewTime(w.clock.Now())
	w.setPod(p)
}

func (w *scene) deletePod(t *rapid.T) {
	p := w.anyPod(t)
	w.removePod(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
}

func (w *scene) setNode(n *corev1.Node) {
	w.nodes[n.Name] = n
	w.some.controller.State.SetNode(n)
}

func (w *scene) deleteNode(t *rapid.T) {
	name := pick(t, "node", sceneNodes...)
	delete(w.nodes, name)
	w.some.controller.State.DeleteNode(name)
}

// sceneMinReady is within the steps of the clock, and shorter than the time for a move.
const sceneMinReady = 30

func ownerOf(meta metav1.ObjectMeta, replicas, updated int32) metav1.Object {
	switch meta.Name {
	case "set":
		s := &appsv1.StatefulSet{ObjectMeta: meta}
		s.Spec.MinReadySeconds = sceneMinReady
		s.Spec.Replicas, s.Status.ObservedGeneration, s.Status.UpdatedReplicas = &replicas, 1, updated
		return s
	case "deployment":
		d := &appsv1.Deployment{ObjectMeta: meta}
		d.Spec.Replicas, d.Status.ObservedGeneration, d.Status.UpdatedReplicas = &replicas, 2, updated
		return d
	}
	rs := &appsv1.ReplicaSet{ObjectMeta: meta}
	rs.Spec.Replicas, rs.Status.Replicas, rs.Spec.MinReadySeconds = &replicas, replicas, sceneMinReady
	if meta.Name == "rs" {
		rs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "deployment", UID: types.UID(meta.Namespace + "-deployment"), Controller: new(true)}}
	}
	return rs
}

func (w *scene) setOwner(o metav1.Object) {
	w.owners[o.GetUID()] = o
	w.some.controller.State.SetOwner(o)
}

func (w *scene) deleteOwner(t *rapid.T) {
	o := drawOwner(t)
	delete(w.owners, o.GetUID())
	w.some.controller.State.DeleteOwner(o.GetUID())
}

// setMix does what the watch of mixes does.
func (w *scene) setMix(cm *v1alpha1.CapacityMix) {
	w.generation++
	cm.UID, cm.Generation = types.UID("uid-"+cm.Name), w.generation
	_ = w.mixes.Set(cm)
	for _, s := range []*side{w.some, w.all} {
		o := cm.DeepCopy()
		if old := s.cache.Mix(cm.Namespace, cm.Name); old != nil {
			o.Status = *old.Status.DeepCopy()
		}
		s.cache.Set(o)
	}
	w.some.controller.Changed(governing.GroupKey{Namespace: cm.Namespace})
}

func (w *scene) deleteMix(t *rapid.T) {
	cm := w.drawMix(t)
	w.mixes.Delete(cm.Namespace, cm.Name)
	w.some.cache.Remove(cm)
	w.all.cache.Remove(cm)
	w.some.controller.Changed(governing.GroupKey{Namespace: cm.Namespace})
}

func (w *scene) changeBudget(b *policyv1.PodDisruptionBudget, gone bool) {
	for _, s := range []*side{w.some, w.all} {
		if gone {
			s.cache.Remove(b)
		} else {
			s.cache.Set(b.DeepCopy())
		}
	}
	w.some.controller.Changed(governing.GroupKey{Namespace: b.Namespace})
}

func (w *scene) deleteBudget(t *rapid.T) {
	w.changeBudget(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: pick(t, "namespace", sceneNamespaces...), Name: pick(t, "budget", "x", "y")}}, true)
}

// passTime changes nothing else: what is due is reconciled.
func (w *scene) passTime(t *rapid.T) {
	w.clock.Step(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
	if w.byTheClock || oneIn(t, 3, "resync") {
		w.some.controller.Changed(everything)
	}
}

// completeMove has a pod that was evicted go, and perhaps its replacement come.
func (w *scene) completeMove(t *rapid.T) {
	require.Equal(t, w.all.evicted, w.some.evicted)
	if len(w.some.evicted) == 0 {
		t.Skip("nothing was evicted")
	}
	name := w.some.evicted[0]
	w.some.evicted, w.all.evicted = w.some.evicted[1:], w.all.evicted[1:]
	p := w.pods[name]
	if p == nil {
		return
	}
	w.removePod(name)
	if oneIn(t, 4, "no replacement") {
		return
	}
	w.lives++
	p = p.DeepCopy()
	p.UID = types.UID(fmt.Sprintf("replacement-%d", w.lives))
	p.Spec.NodeName = pick(t, "node", sceneNodes...)
	p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.clock.Now())
	w.setPod(p)
}

// showPlaceholders has the watch show what was created, and what was deleted.
func (w *scene) showPlaceholders(t *rapid.T) {
	require.Equal(t, slices.Sorted(maps.Keys(w.all.created)), slices.Sorted(maps.Keys(w.some.created)))
	for _, name := range slices.SortedFunc(maps.Keys(w.pods), byName) {
		if _, holds := w.pods[name].Labels[v1alpha1.PlaceholderLabel]; holds && w.some.created[name.Name] == nil {
			w.removePod(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.some.created)) {
		p := w.some.created[name].DeepCopy()
		if p.Status.Phase = corev1.PodPending; oneIn(t, 2, "runs") {
			p.Spec.NodeName, p.Status.Phase = pick(t, "node", sceneNodes...), corev1.PodRunning
		}
		w.setPod(p)
	}
}

// leaveBehind shows a placeholder that an earlier leader made for some pod.
func (w *scene) leaveBehind(t *rapid.T) {
	replica := w.anyPod(t)
	if _, holds := replica.Labels[v1alpha1.PlaceholderLabel]; holds {
		t.Skip("a placeholder has none")
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: replica.Namespace, Name: placeholder.Name(replica.UID), UID: "left-for-" + replica.UID, CreationTimestamp: metav1.NewTime(w.clock.Now()),
		Labels: map[string]string{v1alpha1.PlaceholderLabel: string(replica.UID)}, Annotations: map[string]string{v1alpha1.CapacityTypeAnnotation: "spot"},
	}}
	w.setPod(p)
}

// tamper writes to a status what is not so; the resync repairs it.
func (w *scene) tamper(t *rapid.T) {
	all := w.some.cache.Mixes()
	if len(all) == 0 {
		t.Skip("no mixes")
	}
	slices.SortFunc(all, func(a, b *v1alpha1.CapacityMix) int { return byName(nameOf(a), nameOf(b)) })
	cm := rapid.SampledFrom(all).Draw(t, "mix").DeepCopy()
	cm.Status.WorkloadCount += 7
	w.some.cache.Set(cm)
	w.some.controller.Changed(everything)
}

func nameOf(cm *v1alpha1.CapacityMix) types.NamespacedName {
	return types.NamespacedName{Namespace: cm.Namespace, Name: cm.Name}
}

func cpu(s string) resource.Quantity { return resource.MustParse(s) }

// FitAll implements snapshot.
func (s roomByChance) FitAll(ctx context.Context, all []simulation.Question) ([]simulation.Answer, error) {
	return eachFits(ctx, s, all)
}

// eachFits answers questions one by one.
func eachFits(ctx context.Context, s snapshot, all []simulation.Question) (answers []simulation.Answer, err error) {
	for _, q := range all {
		a, err := s.Fits(ctx, q)
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}
