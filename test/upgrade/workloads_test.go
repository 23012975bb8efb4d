// SPDX-License-Identifier: Apache-2.0

package upgrade_test

import (
	"fmt"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// tenant is a namespace with workloads, a DeploymentRecord and an Environment, which can be scaled.
type tenant struct {
	*testenv.World
	workloads []workload
	record    *v1alpha1.DeploymentRecord
	// environment has a backend.
	environment *v1alpha1.Environment
	// replicas are those of the function of the record, and of the backend.
	replicas int32
}

// workload is one that can be scaled.
type workload struct {
	app      string
	mix      split.Mix
	replicas int32
	make     func(app string, replicas int32) client.Object
	// annotated workloads have their mix by annotations, the others by a CapacityMix of their name.
	annotated bool
}

// half is the mix of what needs no other one, and that of the components of environments by default.
var half = split.New(50, 1)

// kinds are workloads of each kind.
var kinds = []workload{
	{app: "web", mix: split.New(70, 2), replicas: 20, make: deployment()},
	{app: "gated", mix: half, replicas: 8, make: deployment(builders.Gated)},
	// The webhook sets its scheduler.
	{app: "injected", mix: split.New(50, 0), replicas: 4, make: deployment(builders.SchedulerName(""))},
	{app: "annotated", mix: split.New(60, 1), replicas: 6, make: deployment(), annotated: true},
	{app: "stateful", mix: split.New(40, 2), replicas: 5, make: func(app string, replicas int32) client.Object {
		return builders.StatefulSet(app, replicas, appsv1.OrderedReadyPodManagement)
	}},
}

func deployment(template ...func(*corev1.PodTemplateSpec)) func(string, int32) client.Object {
	return func(app string, replicas int32) client.Object { return builders.Deployment(app, replicas, template...) }
}

// record is one with one function. The default of its port differs between the versions (docs/install.md).
func record() *v1alpha1.DeploymentRecord {
	r := builders.DeploymentRecord("cart", "add")
	r.Spec.DeploymentUnit.Functions[0].Port = 8080
	r.Spec.NFRRequirements = &v1alpha1.NFRRequirements{Availability: new("0.999")}
	r.Spec.ResourceAllocation = &v1alpha1.ResourceAllocation{CPU: "100m", Memory: "64Mi"}
	return r
}

// large is an Environment with every kind of object, small one with a backend only.
func large() *v1alpha1.Environment {
	e := builders.Environment("shop")
	e.Spec.Network = &v1alpha1.EnvironmentNetwork{Isolated: true}
	stack := &e.Spec.Stack
	stack.Frontend.Domains, stack.Frontend.TLSEnabled = []string{"shop.example.com"}, true
	stack.Database.PersistentStorage = true
	stack.Backend.Container.HealthCheck = &v1alpha1.EnvironmentHealthCheck{Command: []string{"true"}, StartPeriodSeconds: 10}
	once := builders.EnvironmentContainer("busybox:1", 8080) // a Job, whose name is made of its template
	once.RestartPolicy = v1alpha1.RestartNo
	stack.AdditionalServices = append(stack.AdditionalServices, v1alpha1.AdditionalService{Name: "once", Container: once})
	return e
}

func small() *v1alpha1.Environment {
	e := builders.Environment("shop")
	e.Spec.Stack = v1alpha1.ApplicationStack{Backend: e.Spec.Stack.Backend}
	return e
}

// create creates all that can be scaled.
func (t *tenant) create() {
	t.T.Helper()
	for i := range t.workloads {
		x := &t.workloads[i]
		o := x.make(x.app, x.replicas)
		if x.annotated {
			o.SetAnnotations(builders.MixAnnotations(int(x.mix.SpotPercent), int(x.mix.MinOnDemand)))
		} else {
			t.Create(builders.CapacityMix(x.app, x.mix.SpotPercent, x.mix.MinOnDemand))
		}
		t.Create(o)
	}
	t.record.Spec.DeploymentUnit.Functions[0].MinScale = &t.replicas
	t.environment.Spec.Stack.Backend.Replicas = &t.replicas
	t.Create(t.record, t.environment)
}

// scale sets the size of all to a multiple of what it was at first, and waits until each is exact.
func (t *tenant) scale(factor float64) {
	t.T.Helper()
	scaled := func(replicas int32) int32 { return int32(math.Round(float64(replicas) * factor)) }
	for i := range t.workloads {
		x := &t.workloads[i]
		o := x.make(x.app, 0)
		o.SetNamespace(t.Namespace)
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, scaled(x.replicas)))
		t.Succeeds("scale "+x.app, func() error { return t.Client.Patch(t.Ctx, o, patch) })
	}
	replicas := scaled(t.replicas)
	testenv.Patch(t.World, t.record, func(r *v1alpha1.DeploymentRecord) { r.Spec.DeploymentUnit.Functions[0].MinScale = &replicas })
	testenv.Patch(t.World, t.environment, func(e *v1alpha1.Environment) { e.Spec.Stack.Backend.Replicas = &replicas })
	t.exact(scaled)
}

// exact waits until all have so many Ready replicas, of what they had at first, in exactly their mixes, and until each status reports it.
func (t *tenant) exact(scaled func(int32) int32) {
	t.T.Helper()
	for i := range t.workloads {
		x := &t.workloads[i]
		t.WaitExact(x.app, x.mix, int(scaled(x.replicas)), testenv.SettleTimeout)
		if !x.annotated {
			t.WaitSatisfied(x.app)
		}
	}
	testenv.WaitFor(t.World, t.record.Name, "it is Available", func(r *v1alpha1.DeploymentRecord) bool {
		return r.Status.ObservedGeneration == r.Generation && r.Status.Phase == v1alpha1.PhaseAvailable
	})
	mix := t.Mix(t.record.Name).Spec
	t.WaitRepaired(t.record.Name, split.New(mix.SpotPercent, mix.MinOnDemand), int(scaled(t.replicas)), testenv.SettleTimeout)
	t.exactBackend(int(scaled(t.replicas)))
}

// exactBackend waits until the environment runs, its backend with so many replicas in exactly their mix.
func (t *tenant) exactBackend(replicas int) {
	t.T.Helper()
	e := testenv.WaitFor(t.World, t.environment.Name, "it runs", func(e *v1alpha1.Environment) bool {
		return e.Status.ObservedGeneration == e.Generation && e.Status.Phase == v1alpha1.EnvironmentRunning
	})
	var pods []corev1.Pod
	t.Eventually(fmt.Sprintf("the backend has %d Ready replicas in its mix", replicas), func() (bool, string) {
		of := client.MatchingLabels{v1alpha1.EnvironmentComponentLabel: "backend"}
		pods = testenv.Where(t.Pods(client.InNamespace(e.Status.Namespace), of), func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil })
		now := t.SplitOf(pods)
		return now == testenv.SplitBy(half, replicas) && len(testenv.Where(pods, testenv.Ready)) == replicas, now.String()
	})
	t.RequireExactPods(pods, half)
}

// remove deletes what has finalizers of the controllers.
func (t *tenant) remove() {
	t.T.Helper()
	for _, o := range []client.Object{t.record, t.environment} {
		t.Delete(o)
		t.WaitDeleted(o)
	}
}

// populate creates workloads and objects of each kind, and waits until they are as they should be.
func (s *site) populate() {
	s.T.Helper()
	s.volumes()
	s.create()
	s.last.create()
	s.Create(builders.CapacityMix("bare", half.SpotPercent, half.MinOnDemand))
	for i := range barePods {
		s.Create(builders.Pod("bare", fmt.Sprintf("bare-%d", i)))
	}
	s.Create(builders.ResourceLimit("small", builders.SizeCPU("100m", "1")), builders.Deployment("sized", 3, builders.OfSize("small")))
	s.job("job")
	s.stuck()
	s.WaitRepaired("bare", half, barePods, testenv.SettleTimeout)
	s.WaitReady("sized", 3)
	now := func(replicas int32) int32 { return replicas }
	s.exact(now)
	s.last.exact(now)
}

// volumes makes volumes for the environment: nothing here does.
func (s *site) volumes() {
	s.T.Helper()
	for i := range 3 {
		s.CreateForTest(&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", s.Namespace, i)},
			Spec: corev1.PersistentVolumeSpec{
				Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
				PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/" + s.Namespace}},
				AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			},
		})
	}
}

// stuck creates a workload that does not satisfy its mix, and whose replicas are not moved.
func (s *site) stuck() {
	s.T.Helper()
	s.Create(builders.CapacityMix("stuck", 50, 0, builders.RebalanceMode(v1alpha1.RebalanceModeReport)), builders.Deployment("stuck", 4))
	s.WaitRepaired("stuck", split.New(50, 0), 4, testenv.SettleTimeout)
	s.ChangeMix("stuck", builders.SpotPercent(100))
	s.WaitStatus("stuck", "it is not satisfied", func(m *v1alpha1.CapacityMixStatus) bool {
		return testenv.Condition(m, v1alpha1.ConditionSatisfied, false, v1alpha1.ReasonMixNotSatisfied)
	})
}

// job creates a Job, whose pods go on running.
func (s *site) job(app string) {
	s.T.Helper()
	s.Create(builders.CapacityMix(app, half.SpotPercent, half.MinOnDemand), builders.Job(app, 6, batchv1.IndexedCompletion))
	s.WaitRepaired(app, half, 6, testenv.SettleTimeout)
}

// barePods is how many there are.
const barePods = 4

// scaleBare creates more bare pods, and then deletes those of the highest slots.
func (s *site) scaleBare(name string) {
	s.T.Helper()
	const more = 2
	for i := range more {
		s.Create(builders.Pod("bare", fmt.Sprintf("bare-%s-%d", name, i)))
	}
	for _, p := range s.WaitRepaired("bare", half, barePods+more, testenv.SettleTimeout) {
		if slot, _ := governing.ClaimedSlot(&p); slot >= barePods {
			s.Delete(&p)
		}
	}
	s.WaitRepaired("bare", half, barePods, testenv.SettleTimeout)
}
