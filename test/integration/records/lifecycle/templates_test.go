// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/testenv"
)

func TestTemplatesReportValidityAndTheirRecords(t *testing.T) {
	s := start(t)
	s.template("mine", serviceManifest)
	s.template("secret", "{apiVersion: v1, kind: Secret, metadata: {name: \"${name}\"}}")
	status := func(namespace, name string) v1alpha1.DeploymentTemplateStatus {
		return testenv.ReadIn(s.World, namespace, name, &v1alpha1.DeploymentTemplate{}).Status
	}
	is := func(namespace, name string, accepted metav1.ConditionStatus, records int32) *metav1.Condition {
		t.Helper()
		what := fmt.Sprintf("accepted %s, %d records", accepted, records)
		got := testenv.WaitForIn(s.World, namespace, name, what, func(tpl *v1alpha1.DeploymentTemplate) bool {
			c := meta.FindStatusCondition(tpl.Status.Conditions, v1alpha1.ConditionAccepted)
			return c != nil && c.Status == accepted && tpl.Status.RecordCount == records && tpl.Status.ObservedGeneration == 1
		})
		return meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionAccepted)
	}
	is(s.Namespace, "mine", metav1.ConditionTrue, 0)
	c := is(s.Namespace, "secret", metav1.ConditionFalse, 0)
	assert.Equal(t, "InvalidTemplate", c.Reason)
	assert.Contains(t, c.Message, "spec.functionManifests[0].kind")
	s.saw("secret", v1alpha1.EventReasonInvalidTemplate)
	shipped := status("berth-system", "edge")
	assert.True(t, meta.IsStatusConditionTrue(shipped.Conditions, v1alpha1.ConditionAccepted), "%v", shipped)

	s.Create(hinted("a", "mine"), hinted("b", "mine"))
	is(s.Namespace, "mine", metav1.ConditionTrue, 2)
	s.delete("a")
	is(s.Namespace, "mine", metav1.ConditionTrue, 1)

	// What is of the same name in a record's own namespace hides that for all.
	common := onRequest(s.Namespace, serviceManifest)
	common.Namespace = "berth-system"
	s.CreateForTest(common) // not in the test's namespace
	s.Create(hinted("c", s.Namespace))
	is("berth-system", s.Namespace, metav1.ConditionTrue, 1)
	s.template(s.Namespace, serviceManifest)
	is("berth-system", s.Namespace, metav1.ConditionTrue, 0)
	is(s.Namespace, s.Namespace, metav1.ConditionTrue, 1)
}

// A Service of another tenant must not redirect the data plane of records.
func TestAServiceThatLooksLikeAZenohRouterIsNotOne(t *testing.T) {
	s := start(t)
	router := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "router", Labels: map[string]string{"app": "router", "platform": "oaas"}}}
	router.Spec.Ports = []corev1.ServicePort{{Name: "zenoh", Port: 7447}}
	s.Create(router)
	testenv.End(s.process, false)
	s.run() // all that a controller reads of the cluster, it has read before the first record
	s.create(record("cart", "add"))
	require.Empty(t, s.env("cart")["OPRC_ZENOH_PEERS"])
	require.Empty(t, s.env("cart")["OPRC_ZENOH_MODE"])
}

func TestFunctionsConnectToTheConfiguredZenohRouter(t *testing.T) {
	s := start(t, func(d *controller.Records) { d.Router = "mesh/router:7447" })
	s.create(record("cart", "add"))
	require.Equal(t, "tcp/router.mesh.svc.cluster.local:7447", s.env("cart")["OPRC_ZENOH_PEERS"])
	require.Equal(t, "client", s.env("cart")["OPRC_ZENOH_MODE"])
}

// serviceManifest is a manifest of a template.
const serviceManifest = `{apiVersion: v1, kind: Service, metadata: {name: "${name}"}, spec: {ports: [{port: 80}]}}`

// onRequest is a template that only a record's templateHint selects.
func onRequest(name string, manifests ...string) *v1alpha1.DeploymentTemplate {
	t := &v1alpha1.DeploymentTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t.Spec.Selection.Base = []v1alpha1.BaseScore{{Score: -1000}}
	t.Spec.FunctionManifests = manifests
	return t
}

// template makes one of the test's own, that others do not request.
func (s *scene) template(name string, manifests ...string) {
	s.T.Helper()
	s.Create(onRequest(name, manifests...))
}

// hinted is a record that requests a template.
func hinted(name, template string) *v1alpha1.DeploymentRecord {
	r := record(name, "add")
	r.Spec.TemplateHint = template
	return r
}

func TestRefusedRecordsLeaveNothingBehind(t *testing.T) {
	s := share(t)
	s.template("broken", serviceManifest, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: \"${name}\"}, spec: {replicas: -1}}")
	s.template("unknown-field", serviceManifest, "{apiVersion: v1, kind: ConfigMap, metadata: {name: \"${name}\"}, dato: {a: b}}")
	s.template("secret", serviceManifest, "{apiVersion: v1, kind: Secret, metadata: {name: \"${name}\"}}")
	for name, reason := range map[string]string{"broken": "Refused", "unknown-field": "Refused", "secret": "InvalidTemplate"} {
		s.Create(hinted(name, name))
		r := s.settled(name, v1alpha1.PhaseDegraded)
		c := condition(r, v1alpha1.ConditionDegraded)
		assert.Equal(t, reason, c.Reason, c.Message)
		assert.Equal(t, metav1.ConditionFalse, condition(r, v1alpha1.ConditionAvailable).Status)
		s.saw(name, v1alpha1.EventReasonDegraded)
	}
	noImage := record("no-image", "add")
	noImage.Spec.DeploymentUnit.Functions[0].Image = ""
	s.Create(noImage)
	c := s.degraded("no-image")
	assert.Equal(t, "ImageMissing", c.Reason)
	assert.Contains(t, c.Message, "spec.deploymentUnit.functions[add].image")
	assert.Empty(t, s.services(), "nothing half applied")
	assert.Empty(t, s.deployments())

	// What can be deployed again, is.
	s.setImage("no-image", image)
	s.settled("no-image", v1alpha1.PhaseAvailable)
}

// What is known of a template is not tried again. A value that the API server refuses is found when the rest is there, which
// is deleted then.
func TestARecordThatIsRefusedLateLeavesNothingBehind(t *testing.T) {
	s := share(t)
	s.template("known", serviceManifest,
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: \"${name}\"}, spec: {selector: {matchLabels: {app: \"${name}\"}}, "+
			"template: {metadata: {labels: {app: \"${name}\"}}, spec: {containers: [{name: function, image: \"${image}\", resources: \"${resources}\"}]}}}}")
	requesting := func(name, cpu string) *v1alpha1.DeploymentRecord {
		r := hinted(name, "known")
		r.Spec.DeploymentUnit.Functions[0].Resources = &v1alpha1.ResourceAllocation{CPU: cpu, CPULimit: "1"}
		return r
	}
	s.Create(requesting("good", "1"))
	s.settled("good", v1alpha1.PhaseAvailable)
	undone := func() int {
		return len(s.Audit(func(r testenv.Request) bool {
			return r.Name == "bad" && r.Resource == "services" && r.Verb == "delete" && r.OK()
		}))
	}
	s.Create(requesting("bad", "2"))
	r := s.settled("bad", v1alpha1.PhaseDegraded)
	assert.Contains(t, condition(r, v1alpha1.ConditionDegraded).Message, "must be less than or equal to cpu limit")
	assert.Empty(t, r.Status.ResourceRefs)
	testenv.Becomes(s.World, "it is gone again", "[good] [good]", func() string { return fmt.Sprint(s.services(), s.deployments()) })
	testenv.Stays(s.World, 3*time.Second, "it is made and deleted once, and then requested first", 1, undone)
	s.change("bad", func(r *v1alpha1.DeploymentRecord) { r.Spec.DeploymentUnit.Functions[0].Resources.CPU = "500m" })
	s.settled("bad", v1alpha1.PhaseAvailable)
}

// What ran before goes on when a change of it is refused.
func TestARefusedChangeLeavesWhatWasThere(t *testing.T) {
	s := share(t)
	s.create(record("cart", "add"))
	before := s.deployment("cart")
	s.change("cart", func(r *v1alpha1.DeploymentRecord) {
		r.Spec.DeploymentUnit.Functions[0].Image = ""
		r.Spec.DeploymentUnit.Functions = append(r.Spec.DeploymentUnit.Functions, v1alpha1.FunctionSpec{FunctionKey: "b", Image: image})
	})
	r := s.settled("cart", v1alpha1.PhaseDegraded)
	assert.Equal(t, metav1.ConditionTrue, condition(r, v1alpha1.ConditionAvailable).Status, "it still answers")
	assert.Equal(t, []string{"cart"}, s.deployments())
	assert.Equal(t, before.Generation, s.deployment("cart").Generation)
}

func TestAnObjectOfAnotherOwnerIsNotTakenOver(t *testing.T) {
	s := share(t)
	s.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "cart"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}})
	s.Create(record("cart", "add"))
	c := s.degraded("cart")
	assert.Equal(t, "NameTaken", c.Reason)
	assert.Equal(t, "Service cart already exists and belongs to no controller", c.Message)
	assert.Equal(t, int32(1), s.service("cart").Spec.Ports[0].Port)
	assert.Empty(t, s.deployments())
}

func TestADeletedRecordTakesItsChildrenAlong(t *testing.T) {
	s := share(t)
	r := record("cart", "add", "remove")
	r.Spec.Addons = nil
	s.create(r)
	require.Len(t, s.deployments(), 3)
	s.delete("cart")
	assert.Empty(t, s.deployments(), "the children are gone before the record is")
	assert.Empty(t, s.services())
}

// A record that could never be rendered can be deleted all the same.
func TestADegradedRecordCanBeDeleted(t *testing.T) {
	s := share(t)
	r := record("cart", "add")
	r.Spec.DeploymentUnit.Functions[0].Image = ""
	s.Create(r)
	s.settled("cart", v1alpha1.PhaseDegraded)
	s.delete("cart")
}

func odgmConfig(c *v1alpha1.ODGMConfig) func(*v1alpha1.DeploymentRecord) {
	return func(r *v1alpha1.DeploymentRecord) { r.Spec.ODGMConfig = c }
}

func TestInvalidSpecsAreRefusedByField(t *testing.T) {
	s := share(t)
	for want, change := range map[string]func(*v1alpha1.DeploymentRecord){
		"spec.deploymentUnit.functions[0].functionKey":      func(r *v1alpha1.DeploymentRecord) { r.Spec.DeploymentUnit.Functions[0].FunctionKey = "" },
		"addons must be lower-case letters, digits and '-'": func(r *v1alpha1.DeploymentRecord) { r.Spec.Addons = &[]v1alpha1.Addon{"Mesh"} },
		"availability must be a decimal number from 0 to 1, such as 0.999, not '99.9'": func(r *v1alpha1.DeploymentRecord) {
			r.Spec.NFRRequirements = &v1alpha1.NFRRequirements{Availability: new("99.9")}
		},
		"maxScale must not be below minScale": func(r *v1alpha1.DeploymentRecord) {
			r.Spec.DeploymentUnit.Functions[0].MinScale, r.Spec.DeploymentUnit.Functions[0].MaxScale = new(int32(3)), new(int32(2))
		},
		"readinessProbe.path: Invalid value: path requires the type HTTP": func(r *v1alpha1.DeploymentRecord) {
			r.Spec.DeploymentUnit.Functions[0].ReadinessProbe = &v1alpha1.FunctionProbe{Type: v1alpha1.ProbeTCP, Path: "/ready"}
		},
		"livenessProbe.path: Required value: path is required for the type HTTP": func(r *v1alpha1.DeploymentRecord) {
			r.Spec.DeploymentUnit.Functions[0].LivenessProbe = &v1alpha1.FunctionProbe{Type: v1alpha1.ProbeHTTP}
		},
		"livenessProbe.periodSeconds: Invalid value: 3601": func(r *v1alpha1.DeploymentRecord) {
			r.Spec.DeploymentUnit.Functions[0].LivenessProbe = &v1alpha1.FunctionProbe{PeriodSeconds: 3601}
		},
		"cpu must be a quantity above 0, such as 500m or 2, not 'lots'": func(r *v1alpha1.DeploymentRecord) {
			r.Spec.ResourceAllocation = &v1alpha1.ResourceAllocation{CPU: "lots"}
		},
		"nodeID must be at most 18446744073709551615": odgmConfig(&v1alpha1.ODGMConfig{NodeID: new(v1alpha1.NodeID("18446744073709551616"))}),
		"nodeIDs must be at most 18446744073709551615 each": odgmConfig(&v1alpha1.ODGMConfig{
			NodeIDs: map[string]v1alpha1.NodeIDs{"edge": {"1", "99999999999999999999"}},
		}),
		"assignments.c[0].primary: Invalid value: \"007\"": odgmConfig(&v1alpha1.ODGMConfig{
			Assignments: map[string]v1alpha1.ShardAssignments{"c": {{Primary: new(v1alpha1.NodeID("007"))}}},
		}),
		"shardIDs must be at most 18446744073709551615 each": odgmConfig(&v1alpha1.ODGMConfig{
			Assignments: map[string]v1alpha1.ShardAssignments{"c": {{ShardIDs: v1alpha1.NodeIDs{"18446744073709551616"}}}},
		}),
		"activeGroup must be at most 18446744073709551615 each": odgmConfig(&v1alpha1.ODGMConfig{
			Invocations: &v1alpha1.InvocationRoutes{Routes: map[string]v1alpha1.FunctionRoute{"add": {ActiveGroup: v1alpha1.NodeIDs{"18446744073709551616"}}}},
		}),
		"Duplicate value": func(r *v1alpha1.DeploymentRecord) {
			r.Spec.DeploymentUnit.Functions = append(r.Spec.DeploymentUnit.Functions, r.Spec.DeploymentUnit.Functions[0])
		},
	} {
		r := record("cart", "add")
		change(r)
		r.Namespace = s.Namespace
		err := s.Client.Create(s.Ctx, r)
		require.True(t, apierrors.IsInvalid(err), "%s: %v", want, err)
		assert.ErrorContains(t, err, want)
	}
}
