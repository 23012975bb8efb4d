// SPDX-License-Identifier: Apache-2.0

package profiles_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// rights are checked after all tests.
var rights = testenv.Rights{
	User: cluster.BerthSchedulerUser, ClusterRoles: []string{"berth-scheduler"}, Roles: []string{"berth-scheduler"}, NoneRefused: true,
	NeverUsed: map[string]string{
		"list scheduling.k8s.io/podgroups":         podGroups,
		"watch scheduling.k8s.io/podgroups":        podGroups,
		"patch scheduling.k8s.io/podgroups/status": podGroups,
		"create berth.dev/schedulingdecisions":     "a server-side apply that creates an object, whose request is a patch",
	},
	SometimesUsed: map[string]string{
		"get apps/replicasets":  ownerRead,
		"get apps/statefulsets": ownerRead,
		"get apps/deployments":  ownerRead,
		"get batch/jobs":        ownerRead,

		"patch /events":              eventSeries,
		"patch events.k8s.io/events": eventSeries,

		"get resource.k8s.io/resourceclaims":            "DynamicResources reads a claim again after a conflict",
		"update resource.k8s.io/resourceclaims":         "DynamicResources puts its finalizer on a claim",
		"update resource.k8s.io/resourceclaims/status":  "DynamicResources allocates and reserves a claim",
		"patch resource.k8s.io/resourceclaims/status":   "DynamicResources gives a reservation back",
		"update resource.k8s.io/resourceclaims/binding": "the API server requires it of who allocates and reserves a claim",
		"patch resource.k8s.io/resourceclaims/binding":  "the API server requires it of who gives a reservation back",
		"create resource.k8s.io/resourceclaims":         "DynamicResources makes a claim for extended resources that devices provide",
		"delete resource.k8s.io/resourceclaims":         "DynamicResources deletes that claim if the pod is not bound",
		"list resource.k8s.io/devicetaintrules":         "API servers before 1.37 do not serve them",
		"watch resource.k8s.io/devicetaintrules":        "API servers before 1.37 do not serve them",
	},
}

const (
	ownerRead   = "CapacityMix reads an owner that its watches have not shown yet, which is a matter of milliseconds"
	podGroups   = "for the feature gate GenericWorkload, which mix/gangs turns on"
	eventSeries = "the recorder increments the count of a repeated event"
)

// The rights that no other test of the package uses.
func TestEveryRemainingRightIsUsed(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	readDeployments(w)
	expired := builders.SchedulingDecision("expired", time.Now().Add(-time.Minute))
	w.Create(expired)
	s := asShipped(w, testenv.SecondScheduler, "berth-system", "berth-scheduler")
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	w.RequireExact("web", split.New(70, 2), 10)
	preempt(w)
	bindVolumes(w)
	followPolicies(w)
	w.WaitDeleted(expired)
	w.ReadMetricsAsSomebody(s.URL)
}

// readDeployments starts a scheduler that reads the labels of Deployments.
func readDeployments(w *testenv.World) {
	w.T.Helper()
	o := w.Variant(testenv.SecondScheduler, testenv.PluginArgs("CapacityMix", map[string]any{"annotationPrefixes": []any{"berth.dev", "spotalis.io"}}))
	o.Name = "reads-deployments"
	s := w.RunScheduler(o)
	w.Reaches("watches of Deployments", 1, func() int {
		return len(w.AuditAll(func(r testenv.Request) bool {
			return r.User == cluster.BerthSchedulerUser && r.Resource == "deployments" && r.Verb == "watch"
		}))
	})
	testenv.Kill(s)
}

// preempt has a pod of high priority take the capacity of one without.
func preempt(w *testenv.World) {
	w.T.Helper()
	w.CreateForTest(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000})
	w.AddNodes(cluster.NodeSpec{Name: "small", CapacityType: "on-demand", CPU: "1", Labels: map[string]string{"small": ""}})
	onSmall := builders.OnNodesWith("small", "")
	w.Create(builders.Pod("low", "low", onSmall, builders.CPU("1")))
	w.WaitBound("low", 1)
	w.Create(builders.Pod("high", "high", onSmall, builders.CPU("1"), builders.PriorityClass("high")))
	w.WaitBound("high", 1)
}

// bindVolumes has a pod use a volume that exists, and another one that would
// have to be provisioned on the pod's node.
func bindVolumes(w *testenv.World) {
	w.T.Helper()
	for name, provisioner := range map[string]string{"static": "kubernetes.io/no-provisioner", "dynamic": "example.com/nobody"} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
		w.CreateForTest(class)
		w.Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}})
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "static"}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: "static", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}},
	}}
	w.CreateAsIs(volume)
	w.T.Cleanup(func() { w.Delete(volume, client.GracePeriodSeconds(0)) })
	// Its controller writes to it at first, and whoever binds it meanwhile tries again after a minute.
	testenv.WaitForIn(w, "", "static", "it is available", func(v *corev1.PersistentVolume) bool {
		return v.Status.Phase == corev1.VolumeAvailable
	})
	uses := func(claim string) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) {
			t.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		}
	}
	w.Create(builders.Pod("static", "static", uses("static")), builders.Pod("dynamic", "dynamic", uses("dynamic")))
	w.WaitBound("static", 1)
}

// without makes a user that has the scheduler's rights but for one resource.
func without(w *testenv.World, group, resource string) (user string) {
	w.T.Helper()
	account := builders.ServiceAccount("berth-system", "without-"+resource)
	role := testenv.ReadIn(w, "", "berth-scheduler", &rbacv1.ClusterRole{})
	var less []rbacv1.PolicyRule
	taken := false
	for _, rule := range role.Rules {
		all := len(rule.Resources)
		if rule.APIGroups[0] == group {
			rule.Resources = slices.DeleteFunc(rule.Resources, func(r string) bool { return r == resource })
		}
		taken = taken || len(rule.Resources) < all
		if len(rule.Resources) > 0 {
			less = append(less, rule)
		}
	}
	require.True(w.T, taken, "%s of %q is granted", resource, group)
	reader := builders.RoleBinding(account.Name, "extension-apiserver-authentication-reader", account)
	reader.Namespace = "kube-system"
	w.CreateForTest(append(builders.ClusterGrant(account.Name, account, less...), reader)...)
	return "system:serviceaccount:berth-system:" + account.Name
}

func TestSchedulerIsNotReadyUntilItMayListWhatItNeeds(t *testing.T) {
	w := testenv.New(t)
	for _, c := range []struct{ group, resource string }{
		{"berth.dev", "capacitymixes"},
		{"batch", "jobs"},
		{"apps", "replicasets"},
		{"", "pods"},
		{"resource.k8s.io", "deviceclasses"},
	} {
		w.Run(c.resource, func(t *testing.T, w *testenv.World) {
			o := testenv.SchedulerOptions(testenv.SecondScheduler)
			o.User, o.Name, o.NoWait = without(w, c.group, c.resource), "without-"+c.resource, true
			s := w.RunScheduler(o)
			named := c.resource
			if c.group != "" {
				named += "." + c.group
			}
			w.WaitLogged(s, named+" is forbidden")
			w.Always(testenv.Short, "the scheduler is not ready", func() (bool, string) {
				_, err := s.Get(w.Ctx, "/readyz")
				return err != nil, "ready"
			})
			testenv.Patch(w, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "without-" + c.resource}}, func(r *rbacv1.ClusterRole) {
				r.Rules = append(r.Rules, builders.Rule(c.group, []string{c.resource}, "list", "watch"))
			})
			require.NoError(t, s.WaitReady(w.Ctx))
		})
	}
}

// followPolicies has pods bound under a lock and in two phases, capacity held, and decisions written.
func followPolicies(w *testenv.World) {
	w.T.Helper()
	policy := func(app string, bind v1alpha1.BindRules) *v1alpha1.SchedulingPolicy {
		return builders.SchedulingPolicy(app, func(s *v1alpha1.SchedulingPolicySpec) {
			s.PodSelector.MatchLabels, s.Bind = builders.Labels(app), &bind
			s.Decisions = &v1alpha1.DecisionRules{Record: v1alpha1.RecordAlways, Objects: true}
		})
	}
	w.Create(
		policy("locked", v1alpha1.BindRules{Mode: v1alpha1.BindPessimistic}),
		policy("together", v1alpha1.BindRules{Mode: v1alpha1.BindTwoPhase, GroupSize: new(int32(2))}),
		builders.Reservation("later", "later", "10m"),
	)
	testenv.WaitFor(w, "later", "it is held", func(r *v1alpha1.Reservation) bool { return r.Status.HeldCount == 1 })
	w.Create(builders.Pod("locked", "locked-0"), builders.StatefulSet("together", 2, appsv1.ParallelPodManagement))
	w.WaitBound("locked", 1)
	w.WaitBound("together", 2)
	testenv.WaitFor(w, "locked-0", "its decision is written", func(d *v1alpha1.SchedulingDecision) bool { return d.Attempt.NodeName != "" })
	d := testenv.WaitFor(w, "together-0", "its decision is written", func(d *v1alpha1.SchedulingDecision) bool { return d.Attempt.NodeName != "" })
	assert.Regexp(w.T, "^prepared-", d.Attempt.ReservationName)
	w.Eventually("what was prepared is deleted", func() (bool, string) {
		left := w.Names(&v1alpha1.ReservationList{})
		return len(left) == 1, fmt.Sprint(left)
	})
}
