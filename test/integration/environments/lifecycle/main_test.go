// SPDX-License-Identifier: Apache-2.0

// Package lifecycle_test has Environments run by the companion controller
// on a real control plane, by their objects and by the gRPC service.
package lifecycle_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Core: []string{
		"TestAnEnvironmentRunsAndIsDeleted",
		"TestAStageWaitsForTheOneBefore",
		"TestAChangeReplacesWhatItChanges",
		"TestAnEnvironmentIsIsolatedAndBoundedByDefault",
		"TestInvalidEnvironmentsAreRefusedAndNotCreated",
	}, Rights: []testenv.Rights{rights}}))
}

// scene is a world with a controller that runs environments.
type scene struct {
	*testenv.World
	process *cluster.Controller
}

func start(t *testing.T, changes ...func(*controller.Configuration)) *scene {
	t.Helper()
	nodes := append(cluster.Nodes("spot", 3), cluster.Nodes("on-demand", 3)...) // in three zones
	s := &scene{World: testenv.New(t, nodes...)}
	s.ApplyFiles("manifests/rbac/environments")
	s.run(changes...)
	s.clean()
	return s
}

var together testenv.Together[*scene]

// share has the test run in parallel with the others that call it, in a namespace of its own: they share nodes, volumes and a
// controller, which they neither end nor configure. No two of them may name the same host port or domain.
func share(t *testing.T) *scene {
	t.Helper()
	host := together.Join(t, func() *scene {
		s := start(t, func(c *controller.Configuration) { c.Environments.HistoryLimit = 3 })
		s.volumes(3)
		return s
	})
	s := &scene{World: host.In(t), process: host.process}
	t.Cleanup(s.release)
	return s
}

// clean has environments go while there is a controller that lets them, and makes volumes for them: nothing here does.
func (s *scene) clean() {
	s.T.Helper()
	s.volumes(3)
	s.T.Cleanup(s.release)
}

// volumes makes volumes for claims. None can be claimed twice.
func (s *scene) volumes(n int) {
	s.T.Helper()
	for range n {
		s.volumeOf("20Gi", corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/" + s.Namespace}})
	}
}

func (s *scene) volumeOf(size string, source corev1.PersistentVolumeSource) {
	s.T.Helper()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{GenerateName: s.Namespace + "-"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}, PersistentVolumeSource: source,
		AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
	}}
	s.CreateForTest(v)
}

// serveKinds has the API server serve kinds of others until the test ends: the CRDs of a file in testdata.
func (s *scene) serveKinds(file string, crds ...string) {
	s.T.Helper()
	s.ApplyFiles("test/integration/environments/lifecycle/testdata/" + file)
	for _, name := range crds {
		s.T.Cleanup(func() { s.Delete(testenv.CRD(name)) })
	}
}

// requestDeletion deletes all environments of the test's namespace, and returns them.
func (s *scene) requestDeletion() []v1alpha1.Environment {
	s.T.Helper()
	all := testenv.List(s.World, &v1alpha1.EnvironmentList{}).Items
	for i := range all {
		require.NoError(s.T, client.IgnoreNotFound(s.Client.Delete(s.Ctx, &all[i])))
	}
	return all
}

// deleteAll deletes all environments of the test's namespace, and waits until they are gone.
func (s *scene) deleteAll() {
	s.T.Helper()
	all := s.requestDeletion()
	for i := range all {
		s.WaitDeleted(&all[i])
	}
}

// release deletes all environments of the test's namespace as deleteAll does, and lets each go when nothing but its namespace is
// left: Kubernetes begins to delete what is in a namespace after five seconds, which the next test need not wait for.
func (s *scene) release() {
	s.T.Helper()
	all := s.requestDeletion()
	for i := range all {
		e := &all[i]
		s.Eventually("environment "+e.Name+" is gone, or only waits for its namespace", func() (bool, string) {
			err := s.Client.Get(s.Ctx, client.ObjectKeyFromObject(e), e)
			if err != nil {
				return apierrors.IsNotFound(err), err.Error()
			}
			ns := &corev1.Namespace{}
			err = s.Client.Get(s.Ctx, client.ObjectKey{Name: e.Status.Namespace}, ns)
			if err != nil || ns.DeletionTimestamp == nil {
				return false, fmt.Sprint(e.Status.Message, err)
			}
			err = s.Client.Patch(s.Ctx, e, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
			return client.IgnoreNotFound(err) == nil, fmt.Sprint(err)
		})
	}
}

func (s *scene) run(changes ...func(*controller.Configuration)) {
	s.T.Helper()
	s.process = s.Controller(append([]func(*controller.Configuration){testenv.Impatient, func(c *controller.Configuration) {
		c.Controllers, c.Environments.Exposure = []string{controller.ControllerEnvironments}, "LoadBalancer"
		c.Environments.Domains = map[string][]string{controller.AnyNamespace: {"*.example.com"}}
	}}, changes...)...)
}

var environment, container = builders.Environment, builders.EnvironmentContainer

// small is an environment with a frontend only.
func small(name string) *v1alpha1.Environment {
	e := environment(name)
	e.Spec.Stack = v1alpha1.ApplicationStack{Frontend: e.Spec.Stack.Frontend}
	return e
}

func (s *scene) get(name string) *v1alpha1.Environment {
	s.T.Helper()
	return testenv.Read(s.World, name, &v1alpha1.Environment{})
}

// change changes an environment.
func (s *scene) change(name string, change func(*v1alpha1.Environment)) {
	s.T.Helper()
	testenv.Patch(s.World, &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}, change)
}

// until waits until an environment is as wanted, and returns it.
func (s *scene) until(name, what string, ok func(*v1alpha1.Environment) bool) *v1alpha1.Environment {
	s.T.Helper()
	return testenv.WaitFor(s.World, name, what, ok)
}

// seen is until of the last change of an environment.
func (s *scene) seen(name, what string, ok func(*v1alpha1.Environment) bool) *v1alpha1.Environment {
	s.T.Helper()
	return s.until(name, what, func(e *v1alpha1.Environment) bool { return e.Status.ObservedGeneration == e.Generation && ok(e) })
}

// comes waits until an environment is in a phase, as of its last change.
func (s *scene) comes(name string, phase v1alpha1.EnvironmentPhase) *v1alpha1.Environment {
	s.T.Helper()
	return s.seen(name, string(phase), func(e *v1alpha1.Environment) bool { return e.Status.Phase == phase })
}

// runs creates an environment, and waits until it runs.
func (s *scene) runs(e *v1alpha1.Environment) *v1alpha1.Environment {
	s.T.Helper()
	s.Create(e)
	return s.comes(e.Name, v1alpha1.EnvironmentRunning)
}

// evaluateAgain changes nothing that matters of an environment.
func (s *scene) evaluateAgain(name string) {
	s.T.Helper()
	s.change(name, func(e *v1alpha1.Environment) { e.Spec.Description += "evaluate again" })
}

// deleted deletes an environment, and waits until it is gone.
func (s *scene) deleted(e *v1alpha1.Environment) {
	s.T.Helper()
	s.Delete(e)
	s.WaitDeleted(e)
}

// names are those of the objects of a list in the environment's namespace, sorted.
func (s *scene) names(e *v1alpha1.Environment, list client.ObjectList) []string {
	s.T.Helper()
	return slices.DeleteFunc(s.Names(list, client.InNamespace(e.Status.Namespace)), func(name string) bool {
		return strings.HasPrefix(name, "kube-root-ca")
	})
}

// in reads an object of an environment.
func in[T client.Object](s *scene, e *v1alpha1.Environment, name string, into T) T {
	s.T.Helper()
	return testenv.ReadIn(s.World, e.Status.Namespace, name, into)
}

// namespace is the one that an environment has.
func (s *scene) namespace(e *v1alpha1.Environment) *corev1.Namespace {
	s.T.Helper()
	return testenv.ReadIn(s.World, "", e.Status.Namespace, &corev1.Namespace{})
}

// password is the one that an environment's database has.
func (s *scene) password(e *v1alpha1.Environment) string {
	s.T.Helper()
	return string(in(s, e, "database", &corev1.Secret{}).Data["POSTGRES_PASSWORD"])
}

// claim is that of an environment's database.
func (s *scene) claim(e *v1alpha1.Environment) *corev1.PersistentVolumeClaim {
	s.T.Helper()
	return in(s, e, "database-data", &corev1.PersistentVolumeClaim{})
}

// pods are those of a component that are not on their way out.
func (s *scene) pods(e *v1alpha1.Environment, component string) []corev1.Pod {
	s.T.Helper()
	of := client.MatchingLabels{v1alpha1.EnvironmentComponentLabel: component}
	return slices.DeleteFunc(s.Pods(client.InNamespace(e.Status.Namespace), of), func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// uid is that of a component's pod.
func (s *scene) uid(e *v1alpha1.Environment, component string) types.UID {
	s.T.Helper()
	return s.pods(e, component)[0].UID
}

func condition(e *v1alpha1.Environment, name string) metav1.Condition {
	if c := meta.FindStatusCondition(e.Status.Conditions, name); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// runsOn is the capacity type of the node of a pod.
func (s *scene) runsOn(p *corev1.Pod) string {
	s.T.Helper()
	return testenv.ReadIn(s.World, "", p.Spec.NodeName, &corev1.Node{}).Labels["karpenter.sh/capacity-type"]
}

// rights are checked after all tests.
var rights = testenv.Rights{
	User: cluster.BerthEnvironmentsUser, ClusterRoles: []string{"berth-environments", "berth-environments-services"}, Roles: []string{"berth-environments"},
	Applied: true,
	SometimesUsed: map[string]string{
		"get gateway.networking.k8s.io/httproutes": "whether the name is taken, in the namespace of an environment's object and with a Gateway",

		"patch /events":   "the recorder increments the count of a repeated event",
		"update /secrets": "the Secret of credentials that an update changes: services/environments has tests of that",
		"update berth.dev/environments/finalizers":         "the admission plugin OwnerReferencesPermissionEnforcement checks it, which is off here",
		"create authentication.k8s.io/tokenreviews":        "who reads /metrics and the caller: test/integration/limits/wire",
		"create authorization.k8s.io/subjectaccessreviews": "the same",
	},
}
