// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// browser reads pages of the console of a user, as a browser without a script.
type browser struct {
	w *testenv.World
	// login is the URL that the command prints, and home is that of the first page.
	login, home string
	cookie      *http.Cookie
}

// openUI runs kubectl berth ui until the test ends, and opens the URL that it prints.
func openUI(w *testenv.World, kubeconfig string, args ...string) *browser {
	w.T.Helper()
	out, printed := io.Pipe()
	cmd := cli.New(genericiooptions.IOStreams{In: strings.NewReader(""), Out: printed, ErrOut: io.Discard})
	cmd.SetArgs(append([]string{"ui", "--no-browser", "--interval", "1s", "--kubeconfig", kubeconfig, "--cache-dir", w.T.TempDir()}, args...))
	ctx, cancel := context.WithCancel(w.Ctx)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	w.T.Cleanup(func() {
		cancel()
		assert.NoError(w.T, <-ended)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(w.T, err)
	login := regexp.MustCompile(`http://[^/]+/login\?token=\w+`).FindString(line)
	require.NotEmpty(w.T, login, line)
	home, _, _ := strings.Cut(login, "login")
	b := &browser{w: w, login: login, home: home}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, login, http.NoBody)
	require.NoError(w.T, err)
	response, err := client.Do(r)
	require.NoError(w.T, err)
	defer response.Body.Close()
	require.Len(w.T, response.Cookies(), 1)
	b.cookie = response.Cookies()[0]
	return b
}

func (b *browser) get(path string) string {
	b.w.T.Helper()
	_, page := b.do(http.MethodGet, path, nil)
	return page
}

// required is the field of the nodes that a limit requires.
const required = "spec.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"

var (
	fields  = regexp.MustCompile(`(?s)<(?:input|select)[^>]* name="([^"]+)"[^>]*>|<textarea[^>]* name="([^"]+)"[^>]*>([^<]*)<`)
	valueOf = regexp.MustCompile(` value="([^"]*)"`)
)

// submit sends the fields of a page with some values changed, and returns where that leads, and the page otherwise. With do, they are
// those of an object, of which that is done.
func (b *browser) submit(form, action string, changes map[string]string, do string) (location, page string) {
	b.w.T.Helper()
	sent := url.Values{}
	for _, field := range fields.FindAllStringSubmatch(b.get(form), -1) {
		switch value := valueOf.FindStringSubmatch(field[0]); {
		case field[2] != "":
			sent.Set(field[2], html.UnescapeString(field[3]))
		case len(value) > 1:
			sent.Set(field[1], html.UnescapeString(value[1]))
		}
	}
	for name, value := range changes {
		sent.Set(name, value)
	}
	if do != "" {
		sent.Set("do", do)
	}
	return b.do(http.MethodPost, action, sent)
}

// apply applies what a page shows for a review.
func (b *browser) apply(action, page string) (location, after string) {
	b.w.T.Helper()
	sent := url.Values{"do": {"apply"}}
	_, form, found := strings.Cut(page, "Nothing is written yet.")
	require.True(b.w.T, found, page)
	form, _, _ = strings.Cut(form, "</form>")
	for _, field := range fields.FindAllStringSubmatch(form, -1) {
		if value := valueOf.FindStringSubmatch(field[0]); len(value) > 1 {
			sent.Set(field[1], html.UnescapeString(value[1]))
		}
	}
	return b.do(http.MethodPost, action, sent)
}

func (b *browser) do(method, path string, form url.Values) (location, page string) {
	b.w.T.Helper()
	r, err := http.NewRequestWithContext(b.w.Ctx, method, b.home+path, strings.NewReader(form.Encode()))
	require.NoError(b.w.T, err)
	r.AddCookie(b.cookie)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	require.NoError(b.w.T, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(b.w.T, err)
	return response.Header.Get("Location"), string(body)
}

// shows waits until a page matches.
func (b *browser) shows(path string, patterns ...string) {
	b.w.T.Helper()
	b.w.Eventually("the page shows it", func() (bool, string) {
		page := b.get(path)
		for _, p := range patterns {
			if !regexp.MustCompile(p).MatchString(page) {
				return false, p + " is not in\n" + page
			}
		}
		return true, ""
	})
}

func TestTheConsoleShowsWhatTheUserMayList(t *testing.T) {
	w := begin(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	pods := w.RequireExact("web", split.New(70, 2), 10)
	b := openUI(w, user(w, "console", viewer), "-n", w.Namespace)
	b.shows("", `<dt>Spot</dt><dd>7/7</dd>`, `<dt>On-demand</dt><dd>3/3</dd>`, `<dt>Workloads satisfied</dt><dd>1/1</dd>`, "✓ Satisfied")
	page := b.get("workloads/" + w.Namespace + "/Deployment/web")
	for i := range pods {
		assert.Contains(t, page, fmt.Sprintf("aria-label=\"Logs of %[1]s\">logs</a></td><td data-label=\"Node\"><a href=\"/nodes/%[2]s\">%[2]s</a></td>", pods[i].Name, pods[i].Spec.NodeName))
	}
	b.shows("nodes", `data-label="Type"><span class="badge on-demand">`)

	// Rights that are taken away, and given again, while a page is open.
	role := testenv.ReadIn(w, "", "console", &rbacv1.ClusterRole{})
	testenv.Patch(w, role, func(r *rbacv1.ClusterRole) { r.Rules = nil })
	b.shows("", `class="notice">not allowed: list pods in namespace `)
	testenv.Patch(w, role, func(r *rbacv1.ClusterRole) { r.Rules = viewer })
	b.shows("", `<dt>Spot</dt><dd>7/7</dd>`)
	assert.NotContains(t, b.get(""), "not allowed")
}

// The console shows the plan of kubectl berth plan, and applies it.
func TestAMixIsPlannedAndAppliedInTheConsole(t *testing.T) {
	w := begin(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	w.RequireExact("web", split.New(70, 2), 10)
	me := user(w, "planner", editor)
	b := openUI(w, me, "-n", w.Namespace)
	b.shows("workloads/"+w.Namespace+"/Deployment/web", `<a href="/mixes/`+w.Namespace+`/web/plan">What if\?</a>`)
	at := "mixes/" + w.Namespace + "/web/plan"
	page := b.get(at + "?spotPercent=30&minOnDemand=2&maxSpot=")
	plan := kubectl(w, me, "", "plan", "web", "--spot-percent=30", "-n", w.Namespace).ok(t)
	var moves int
	for line := range strings.Lines(plan.out) {
		if fields := strings.Fields(line); len(fields) > 5 && fields[0] != "MOVE" && strings.HasPrefix(fields[2], "web-") {
			moves++
			assert.Contains(t, page, ">"+fields[2]+"</td>", "the pod of the same move")
		}
	}
	assert.Equal(t, 4, moves, plan.out)
	assert.Contains(t, page, "4 moves, 0 blocked. Nothing was written.")
	assert.EqualValues(t, 70, testenv.Read(w, "web", &v1alpha1.CapacityMix{}).Spec.SpotPercent)

	page = b.get(at + "?spotPercent=130&minOnDemand=2&maxSpot=")
	assert.Contains(t, page, "spotPercent must be between 0 and 100", "the API server's reason")
	assert.NotContains(t, page, ">Apply to ")

	location, page := b.submit(at+"?spotPercent=30&minOnDemand=2&maxSpot=", at, nil, "")
	require.True(t, strings.HasPrefix(location, "/"+at+"?applied=1"), "%s %s", location, page)
	assert.Contains(t, b.get(strings.TrimPrefix(location, "/")), "spotPercent=70\">Undo")
	assert.EqualValues(t, 30, testenv.Read(w, "web", &v1alpha1.CapacityMix{}).Spec.SpotPercent)
}

// The API server judges what is written in a form, and the user needs the rights.
func TestAResourceLimitIsEditedInTheConsole(t *testing.T) {
	w := begin(t, testenv.Roomy()...)
	b := openUI(w, user(w, "limits-editor", append(viewer, builders.Rule("berth.dev", []string{"resourcelimits"}, "create", "update", "delete"))), "-n", w.Namespace)
	review := func(more map[string]string) (location, page string) {
		out := map[string]string{"metadata.namespace": w.Namespace, "metadata.name": "gpu"}
		maps.Copy(out, more)
		return b.submit("limits/new", "limits", out, "form")
	}
	location, page := review(map[string]string{"spec.cpu": "2", "spec.cpuLimit": "1"})
	require.Empty(t, location)
	assert.Regexp(t, `CPU if empty</span></label><div id="[^"]*"><p class="bad">[^<]*must not be below cpu`, page, "the API server's reason, beside the field")
	location, page = review(map[string]string{"spec.cpu": "2", "spec.nodeSelector": "-disk=ssd"})
	require.Empty(t, location)
	assert.Regexp(t, `<p class="bad">[^<]*nodeSelector must have label keys`, page)
	location, page = review(map[string]string{"spec.cpu": "2", "spec.nodeSelector": "disk=ssd", required: "gpu In a100, h100"})
	require.Empty(t, location, "it is reviewed first")
	location, page = b.apply("limits", page)
	at := "limits/" + w.Namespace + "/gpu"
	require.Equal(t, "/"+at+"?applied=1", location, page)
	b.shows(at, "<li>disk=ssd</li>", "<li>gpu In a100, h100</li>")

	var l v1alpha1.ResourceLimit
	require.NoError(t, w.Client.Get(w.Ctx, client.ObjectKey{Namespace: w.Namespace, Name: "gpu"}, &l))
	testenv.Patch(w, &l, func(l *v1alpha1.ResourceLimit) {
		l.Spec.Volumes = map[string]v1alpha1.VolumeLimit{"data": {Size: resource.MustParse("1Gi")}}
	})
	b.shows(at, "data: 1Gi")
	location, page = b.submit(at+"/edit", at, map[string]string{"spec.cpu": "3"}, "form")
	require.Empty(t, location, page)
	location, page = b.apply(at, page)
	require.NotEmpty(t, location, page)
	require.NoError(t, w.Client.Get(w.Ctx, client.ObjectKeyFromObject(&l), &l))
	assert.Equal(t, "3", l.Spec.CPU.String())
	assert.Contains(t, l.Spec.Volumes, "data", "what the form does not have is kept")
	assert.Equal(t, []string{"a100", "h100"},
		l.Spec.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values)

	reader := openUI(w, user(w, "limits-reader", viewer), "-n", w.Namespace)
	location, page = reader.submit(at+"/edit", at, map[string]string{"spec.cpu": "4"}, "form")
	require.Empty(t, location)
	assert.Contains(t, page, "cannot update resource &#34;resourcelimits&#34;")

	location, page = b.submit(at+"/delete", at+"/delete", nil, "")
	require.Equal(t, "/limits", location, page)
	w.Eventually("the limit is deleted", func() (bool, string) {
		err := w.Client.Get(w.Ctx, client.ObjectKeyFromObject(&l), &l)
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

// The pages of a pod and of a workload have the texts of the commands, with the rights of the user, and their numbers are those of the
// commands.
func TestTextsOfCommandsInTheConsole(t *testing.T) {
	w := begin(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	w.RequireExact("web", split.New(70, 2), 10)
	w.Create(eventOf(w, "Deployment", "web", "ReplicaMoved", "Evicted web-x from spot-1: its replacement fits on on-demand-2"))
	pod := w.Pods()[0].Name
	w.Create(eventOf(w, "Pod", pod, "Borrowed", "no spot node has free capacity"), eventOf(w, "Pod", "other", "Borrowed", "of another workload"))
	me := user(w, "reader", viewer)
	b := openUI(w, me, "-n", w.Namespace)
	at := "workloads/" + w.Namespace + "/Deployment/web"

	page := b.get("pods/" + w.Namespace + "/" + pod)
	explained := kubectl(w, me, "", "explain", pod, "-n", w.Namespace).ok(t)
	for line := range strings.Lines(explained.out) {
		if name, value, is := strings.Cut(strings.TrimSpace(line), ":"); is {
			if name == "Name" || name == "Namespace" { // they are in the title and the path
				continue
			}
			line = value
			assert.Contains(t, page, "<dt>"+html.EscapeString(name)+"</dt>")
		}
		assert.Contains(t, page, html.EscapeString(strings.TrimSpace(line)))
	}
	page = b.get(at + "/history")
	told := kubectl(w, me, "", "history", "deploy/web", "-n", w.Namespace).ok(t)
	for _, want := range []string{"Evicted web-x from spot-1: its replacement fits on on-demand-2", pod, "no spot node has free capacity"} {
		assert.Contains(t, told.out, want)
		assert.Contains(t, page, want)
	}
	assert.NotContains(t, told.out+page, "of another workload")
	b.shows("timeline?part=1", "ReplicaMoved", "its replacement fits on on-demand-2", "no spot node has free capacity")
	unknown := kubectl(w, me, "", "history", "wombat/web", "-n", w.Namespace)
	assert.ErrorContains(t, unknown.err, `KIND is "wombat"`)

	var status struct {
		Workloads []struct{ Desired, Actual struct{ Spot, OnDemand int } }
	}
	require.NoError(t, json.Unmarshal([]byte(kubectl(w, me, "", "status", "-n", w.Namespace, "-o", "json").ok(t).out), &status))
	require.Len(t, status.Workloads, 1)
	of := status.Workloads[0]
	b.shows(at, fmt.Sprintf("<dt>Spot</dt><dd>%d/%d</dd>", of.Actual.Spot, of.Desired.Spot),
		fmt.Sprintf("<dt>On-demand</dt><dd>%d/%d</dd>", of.Actual.OnDemand, of.Desired.OnDemand))

	// The page has the nodes by type and zone, the command by type.
	var nodes struct {
		Totals []struct {
			Type                        string
			Nodes, Accepting, Departing int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(kubectl(w, me, "", "nodes", "-o", "json").ok(t).out), &nodes))
	require.GreaterOrEqual(t, len(nodes.Totals), 2)
	page = b.get("nodes")
	for _, n := range nodes.Totals {
		row := regexp.MustCompile(n.Type + `</span></th>.*?"Nodes">(\d+)<.*?"Accept pods">(\d+)<.*?"Departing">(\d+)<`)
		var sums [3]int
		for _, found := range row.FindAllStringSubmatch(page, -1) {
			for i, text := range found[1:] {
				number, err := strconv.Atoi(text)
				require.NoError(t, err)
				sums[i] += number
			}
		}
		assert.Equal(t, [3]int{n.Nodes, n.Accepting, n.Departing}, sums, n.Type)
	}

	noEvents := slices.Clone(viewer)
	noEvents[0] = builders.Rule("", []string{"pods", "nodes", "configmaps", "namespaces", "replicationcontrollers"}, "get", "list")
	stranger := openUI(w, user(w, "without-events", noEvents), "-n", w.Namespace)
	assert.Contains(t, stranger.get(at+"/history"), "cannot list resource &#34;events&#34;")
}

// eventOf is an event about an object.
func eventOf(w *testenv.World, kind, name, reason, message string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: name + "-", Namespace: w.Namespace},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, Namespace: w.Namespace},
		Reason:         reason, Message: message, Type: corev1.EventTypeNormal, LastTimestamp: metav1.Now(), FirstTimestamp: metav1.Now(), Count: 1,
	}
}
