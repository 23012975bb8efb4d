// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// Rights that are taken away, or granted, show on an open page within 5 s.
func TestAnOpenPageFollowsTheRightsOfItsUser(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	w.RequireExact("web", split.New(70, 2), 10)
	s := serve(t, w)
	b := s.signIn(s.account("viewer", viewer...)).in(w.Namespace)
	b.shows("/", `<dt>Spot</dt><dd>7/7</dd>`)
	other := s.signIn(s.account("other", viewer...)).in(w.Namespace)
	other.shows("/", `<dt>Spot</dt><dd>7/7</dd>`)
	page, untouched := b.open("/"), other.open("/")
	page.shows(10*time.Second, `\u003c`)
	for range 2 {
		s.grant("viewer", viewer[1:]...)
		took := page.shows(5*time.Second, "not allowed: list pods in namespace "+w.Namespace)
		assert.Contains(t, b.get("/").body, "not allowed: list pods")
		assert.NotContains(t, b.get("/").body, "7/7")
		assert.NotContains(t, b.get("/workloads/"+w.Namespace+"/Deployment/web").body, "web-", "nor on a page that was open before")
		s.grant("viewer", viewer...)
		back := page.shows(5*time.Second, "7/7")
		t.Logf("taken away after %s, granted after %s", took, back)
	}
	// A user with other rights saw nothing of it.
	for len(untouched.all) > 0 {
		assert.NotContains(t, <-untouched.all, "not allowed")
	}
	// Without a right to a namespace, its name shows nothing.
	mine := s.Namespace
	b.in("kube-system").shows("/", `name="namespace" value="kube-system"`)
	s.grant("viewer")
	b.in(mine).shows("/", "not allowed: list pods in namespace "+mine, "not allowed: list nodes", "not allowed: list environments.berth.dev")
	b.in("").shows("/", "not allowed: list pods<", "not allowed: list nodes<")
	assert.Equal(t, http.StatusBadRequest, b.post("/namespace", url.Values{"namespace": {"../x"}}).status)
}

// What a user cannot see without the right to list nodes is unknown, not wrong.
func TestWithoutTheRightToListNodesPlacesAreUnknown(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	w.RequireExact("web", split.New(70, 2), 10)
	s := serve(t, w)
	rules := append([]rbacv1.PolicyRule{builders.Rule("", []string{"pods"}, "list")}, viewer[1:]...)
	b := s.signIn(s.account("view", rules...)).in(w.Namespace)
	page := b.shows("/", "not allowed: list nodes<", `<dt>Spot</dt><dd>?/7</dd>`, `<dt>Workloads satisfied</dt><dd>?/1</dd>`, "10 slots: 10 unknown", "? Unknown")
	for _, wrong := range []string{"on the wrong type", "WrongType", "✗"} {
		assert.NotContains(t, page.body, wrong)
	}
	b.shows("/nodes", "The nodes are unknown.")
}

// What pods cost is known with the rights to all that it depends on, and else unknown: there is no amount.
func TestCostsAreShownWithTheRightsToTheirParts(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	w.RequireExact("web", split.New(70, 2), 10)
	s := serve(t, w)
	b := s.signIn(s.account("viewer", viewer...)).in(w.Namespace)
	b.shows("/", "<dt>Pods with a price</dt><dd>10 of 10</dd>", "<dt>Now</dt><dd>$", `data-label="Saved a month">$`, "an estimate")
	b.shows("/savings", `<a href="/workloads/`+w.Namespace+`/Deployment/web`, `data-label="Cost">$`)
	b.shows("/savings?by=mix", `<a href="/mixes/`+w.Namespace+`/web">web</a>`)
	rest := viewer[1:]
	for missing, rules := range map[string][]rbacv1.PolicyRule{
		"nodes": {builders.Rule("", []string{"pods"}, "list")},
		"pods":  {builders.Rule("", []string{"nodes"}, "list")},
	} {
		s.grant("viewer", append(rules, rest...)...)
		for _, path := range []string{"/", "/savings", "/savings?by=unit"} {
			page := b.shows(path, "Costs are unknown: could not list "+missing+".")
			assert.NotContains(t, page.body, "$", path)
		}
	}
	s.grant("viewer", viewer...)
	b.shows("/", "<dt>Now</dt><dd>$")
}

// The rights in a namespace are enough for its pages.
func TestARoleInANamespaceShowsIt(t *testing.T) {
	s := serve(t, testenv.New(t))
	token := s.account("member")
	s.Create(builders.Grant("member", builders.ServiceAccount(s.Namespace, "member"), viewer...)...)
	s.Create(limit("small"))
	b := s.signIn(token).in(s.Namespace)
	page := b.shows("/limits", ">small</a>")
	assert.NotContains(t, page.body, "not allowed: list resourcelimits")
	assert.Contains(t, page.body, "not allowed: list nodes", "which are in no namespace")
	b.in("").shows("/limits", "not allowed: list resourcelimits.berth.dev")
	assert.NotContains(t, b.get("/limits").body, ">small</a>")
	b.in("default").shows("/limits", "not allowed: list resourcelimits.berth.dev in namespace default")
}

func limit(name string) *v1alpha1.ResourceLimit {
	return &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ResourceLimitSpec{CPU: new(resource.MustParse("2"))}}
}

// The API server decides what is written, and audits the user.
func TestUsersWriteWithTheirOwnToken(t *testing.T) {
	s := serve(t, testenv.New(t))
	writer := append(slices.Clone(viewer), builders.Rule("berth.dev", []string{"resourcelimits"}, "get", "create", "update", "delete"))
	b := s.signIn(s.account("writer", writer...)).in(s.Namespace)
	reader := s.signIn(s.account("reader", viewer...)).in(s.Namespace)
	form := b.created("limits", s.Namespace, "small", map[string]string{"spec.cpu": "2", "spec.description": "from a browser"})
	a := reader.post("/limits", form)
	assert.Equal(t, http.StatusUnprocessableEntity, a.status)
	assert.Contains(t, a.body, "cannot create resource")
	assert.Contains(t, a.body, "system:serviceaccount:"+s.Namespace+":reader")
	a = b.post("/limits", form)
	require.Equal(t, http.StatusOK, a.status, a.body)
	a = b.post("/limits", hidden(t, a.body))
	require.Equal(t, http.StatusSeeOther, a.status, a.body)
	require.Equal(t, "/limits/"+s.Namespace+"/small?applied=1", a.header.Get("Location"))
	b.shows("/limits/"+s.Namespace+"/small", "from a browser")
	stored := testenv.Read(s.World, "small", &v1alpha1.ResourceLimit{})
	assert.Equal(t, "berth-console", stored.ManagedFields[0].Manager)
	s.Eventually("the audit log has the user", func() (bool, string) {
		by := s.Audit(func(r testenv.Request) bool {
			return r.Resource == "resourcelimits" && r.Verb == "create" && r.Code == http.StatusCreated
		})
		return slices.ContainsFunc(by, func(r testenv.Request) bool {
			return r.User == "system:serviceaccount:"+s.Namespace+":writer"
		}), fmt.Sprint(by)
	})
	a = reader.post("/limits/"+s.Namespace+"/small/delete", url.Values{"uid": {string(stored.UID)}})
	assert.Equal(t, http.StatusUnprocessableEntity, a.status)
	a = b.post("/limits/"+s.Namespace+"/small/delete", url.Values{"uid": {string(stored.UID)}})
	assert.Equal(t, http.StatusSeeOther, a.status, a.body)
}

// asked is what the pages need the right to list of a kind for, and what they show with it.
var asked = map[string]struct {
	group, page, shows string
	clusterScoped      bool
}{
	"pods":               {"", "/", `<dt>Spot</dt><dd>1/1</dd>`, false},
	"nodes":              {"", "/nodes", `data-label="Type"><span class="badge on-demand">`, true},
	"capacitymixes":      {v1alpha1.GroupName, "/", `<dt>Mixes</dt><dd>1</dd>`, false},
	"resourcelimits":     {v1alpha1.GroupName, "/limits", `>small</a>`, false},
	"deploymentrecords":  {v1alpha1.GroupName, "/records", `>cart</a>`, false},
	"schedulingpolicies": {v1alpha1.GroupName, "/policies", `>packed</a>`, false},
	"reservations":       {v1alpha1.GroupName, "/reservations", `>hold</a>`, false},
	"environments":       {v1alpha1.GroupName, "/environments", `>shop</a>`, false},
	"replicasets":        {"apps", "", "", false},
	"deployments":        {"apps", "", "", false},
	"statefulsets":       {"apps", "", "", false},
	"jobs":               {"batch", "", "", false},
}

// Whatever RBAC grants, in the cluster or in a namespace, the pages show exactly what the user may list: also while a second user, who may
// list the same and shares the reading, writes.
func TestPagesShowExactlyWhatTheUserMayList(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	shop := builders.Environment("shop")
	w.Create(builders.CapacityMix("web", 100, 0), builders.Deployment("web", 1), limit("small"), builders.DeploymentRecord("cart", "add"), shop,
		builders.SchedulingPolicy("packed"), builders.Reservation("hold", "held", "100m"))
	w.RequireExact("web", split.New(100, 0), 1)
	s := serve(t, w)
	token, writer := s.account("random"), s.account("writer")
	s.Create(builders.Grant("random", builders.ServiceAccount(s.Namespace, "random"))...)
	all := s.signIn(token)
	one := s.signIn(token).in(w.Namespace)
	writing := map[string]*browser{"": s.signIn(writer), w.Namespace: s.signIn(writer).in(w.Namespace)}
	s.Create(builders.Grant("writer", builders.ServiceAccount(s.Namespace, "writer"))...)
	config := rest.AnonymousClientConfig(s.Cluster.Config())
	config.BearerToken = token
	user, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	names := slices.Sorted(maps.Keys(asked))
	may := func(verb, name, namespace string) bool {
		if asked[name].clusterScoped {
			namespace = ""
		}
		review, err := user.AuthorizationV1().SelfSubjectAccessReviews().Create(w.Ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: asked[name].group, Resource: name, Namespace: namespace,
			}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		return review.Status.Allowed
	}
	// exact compares the pages of a browser with what the user may list now.
	exact := func(b *browser, namespace string) (bool, string) {
		granted := map[string]bool{}
		for _, name := range names {
			granted[name] = may("list", name, namespace)
		}
		for _, name := range names {
			full := name
			if asked[name].group != "" {
				full += "." + asked[name].group
			}
			where := "<"
			if namespace != "" && !asked[name].clusterScoped {
				where = " in namespace " + namespace + "<"
			}
			page := b.get(asked[name].page + map[bool]string{true: "/"}[asked[name].page == ""]).body
			if refused := strings.Contains(page, "not allowed: list "+full+where); refused == granted[name] {
				return false, fmt.Sprintf("%s is granted: %t, and refused: %t", full, granted[name], refused)
			}
			// A workload needs its pods, the node of each and the mix.
			needs := granted[name]
			if name == "pods" {
				needs = granted["pods"] && granted["nodes"] && granted["capacitymixes"]
			}
			if asked[name].shows != "" && (name != "pods" || granted["replicasets"]) && strings.Contains(page, asked[name].shows) != needs {
				return false, fmt.Sprintf("%s is granted: %t, but the page %s is\n%s", full, needs, asked[name].page, page)
			}
		}
		return true, ""
	}
	rounds := 0
	rapid.Check(t, func(r *rapid.T) {
		if rounds++; rounds > 6 {
			return // each takes some seconds
		}
		draw := func(label string) (rules []rbacv1.PolicyRule) {
			for _, name := range names {
				if rapid.Bool().Draw(r, label+name) {
					rules = append(rules, builders.Rule(asked[name].group, []string{name}, rapid.SampledFrom([]string{"list", "list", "list", "get", "create", "*"}).Draw(r, label+"verb of "+name)))
				}
			}
			return rules
		}
		inCluster, inNamespace := draw("in the cluster: "), draw("in the namespace: ")
		for name, more := range map[string][]rbacv1.PolicyRule{
			"random": nil, "writer": {builders.Rule("berth.dev", []string{"resourcelimits"}, "create")},
		} {
			s.grant(name, append(slices.Clone(inCluster), more...)...)
			testenv.Patch(w, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}, func(o *rbacv1.Role) { o.Rules = inNamespace })
		}
		w.Eventually("all pages of all namespaces are exact", func() (bool, string) { return exact(all, "") })
		w.Eventually("all pages of the namespace are exact", func() (bool, string) { return exact(one, w.Namespace) })
		for _, kind := range editedKinds {
			form := all.created(kind.id, w.Namespace, "drawn", kind.fields)
			status := map[bool]int{true: http.StatusOK, false: http.StatusUnprocessableEntity}[may("create", kind.resource, w.Namespace)]
			for _, writes := range []*browser{all, one} {
				a := writes.post("/"+kind.id, form)
				require.Equal(t, status, a.status, "%s: %s", kind.resource, a.body)
			}
		}
		for namespace, reads := range map[string]*browser{"": all, w.Namespace: one} {
			name := fmt.Sprintf("written-%d-%d", rounds, len(namespace))
			writing[namespace].shows("/limits", "As of")
			a := writing[namespace].post("/limits", writing[namespace].created("limits", w.Namespace, name, map[string]string{"spec.cpu": "1"}))
			require.Equal(t, http.StatusOK, a.status, a.body)
			a = writing[namespace].post("/limits", hidden(t, a.body))
			require.Equal(t, http.StatusSeeOther, a.status, a.body)
			if !may("list", "resourcelimits", namespace) {
				assert.NotContains(t, reads.get("/limits").body, ">"+name+"</a>")
			} else {
				reads.shows("/limits", ">"+name+"</a>")
			}
		}
	})
}
