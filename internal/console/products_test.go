// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

func environment() *v1alpha1.Environment {
	e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop"}}
	e.Spec.DisplayName, e.Spec.Description, e.Spec.Stack.Name = "My shop", "for tests", "web-postgres"
	e.Status = v1alpha1.EnvironmentStatus{
		Phase: v1alpha1.EnvironmentFailed, Message: "the backend is not ready", Namespace: "env-shop-1", Ready: "1/2", Revision: 3,
		Components: []v1alpha1.EnvironmentComponentStatus{
			{Name: "database", Stage: 1, Replicas: 1, ReadyReplicas: 1, Ready: true},
			{Name: "backend", Stage: 3, Replicas: 2, Restarts: 7, Reason: "CrashLoopBackOff", Message: "exit code 3"},
		},
		Ports:      []v1alpha1.AllocatedPort{{Component: "frontend", ContainerPort: 80, HostPort: 30080, Protocol: "TCP"}},
		Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Reason: "ComponentsNotReady"}},
		UpdatedAt:  new(metav1.NewTime(time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC))),
	}
	return e
}

func record() *v1alpha1.DeploymentRecord {
	r := &v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "cart"}}
	r.Spec.DeploymentUnit.ClassKey, r.Spec.DeploymentUnit.ID, r.Spec.TargetEnvironment = "shop.Cart", "cart-1", "prod"
	r.Status = v1alpha1.DeploymentRecordStatus{
		Phase: v1alpha1.PhaseAvailable, Template: "k8s-deployment",
		Functions: []v1alpha1.FunctionStatus{
			{FunctionKey: "add", Replicas: 2, ReadyReplicas: 2, Ready: true, URL: "http://cart-fn-0.team.svc"},
			{FunctionKey: "pay", Replicas: 1, Reason: "NoEndpoints"},
		},
		ODGM:          &v1alpha1.ODGMStatus{Address: "http://cart-odgm-svc:8080", Ready: true},
		ResourceRefs:  []v1alpha1.ResourceRef{{Kind: "Deployment", Name: "cart-fn-0"}},
		NFRCompliance: &v1alpha1.NFRCompliance{Overall: "Violated", Latency: "Violated"},
		NFRRecommendations: []v1alpha1.NFRRecommendation{
			{Component: "add", Dimension: v1alpha1.DimensionCPU, Target: 1500, Basis: "p99 of 300 ms", ConfidencePercent: 80},
			{Component: "add", Dimension: v1alpha1.DimensionMemory, Target: 512 << 20},
			{Component: "add", Dimension: v1alpha1.DimensionReplicas, Target: 4},
		},
		LastApplied: []v1alpha1.AppliedRecommendation{{
			NFRRecommendation: v1alpha1.NFRRecommendation{Component: "add", Dimension: v1alpha1.DimensionReplicas, Target: 4}, Value: 3,
		}},
	}
	return r
}

// shown is what a path shows of a record and an environment.
func shownAt(t *testing.T, path string, r *v1alpha1.DeploymentRecord, e *v1alpha1.Environment) string {
	t.Helper()
	at, err := url.Parse(path)
	require.NoError(t, err)
	reading := &overview.Reading{Overview: overviewOf(), Records: []*v1alpha1.DeploymentRecord{r}, Environments: []*v1alpha1.Environment{e}}
	p, err := pageOf(at, &state{Reading: reading, rows: &sync.Map{}})
	require.NoError(t, err)
	page := ""
	for _, part := range p.parts {
		page += string(part.HTML())
	}
	return page
}

func TestTheCountOfAForbiddenListIsUnknown(t *testing.T) {
	of := map[string]struct{ noun, resource string }{
		"/limits": {"resource limit", overview.LimitsResource}, "/records": {"deployment record", overview.RecordsResource},
		"/environments": {"environment", overview.EnvironmentsResource},
	}
	for path, list := range of {
		shown := func(unread ...string) string {
			p, err := pageOf(&url.URL{Path: path}, &state{Reading: &overview.Reading{Overview: overviewOf(), Unread: unread}, rows: &sync.Map{}})
			require.NoError(t, err)
			page := ""
			for _, part := range p.parts {
				page += string(part.before) + string(part.after)
			}
			return page
		}
		assert.Contains(t, shown(), "<p>0 "+list.noun+"s</p>")
		assert.Contains(t, shown("nodes"), "<p>0 "+list.noun+"s</p>")
		page := shown("nodes", list.resource)
		assert.Contains(t, page, "<p>The number of "+list.noun+"s is unknown: they could not be listed.</p>")
		assert.NotContains(t, page, "0 "+list.noun)
	}
	// The limits of another namespace could not be listed.
	assert.Equal(t, "2 resource limits and those that could not be listed", limitList.count(2, &overview.Reading{Unread: []string{overview.LimitsResource}}))
}

func TestRecordsAndEnvironmentsAreShown(t *testing.T) {
	for path, wants := range map[string][]string{
		"/environments": {
			`<a href="/environments/team/shop">shop</a>`, "My shop", `<span class="badge bad">✗ Failed</span>`, "the backend is not ready", ">1/2</td>", ">3</td>",
		},
		"/environments/team/shop": {
			"for tests", "env-shop-1", "2026-11-27 08:00:00 UTC", `data-label="Restarts">7</td>`, "CrashLoopBackOff",
			"exit code 3", "frontend: 30080 from outside to 80, TCP", "False, ComponentsNotReady", "kubectl berth env logs shop --namespace team",
		},
		"/records": {`<a href="/records/team/cart">cart</a>`, "shop.Cart", "k8s-deployment", `<span class="badge ok">✓ Available</span>`, ">1/2</td>"},
		"/records/team/cart": {
			"cart-1", "prod", "http://cart-fn-0.team.svc", "NoEndpoints", "ODGM", "http://cart-odgm-svc:8080", "Deployment cart-fn-0",
			"<dt>Latency</dt><dd>Violated</dd>", ">1500m</td>", ">512Mi</td>", ">4</td>", "80 %", "p99 of 300 ms",
			"replicas of add is 3, recommended 4",
		},
	} {
		page := shownAt(t, path, record(), environment())
		for _, want := range wants {
			assert.Contains(t, page, want, path)
		}
		assert.NotContains(t, page, "<button", path)
	}
}

func TestTextsOfRecordsAndEnvironmentsAreInert(t *testing.T) {
	const evil = `<script>alert(1)</script>` + "\u202e\x1b[31m"
	r, e := record(), environment()
	r.Name, e.Name = evil, evil
	r.Spec.DeploymentUnit.ClassKey, r.Spec.DeploymentUnit.ID, r.Spec.TargetEnvironment, r.Status.Template, r.Status.Message = evil, evil, evil, evil, evil
	r.Status.Functions = []v1alpha1.FunctionStatus{{FunctionKey: evil, URL: "javascript:" + evil, Reason: evil, Message: evil}}
	r.Status.ODGM.Address, r.Status.ResourceRefs[0].Name, r.Status.NFRRecommendations[0].Basis = evil, evil, evil
	r.Status.NFRRecommendations[0].Component, r.Status.LastApplied[0].Component, r.Status.Phase = evil, evil, evil
	e.Spec.DisplayName, e.Spec.Description, e.Spec.Stack.Name, e.Status.Message, e.Status.Phase = evil, evil, evil, evil, evil
	e.Status.Components[0] = v1alpha1.EnvironmentComponentStatus{Name: evil, Reason: evil, Message: evil}
	e.Status.Ports[0].Component, e.Status.Conditions[0].Message = evil, evil
	for _, path := range []string{"/records", recordList.url(r), "/environments", environmentList.url(e)} {
		page := shownAt(t, path, r, e)
		assert.Empty(t, elements(t, page)["script"], path)
		assert.NotContains(t, page, "\x1b", path)
		assert.NotContains(t, page, "\u202e", path)
		assert.NotContains(t, page, `href="javascript:`, path)
	}
}

func TestAnEnvironmentIsStopped(t *testing.T) {
	_, c := editor(t, interceptor.Funcs{}, func(o *Options) {
		o.Environment = func(ctx context.Context, c client.Client, e *v1alpha1.Environment, verb string) (*v1alpha1.Environment, error) {
			if verb == "restart" {
				return nil, errors.New("it is stopped <b>")
			}
			e.Spec.RunPolicy, e.Status.Phase = v1alpha1.RunPolicyStopped, v1alpha1.EnvironmentStopping
			return e, c.Update(ctx, e)
		}
	}, environment())
	verbs := func() (all []string) {
		_, page := get(t, c, "/environments/team/shop")
		for _, b := range elements(t, page)["button"] {
			if verb := attribute(b, "value"); verb != "" {
				all = append(all, verb)
			}
		}
		return all
	}
	assert.Equal(t, []string{"restart", "stop"}, verbs(), "it runs, so it is not started")
	_, page := get(t, c, "/environments/team/shop")
	assert.Contains(t, page, `<button type="button" popovertarget="ask-stop">Stop …</button>`)
	assert.Regexp(t, `<div class="dialog" id="ask-stop" popover[^>]*><h2[^>]*>Stop shop\?</h2>`, page, "the page asks before it stops something")
	w := post(t, c, "/environments/team/shop/run", url.Values{"verb": {"stop"}})
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	_, page = get(t, c, w.Header().Get("Location"))
	assert.Contains(t, page, "Stopping")
	assert.Contains(t, page, "The stop was requested.")
	assert.Equal(t, []string{"start"}, verbs(), "it is stopped, so it is neither stopped nor restarted")
	_, page = get(t, c, "/environments/team/shop?did=%3Cb%3Egone")
	assert.NotContains(t, page, "was requested")

	w = post(t, c, "/environments/team/shop/run", url.Values{"verb": {"restart"}})
	assert.Equal(t, http.StatusUnprocessableEntity, w.Code)
	assert.Contains(t, w.Body.String(), `role="alert">it is stopped &lt;b&gt;</p>`)
	assert.Equal(t, http.StatusBadRequest, post(t, c, "/environments/team/shop/run", url.Values{"verb": {"delete"}}).Code)
	w = post(t, c, "/environments/team/other/run", url.Values{"verb": {"stop"}})
	assert.Equal(t, http.StatusUnprocessableEntity, w.Code)
	assert.Contains(t, w.Body.String(), "not found")
}
