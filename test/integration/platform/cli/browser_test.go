// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// seen is a page that the browser opens, with texts that it must have.
type seen struct {
	Name string   `json:"name"`
	Path string   `json:"path"`
	Has  []string `json:"has"`
}

// lookFor is how long the browser may take.
const lookFor = 10 * time.Minute

// Each page in Chromium, at four widths, light and dark, with axe-core: make test-ui. The screenshots are in out/ui.
func TestTheConsoleInABrowser(t *testing.T) {
	if os.Getenv("BERTH_TEST_UI") == "" {
		t.Skip("make test-ui runs it: it installs packages of npm")
	}
	browser, err := exec.LookPath("chromium")
	require.NoError(t, err, "make test-ui requires Debian's package chromium")
	w := begin(t, append(cluster.Nodes("spot", 20), cluster.Nodes("on-demand", 20)...)...)
	ns := w.Namespace
	fillConsole(w)
	me := user(w, "browser", consoleUser)
	b := openUI(w, me, "-n", ns)
	far := controlled(w, "browser", me, b)
	pod := w.Pods(client.MatchingLabels{"app": "web"})[0].Name
	pages := []seen{
		{"mixes", "/", []string{"web", "large", "✗", "Needs attention", "By zone"}},
		{"timeline", "/timeline", []string{"Rollouts", "Times are UTC."}},
		{"workload", "/workloads/" + ns + "/Deployment/web", []string{"70% spot", "What if?"}},
		{"workload-of-3", "/workloads/" + ns + "/Deployment/small", []string{"Slots"}},
		{"workload-of-300", "/workloads/" + ns + "/Deployment/large", []string{"Slots"}},
		{"workload-unsatisfied", "/workloads/" + ns + "/Deployment/stuck", []string{"✗"}},
		{"what-if", "/mixes/" + ns + "/web/plan?spotPercent=30&minOnDemand=2&maxSpot=", []string{"Nothing was written."}},
		{"savings", "/savings", []string{"Pods with a price", "Deployment/web"}},
		{"savings-by-mix", "/savings?by=mix&sort=-saved", []string{"By capacity type"}},
		{"nodes", "/nodes", []string{"spot", "on-demand"}},
		{"nodes-filtered", "/nodes?filter=on-demand&sort=-age", []string{"on-demand-0", "match"}},
		{"node", "/nodes/on-demand-0", []string{"Interruption domain", "Pods"}},
		{"mixes-list", "/mixes", []string{"70% spot", "Satisfied"}},
		{"mix", "/mixes/" + ns + "/web", []string{"What if?", "Deployment/web"}},
		{"mix-new", "/mixes/new", []string{"Review the fields", "Review the YAML"}},
		{"mix-edit", "/mixes/" + ns + "/web/edit", []string{"spotPercent: 70"}},
		{"mix-delete", "/mixes/" + ns + "/web/delete", []string{"Delete the CapacityMix"}},
		{"domain", "/domain?name=" + url.QueryEscape(domainOf(b)), []string{"What the loss of its spot nodes would take"}},
		{"policy-new", "/policies/new", []string{"Tie-breaker"}},
		{"policy-edit", "/policies/" + ns + "/packed/edit", []string{"preset: Pack"}},
		{"policy-delete", "/policies/" + ns + "/packed/delete", []string{"Delete the SchedulingPolicy"}},
		{"reservation", "/reservations/" + ns + "/launch", []string{"hold", "app=launch"}},
		{"reservation-edit", "/reservations/" + ns + "/launch/edit", []string{"app: launch"}},
		{"reservation-delete", "/reservations/" + ns + "/launch/delete", []string{"Delete the Reservation"}},
		{"policies", "/policies", []string{"packed", "Pack"}},
		{"policy", "/policies/" + ns + "/packed", []string{"Scores by"}},
		{"reservations", "/reservations", []string{"launch"}},
		{"reservation-new", "/reservations/new", []string{"CPU for each pod"}},
		{"limits", "/limits", []string{"gpu", "No scheduling configuration"}},
		{"limit", "/limits/" + ns + "/gpu", []string{"gpu In a100, h100"}},
		{"limit-new", "/limits/new", []string{"Node affinity", "Review the YAML"}},
		{"limit-edit", "/limits/" + ns + "/gpu/edit", []string{"Node affinity", "cpuLimit: "}},
		{"limit-delete", "/limits/" + ns + "/gpu/delete", []string{"Delete the ResourceLimit"}},
		{"records", "/records", []string{"cart", "Available"}},
		{"record", "/records/" + ns + "/cart", []string{"add", "remove", "Ready"}},
		{"environments", "/environments", []string{"shop", "Running"}},
		{"environment", "/environments/" + ns + "/shop", []string{"database", "Restart", "Revisions", "Scale"}},
		{"environment-revisions", "/environments/" + ns + "/shop/history", []string{"REVISION", "1*"}},
		{"environment-rollback", "/environments/" + ns + "/shop/history?revision=1", []string{"already has the spec of revision 1"}},
		{"environment-backups", "/environments/" + ns + "/shop/backups", []string{"Back up now"}},
		{"pod", "/pods/" + ns + "/" + pod, []string{"Desired", "7 spot, 3 on-demand"}},
		{"workload-history", "/workloads/" + ns + "/Deployment/web/history", []string{"Scheduled", pod}},
		{"record-history", "/records/" + ns + "/cart/history", []string{"cart"}},
	}
	for _, p := range pages {
		b.shows(p.Path[1:])
	}
	w.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "looks"}})
	w.CreateForTest(builders.ClusterGrant(ns+"-looks", builders.ServiceAccount(ns, "looks"), viewer...)...)
	_, address := w.Console()
	r := look(t, map[string]any{
		"console": map[string]string{"url": "https://" + address, "token": w.Token("looks")},
		"login":   b.login, "pages": pages, "looks": os.Getenv("BERTH_UI_FLOWS") == "", "browser": browser,
		"control": far.control, "away": far.apart, "proxied": far.proxied,
		"flow": map[string]any{"rights": rightsOf(ns), "pictures": pictures, "workload": "/workloads/" + ns + "/Deployment/web", "environment": "/environments/" + ns + "/shop", "namespace": ns},
	})
	if os.Getenv("BERTH_UI_FLOWS") == "" { // for a change of the flows, which take a third of the time
		assert.Equal(t, 8*(len(pages)+2)+4+len(rightsOf(ns)), r.Looked)
	}
	assert.Equal(t, []string{"nothing lost", "log followed", "found", "planned", "followed", "moved", "undone", "created", "edited", "taken back", "deleted", "loaded again", "scaled", "explained", "downloaded", "jumped", "stopped and started", "rights taken away", "API server away and back", "console away and back", "refused", "signed in", "signed out"}, r.Steps)
	assert.Empty(t, r.Wrong)
}

// pictures are the pages that docs/images has.
var pictures = []string{"mixes", "workload", "what-if", "environment", "mix", "nodes", "pod", "savings"}

// right is a list that the user may not read for a while: what a page shows meanwhile, what it has otherwise, and what of that it loses
// while it is open.
type right struct {
	Resource string `json:"resource"`
	Path     string `json:"path"`
	Text     string `json:"text"`
	Has      string `json:"has"`
	Loses    string `json:"loses"`
}

func rightsOf(ns string) []right {
	workload := "/workloads/" + ns + "/Deployment/web"
	return []right{
		{"events", workload, "Moves are unknown", "Slots", "No replica was moved"},
		{"nodes", "/nodes", "not allowed: list nodes", "Accepts pods", "on-demand-0"},
		{"nodes", "/nodes/on-demand-0", "the nodes are unknown", "Interruption domain", "Interruption domain"},
		{"pods", "/", "not allowed: list pods", "Largest workloads", "10 spot, 3 on-demand"},
		{"capacitymixes", "/mixes", "not allowed: list capacitymixes", "70% spot", "70% spot"},
		{"schedulingpolicies", "/policies", "not allowed: list schedulingpolicies", "Pack", "Pack"},
		{"schedulingpolicies", "/policies/" + ns + "/packed", "or you may not read it", "Scores by", "Scores by"},
		{"reservations", "/reservations", "not allowed: list reservations", "launch", "launch"},
		{"resourcelimits", "/limits", "not allowed: list resourcelimits", "gpu", "gpu"},
	}
}

// domainOf is the interruption domain of the first spot node of the page of nodes.
func domainOf(b *browser) string {
	b.w.T.Helper()
	found := regexp.MustCompile(`/domain\?name=([^"]+)"`).FindStringSubmatch(b.get("nodes?filter=spot"))
	require.NotEmpty(b.w.T, found)
	name, err := url.QueryUnescape(found[1])
	require.NoError(b.w.T, err)
	return name
}

// remote is where the browser changes the cluster, and the addresses of consoles that the changes concern.
type remote struct{ control, apart, proxied string }

// controlled serves what the browser has done to the cluster: rights of its user that are taken away and given again, an API server that is
// away for a console of its own, and a console that is away behind a proxy.
func controlled(w *testenv.World, name, kubeconfig string, b *browser) remote {
	w.T.Helper()
	text, err := os.ReadFile(kubeconfig)
	require.NoError(w.T, err)
	server := regexp.MustCompile(`https://(\S+:\d+)`).FindStringSubmatch(string(text))
	require.NotEmpty(w.T, server)
	cut := newCut(w.T, server[1])
	other := testenv.WriteFile(w.T, "apart", strings.Replace(string(text), server[1], cut.listener.Addr().String(), 1))
	home, err := url.Parse(b.home)
	require.NoError(w.T, err)
	g := newGateway(home)
	proxy := httptest.NewServer(g)
	w.T.Cleanup(proxy.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /rights", func(_ http.ResponseWriter, r *http.Request) {
		without := r.URL.Query().Get("without")
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
		testenv.Patch(w, role, func(role *rbacv1.ClusterRole) { role.Rules = rulesWithout(consoleUser, without) })
	})
	mux.HandleFunc("POST /api", func(_ http.ResponseWriter, r *http.Request) { cut.set(r.URL.Query().Has("away")) })
	mux.HandleFunc("POST /proxy", func(_ http.ResponseWriter, r *http.Request) { g.set(r.URL.Query().Has("away")) })
	s := httptest.NewServer(mux)
	w.T.Cleanup(s.Close)
	return remote{s.URL, openUI(w, other, "-n", w.Namespace).login, strings.Replace(b.login, home.Host, proxy.Listener.Addr().String(), 1)}
}

// gateway is a proxy that ends the responses of a console that goes away, and answers for it.
type gateway struct {
	proxy *httputil.ReverseProxy

	mu   sync.Mutex // guards the rest
	up   context.Context
	down context.CancelFunc
}

func newGateway(to *url.URL) *gateway {
	g := &gateway{proxy: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}}
	g.set(false)
	return g
}

func (g *gateway) set(away bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if away {
		g.down()
		return
	}
	g.up, g.down = context.WithCancel(context.Background())
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	up := g.up
	g.mu.Unlock()
	if up.Err() != nil {
		http.Error(w, "the console is away", http.StatusBadGateway)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(up, cancel)()
	g.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// rulesWithout are rules without a resource.
func rulesWithout(rules []rbacv1.PolicyRule, resource string) (out []rbacv1.PolicyRule) {
	for _, r := range rules {
		r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(s string) bool { return s == resource })
		if len(r.Resources) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// cut forwards connections, and ends them and refuses others while it is cut.
type cut struct {
	listener net.Listener
	to       string

	mu   sync.Mutex // guards the rest
	away bool
	open map[net.Conn]bool
}

func newCut(t *testing.T, to string) *cut {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cut{listener: listener, to: to, open: map[net.Conn]bool{}}
	var g sync.WaitGroup
	g.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			g.Go(func() { c.forward(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		c.set(true)
		g.Wait()
	})
	return c
}

func (c *cut) set(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
	for conn := range c.open {
		if away {
			_ = conn.Close()
		}
	}
}

func (c *cut) forward(from net.Conn) {
	defer from.Close()
	to, err := (&net.Dialer{}).Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer to.Close()
	c.mu.Lock()
	away := c.away
	c.open[from], c.open[to] = true, true
	c.mu.Unlock()
	if !away {
		go func() {
			_, _ = io.Copy(to, from)
			_ = to.Close()
		}()
		_, _ = io.Copy(from, to)
	}
	c.mu.Lock()
	delete(c.open, from)
	delete(c.open, to)
	c.mu.Unlock()
}

// consoleUser may do what the pages offer.
var consoleUser = append([]rbacv1.PolicyRule{
	builders.Rule("berth.dev", []string{
		"capacitymixes", "schedulingpolicies", "reservations", "resourcelimits", "environments", "databasebackups",
	}, "create", "update", "patch", "delete"),
	builders.Rule("berth.dev", []string{"environments", "databasebackups", "deploymentrecords"}, "get", "list"),
}, viewer...)

// fillConsole has something on each page.
func fillConsole(w *testenv.World) {
	w.T.Helper()
	// Before the pods, so that there are decisions about them.
	w.Create(builders.SchedulingPolicy("packed", func(s *v1alpha1.SchedulingPolicySpec) {
		s.PodSelector.MatchLabels = map[string]string{"app": "web"}
		s.Score, s.Decisions = &v1alpha1.ScoreRules{Preset: v1alpha1.ScorePresetPack}, &v1alpha1.DecisionRules{Record: v1alpha1.RecordAlways, Objects: true}
	}))
	tiny := builders.CPU("10m")
	w.Create(
		builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10, tiny, builders.ReadyAfter(3*time.Second)),
		builders.CapacityMix("small", 50, 1), builders.Deployment("small", 3, tiny),
		builders.CapacityMix("large", 60, 5), builders.Deployment("large", 300, tiny),
		builders.CapacityMix("stuck", 50, 1), builders.Deployment("stuck", 4, builders.CPU("1000")),
		builders.ResourceLimit("plain", builders.SizeCPU("1", "1")), builders.ResourceLimit("gpu", builders.SizeCPU("2", "4"), onGPUs),
	)
	w.Create(builders.Reservation("launch", "launch", "100m"))
	deployed(w)
	w.ApplyFiles("manifests/rbac/environments")
	w.NamedController("berth-environments", testenv.Impatient, func(c *controller.Configuration) {
		c.Controllers = []string{controller.ControllerEnvironments}
	})
	w.Create(builders.Environment("shop"))
	w.RequireExact("web", split.New(70, 2), 10)
	w.RequireExact("large", split.New(60, 5), 300)
	testenv.WaitFor(w, "shop", "it runs", func(e *v1alpha1.Environment) bool { return e.Status.Phase == v1alpha1.EnvironmentRunning })
}

func onGPUs(s *v1alpha1.ResourceLimitSpec) {
	s.Description = "for training"
	s.NodeSelector = map[string]string{"disk": "ssd"}
	s.NodeAffinity = &v1alpha1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1alpha1.NodeTerms{
		NodeSelectorTerms: []v1alpha1.NodeTerm{{MatchExpressions: []v1alpha1.NodeRequirement{
			{Key: "gpu", Operator: v1alpha1.NodeOpIn, Values: []string{"a100", "h100"}},
		}}},
	}}
}

// looked is what the browser found.
type looked struct {
	Looked int      `json:"looked"`
	Steps  []string `json:"steps"`
	Wrong  []string `json:"wrong"`
}

// look installs the pinned packages in out/ui, and runs the browser.
func look(t *testing.T, what map[string]any) (r looked) {
	t.Helper()
	dir := testenv.Path("out/ui")
	for _, images := range []string{"screenshots", "pictures"} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, images)))
		require.NoError(t, os.MkdirAll(filepath.Join(dir, images), 0o755))
		what[images] = filepath.Join(dir, images)
	}
	for _, name := range []string{"package.json", "package-lock.json", "look.js", "stays.js"} {
		text, err := os.ReadFile(filepath.Join("testdata", "ui", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	in, err := json.Marshal(what)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), lookFor)
	defer cancel()
	for _, args := range [][]string{{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"}, {"node", "look.js"}} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		var stdout, stderr bytes.Buffer
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, bytes.NewReader(in), &stdout, &stderr
		require.NoError(t, cmd.Run(), "%v: %s%s", args, stdout.String(), stderr.String())
		if args[0] == "node" {
			require.NoError(t, json.Unmarshal(stdout.Bytes(), &r), stdout.String())
		}
	}
	return r
}
