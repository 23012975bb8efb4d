// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/testenv"
)

func TestTemplatesSayWhetherTheyCanBeRenderedAndByHowManyRecords(t *testing.T) {
	s := start(t)
	s.template("mine", "{apiVersion: v1, kind: Service, metadata: {name: \"${name}\"}, spec: {ports: [{port: 80}]}}")
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

	for _, name := range []string{"a", "b"} {
		r := record(name, "add")
		r.Spec.TemplateHint = "mine"
		s.Create(r)
	}
	is(s.Namespace, "mine", metav1.ConditionTrue, 2)
	s.delete("a")
	is(s.Namespace, "mine", metav1.ConditionTrue, 1)

	// What is of the same name in a record's own namespace hides that for all.
	const manifest = "{apiVersion: v1, kind: Service, metadata: {name: \"${name}\"}, spec: {ports: [{port: 80}]}}"
	common := &v1alpha1.DeploymentTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: s.Namespace}}
	common.Spec.Selection.Base = []v1alpha1.BaseScore{{Score: -1000}}
	common.Spec.FunctionManifests = []string{manifest}
	s.CreateForTest(common) // not in the test's namespace
	r := record("c", "add")
	r.Spec.TemplateHint = s.Namespace
	s.Create(r)
	is("berth-system", s.Namespace, metav1.ConditionTrue, 1)
	s.template(s.Namespace, manifest)
	is("berth-system", s.Namespace, metav1.ConditionTrue, 0)
	is(s.Namespace, s.Namespace, metav1.ConditionTrue, 1)
}

// peers are the zenoh variables of the function of a record.
func (s *scene) peers(name string) (peers, mode string) {
	s.T.Helper()
	for _, e := range s.deployment(name).Spec.Template.Spec.Containers[0].Env {
		switch e.Name {
		case "OPRC_ZENOH_PEERS":
			peers = e.Value
		case "OPRC_ZENOH_MODE":
			mode = e.Value
		}
	}
	return peers, mode
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
	peers, mode := s.peers("cart")
	require.Empty(t, peers+mode)
}

func TestFunctionsConnectToTheConfiguredZenohRouter(t *testing.T) {
	s := start(t, func(d *controller.Records) { d.Router = "mesh/router:7447" })
	s.create(record("cart", "add"))
	peers, mode := s.peers("cart")
	require.Equal(t, "tcp/router.mesh.svc.cluster.local:7447", peers)
	require.Equal(t, "client", mode)
}
