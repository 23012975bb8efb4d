// SPDX-License-Identifier: Apache-2.0

// Package environments_test has Environments run by the companion controller
// on a real control plane, by their objects and by the gRPC service.
package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Rights: []testenv.Rights{rights}}))
}

// scene is a world with a controller that runs environments.
type scene struct {
	*testenv.World
	process *cluster.Controller
}

func start(t *testing.T, changes ...func(*controller.Configuration)) *scene {
	t.Helper()
	nodes := append(cluster.Nodes("spot", 2), cluster.Nodes("on-demand", 2)...)
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
		for range 3 {
			s.volume()
		}
		return s
	})
	s := &scene{World: host.In(t), process: host.process}
	t.Cleanup(s.release)
	return s
}

// clean has environments go while there is a controller that lets them, and makes volumes for them: nothing here does.
func (s *scene) clean() {
	s.T.Helper()
	for range 3 {
		s.volume()
	}
	s.T.Cleanup(s.release)
}

// volume makes a volume for a claim. None can be claimed twice.
func (s *scene) volume() {
	s.T.Helper()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{GenerateName: s.Namespace + "-"}}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/tmp/" + s.Namespace}
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	require.NoError(s.T, s.Client.Create(s.Ctx, v))
	s.T.Cleanup(func() { _ = s.Client.Delete(context.WithoutCancel(s.Ctx), v) })
}

// serveKinds has the API server know kinds of others until the test ends: the CRDs of a file in testdata.
func (s *scene) serveKinds(file string, crds ...string) {
	s.T.Helper()
	s.ApplyFiles("test/integration/environments/lifecycle/testdata/" + file)
	for _, name := range crds {
		crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
		crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		s.T.Cleanup(func() { s.Delete(crd) })
	}
}

// requestDeletion deletes all environments of the test's namespace, and returns them.
func (s *scene) requestDeletion() []v1alpha1.Environment {
	s.T.Helper()
	var all v1alpha1.EnvironmentList
	require.NoError(s.T, s.Client.List(s.Ctx, &all, client.InNamespace(s.Namespace)))
	for i := range all.Items {
		require.NoError(s.T, client.IgnoreNotFound(s.Client.Delete(s.Ctx, &all.Items[i])))
	}
	return all.Items
}

// deleteAll deletes all environments of the test's namespace, and waits until they are gone.
func (s *scene) deleteAll() {
	s.T.Helper()
	all := s.requestDeletion()
	for i := range all {
		s.gone(&all[i])
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

func container(image string, port int32) v1alpha1.EnvironmentContainer {
	return v1alpha1.EnvironmentContainer{
		Image: image, Ports: []v1alpha1.EnvironmentPort{{ContainerPort: port}}, RestartPolicy: v1alpha1.RestartUnlessStopped,
		Resources: &v1alpha1.EnvironmentResources{CPU: "100m", Memory: "64Mi"},
	}
}

// stack has every kind of component.
func stack() v1alpha1.ApplicationStack {
	return v1alpha1.ApplicationStack{
		Name: "shop", Version: "1",
		Database: &v1alpha1.DatabaseComponent{Container: container("postgres:17", 5432), DatabaseName: "shop", Username: "shop"},
		Backend:  &v1alpha1.BackendComponent{Container: container("node:22", 3000)},
		Frontend: &v1alpha1.FrontendComponent{Container: container("nginx:1.29", 80)},
		AdditionalServices: []v1alpha1.AdditionalService{
			{Name: "redis-cache", Container: container("redis:8", 6379)},
		},
	}
}

func environment(name string) *v1alpha1.Environment {
	return &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.EnvironmentSpec{Stack: stack()}}
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

// comes waits until an environment is in a phase, as of its last change.
func (s *scene) comes(name string, phase v1alpha1.EnvironmentPhase) *v1alpha1.Environment {
	s.T.Helper()
	var e *v1alpha1.Environment
	s.Eventually(fmt.Sprintf("environment %s is %s", name, phase), func() (bool, string) {
		e = s.get(name)
		b, _ := json.Marshal(e.Status)
		return e.Status.ObservedGeneration == e.Generation && e.Status.Phase == phase, string(b)
	})
	return e
}

// gone waits until an environment is not there any more, and its namespace neither.
func (s *scene) gone(e *v1alpha1.Environment) {
	s.T.Helper()
	s.Eventually("environment "+e.Name+" is gone", func() (bool, string) {
		err := s.Client.Get(s.Ctx, client.ObjectKeyFromObject(e), &v1alpha1.Environment{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

// names are those of the objects of a list in the environment's namespace, sorted.
func (s *scene) names(e *v1alpha1.Environment, list client.ObjectList) (names []string) {
	s.T.Helper()
	require.NoError(s.T, s.Client.List(s.Ctx, list, client.InNamespace(e.Status.Namespace)))
	items, err := meta.ExtractList(list)
	require.NoError(s.T, err)
	for _, item := range items {
		if name := item.(client.Object).GetName(); !strings.HasPrefix(name, "kube-root-ca") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (s *scene) deployment(e *v1alpha1.Environment, name string) *appsv1.Deployment {
	s.T.Helper()
	d, err := s.Kube.AppsV1().Deployments(e.Status.Namespace).Get(s.Ctx, name, metav1.GetOptions{})
	require.NoError(s.T, err)
	return d
}

// password is the one that an environment's database has.
func (s *scene) password(e *v1alpha1.Environment) string {
	s.T.Helper()
	secret, err := s.Kube.CoreV1().Secrets(e.Status.Namespace).Get(s.Ctx, "database", metav1.GetOptions{})
	require.NoError(s.T, err)
	return string(secret.Data["POSTGRES_PASSWORD"])
}

// claim is that of an environment's database.
func (s *scene) claim(e *v1alpha1.Environment) *corev1.PersistentVolumeClaim {
	s.T.Helper()
	claim, err := s.Kube.CoreV1().PersistentVolumeClaims(e.Status.Namespace).Get(s.Ctx, "database-data", metav1.GetOptions{})
	require.NoError(s.T, err)
	return claim
}

// pods are those of a component that are not on their way out.
func (s *scene) pods(e *v1alpha1.Environment, component string) (live []corev1.Pod) {
	s.T.Helper()
	list, err := s.Kube.CoreV1().Pods(e.Status.Namespace).List(s.Ctx, metav1.ListOptions{LabelSelector: v1alpha1.EnvironmentComponentLabel + "=" + component})
	require.NoError(s.T, err)
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			live = append(live, list.Items[i])
		}
	}
	return live
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
	n, err := s.Kube.CoreV1().Nodes().Get(s.Ctx, p.Spec.NodeName, metav1.GetOptions{})
	require.NoError(s.T, err)
	return n.Labels["karpenter.sh/capacity-type"]
}
