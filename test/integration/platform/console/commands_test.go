// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// Commands and plans run with the token of the user, and with no other right.
func TestCommandsRunAsTheUser(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	pod := w.RequireExact("web", split.New(70, 2), 10)[0].Name
	s := serve(t, w)
	reading := []string{"events", "configmaps", "namespaces", "persistentvolumes", "persistentvolumeclaims", "services", "replicationcontrollers"}
	more := slices.Concat(viewer, []rbacv1.PolicyRule{
		builders.Rule("", reading, "get", "list"),
		builders.Rule("berth.dev", []string{"capacitymixes"}, "get", "update"),
		{APIGroups: []string{"apps", "policy", "storage.k8s.io", "resource.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"list"}},
	})
	token := s.account("operator", more...)
	b := s.signIn(token).in(w.Namespace)
	at := "/workloads/" + w.Namespace + "/Deployment/web"
	b.shows(at, "/pods/"+w.Namespace+"/"+pod, at+"/history", "What if?")
	b.shows("/pods/"+w.Namespace+"/"+pod, "<dt>Desired</dt>", "7 spot, 3 on-demand", "satisfies its mix")
	b.shows(at+"/history", "Scheduled", pod)
	b.shows("/mixes/"+w.Namespace+"/web/plan?spotPercent=30&minOnDemand=2&maxSpot=", "4 moves, 0 blocked. Nothing was written.")

	stranger := s.signIn(s.account("stranger", viewer...)).in(w.Namespace)
	a := stranger.get(at + "/history")
	assert.Equal(t, http.StatusUnprocessableEntity, a.status)
	assert.Contains(t, a.body, "cannot list resource &#34;events&#34;")
	a = stranger.get("/environments/" + w.Namespace + "/shop/logs")
	assert.Equal(t, http.StatusUnprocessableEntity, a.status)
	log := "/pods/" + w.Namespace + "/" + pod + "/logs"
	a = stranger.get(log)
	assert.Equal(t, http.StatusUnprocessableEntity, a.status)
	assert.Contains(t, a.body, "cannot get resource &#34;pods&#34;")
	nobody := s.browser()
	assert.Contains(t, nobody.get(log+"/follow").body, "The session has ended")
	require.Equal(t, http.StatusSeeOther, nobody.get("/pods/"+w.Namespace+"/"+pod).status)
	assert.Contains(t, nobody.get("/environments/"+w.Namespace+"/shop/logs/follow").body, "The session has ended")
	s.requireNoToken(token)
}

// The log of a pod requires the right to its log, whoever may read the pod. The nodes of the test have no kubelet that would answer.
func TestTheLogOfAPodRequiresTheRightToIt(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 100, 0), builders.Deployment("web", 1))
	pod := w.RequireExact("web", split.New(100, 0), 1)[0]
	s := serve(t, w)
	get := slices.Concat(viewer, []rbacv1.PolicyRule{builders.Rule("", []string{"pods"}, "get")})
	b := s.signIn(s.account("reader", get...)).in(w.Namespace)
	at := "/pods/" + w.Namespace + "/" + pod.Name + "/logs"
	b.shows("/workloads/"+w.Namespace+"/Deployment/web", `<a href="`+at+`"`)
	a := b.get(at)
	assert.Equal(t, http.StatusUnprocessableEntity, a.status)
	assert.Contains(t, a.body, "<option>"+pod.Spec.Containers[0].Name+"</option>")
	assert.Contains(t, a.body, `cannot get resource &#34;pods/log&#34;`)
	s.grant("reader", append(get, builders.Rule("", []string{"pods/log"}, "get"))...)
	s.Eventually("the request for the log reaches the kubelet", func() (bool, string) {
		a := b.get(at)
		return strings.Contains(a.body, "cannot read the log of") && !strings.Contains(a.body, "forbidden"), a.body
	})
}
