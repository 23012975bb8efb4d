// SPDX-License-Identifier: Apache-2.0

// Package lifecycle_test has DeploymentRecords rendered, tracked and removed by
// the companion controller on a real control plane.
package lifecycle_test

import (
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Core: []string{
		"TestARecordBecomesAvailable",
		"TestFunctionsComeAndGo",
		"TestFieldsThatOthersAddStay",
		"TestARefusedChangeLeavesWhatWasThere",
		"TestADeletedRecordTakesItsChildrenAlong",
		"TestInvalidSpecsAreRefusedByField",
	}, Rights: []testenv.Rights{rights}}))
}

const (
	image, newImage = builders.FunctionImage, "registry.example/function:2"
	// odgmImage is that of the object data grid manager.
	odgmImage = "registry.example/odgm:1"
)

// scene is a world with a controller that reconciles records.
type scene struct {
	*testenv.World
	process *cluster.Controller
	// prometheus is where one answers, if one was started.
	prometheus string
}

func start(t *testing.T, changes ...func(*controller.Records)) *scene {
	t.Helper()
	nodes := append(cluster.Nodes("spot", 3), cluster.Nodes("on-demand", 3)...)
	s := &scene{World: testenv.New(t, nodes...)}
	s.ApplyFiles("manifests/rbac/records", "manifests/templates")
	s.run(changes...)
	return s
}

var together testenv.Together[*scene]

// share has the test run in parallel with the others that call it, in a namespace of its own: they share nodes and a controller,
// which they neither end nor configure. It reaches no Prometheus and makes no autoscaler.
func share(t *testing.T) *scene {
	t.Helper()
	host := together.Join(t, func() *scene { return start(t, nobody, withoutHPA) })
	return &scene{World: host.In(t), process: host.process}
}

func (s *scene) run(changes ...func(*controller.Records)) {
	s.T.Helper()
	s.process = s.Controller(testenv.Impatient, func(c *controller.Configuration) {
		c.Controllers, c.Records.ODGMImage = []string{controller.ControllerRecords}, odgmImage
		for _, change := range changes {
			change(&c.Records)
		}
	})
}

// record is one with functions, and without an ODGM.
var record = builders.DeploymentRecord

func (s *scene) get(name string) *v1alpha1.DeploymentRecord {
	s.T.Helper()
	return testenv.Read(s.World, name, &v1alpha1.DeploymentRecord{})
}

// change changes the spec of a record.
func (s *scene) change(name string, change func(*v1alpha1.DeploymentRecord)) {
	s.T.Helper()
	testenv.Patch(s.World, &v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}, change)
}

// setImage changes the image of the first function of a record.
func (s *scene) setImage(name, image string) {
	s.T.Helper()
	s.change(name, func(r *v1alpha1.DeploymentRecord) { r.Spec.DeploymentUnit.Functions[0].Image = image })
}

// restart kills the controller and starts another one, which need not wait for the lease to end.
func (s *scene) restart(changes ...func(*controller.Records)) {
	s.T.Helper()
	testenv.End(s.process, true)
	s.DropLease("berth-system", "berth-records")
	s.run(changes...)
}

// settled waits until a record is in a phase, as of its last change.
func (s *scene) settled(name string, phase v1alpha1.DeploymentPhase) *v1alpha1.DeploymentRecord {
	s.T.Helper()
	return testenv.WaitFor(s.World, name, string(phase), func(r *v1alpha1.DeploymentRecord) bool {
		return r.Status.ObservedGeneration == r.Generation && r.Status.Phase == phase
	})
}

// create creates a record, and waits until it is Available.
func (s *scene) create(r *v1alpha1.DeploymentRecord) *v1alpha1.DeploymentRecord {
	s.T.Helper()
	s.Create(r)
	return s.settled(r.Name, v1alpha1.PhaseAvailable)
}

// degraded waits until a record is Degraded, and returns the condition with the reason.
func (s *scene) degraded(name string) metav1.Condition {
	s.T.Helper()
	return condition(s.settled(name, v1alpha1.PhaseDegraded), v1alpha1.ConditionDegraded)
}

// deployments are the names of those of the namespace, sorted.
func (s *scene) deployments() []string { return s.Names(&appsv1.DeploymentList{}) }

func (s *scene) services() []string { return s.Names(&corev1.ServiceList{}) }

func (s *scene) deployment(name string) *appsv1.Deployment {
	s.T.Helper()
	return testenv.Read(s.World, name, &appsv1.Deployment{})
}

func (s *scene) service(name string) *corev1.Service {
	s.T.Helper()
	return testenv.Read(s.World, name, &corev1.Service{})
}

// image is that of the function of a record.
func (s *scene) image(name string) string {
	s.T.Helper()
	return s.deployment(name).Spec.Template.Spec.Containers[0].Image
}

// env are the variables of the function of a record.
func (s *scene) env(name string) map[string]string {
	s.T.Helper()
	env := map[string]string{}
	for _, e := range s.deployment(name).Spec.Template.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	return env
}

// delete deletes a record, and waits until it is gone.
func (s *scene) delete(name string) {
	s.T.Helper()
	r := s.get(name)
	s.Delete(r)
	s.WaitDeleted(r)
}

func condition(r *v1alpha1.DeploymentRecord, name string) metav1.Condition {
	if c := meta.FindStatusCondition(r.Status.Conditions, name); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// saw waits for events of a record, which are recorded after its status is written.
func (s *scene) saw(name string, reasons ...string) {
	s.T.Helper()
	for _, reason := range reasons {
		s.WaitEvent(name, reason, func(e *corev1.Event) bool { return e.Reason == reason })
	}
}
