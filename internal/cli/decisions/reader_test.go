// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/test/clitest"
)

// scheduler serves records at a loopback address. A user is authenticated by a token that is the name, or by the subject of a
// client certificate.
type scheduler struct {
	address string
	ca      []byte

	mu         sync.Mutex
	namespaces []string
	// requests counts what was received.
	requests int
}

func newScheduler(t *testing.T, records ...*decision.Record) *scheduler {
	t.Helper()
	s := &scheduler{}
	store := decision.NewStore(clocktesting.NewFakePassiveClock(clitest.Now))
	for _, r := range slices.Backward(records) {
		store.Put(r, time.Hour)
	}
	handler := decision.Handler(store, authenticator.RequestFunc(s.authenticate), authorizer.AuthorizerFunc(s.authorize))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests++
		s.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that clients end
	server.StartTLS()
	t.Cleanup(server.Close)
	s.address = server.Listener.Addr().String()
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return s
}

func (s *scheduler) authenticate(r *http.Request) (*authenticator.Response, bool, error) {
	name, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if c := r.TLS.PeerCertificates; !found && len(c) > 0 {
		name, found = c[0].Subject.CommonName, true
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, found, nil
}

func (s *scheduler) authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.namespaces, a.GetNamespace()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func (s *scheduler) allow(namespaces ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces = namespaces
}

func (s *scheduler) received() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func TestCredentialsOfTheKubeconfigAreSent(t *testing.T) {
	s := newScheduler(t, records()...)
	s.allow("shop")
	certificate, key, err := cert.GenerateSelfSignedCertKey("jane", nil, nil)
	require.NoError(t, err)
	for name, config := range map[string]*rest.Config{
		"a token":                       {BearerToken: "jane"},
		"a client certificate":          {TLSClientConfig: rest.TLSClientConfig{CertData: certificate, KeyData: key}},
		"with a name of the API server": {BearerToken: "jane", TLSClientConfig: rest.TLSClientConfig{ServerName: "kubernetes"}},
	} {
		got, err := (&reader{config: config, at: direct(s.address)}).read(t.Context(), "shop", "web-0")
		require.NoError(t, err, name)
		assert.Len(t, got, 4, name)
		assert.Equal(t, records()[0], got[0], name)
	}
}

func TestResponsesThatHaveNoRecords(t *testing.T) {
	s := newScheduler(t, records()...)
	s.allow("shop")
	for name, c := range map[string]struct {
		token, namespace, pod, want string
	}{
		"no record":      {"jane", "shop", "web-1", "no record of a scheduling attempt of pod shop/web-1"},
		"no right":       {"jane", "bank", "vault-0", `the scheduler does not allow it: user "jane" cannot get pod "vault-0" in namespace "bank"`},
		"no credentials": {"", "shop", "web-0", "the scheduler does not accept the credentials of the kubeconfig: missing or invalid credentials: send the token or the client certificate of a user of the cluster"},
	} {
		_, err := (&reader{config: &rest.Config{BearerToken: c.token}, at: direct(s.address)}).read(t.Context(), c.namespace, c.pod)
		require.EqualError(t, err, c.want, name)
	}
	_, err := (&reader{config: &rest.Config{BearerToken: "root", Impersonate: rest.ImpersonationConfig{UserName: "jane"}}, at: direct(s.address)}).read(t.Context(), "shop", "web-0")
	assert.ErrorContains(t, err, "--scores cannot be combined with --as")
}

func TestResponsesOfOtherServers(t *testing.T) {
	var answer http.HandlerFunc
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	defer server.Close()
	elsewhere := newScheduler(t, records()...)
	elsewhere.allow("shop")
	r := &reader{config: &rest.Config{BearerToken: "jane"}, at: direct(server.Listener.Addr().String())}
	for want, a := range map[string]http.HandlerFunc{
		"404 Not Found":             http.NotFound,
		"500 Internal Server Error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"invalid character":         func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"307 Temporary Redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://"+elsewhere.address+r.URL.Path, http.StatusTemporaryRedirect)
		},
	} {
		answer = a
		_, err := r.read(t.Context(), "shop", "web-0")
		require.ErrorContains(t, err, "read the decisions of "+r.at.name)
		require.ErrorContains(t, err, want)
	}
	assert.Zero(t, elsewhere.received(), "the token does not follow a redirect")
}

func TestASchedulerThatServesNoDecisions(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	address := s.Listener.Addr().String()
	s.Close()
	_, err := (&reader{config: &rest.Config{}, at: direct(address)}).read(t.Context(), "shop", "web-0")
	require.ErrorContains(t, err, "no berth-scheduler serves decisions at "+address)
	require.ErrorContains(t, err, "--decisions-bind-address=127.0.0.1:10260")
	require.ErrorContains(t, err, "scheduler.decisionsBindAddress")
}

// A server at an address of another machine gets the token, unless the certificate is verified first.
func TestOnlyALoopbackAddressIsNotVerified(t *testing.T) {
	for address, unverified := range map[string]bool{
		"127.0.0.1:1": true, "127.1.2.3:1": true, "[::1]:1": true, "localhost:1": true,
		"10.0.0.1:1": false, "0.0.0.0:1": false, "[2001:db8::1]:1": false, "berth.example.com:1": false, "localhost.example.com:1": false,
	} {
		assert.Equal(t, !unverified, direct(address).verified, address)
	}
	s := newScheduler(t, records()...)
	s.allow("shop")
	remote := direct(s.address)
	remote.verified = true
	for name, config := range map[string]*rest.Config{
		"unknown authority": {BearerToken: "jane"},
		"insecure API":      {BearerToken: "jane", TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
	} {
		_, err := (&reader{config: config, at: remote}).read(t.Context(), "shop", "web-0")
		require.ErrorContains(t, err, `--scheduler-address is "`+s.address+`": `, name)
		require.ErrorContains(t, err, "use a loopback address, or start the scheduler with a certificate", name)
	}
	assert.Zero(t, s.received(), "the token is not sent")
	got, err := (&reader{config: &rest.Config{BearerToken: "jane", TLSClientConfig: rest.TLSClientConfig{CAData: s.ca, ServerName: "kubernetes"}}, at: remote}).read(t.Context(), "shop", "web-0")
	require.NoError(t, err)
	assert.Len(t, got, 4)
}
