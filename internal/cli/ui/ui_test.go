// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/internal/cli/command"
)

func options(out, errOut io.Writer) *command.Options {
	flags := genericclioptions.NewConfigFlags(false)
	flags.APIServer = new("https://127.0.0.1:1") // nothing is there
	return &command.Options{IOStreams: genericiooptions.IOStreams{Out: out, ErrOut: errOut}, Flags: flags, Now: time.Now}
}

func TestTheIntervalIsBounded(t *testing.T) {
	for _, value := range []string{"0s", "999ms", "61m"} {
		cmd := New(options(io.Discard, io.Discard), nil, nil)
		cmd.SetArgs([]string{"--interval", value})
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		assert.ErrorContains(t, cmd.ExecuteContext(t.Context()), "it must be from 1s to 1h0m0s")
	}
}

// A file of prices that cannot be used ends the command before it listens.
func TestAFileOfPricesIsReadFirst(t *testing.T) {
	cmd := New(options(io.Discard, io.Discard), nil, nil)
	cmd.SetArgs([]string{"--prices", filepath.Join(t.TempDir(), "none.yaml")})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	assert.ErrorIs(t, cmd.ExecuteContext(t.Context()), os.ErrNotExist)
}

// The pages report that the API server cannot be reached, and the command ends with its context.
func TestTheConsoleIsServedUntilTheCommandEnds(t *testing.T) {
	out, printed := io.Pipe()
	opened := make(chan string, 1)
	f := &flags{interval: time.Second, open: func(url string) error {
		opened <- url
		return errors.New("no browser here")
	}}
	errOut, warned := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx, options(printed, warned)) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/login\?token=\w+\n$`).FindString(line)
	require.NotEmpty(t, url, "nothing follows the URL: %s", line)
	url = strings.TrimSpace(url)
	assert.Equal(t, url, <-opened)
	warning, err := bufio.NewReader(errOut).ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, warning, "no browser here")

	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	// The jar does not send a Secure cookie over HTTP, as browsers do to this machine.
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response := get(t, client, url, nil)
	require.Equal(t, http.StatusSeeOther, response.StatusCode)
	page := get(t, client, url[:len(url)-len(regexp.MustCompile(`login.*`).FindString(url))], response.Cookies())
	body, err := io.ReadAll(page.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, page.StatusCode)
	assert.Contains(t, string(body), "the API server cannot be reached")

	cancel()
	select {
	case err := <-ended:
		assert.NoError(t, err)
	case <-time.After(30 * time.Second):
		require.Fail(t, "the command does not end")
	}
}

func get(t *testing.T, client *http.Client, url string, cookies []*http.Cookie) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	response, err := client.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}
