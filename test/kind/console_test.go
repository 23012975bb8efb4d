// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/testenv"
)

// The pages of an environment show the log of a container, and follow it while the container writes.
func TestTheConsoleFollowsLogs(t *testing.T) {
	w := testenv.New(t)
	e := running(w, v1alpha1.ApplicationStack{Version: "1", Backend: &v1alpha1.BackendComponent{Container: app()}})
	cmd := command(w, "ui", "--no-browser")
	printed, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(printed).ReadString('\n')
	require.NoError(t, err)
	login := regexp.MustCompile(`http://\S+`).FindString(line)
	require.NotEmpty(t, login, line)
	home, _, _ := strings.Cut(login, "/login")
	signIn := visit(w, login, nil)
	require.NoError(t, signIn.Body.Close())
	cookies := signIn.Cookies()
	require.Len(t, cookies, 1)

	logs := home + "/environments/" + w.Namespace + "/" + shop + "/logs"
	page := visit(w, logs+"?component=backend", cookies)
	body, err := io.ReadAll(page.Body)
	require.NoError(t, err)
	require.NoError(t, page.Body.Close())
	assert.Equal(t, http.StatusOK, page.StatusCode)
	assert.Contains(t, string(body), "serves on :8080")

	stream := visit(w, logs+"/follow?component=backend", cookies)
	defer func() { _ = stream.Body.Close() }()
	lines := bufio.NewScanner(stream.Body)
	next := func(what string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), what) {
				return
			}
		}
		require.Fail(t, "the stream ended before "+what, lines.Err())
	}
	next("serves on :8080")
	pod := podsOf(w, e, "backend")[0]
	_, err = w.Kube.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, "8080", "exit", nil).DoRaw(w.Ctx)
	require.Error(t, err, "the answer is the end of the connection")
	next("asked to exit")
}

// visit requests a URL of the console, and follows no redirect.
func visit(w *testenv.World, url string, cookies []*http.Cookie) *http.Response {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.Ctx, startTimeout)
	w.T.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	require.NoError(w.T, err)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	require.NoError(w.T, err)
	return response
}
