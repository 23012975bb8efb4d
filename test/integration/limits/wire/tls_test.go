// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	rbacv1 "k8s.io/api/rbac/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
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
	file := func(kind string) string {
		return testenv.WriteFile(t, "tls."+kind, testenv.ReadFile(t, filepath.Join(dir, "pki", "server."+kind)))
	}
	return file("crt"), file("key")
}

func TestTLSAndClientCertificates(t *testing.T) {
	s := &scene{servicetest.New(t, "resourcelimits")}
	cert, key := pair(t, s.Cluster.Dir())
	ca := testenv.WriteFile(t, "ca.crt", string(s.authority()))
	s.start("berth-controller", func(c *controller.Services) { c.CertFile, c.KeyFile, c.ClientCAFile = cert, key, ca })
	s.Create(builders.RoleBinding("by-certificate", "editor", builders.User("alice"), rbacv1.Subject{Kind: "Group", Name: "ops"}))
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(s.authority()))
	with := func(pairs ...tls.Certificate) anyform.ResourceLimitServiceClient {
		return anyform.NewResourceLimitServiceClient(wire.Conn{ClientConnInterface: s.Dial(&tls.Config{
			RootCAs: roots, ServerName: "localhost", Certificates: pairs,
		})})
	}
	s.WaitCode("the binding counts", codes.OK, func() error {
		return servicetest.Err(with(s.clientCertificate("alice")).ListResourceLimits(s.as(""), &anyform.ListResourceLimitsRequest{}))
	})
	require.NoError(t, servicetest.Err(with(s.clientCertificate("alice")).CreateResourceLimit(s.as(""), small("of-alice"))))
	require.NoError(t, servicetest.Err(with(s.clientCertificate("bob", "ops")).CreateResourceLimit(s.as(""), small("of-a-group"))))
	_, err := with(s.clientCertificate("bob")).CreateResourceLimit(s.as(""), small("of-bob"))
	servicetest.Refused(t, err, codes.PermissionDenied, "", `"bob"`)
	servicetest.Refused(t, servicetest.Err(with().CreateResourceLimit(s.as(""), small("of-nobody"))), codes.Unauthenticated, "")
	require.NoError(t, servicetest.Err(with().CreateResourceLimit(s.as(s.Editor), small("by-token"))))
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

// selfSigned makes a certificate that no authority signed.
func selfSigned(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func encode(t *testing.T, c tls.Certificate) (cert, key []byte) {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(c.PrivateKey.(*ecdsa.PrivateKey))
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}
