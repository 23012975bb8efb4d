// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/utils/clock"

	"berth.dev/berth/internal/policies/decision"
)

// authorities are client authorities with a controller.
type authorities struct {
	dynamiccertificates.CAContentProvider
	runs atomic.Int32
}

func (a *authorities) RunOnce(context.Context) error { a.runs.Add(1); return nil }
func (a *authorities) Run(context.Context, int)      { a.runs.Add(1) }

// secured is a configuration with a secure port, which authenticates every client certificate as that of its subject and
// allows everything.
func secured(t *testing.T) (config.CompletedConfig, *authorities) {
	t.Helper()
	o := options.NewSecureServingOptions()
	o.ServerCert.CertDirectory, o.ServerCert.PairName = "", "kube-scheduler"
	o.Listener = listener(t)
	require.NoError(t, o.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}))
	c := &config.Config{}
	require.NoError(t, o.ApplyTo(&c.SecureServing))
	certificate, _ := c.SecureServing.Cert.CurrentCertKeyContent()
	clients, err := dynamiccertificates.NewStaticCAContent("clients", certificate)
	require.NoError(t, err)
	ca := &authorities{CAContentProvider: clients}
	c.SecureServing.ClientCA = ca
	c.Authentication.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if len(r.TLS.PeerCertificates) == 0 {
			return nil, false, nil
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: r.TLS.PeerCertificates[0].Subject.CommonName}}, true, nil
	})
	c.Authorization.Authorizer = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	return c.Complete(), ca
}

func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// freeAddress is one that no one listened on a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l := listener(t)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestDecisionsAreServedUntilTheContextEnds(t *testing.T) {
	c, ca := secured(t)
	store := decision.NewStore(clock.RealClock{})
	store.Put(&decision.Record{Namespace: "shop", Pod: "web-0", ID: "1234-1"}, time.Hour)
	d := &decisions{store: store, address: freeAddress(t)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.NoError(t, d.serve(ctx, &c))
	assert.Zero(t, ca.runs.Load(), "the secure port runs the controllers of the certificates")

	certificate, key := c.SecureServing.Cert.CurrentCertKeyContent()
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(certificate))
	get := func(certificates ...tls.Certificate) (int, string, error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates, MinVersion: tls.VersionTLS12}}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+d.address+decision.Path("shop", "web-0"), nil)
		require.NoError(t, err)
		response, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, string(body), err
	}
	status, body, err := get(pair)
	require.NoError(t, err, "the certificate is that of the secure port")
	assert.Equal(t, http.StatusOK, status, "the client certificate is requested: %s", body)
	assert.Contains(t, body, "1234-1")
	status, _, err = get()
	require.NoError(t, err)
	assert.Equal(t, http.StatusUnauthorized, status)

	cancel()
	assert.Eventually(t, func() bool {
		_, _, err := get()
		return err != nil
	}, 20*time.Second, 10*time.Millisecond)
}

func TestAnAddressThatCannotBeServedEndsTheStart(t *testing.T) {
	c, _ := secured(t)
	taken := listener(t).Addr().String()
	without := (&config.Config{}).Complete()
	for address, want := range map[string]struct {
		config  *config.CompletedConfig
		message string
	}{
		taken:             {&c, "address already in use"},
		"10260":           {&c, "missing port in address"},
		"127.0.0.1:10260": {&without, "it requires --secure-port"},
	} {
		err := (&decisions{address: address}).serve(t.Context(), want.config)
		require.ErrorContains(t, err, `--decisions-bind-address is "`+address+`": `)
		require.ErrorContains(t, err, want.message)
	}
	assert.NoError(t, (&decisions{}).serve(t.Context(), &without), "without the flag they are not served")
}

// A certificate that is renewed on disk has to reach both ports.
func TestBothPortsAreInformedOfNewCertificates(t *testing.T) {
	notifier := &notifying{}
	out := sharing(&server.SecureServingInfo{Cert: notifier, SNICerts: []dynamiccertificates.SNICertKeyContentProvider{notifier}}, nil)
	out.Cert.AddListener(nil)
	out.SNICerts[0].AddListener(nil)
	assert.Equal(t, 2, notifier.listeners)
	for _, shared := range []any{out.Cert, out.SNICerts[0]} {
		_, runs := shared.(dynamiccertificates.ControllerRunner)
		assert.False(t, runs)
	}
	assert.Nil(t, out.ClientCA)
}

type notifying struct {
	dynamiccertificates.SNICertKeyContentProvider
	dynamiccertificates.ControllerRunner
	listeners int
}

func (n *notifying) AddListener(dynamiccertificates.Listener) { n.listeners++ }

func TestTheFlagOfDecisionsHasASectionInTheHelp(t *testing.T) {
	cmd := NewCommand("berth-scheduler")
	flag := cmd.Flags().Lookup("decisions-bind-address")
	require.NotNil(t, flag)
	assert.Empty(t, flag.DefValue)
	assert.Regexp(t, `Decisions flags:\n\n +--decisions-bind-address string +The IP address`, cmd.UsageString())
}
