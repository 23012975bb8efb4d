// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// installed applies what the chart renders with values but for Berth's own Deployments: the test runs the programs.
func installed(w *testenv.World, values ...string) {
	w.T.Helper()
	w.Tool("kubectl", "apply", "--server-side", "-f", "manifests/rbac/namespace.yaml")
	w.Tool("kubectl", "apply", "--server-side", "-k", "manifests/crds")
	w.Tool("kubectl", "wait", "--for=condition=Established", "--timeout=1m", "--all", "crd")
	values = append(values, "scheduler.replicas=1", "controller.replicas=1", "records.replicas=1", "environments.replicas=1", "crds.install=false")
	manifest := testenv.WriteFile(w.T, "chart.yaml", string(template(w, namespace, values...)))
	w.Tool("kubectl", "apply", "--server-side", "--force-conflicts", "-f", manifest)
	w.T.Cleanup(func() {
		_, err := w.TryTool("kubectl", "delete", "-f", manifest, "--wait", "--timeout=2m", "--ignore-not-found")
		assert.NoError(w.T, err)
		_, err = w.TryTool("kubectl", "delete", "-k", "manifests/crds", "--wait", "--timeout=2m", "--ignore-not-found")
		assert.NoError(w.T, err)
	})
	w.Tool("kubectl", "-n", namespace, "delete", "deployment", "berth-scheduler", "berth-controller", "berth-records", "berth-environments", "--wait", "--ignore-not-found")
}

// features runs the three controllers, as the chart does, with all that works without a caller. They are in the order of programs.
func features(w *testenv.World, changes ...func(*controller.Configuration)) (running []*cluster.Controller) {
	w.T.Helper()
	for _, p := range parts {
		running = append(running, w.NamedController(p.name, append([]func(*controller.Configuration){testenv.Impatient, p.configure}, changes...)...))
	}
	return running
}

// parts are the processes of the companion controller.
var parts = []struct {
	name      string
	configure func(*controller.Configuration)
}{
	{"berth-controller", func(c *controller.Configuration) { c.Mix.Rebalance.Provisioning = v1alpha1.ProvisioningPlaceholder }},
	{"berth-records", func(c *controller.Configuration) { c.Controllers = []string{controller.ControllerRecords} }},
	{"berth-environments", func(c *controller.Configuration) { c.Controllers = []string{controller.ControllerEnvironments} }},
}

var programs = []string{cluster.BerthSchedulerUser, cluster.BerthControllerUser, cluster.BerthRecordsUser, cluster.BerthEnvironmentsUser}

func requireNothingRefused(w *testenv.World, since time.Time) {
	w.T.Helper()
	for _, user := range programs {
		refused := w.AuditAll(func(r testenv.Request) bool {
			return r.User == user && r.Code == 403 && r.At.After(since) && r.Right() != "create /events" // of what goes with its namespace
		})
		assert.Empty(w.T, refused, "requests of %s that the chart's rights or policies refuse", user)
	}
}

// sample is a record and an environment.
func sample() (*v1alpha1.DeploymentRecord, *v1alpha1.Environment) {
	e := builders.Environment("shop")
	e.Spec.Stack = v1alpha1.ApplicationStack{Name: "shop", Version: "1", Backend: e.Spec.Stack.Backend}
	return builders.DeploymentRecord("cart", "add"), e
}

// deployed waits until a record and an environment are.
func deployed(w *testenv.World, r *v1alpha1.DeploymentRecord, e *v1alpha1.Environment) *v1alpha1.Environment {
	w.T.Helper()
	testenv.WaitForIn(w, r.Namespace, r.Name, "it is deployed", func(r *v1alpha1.DeploymentRecord) bool {
		return r.Status.Phase == v1alpha1.PhaseAvailable
	})
	return testenv.WaitFor(w, e.Name, "it runs", func(e *v1alpha1.Environment) bool {
		return e.Status.Phase == v1alpha1.EnvironmentRunning
	})
}

// end deletes objects, one after the other.
func end(w *testenv.World, objects ...client.Object) {
	w.T.Helper()
	for _, o := range objects {
		w.Delete(o)
		w.WaitDeleted(o)
	}
}

// moved places a workload, and moves a part of it to the other type.
func moved(w *testenv.World) {
	w.T.Helper()
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	w.RequireExact("web", split.New(70, 2), 10)
	w.ChangeMix("web", builders.SpotPercent(40))
	w.WaitExact("web", split.New(40, 2), 10, testenv.SettleTimeout)
}

// endsLate delays the end of a pod.
func endsLate(p *corev1.Pod) { p.Annotations[cluster.PodDeleteDelay] = "25s" }

// All features at once: what one may do, the policy of another must not refuse.
func TestEveryFeatureAtOnce(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.StartStock()
	since := time.Now()
	installed(w, "webhook.enabled=true", "services.enabled=true", "records.enabled=true", "environments.enabled=true", "placeholders.enabled=true", "console.enabled=true")
	w.RunScheduler(cluster.ProgramOptions{Binary: schedulerBinary(w), ConfigFile: savedConfig(w)})
	features(w)
	moved(w)

	r, e := sample()
	w.Create(r, e)
	e = deployed(w, r, e)
	for _, p := range w.Pods(client.InNamespace(e.Status.Namespace)) { // that end late by themselves
		testenv.Patch(w, &p, endsLate)
	}
	testenv.Patch(w, e, func(e *v1alpha1.Environment) { e.Spec.RunPolicy, e.Spec.ForceStop = v1alpha1.RunPolicyStopped, true })
	testenv.WaitFor(w, e.Name, "it stops", func(e *v1alpha1.Environment) bool { return e.Status.Phase == v1alpha1.EnvironmentStopped })
	end(w, e, r)
	requireNothingRefused(w, since)
	requireSeparated(w)
}

// Where the configuration names namespaces, the controller can write in no other.
func TestNamespacesNarrowTheRights(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.StartStock()
	since := time.Now()
	second := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "second-"}}
	w.CreateForTest(second)
	installed(w, fmt.Sprintf("controller.config.namespaces={%s,%s}", w.Namespace, second.Name), "environments.config.environments.namespacePerEnvironment=false",
		fmt.Sprintf("environments.config.namespaces={%s,%s}", w.Namespace, second.Name),
		fmt.Sprintf("records.config.namespaces={%s,%s}", w.Namespace, second.Name),
		"services.enabled=true", "records.enabled=true", "environments.enabled=true", "placeholders.enabled=true")
	w.RunScheduler(cluster.ProgramOptions{Binary: schedulerBinary(w), ConfigFile: savedConfig(w)})
	features(w, func(c *controller.Configuration) {
		c.Namespaces, c.Environments.NamespacePerEnvironment = []string{w.Namespace, second.Name}, false
	})

	moved(w)
	r, e := sample()
	r.Namespace, e.Namespace = second.Name, w.Namespace
	w.CreateAsIs(r, e)
	deployed(w, r, e)
	end(w, e, r)
	requireNothingRefused(w, since)

	for user, rights := range map[string][]string{
		cluster.BerthControllerUser: {
			"patch /pods", "create /pods", "delete /pods", "create /pods/eviction",
		},
		cluster.BerthRecordsUser: {
			"create apps/deployments", "patch apps/deployments", "create /services", "delete berth.dev/deploymentrecords",
			"create berth.dev/resourcelimits",
		},
		cluster.BerthEnvironmentsUser: {
			"delete /pods", "get /pods/log", "get /secrets", "create /secrets", "patch /secrets", "delete /secrets", "create apps/deployments",
			"delete apps/statefulsets", "create /services", "delete /persistentvolumeclaims", "update berth.dev/environments",
		},
	} {
		for _, right := range rights {
			for _, ns := range []string{w.Namespace, second.Name} {
				assert.True(t, may(w, user, ns, right), "%s: %s in %s", user, right, ns)
			}
			for _, ns := range []string{"default", "kube-system", namespace} {
				assert.False(t, may(w, user, ns, right), "%s: %s in %s", user, right, ns)
			}
		}
	}
	assert.True(t, may(w, cluster.BerthControllerUser, "default", "list /pods"), "capacity that pods of other namespaces use counts")
	requireSeparated(w)
}

// requireSeparated demands that the programs which evict, bind and preempt can create no Secret and no namespace, and that the one
// which can does none of that.
func requireSeparated(w *testenv.World) {
	w.T.Helper()
	never := map[string][]string{
		cluster.BerthSchedulerUser:    {"create /secrets", "update /secrets", "patch /secrets", "delete /secrets", "get /secrets", "list /secrets", "create /namespaces"},
		cluster.BerthControllerUser:   {"create /secrets", "update /secrets", "patch /secrets", "delete /secrets", "get /secrets", "list /secrets", "create /namespaces", "delete /namespaces"},
		cluster.BerthRecordsUser:      {"create /pods/eviction", "create /pods/binding", "create /pods", "patch /pods", "get /secrets", "create /namespaces"},
		cluster.BerthEnvironmentsUser: {"create /pods/eviction", "create /pods/binding", "create /pods", "patch /pods", "list /secrets"},
	}
	for user, rights := range never {
		for _, right := range rights {
			for _, ns := range []string{"default", w.Namespace, namespace} {
				assert.False(w.T, may(w, user, ns, right), "%s: %s in %s", user, right, ns)
			}
		}
	}
}

// may reports whether a user has a right, such as "create /pods/eviction" or "patch apps/deployments", in a namespace.
func may(w *testenv.World, user, in, right string) bool {
	w.T.Helper()
	verb, what, _ := strings.Cut(right, " ")
	group, what, _ := strings.Cut(what, "/")
	resource, subresource, _ := strings.Cut(what, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: in, Verb: verb, Group: group, Resource: resource, Subresource: subresource},
	}}
	w.CreateAsIs(review)
	return review.Status.Allowed
}
