// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/wire"
	"berth.dev/berth/test/wire/anyform"
)

// clientCertificate makes one that the cluster's authority signed.
func (s *scene) clientCertificate(user string, groups ...string) tls.Certificate {
	s.T.Helper()
	config, err := s.Cluster.ConfigFor(user, groups...)
	require.NoError(s.T, err)
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	require.NoError(s.T, err)
	return pair
}

func (s *scene) authority() []byte { return s.Cluster.Config().CAData }

// pair writes the cluster's server certificate into a directory, as a Secret is mounted.
func pair(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	for from, to := range map[string]string{"server.crt": cert, "server.key": key} {
		b, err := os.ReadFile(filepath.Join(dir, "pki", from))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, b, 0o600))
	}
	return cert, key
}

func TestTLSAndClientCertificates(t *testing.T) {
	var cert, key string
	s := serveWith(t, func(w *scene) func(*controller.Services) {
		cert, key = pair(t, w.Cluster.Dir())
		ca := filepath.Join(t.TempDir(), "ca.crt")
		require.NoError(t, os.WriteFile(ca, w.authority(), 0o600))
		return func(c *controller.Services) { c.CertFile, c.KeyFile, c.ClientCAFile = cert, key, ca }
	})
	s.Create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "by-certificate"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "editor"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "alice"}, {Kind: "Group", Name: "ops"}},
	})
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(s.authority()))
	with := func(pairs ...tls.Certificate) anyform.McpOrchestratorServiceClient {
		return anyform.NewMcpOrchestratorServiceClient(wire.Conn{ClientConnInterface: s.Dial(&tls.Config{
			RootCAs: roots, ServerName: "localhost", Certificates: pairs,
		})})
	}
	s.Eventually("the binding counts", func() (bool, string) {
		_, err := with(s.clientCertificate("alice")).ListResourceLimits(s.as(""), &anyform.ListResourceLimitsRequest{})
		return err == nil, "refused"
	})
	_, err := with(s.clientCertificate("alice")).CreateResourceLimit(s.as(""), small("of-alice"))
	require.NoError(t, err)
	_, err = with(s.clientCertificate("bob", "ops")).CreateResourceLimit(s.as(""), small("of-a-group"))
	require.NoError(t, err)
	_, err = with(s.clientCertificate("bob")).CreateResourceLimit(s.as(""), small("of-bob"))
	servicetest.Refused(t, err, codes.PermissionDenied, "", `"bob"`)
	_, err = with().CreateResourceLimit(s.as(""), small("of-nobody"))
	servicetest.Refused(t, err, codes.Unauthenticated, "")
	_, err = with().CreateResourceLimit(s.as(s.Editor), small("by-token"))
	require.NoError(t, err)
	_, err = with(selfSigned(t, "alice")).CreateResourceLimit(s.as(""), small("of-a-stranger"))
	servicetest.Refused(t, err, codes.Unauthenticated, "")
	assert.Equal(t, 3, s.count())

	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: roots, ServerName: "localhost", Certificates: []tls.Certificate{s.clientCertificate("alice")},
	}, ForceAttemptHTTP2: true}}
	path := "/namespaces/" + s.Namespace + "/resource-limits/of-alice"
	a := s.do(web, "", http.MethodGet, path, "")
	assert.Equal(t, http.StatusOK, a.status)
	assert.Equal(t, "HTTP/2.0", a.proto)

	// Plain HTTP gets no answer from a service, and old TLS no connection.
	resp, err := httpClient(false).Get("http://" + s.Address + path)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	_, err = (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}}).DialContext(s.Ctx, "tcp", s.Address)
	require.Error(t, err)

	// A new certificate is served without a restart.
	renewed := selfSigned(t, "renewed")
	certPEM, keyPEM := encode(t, renewed)
	require.NoError(t, os.WriteFile(key, keyPEM, 0o600))
	require.NoError(t, os.WriteFile(cert, certPEM, 0o600))
	s.Eventually("the new certificate is served", func() (bool, string) {
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(s.Ctx, "tcp", s.Address)
		if err != nil {
			return false, err.Error()
		}
		defer conn.Close()
		have := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw
		return bytes.Equal(have, renewed.Certificate[0]), "the old one"
	})
}
