// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

func TestARecordBecomesAvailable(t *testing.T) {
	s := start(t)
	r := record("cart", "add")
	r.Annotations = map[string]string{v1alpha1.CorrelationIDAnnotation: "abc-123"}
	r = s.create(r)
	assert.Equal(t, []string{"cart"}, s.deployments())
	assert.Equal(t, []string{"cart"}, s.services())
	d, svc := s.deployment("cart"), s.service("cart")
	for _, o := range []client.Object{d, svc} {
		assert.True(t, metav1.IsControlledBy(o, r))
		assert.Equal(t, "cart", o.GetLabels()[v1alpha1.OwnerLabel])
		assert.Equal(t, "function", o.GetLabels()[v1alpha1.ComponentLabel])
		assert.Equal(t, "cart", o.GetLabels()["app"])
	}
	assert.Equal(t, "berth-scheduler", d.Spec.Template.Spec.SchedulerName)
	assert.Equal(t, int32(80), d.Spec.Template.Spec.Containers[0].ReadinessProbe.TCPSocket.Port.IntVal)
	assert.Nil(t, d.Spec.Template.Spec.Containers[0].LivenessProbe)
	assert.Equal(t, int32(80), svc.Spec.Ports[0].Port)
	assert.Equal(t, []string{v1alpha1.RecordFinalizer}, r.Finalizers)

	assert.Equal(t, "Available", r.Status.Message)
	assert.Equal(t, "edge", r.Status.Template, "no rule for the place: the first of equal ones")
	for name, is := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionAvailable: metav1.ConditionTrue, v1alpha1.ConditionProgressing: metav1.ConditionFalse, v1alpha1.ConditionDegraded: metav1.ConditionFalse,
	} {
		assert.Equal(t, is, condition(r, name).Status, name)
		assert.Equal(t, r.Generation, condition(r, name).ObservedGeneration, name)
	}
	require.Len(t, r.Status.Functions, 1)
	f := r.Status.Functions[0]
	assert.Equal(t, []any{"add", "cart", int32(80), int32(1), int32(1), true}, []any{f.FunctionKey, f.Service, f.Port, f.Replicas, f.ReadyReplicas, f.Ready})
	assert.Equal(t, "http://cart."+s.Namespace+".svc.cluster.local/", f.URL)
	require.Len(t, r.Status.ResourceRefs, 2)
	assert.Equal(t, "Deployment", r.Status.ResourceRefs[0].Kind)
	assert.Equal(t, string(d.UID), r.Status.ResourceRefs[0].UID)
	assert.Nil(t, r.Status.ODGM)
	s.saw("cart", v1alpha1.EventReasonApplied, v1alpha1.EventReasonAvailable)
	assert.Contains(t, s.process.LogTail(400), "abc-123", "the correlation id is in the log")
	// What the controller itself does is measured too.
	for metric, labels := range map[string]map[string]string{
		"controller_runtime_reconcile_time_seconds_count": {"controller": "deploymentrecord"},
		"controller_runtime_reconcile_total":              {"controller": "deploymentrecord"},
		"workqueue_adds_total":                            {"name": "deploymentrecord"},
		"berth_records_status_writes_total":               nil,
	} {
		assert.Positive(t, s.Metric(s.process, metric, labels), metric)
	}
	assert.Zero(t, s.Metric(s.process, "controller_runtime_reconcile_errors_total", map[string]string{"controller": "deploymenttemplate"}))
	for _, e := range s.Events("cart") {
		if e.InvolvedObject.Kind == "DeploymentRecord" {
			assert.Equal(t, "abc-123", e.Annotations[v1alpha1.CorrelationIDAnnotation], e.Reason)
		}
	}
}

func TestFunctionsComeAndGo(t *testing.T) {
	s := share(t)
	s.create(record("cart", "add", "remove"))
	require.Equal(t, []string{"cart-fn-0", "cart-fn-1"}, s.deployments())
	kept := s.deployment("cart-fn-1")

	s.change("cart", func(r *v1alpha1.DeploymentRecord) {
		r.Spec.DeploymentUnit.Functions = r.Spec.DeploymentUnit.Functions[1:]
	})
	testenv.Becomes(s.World, "the children of the function are gone", "[cart-fn-1] [cart-fn-1]", func() string { return fmt.Sprint(s.deployments(), s.services()) })
	r := s.settled("cart", v1alpha1.PhaseAvailable)
	assert.Equal(t, kept.UID, s.deployment("cart-fn-1").UID, "the other one was not touched")
	assert.Equal(t, kept.Generation, s.deployment("cart-fn-1").Generation)
	assert.Len(t, r.Status.ResourceRefs, 2)
	s.saw("cart", v1alpha1.EventReasonPruned)
}

func TestTheODGMIsAWorkloadOfItsOwn(t *testing.T) {
	s := share(t)
	r := record("cart", "add")
	r.Spec.Addons = nil
	r.Spec.ODGMConfig = &v1alpha1.ODGMConfig{Collections: []string{"carts"}}
	r = s.create(r)
	assert.Equal(t, []string{"cart", "cart-odgm"}, s.deployments())
	assert.Equal(t, &v1alpha1.ODGMStatus{Service: "cart-odgm-svc", Address: "cart-odgm-svc:8080", Ready: true}, r.Status.ODGM)
	// The Service that is advertised has that port, and endpoints that serve it.
	assert.Equal(t, int32(8080), s.service("cart-odgm-svc").Spec.Ports[1].Port)
	s.Eventually("the address has endpoints on that port", func() (bool, string) {
		list := testenv.List(s.World, &discoveryv1.EndpointSliceList{}, client.MatchingLabels{discoveryv1.LabelServiceName: "cart-odgm-svc"})
		for i := range list.Items {
			for _, p := range list.Items[i].Ports {
				if *p.Port == 8080 && len(list.Items[i].Endpoints) > 0 {
					return true, ""
				}
			}
		}
		return false, fmt.Sprint(list.Items)
	})
	assert.Equal(t, map[string]string{
		"ODGM_ENABLED": "true", "ODGM_SERVICE": "cart-odgm-svc:8080", "ODGM_COLLECTIONS": "carts", "HTTP_PORT": "80",
	}, s.env("cart"))
}

// No image of a third party is run by default: the condition names the field.
func TestTheODGMNeedsAnImage(t *testing.T) {
	s := start(t, func(d *controller.Records) { d.ODGMImage = "" })
	r := record("cart", "add")
	r.Spec.Addons = nil
	s.Create(r, record("plain", "add"))
	c := s.degraded("cart")
	assert.Equal(t, "ImageMissing", c.Reason)
	assert.Contains(t, c.Message, "records.odgmImage")
	s.settled("plain", v1alpha1.PhaseAvailable)
	assert.Equal(t, []string{"plain"}, s.deployments())
}

// An ODGM that runs with an image which the configuration has no more is not removed: it has data.
func TestAnODGMStaysWithoutItsImage(t *testing.T) {
	s := start(t)
	r := record("cart", "add")
	r.Spec.Addons = nil
	s.create(r)
	before := s.deployment("cart-odgm")

	s.restart(func(d *controller.Records) { d.ODGMImage = "" })
	assert.Equal(t, "ImageMissing", s.degraded("cart").Reason)
	assert.Equal(t, []string{"cart", "cart-odgm"}, s.deployments())
	after := s.deployment("cart-odgm")
	assert.Equal(t, before.UID, after.UID)
	assert.Equal(t, before.Generation, after.Generation)
}

func TestTheODGMIsOffByProfile(t *testing.T) {
	s := start(t, func(d *controller.Records) { d.Profile = "dev" })
	r := record("cart", "add")
	r.Spec.Addons = nil
	asks := record("asks", "add")
	asks.Spec.Addons = &[]v1alpha1.Addon{v1alpha1.AddonODGM}
	s.Create(r, asks)
	r = s.settled("cart", v1alpha1.PhaseAvailable)
	assert.Equal(t, "dev", r.Status.Template)
	asks = s.settled("asks", v1alpha1.PhaseDegraded)
	assert.Equal(t, "ODGMOff", condition(asks, v1alpha1.ConditionDegraded).Reason)
	assert.Equal(t, []string{"cart"}, s.deployments())
}

func TestFieldsThatOthersAddStay(t *testing.T) {
	s := share(t)
	s.create(record("cart", "add"))
	d := s.deployment("cart")
	testenv.Patch(s.World, d, func(d *appsv1.Deployment) {
		d.Annotations["somebody"] = "was here"
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar", Image: "sidecar:1"})
	})
	s.setImage("cart", newImage)
	testenv.Becomes(s.World, "the change is there", newImage, func() string { return s.image("cart") })
	d = s.deployment("cart")
	assert.Equal(t, "was here", d.Annotations["somebody"])
	assert.Len(t, d.Spec.Template.Spec.Containers, 2)

	// What is ours comes back.
	testenv.Patch(s.World, d, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "other:1" })
	testenv.Becomes(s.World, "the image is back", newImage, func() string { return s.image("cart") })
	s.Delete(s.service("cart"))
	testenv.Becomes(s.World, "the Service is back", 1, func() int { return len(s.services()) })

	// What was ours and is not requested any more goes, and nothing else does.
	variables := func() string { return strings.Join(slices.Sorted(maps.Keys(s.env("cart"))), " ") }
	s.change("cart", func(r *v1alpha1.DeploymentRecord) {
		r.Spec.DeploymentUnit.Functions[0].Config = map[string]v1alpha1.ConfigValue{"KEPT": "1", "LEAVING": "1"}
	})
	testenv.Becomes(s.World, "both are there", "HTTP_PORT KEPT LEAVING", variables)
	s.change("cart", func(r *v1alpha1.DeploymentRecord) { delete(r.Spec.DeploymentUnit.Functions[0].Config, "LEAVING") })
	testenv.Becomes(s.World, "one has gone", "HTTP_PORT KEPT", variables)
	assert.Len(t, s.deployment("cart").Spec.Template.Spec.Containers, 2)
}

// A controller that starts again finds everything as it should be, and writes nothing.
func TestASettledRecordIsNotWritten(t *testing.T) {
	s := start(t)
	for i := range 5 {
		r := record(fmt.Sprint("cart-", i), "add", "remove")
		r.Spec.Addons = nil
		r.Spec.NFRRequirements = &v1alpha1.NFRRequirements{Availability: new("0.999")}
		r.Spec.ResourceAllocation = &v1alpha1.ResourceAllocation{CPU: "0.1", Memory: "1Gi"}
		s.Create(r)
	}
	for i := range 5 {
		s.settled(fmt.Sprint("cart-", i), v1alpha1.PhaseAvailable)
	}
	testenv.End(s.process, true)
	s.DropLease("berth-system", "berth-records")
	ours := func() []testenv.Request {
		return s.Audit(func(r testenv.Request) bool {
			return r.Write() && r.User == cluster.BerthRecordsUser && r.Resource != "events" &&
				(r.Resource == "deploymentrecords/status" || !strings.HasSuffix(r.Resource, "/status"))
		})
	}
	before := len(ours())
	require.NotZero(t, before)
	s.run()
	// It has looked at all of them once it makes something of a new one.
	s.Create(record("last", "add"))
	s.settled("last", v1alpha1.PhaseAvailable)
	assert.Empty(t, slices.DeleteFunc(ours()[before:], func(r testenv.Request) bool { return strings.HasPrefix(r.Name, "last") }))
}
