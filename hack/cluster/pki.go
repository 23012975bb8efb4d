// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// certLifetime is long enough for any local cluster.
const certLifetime = 365 * 24 * time.Hour

// pki is the cluster's certificate authority, which signs server and client certificates alike, and the key pair for
// service account tokens, and a token of its own for the administrator. It is new for every start.
type pki struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	ca   []byte // PEM
	// adminToken is the bearer token of a cluster administrator, for servers that take no client certificates.
	adminToken string
}

func newPKI(dir string) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "berth-cluster-ca"}, key)
	if err != nil {
		return nil, fmt.Errorf("create certificate authority: %w", err)
	}
	p := &pki{dir: dir, cert: cert, key: key, ca: certPEM(cert.Raw), adminToken: rand.Text()}
	return p, p.writeFiles()
}

// loadPKI reads what newPKI wrote.
func loadPKI(dir string) (*pki, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("load certificate authority: its key is a %T", pair.PrivateKey)
	}
	tokens, err := os.ReadFile(filepath.Join(dir, "tokens.csv"))
	if err != nil {
		return nil, err
	}
	token, _, _ := strings.Cut(string(tokens), ",")
	return &pki{dir: dir, cert: pair.Leaf, key: key, ca: certPEM(pair.Leaf.Raw), adminToken: token}, nil
}

// writeFiles writes what the components read from files.
func (p *pki) writeFiles() error {
	caKey, err := keyutil.MarshalPrivateKeyToPEM(p.key)
	if err != nil {
		return err
	}
	server := certTemplate("kube-apiserver")
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), serviceIP}
	serverCert, serverKey, err := p.sign(server)
	if err != nil {
		return err
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	accountsKey, err := keyutil.MarshalPrivateKeyToPEM(accounts)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"ca.crt": p.ca, "ca.key": caKey, "server.crt": serverCert, "server.key": serverKey, "sa.key": accountsKey,
		"tokens.csv": []byte(p.adminToken + ",kubernetes-admin,,system:masters\n"),
	} {
		if err := os.WriteFile(p.path(name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }

// client returns a client certificate and key for a user and its groups.
func (p *pki) client(user string, groups ...string) (cert, key []byte, err error) {
	template := certTemplate(user)
	template.Subject.Organization = groups
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return p.sign(template)
}

// sign makes a key and a certificate for it, both as PEM.
func (p *pki) sign(template *x509.Certificate) (cert, key []byte, err error) {
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.cert, priv.Public(), p.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate for %s: %w", template.Subject.CommonName, err)
	}
	key, err = keyutil.MarshalPrivateKeyToPEM(priv)
	return certPEM(der), key, err
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}

func certTemplate(name string) *x509.Certificate {
	now := time.Now()
	// A positive number of at most 20 octets, as RFC 5280 requires; certificates of one authority need distinct ones.
	serial := new(big.Int).SetBytes(append([]byte{1}, []byte(rand.Text())[:15]...))
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.Add(certLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}
