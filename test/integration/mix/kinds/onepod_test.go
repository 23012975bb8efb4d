// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// onePod is a kind whose objects have one pod each.
type onePod struct {
	kind schema.GroupVersionKind
	// above are the owners of its objects, the highest first.
	above []schema.GroupVersionKind
	// template are the labels of the pod of an object, and what else the operator sets.
	template func(set, name string) []func(*corev1.PodTemplateSpec)
	// setLabel is the label that the default configuration reads; labels is set where the operator gives it to the pods.
	setLabel string
	labels   bool
}

var onePodKinds = []onePod{
	{
		kind: ephemeralRunner, above: []schema.GroupVersionKind{runnerSet, ephemeralSet},
		setLabel: "actions.github.com/scale-set-name", labels: true,
		template: func(set, name string) []func(*corev1.PodTemplateSpec) {
			return []func(*corev1.PodTemplateSpec){runsOnce, labeled("actions.github.com/scale-set-name", set,
				"actions.github.com/scale-set-namespace", "shop", "actions-ephemeral-runner", "True",
				"app.kubernetes.io/component", "runner", "pod-template-hash", fmt.Sprintf("%08x", rand.Uint32()))}
		},
	},
	{
		kind: taskRun, above: []schema.GroupVersionKind{pipelineRun},
		setLabel: "tekton.dev/pipeline", labels: true,
		template: func(set, name string) []func(*corev1.PodTemplateSpec) {
			return []func(*corev1.PodTemplateSpec){runsOnce, labeled("tekton.dev/pipeline", set, "tekton.dev/pipelineRun", set+"-run",
				"tekton.dev/taskRun", name, "tekton.dev/pipelineTask", "test", "tekton.dev/memberOf", "tasks")}
		},
	},
	{
		kind: gameServer, above: []schema.GroupVersionKind{fleet, gameServerSet}, setLabel: "agones.dev/fleet",
		template: func(_, name string) []func(*corev1.PodTemplateSpec) {
			return []func(*corev1.PodTemplateSpec){labeled("agones.dev/role", "gameserver", "agones.dev/gameserver", name)}
		},
	},
	{
		kind: machineInstance, above: []schema.GroupVersionKind{machinePool, machine}, setLabel: "kubevirt.io/vmpool",
		template: func(set, name string) []func(*corev1.PodTemplateSpec) {
			return []func(*corev1.PodTemplateSpec){runsOnce, labeled("kubevirt.io", "virt-launcher", "vm.kubevirt.io/name", name,
				"kubevirt.io/vm-pool-revision-name", set+"-1")}
		},
	},
}

// set is a set of owners with one pod each.
type set struct {
	*testenv.World
	onePod
	app, name string
	above     client.Object
	extra     []func(*corev1.PodTemplateSpec)
	created   int
	owners    map[string]client.Object
}

func (k onePod) newSet(w *testenv.World, app, name string, extra ...func(*corev1.PodTemplateSpec)) *set {
	w.T.Helper()
	define(w, k.kind)
	return &set{World: w, onePod: k, app: app, name: name, above: chain(w, name, k.above...), extra: extra, owners: map[string]client.Object{}}
}

// grow creates n owners, and then their pods, in an order of its own.
func (s *set) grow(n int, random *rand.Rand) {
	s.T.Helper()
	var pods []*corev1.Pod
	for range n {
		name := fmt.Sprintf("%s-%d", s.name, s.created)
		s.created++
		s.owners[name] = custom(s.World, s.kind, name, s.above)
		pods = append(pods, builders.Pod(s.app, name, append(append(s.template(s.name, name), below(s.World, s.owners[name])), s.extra...)...))
	}
	random.Shuffle(n, func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	for _, p := range pods {
		s.Create(p)
	}
}

// shrink deletes n owners by chance, whose pods the garbage collector then deletes.
func (s *set) shrink(n int, random *rand.Rand) {
	s.T.Helper()
	live := s.Live(s.app)
	random.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
	for i := range live[:n] {
		s.Delete(s.owners[live[i].Name])
	}
	s.WaitGone(live[:n])
}

// after is where the pods of a group are when n were added one by one: each runs on the type that is missing from the split, and none
// is moved.
func after(m split.Mix, s testenv.Split, n int) testenv.Split {
	for range n {
		if s.Spot < m.Spot(s.Spot+s.OnDemand+1) {
			s.Spot++
		} else {
			s.OnDemand++
		}
	}
	return s
}

// A runner is a group of one pod if it is counted alone, and so all 40 would be on on-demand.
func TestFortyOwnersWithOnePodEachAreOneGroup(t *testing.T) {
	for _, k := range onePodKinds {
		t.Run(k.kind.Kind, func(t *testing.T) {
			w := testenv.New(t, testenv.Roomy()...)
			random := rand.New(rand.NewPCG(40, 80))
			m := split.New(80, 3)
			w.Create(builders.CapacityMix("fleet", 80, 3))
			s := k.newSet(w, "fleet", "fleet")
			size := 0
			for _, n := range []int{1, 2, 3, 4, 5, 9, 16, 27, 40} {
				s.grow(n-size, random)
				w.RequireExact("fleet", m, n)
				size = n
			}
			require.Equal(t, testenv.Split{Spot: 32, OnDemand: 8}, w.Split("fleet"))
		})
	}
}

// The order in which the owners go is that of their work: the group is exact again as soon as the pods that are left allow it, and at
// each of its former sizes.
func TestOwnersWithOnePodEachComeAndGoInAnyOrder(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	random := rand.New(rand.NewPCG(3, 80))
	m := split.New(80, 3)
	w.Create(builders.CapacityMix("runners", 80, 3))
	s := onePodKinds[0].newSet(w, "runners", "linux")
	s.grow(40, random)
	w.RequireExact("runners", m, 40)
	for _, n := range []int{1, 7, 20, 39} {
		s.shrink(n, random)
		left := w.Split("runners")
		t.Logf("without %d of 40: %s", n, left)
		for range min(n, 4) { // one by one
			left = after(m, left, 1)
			s.grow(1, random)
			w.WaitBound("runners", left.Spot+left.OnDemand)
			require.Equal(t, left, w.Split("runners"), "the pod that is added runs on the type that is missing")
		}
		if rest := 40 - left.Spot - left.OnDemand; rest > 0 { // and at once
			s.grow(rest, random)
		}
		w.RequireExact("runners", m, 40)
		require.Equal(t, testenv.Split{Spot: 32, OnDemand: 8}, w.Split("runners"))
	}
}

func TestOwnersWithOnePodEachKeepTheirSlotsOverARestart(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	random := rand.New(rand.NewPCG(1, 40))
	m := split.New(80, 3)
	w.Create(builders.CapacityMix("runners", 80, 3))
	s := onePodKinds[0].newSet(w, "runners", "linux")
	s.grow(40, random)
	w.RequireExact("runners", m, 40)
	s.shrink(11, random)
	left := w.Slots(w.Live("runners"))

	testenv.Kill(w.Scheduler())
	s.grow(6, random)
	next := w.StartScheduler(testenv.SchedulerOptions(testenv.SecondScheduler))
	w.SetScheduler(next)
	w.WaitBound("runners", 35)
	s.grow(5, random)
	pods := w.RequireExact("runners", m, 40)
	require.Equal(t, testenv.Split{Spot: 32, OnDemand: 8}, w.SplitOf(pods))
	now := w.Slots(pods)
	for slot, p := range left {
		require.Equal(t, p.UID, now[slot].UID, "slot %d is still held by pod %s", slot, p.Name)
	}
}

// Sets that their pods name are groups of their own, and the others of a mix are one.
func TestSetsOfOwnersWithOnePodEach(t *testing.T) {
	for _, k := range onePodKinds {
		t.Run(k.kind.Kind, func(t *testing.T) {
			w := testenv.New(t, testenv.Roomy()...)
			random := rand.New(rand.NewPCG(2, 5))
			m := split.New(50, 1)
			w.Create(builders.CapacityMix("fleet", 50, 1))
			named := func(name string) []func(*corev1.PodTemplateSpec) {
				return []func(*corev1.PodTemplateSpec){labeled("test.example.com/set", name, k.setLabel, name)}
			}
			a, b := k.newSet(w, "fleet", "a", named("a")...), k.newSet(w, "fleet", "b", named("b")...)
			a.grow(3, random)
			b.grow(3, random)
			a.grow(4, random)
			requireEach(w, byLabel(w.WaitBound("fleet", 10), "test.example.com/set"), 2, m) // 3 of 7 and 1 of 3 on spot

			if k.labels {
				return
			}
			w.Create(builders.CapacityMix("other", 50, 1))
			c, d := k.newSet(w, "other", "c"), k.newSet(w, "other", "d")
			c.grow(5, random)
			d.grow(5, random)
			w.RequireExact("other", m, 10) // 5 of 10 on spot, and not 2 of each 5
		})
	}
}

func TestOwnersWithOnePodEachMayBeAlone(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	random := rand.New(rand.NewPCG(10, 1))
	w.Create(builders.CapacityMix("runners", 80, 0, grouped(v1alpha1.PodGroupingController)))
	onePodKinds[0].newSet(w, "runners", "linux").grow(10, random)
	pods := w.WaitBound("runners", 10)
	require.Equal(t, testenv.Split{OnDemand: 10}, w.SplitOf(pods), "80 %% of one pod are none")
	for i := range pods {
		require.Zero(t, slotOf(t, &pods[i]))
	}
}

// The machines of a VirtualMachineInstanceReplicaSet are in no other set. The pod that a live migration starts is one more of the
// machine, and runs on the type that is missing.
func TestMachinesOfAReplicaSetAreOneGroup(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	random := rand.New(rand.NewPCG(6, 1))
	k := onePodKinds[3]
	k.above = []schema.GroupVersionKind{machineReplicaSet}
	m := split.New(70, 2)
	w.Create(builders.CapacityMix("machines", 70, 2))
	s := k.newSet(w, "machines", "cirros")
	s.grow(10, random)
	pods := w.RequireExact("machines", m, 10)

	source := w.Slots(pods)[0]
	require.Equal(t, capacity.OnDemand, m.TypeOf(0))
	target := builders.Pod("machines", "target", append(k.template("cirros", source.Name), below(w, s.owners[source.Name]))...)
	w.Create(target)
	w.RequireExact("machines", m, 11)
	w.Delete(source)
	w.WaitGone([]corev1.Pod{*source})
	require.Equal(t, after(m, testenv.SplitBy(m, 10), 1).Spot, w.Split("machines").Spot, "the target stays where it is")
}

// The affinity assistant of Tekton, a pod of a StatefulSet, has all task runs of a pipeline run on its node.
func TestTaskRunsAndTheirAssistantMayBeAUnit(t *testing.T) {
	const run, instance = "tekton.dev/pipelineRun", "app.kubernetes.io/instance"
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(50, 1)
	w.Create(builders.CapacityMix("ci", 50, 1, grouped(v1alpha1.PodGroupingSelector),
		inUnits(v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: run})))
	for i := range 4 {
		name := fmt.Sprint("run-", i)
		owner := custom(w, pipelineRun, name, nil)
		s := builders.StatefulSet("ci", 1, appsv1.ParallelPodManagement, labeled(run, name, instance, "assistant-"+name,
			"app.kubernetes.io/component", "affinity-assistant"))
		s.Name, s.OwnerReferences = "assistant-"+name, []metav1.OwnerReference{*controllerRef(w, owner)}
		s.Spec.Selector.MatchLabels = map[string]string{instance: s.Name}
		w.Create(s)
		w.WaitBound("ci", 4*i+1)
		besideAssistant := func(t *corev1.PodTemplateSpec) {
			t.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					LabelSelector: &metav1.LabelSelector{MatchLabels: s.Spec.Selector.MatchLabels}, TopologyKey: corev1.LabelHostname,
				}},
			}}
		}
		for n := range 3 {
			task := fmt.Sprintf("%s-task-%d", name, n)
			w.Create(builders.Pod("ci", task, runsOnce, besideAssistant, below(w, custom(w, taskRun, task, owner)), labeled(
				run, name, "tekton.dev/pipeline", "build", "tekton.dev/taskRun", task)))
		}
		requireUnits(w, byLabel(w.WaitBound("ci", 4*i+4), run), 4, m)
	}
}
