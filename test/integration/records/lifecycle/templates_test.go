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
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/testenv"
)

func TestTemplatesSayWhetherTheyCanBeRenderedAndByHowManyRecords(t *testing.T) {
	s := start(t)
	s.template("mine", "{apiVersion: v1, kind: Service, metadata: {name: \"${name}\"}, spec: {ports: [{port: 80}]}}")
	s.template("secret", "{apiVersion: v1, kind: Secret, metadata: {name: \"${name}\"}}")
	status := func(namespace, name string) v1alpha1.DeploymentTemplateStatus {
		var tpl v1alpha1.DeploymentTemplate
		require.NoError(t, s.Client.Get(s.Ctx, types.NamespacedName{Namespace: namespace, Name: name}, &tpl))
		return tpl.Status
	}
	is := func(namespace, name string, accepted metav1.ConditionStatus, records int32) *metav1.Condition {
		t.Helper()
		var c *metav1.Condition
		s.Eventually(fmt.Sprintf("template %s: accepted %s, %d records", name, accepted, records), func() (bool, string) {
			got := status(namespace, name)
			c = meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionAccepted)
			return c != nil && c.Status == accepted && got.RecordCount == records && got.ObservedGeneration == 1, fmt.Sprint(got)
		})
		return c
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
	s.Delete(s.get("a"))
	s.gone("a")
	is(s.Namespace, "mine", metav1.ConditionTrue, 1)

	// What is of the same name in a record's own namespace hides that for all.
	const manifest = "{apiVersion: v1, kind: Service, metadata: {name: \"${name}\"}, spec: {ports: [{port: 80}]}}"
	common := &v1alpha1.DeploymentTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: s.Namespace}}
	common.Spec.Selection.Base = []v1alpha1.BaseScore{{Score: -1000}}
	common.Spec.FunctionManifests = []string{manifest}
	require.NoError(t, s.Client.Create(s.Ctx, common)) // not in the test's namespace
	t.Cleanup(func() { s.Delete(common) })
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
	s.Create(record("cart", "add"))
	s.settled("cart", v1alpha1.PhaseAvailable)
	peers, mode := s.peers("cart")
	require.Empty(t, peers+mode)
}

func TestFunctionsConnectToTheConfiguredZenohRouter(t *testing.T) {
	s := start(t, func(d *controller.Records) { d.Router = "mesh/router:7447" })
	s.Create(record("cart", "add"))
	s.settled("cart", v1alpha1.PhaseAvailable)
	peers, mode := s.peers("cart")
	require.Equal(t, "tcp/router.mesh.svc.cluster.local:7447", peers)
	require.Equal(t, "client", mode)
}
