// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/internal/cli"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// browser reads pages of the console of a user, as a browser without a script.
type browser struct {
	w      *testenv.World
	home   string
	cookie *http.Cookie
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
	url := regexp.MustCompile(`http://[^/]+/login\?token=\w+`).FindString(line)
	require.NotEmpty(w.T, url, line)
	home, _, _ := strings.Cut(url, "login")
	b := &browser{w: w, home: home}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, url, http.NoBody)
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
	r, err := http.NewRequestWithContext(b.w.Ctx, http.MethodGet, b.home+path, http.NoBody)
	require.NoError(b.w.T, err)
	r.AddCookie(b.cookie)
	response, err := http.DefaultClient.Do(r)
	require.NoError(b.w.T, err)
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	require.NoError(b.w.T, err)
	return string(page)
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
		assert.Contains(t, page, fmt.Sprintf("<td data-label=\"Pod\">%s</td><td data-label=\"Node\">%s</td>", pods[i].Name, pods[i].Spec.NodeName))
	}
	b.shows("nodes", "on-demand</th>")

	// Rights that are taken away, and given again, while a page is open.
	role := testenv.ReadIn(w, "", "console", &rbacv1.ClusterRole{})
	testenv.Patch(w, role, func(r *rbacv1.ClusterRole) { r.Rules = nil })
	b.shows("", `class="notice">not allowed: list pods in namespace `)
	testenv.Patch(w, role, func(r *rbacv1.ClusterRole) { r.Rules = viewer })
	b.shows("", `<dt>Spot</dt><dd>7/7</dd>`)
	assert.NotContains(t, b.get(""), "not allowed")
}
