// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/test/clitest"
)

// reservation is one of CPU for the pods of an app that the scheduler has seen.
func reservation(name string, age time.Duration, changes ...func(*v1alpha1.Reservation)) v1alpha1.Reservation {
	r := v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 1, CreationTimestamp: clitest.Ago(age)}}
	r.Spec.PodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": name}}
	r.Spec.CPU = new(resource.MustParse("500m"))
	r.Status.ObservedGeneration = 1
	for _, change := range changes {
		change(&r)
	}
	return r
}

// status sets the condition Reserved and the nodes on which capacity is held, as node or node/pod.
func status(reserved metav1.ConditionStatus, reason, message string, holds ...string) func(*v1alpha1.Reservation) {
	return func(r *v1alpha1.Reservation) {
		r.Status.Conditions = []metav1.Condition{clitest.Condition(v1alpha1.ConditionReserved, reserved, reason, message)}
		for _, h := range holds {
			node, pod, used := strings.Cut(h, "/")
			r.Status.Holds = append(r.Status.Holds, v1alpha1.Hold{NodeName: node, PodName: pod, PodUID: pod})
			if used {
				r.Status.UsedCount++
			} else {
				r.Status.HeldCount++
			}
		}
	}
}

// shop has a Reservation in each state.
func shop() []v1alpha1.Reservation {
	return []v1alpha1.Reservation{
		reservation("web", 17*time.Minute, func(r *v1alpha1.Reservation) {
			r.Spec.Memory = new(resource.MustParse("1Gi"))
		}, status(metav1.ConditionTrue, v1alpha1.ReasonReserved, "capacity for all replicas is held or used", "n1")),
		reservation("release", 30*time.Minute, func(r *v1alpha1.Reservation) {
			r.Spec.PodSelector.MatchExpressions = []v1alpha1.PodSelectorRequirement{{Key: "track", Operator: v1alpha1.PodSelectorOpNotIn, Values: []string{"canary"}}}
			r.Spec.Replicas, r.Spec.ExpirationSeconds, r.Spec.AllocateOnce = new(int32(7)), new(int32(86400)), new(false)
			r.Spec.ExtendedResources = map[string]int64{"nvidia.com/gpu": 2}
			r.Spec.SchedulerName = "default-scheduler"
		}, status(metav1.ConditionFalse, v1alpha1.ReasonUnschedulable, "capacity for 6 of 7 replicas is held or used: 0/4 nodes are available",
			"n2", "n1/release-1", "n2", "n4", "n3", "n1")),
		reservation("any", 61*time.Minute, func(r *v1alpha1.Reservation) {
			r.Spec.PodSelector = &v1alpha1.PodSelector{}
		}, status(metav1.ConditionFalse, v1alpha1.ReasonExpired, "the capacity is released")),
		reservation("one", 2*time.Minute, func(r *v1alpha1.Reservation) {
			r.Spec.PodSelector, r.Spec.PodName, r.Spec.ExpirationSeconds = nil, "db-0", new(int32(120))
		}, status(metav1.ConditionFalse, v1alpha1.ReasonUsed, "pods have used the capacity", "n1/db-0")),
		reservation("changed", time.Minute, func(r *v1alpha1.Reservation) { r.Generation = 2 },
			status(metav1.ConditionTrue, v1alpha1.ReasonReserved, "capacity for all replicas is held or used", "n1")),
		reservation("new", time.Second, func(r *v1alpha1.Reservation) { r.Status = v1alpha1.ReservationStatus{} }),
	}
}

// pointers are Reservations as a list command reads them.
func pointers(list []v1alpha1.Reservation) (all []*v1alpha1.Reservation) {
	for i := range list {
		all = append(all, &list[i])
	}
	return all
}

func TestReservations(t *testing.T) {
	clitest.Goldens(t, "reservations.stderr", map[string]string{
		"reservations.txt": printers.Text, "reservations-wide.txt": printers.Wide, "reservations.json": printers.JSON,
		"reservations.yaml": printers.YAML, "reservations.names": printers.Name,
	}, func(o *command.Options) error { return reservationKind.Show(o, pointers(shop()), "shop") })
	out, _ := clitest.Printed(t, printers.Text, func(o *command.Options) error { return reservationKind.Show(o, pointers(shop()[:2]), "") })
	clitest.Golden(t, "reservations-all-namespaces.txt", out)
	out, errOut := clitest.Printed(t, printers.Text, func(o *command.Options) error { return reservationKind.Show(o, nil, "shop") })
	assert.Empty(t, out)
	assert.Equal(t, "No reservations found in namespace shop.\n", errOut)
}

// placeholderOf is what --placeholder prints of a Reservation.
func placeholderOf(t *testing.T, r v1alpha1.Reservation) string {
	t.Helper()
	c := clitest.Client(t, interceptor.Funcs{}, &r)
	out, errOut := clitest.Printed(t, printers.Text, func(o *command.Options) error {
		return runPlaceholder(t.Context(), o, c, "shop", "reservation.berth.dev/"+r.Name)
	})
	assert.Empty(t, errOut)
	return out
}

// objectsOf are the objects of what --placeholder prints. An unknown field is an error.
func objectsOf(t *testing.T, text string) (*schedulingv1.PriorityClass, *appsv1.Deployment) {
	t.Helper()
	documents := strings.Split(text, "---\n")
	require.Len(t, documents, 2)
	class, d := &schedulingv1.PriorityClass{}, &appsv1.Deployment{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[0]), class))
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[1]), d))
	return class, d
}

func TestThePlaceholderOfAReservation(t *testing.T) {
	clitest.Golden(t, "placeholder.yaml", placeholderOf(t, reservation("web", time.Minute)))
	text := placeholderOf(t, reservation("gpu", time.Minute, func(r *v1alpha1.Reservation) {
		r.Spec.Replicas, r.Spec.Memory = new(int32(3)), new(resource.MustParse("1Gi"))
		r.Spec.EphemeralStorage = new(resource.MustParse("10Gi"))
		r.Spec.ExtendedResources = map[string]int64{"nvidia.com/gpu": 2}
		r.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		r.Spec.Tolerations = []v1alpha1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
		r.Spec.SchedulerName = "default-scheduler"
	}))
	clitest.Golden(t, "placeholder-all-fields.yaml", text)
	class, d := objectsOf(t, text)
	assert.Equal(t, d.Spec.Template.Spec.PriorityClassName, class.Name)
	assert.Equal(t, d.Spec.Selector.MatchLabels["app.kubernetes.io/name"], d.Spec.Template.Labels["app.kubernetes.io/name"])

	o, _, _ := clitest.Screen(printers.Text)
	none := clitest.Client(t, interceptor.Funcs{})
	require.EqualError(t, runPlaceholder(t.Context(), o, none, "shop", "none"), `reservations.berth.dev "none" not found`)
}

// The manifests of Berth have the same PriorityClass, and a PriorityClass cannot be changed.
func TestThePriorityClassIsTheOneOfTheManifests(t *testing.T) {
	manifests, err := os.ReadFile("../../../manifests/rbac/placeholders/controller.yaml")
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(manifests), "---\n")
	shipped := &schedulingv1.PriorityClass{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(first), shipped))
	class, _ := objectsOf(t, placeholderOf(t, reservation("web", time.Minute)))
	assert.Equal(t, shipped, class)
}

func TestTheNameOfAPlaceholderIsAValidLabel(t *testing.T) {
	long := strings.Repeat("a", 51)
	assert.Equal(t, "reservation-"+long, deploymentName(long))
	for _, name := range []string{long + "b", long + "c", strings.Repeat("a", 39) + ".b" + strings.Repeat("c", 200)} {
		got := deploymentName(name)
		assert.Empty(t, validation.IsDNS1123Subdomain(got), got)
		assert.Empty(t, validation.IsValidLabelValue(got), got)
		assert.LessOrEqual(t, len(got), 63)
	}
	assert.NotEqual(t, deploymentName(long+"b"), deploymentName(long+"c"))
}

func TestReservationsThatAreNotServedAreExplained(t *testing.T) {
	c := clitest.Client(t, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: v1alpha1.GroupName, Kind: "Reservation"}}
	}})
	o, _, _ := clitest.Screen(printers.Text)
	require.EqualError(t, runPlaceholder(t.Context(), o, c, "shop", "web"), "the API server does not serve reservations.berth.dev: is Berth installed?")
}
