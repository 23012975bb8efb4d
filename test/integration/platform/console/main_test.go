// SPDX-License-Identifier: Apache-2.0

// Package console_test signs in to a running berth-console as users of ServiceAccounts, and reads and writes as they do.
package console_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Core: []string{
		"TestPagesShowExactlyWhatTheUserMayList",
		"TestUsersSignInWithATokenAndOut",
		"TestUsersWriteWithTheirOwnToken",
	}, Rights: []testenv.Rights{{
		User: cluster.BerthConsoleUser, ClusterRoles: []string{"berth-console"}, NoneRefused: true,
	}}}))
}

// viewer are the rights to all that the pages show.
var viewer = []rbacv1.PolicyRule{
	builders.Rule("", []string{"pods", "nodes"}, "list"),
	builders.Rule("apps", []string{"replicasets", "deployments", "statefulsets"}, "list"),
	builders.Rule("batch", []string{"jobs"}, "list"),
	builders.Rule("berth.dev", []string{"capacitymixes", "resourcelimits", "schedulingpolicies", "reservations", "deploymentrecords", "environments"}, "list"),
}

// scene is a running console.
type scene struct {
	*testenv.World
	process *cluster.Controller
	address string
	client  *http.Client
}

// serve starts a console with TLS on loopback, until the test ends.
func serve(t *testing.T, w *testenv.World, changes ...func(*controller.Console)) *scene {
	t.Helper()
	s := &scene{World: w}
	s.process, s.address = w.Console(changes...)
	s.client = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

// account makes a ServiceAccount with rights in all namespaces, and returns a token of it.
func (s *scene) account(name string, rules ...rbacv1.PolicyRule) string {
	s.T.Helper()
	s.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}})
	s.CreateForTest(builders.ClusterGrant(s.role(name), builders.ServiceAccount(s.Namespace, name), rules...)...)
	return s.Token(name)
}

// role is the name of the ClusterRole of an account.
func (s *scene) role(account string) string { return s.Namespace + "-" + account }

// grant replaces the rights of an account.
func (s *scene) grant(account string, rules ...rbacv1.PolicyRule) {
	s.T.Helper()
	testenv.Patch(s.World, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.role(account)}}, func(r *rbacv1.ClusterRole) { r.Rules = rules })
}

// browser is one that follows no redirects.
type browser struct {
	*scene
	cookies map[string]*http.Cookie
	// header is sent with each request.
	header http.Header
}

func (s *scene) browser() *browser {
	return &browser{scene: s, cookies: map[string]*http.Cookie{}, header: http.Header{}}
}

// answer is what a browser gets.
type answer struct {
	status int
	header http.Header
	body   string
}

func (b *browser) request(method, path string, form url.Values) *http.Request {
	b.T.Helper()
	r, err := http.NewRequestWithContext(b.Ctx, method, "https://"+b.address+path, strings.NewReader(form.Encode()))
	require.NoError(b.T, err)
	maps.Copy(r.Header, b.header)
	if host := b.header.Get("Host"); host != "" {
		r.Host = host
	}
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

func (b *browser) do(method, path string, form url.Values) answer {
	b.T.Helper()
	response, err := b.client.Do(b.request(method, path, form))
	require.NoError(b.T, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(b.T, err)
	for _, c := range response.Cookies() {
		if b.cookies[c.Name] = c; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

func (b *browser) get(path string) answer { return b.do(http.MethodGet, path, nil) }

func (b *browser) post(path string, form url.Values) answer { return b.do(http.MethodPost, path, form) }

// signIn signs in with a token.
func (s *scene) signIn(token string) *browser {
	s.T.Helper()
	b := s.browser()
	a := b.post("/login", url.Values{"token": {token}})
	require.Equal(s.T, http.StatusSeeOther, a.status, a.body)
	require.Equal(s.T, "/", a.header.Get("Location"))
	return b
}

// in has the browser show a namespace.
func (b *browser) in(namespace string) *browser {
	b.T.Helper()
	a := b.post("/namespace", url.Values{"namespace": {namespace}})
	require.Equal(b.T, http.StatusSeeOther, a.status, a.body)
	return b
}

// shows waits until a page has all the words.
func (b *browser) shows(path string, words ...string) answer {
	b.T.Helper()
	var a answer
	b.Eventually("the page shows it", func() (bool, string) {
		a = b.get(path)
		for _, word := range words {
			if !strings.Contains(a.body, word) {
				return false, word + " is not in\n" + a.body
			}
		}
		return a.status == http.StatusOK, a.body
	})
	return a
}

// events are those of an open page, which connects again as a browser does.
type events struct {
	b    *browser
	all  chan string
	page string
}

// open opens a page.
func (b *browser) open(page string) *events {
	b.T.Helper()
	e := &events{b: b, all: make(chan string, 10_000), page: page}
	ctx, cancel := context.WithCancel(b.Ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			e.follow(ctx)
		}
	}()
	b.T.Cleanup(func() {
		cancel()
		<-ended
	})
	return e
}

// follow reads one stream, and waits as long as the stream's retry field.
func (e *events) follow(ctx context.Context) {
	retry := time.Second
	r := e.b.request(http.MethodGet, "/stream?page="+url.QueryEscape(e.page), nil).WithContext(ctx)
	if response, err := e.b.client.Do(r); err == nil {
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			if text, is := strings.CutPrefix(lines.Text(), "retry: "); is {
				retry, _ = time.ParseDuration(text + "ms")
			}
			if text, is := strings.CutPrefix(lines.Text(), "data: "); is {
				e.all <- text
			}
		}
	}
	select {
	case <-time.After(retry):
	case <-ctx.Done():
	}
}

// shows waits until an event has the words, for so long at most, and returns how long it took.
func (e *events) shows(within time.Duration, words string) time.Duration {
	e.b.T.Helper()
	began, late := time.Now(), time.After(within)
	last := ""
	for {
		select {
		case event := <-e.all:
			if last = event; strings.Contains(event, words) {
				return time.Since(began)
			}
		case <-late:
			require.FailNow(e.b.T, "no event within "+within.String(), "%s; the last one is %s", words, last)
		}
	}
}

// requireNoToken demands that the log has none of the tokens, nor their signatures.
func (s *scene) requireNoToken(tokens ...string) {
	s.T.Helper()
	log := testenv.ReadFile(s.T, s.process.LogPath())
	require.Contains(s.T, log, "Signed in")
	for _, token := range tokens {
		parts := strings.Split(token, ".")
		assert.NotContains(s.T, log, token)
		assert.NotContains(s.T, log, parts[len(parts)-1])
	}
}
