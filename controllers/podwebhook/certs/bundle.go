// SPDX-License-Identifier: Apache-2.0

// Package certs makes the webhook's certificates, keeps them in a Secret, and
// gives the API server the authorities that issued them.
package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	serverLife    = 365 * 24 * time.Hour
	// skew is how far the clocks of two machines may be apart.
	skew = time.Hour
	// A certificate is renewed when a third of its life is left: months, in which a cluster that was off may be off.
	renewalShare = 3
)

// Bundle is what the Secret holds, in PEM.
type Bundle struct {
	// Authorities issue server certificates: the newest first, and those before it until they expire.
	Authorities []byte
	// AuthorityKey is that of the newest.
	AuthorityKey []byte
	// Cert and Key are the server's.
	Cert, Key []byte
}

// Names are what the server certificate is for.
type Names struct {
	DNS []string
	IPs []net.IP
}

// WithAuthority returns the bundle with an authority that can issue, and
// whether a new one had to be made. Older ones stay until they expire: replicas
// may still show certificates that they issued.
func (b Bundle) WithAuthority(now time.Time) (Bundle, bool, error) {
	if newest, _, err := b.authority(); err == nil && fresh(newest, now) {
		return b, false, nil
	}
	made, key, err := issue(&x509.Certificate{
		// Each has a name of its own: clients cannot distinguish two authorities of one name with different keys.
		Subject:  pkix.Name{CommonName: "berth-webhook-ca@" + now.UTC().Format(time.RFC3339)},
		NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IsCA: true,
	}, nil, nil, now)
	if err != nil {
		return b, false, err
	}
	next := Bundle{Authorities: made, AuthorityKey: key, Cert: b.Cert, Key: b.Key}
	for _, old := range parseAll(b.Authorities) {
		if now.Before(old.NotAfter) {
			next.Authorities = append(next.Authorities, encode("CERTIFICATE", old.Raw)...)
		}
	}
	return next, true, nil
}

// WithServer returns the bundle with a server certificate for the names that the
// newest authority issued, and whether a new one had to be made.
func (b Bundle) WithServer(names Names, now time.Time) (Bundle, bool, error) {
	authority, signer, err := b.authority()
	if err != nil {
		return b, false, err
	}
	if b.serves(authority, names, now) {
		return b, false, nil
	}
	cert, key, err := issue(&x509.Certificate{
		Subject:  pkix.Name{CommonName: "berth-webhook"},
		DNSNames: names.DNS, IPAddresses: names.IPs,
		NotAfter: now.Add(serverLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, authority, signer, now)
	if err != nil {
		return b, false, err
	}
	b.Cert, b.Key = cert, key
	return b, true, nil
}

// authority returns the newest authority and its key.
func (b Bundle) authority() (*x509.Certificate, crypto.Signer, error) {
	pair, err := tls.X509KeyPair(b.Authorities, b.AuthorityKey)
	if err != nil {
		return nil, nil, fmt.Errorf("authority: %w", err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, nil, errors.New("authority: the certificate cannot issue others")
	}
	return pair.Leaf, signer, nil
}

// serves reports whether the server certificate is for exactly the names, and
// neither to be renewed nor of another authority.
func (b Bundle) serves(authority *x509.Certificate, names Names, now time.Time) bool {
	pair, err := tls.X509KeyPair(b.Cert, b.Key)
	if err != nil {
		return false
	}
	same := slices.Equal(pair.Leaf.DNSNames, names.DNS) &&
		slices.EqualFunc(pair.Leaf.IPAddresses, names.IPs, func(a, b net.IP) bool { return a.Equal(b) })
	return same && fresh(pair.Leaf, now) && pair.Leaf.CheckSignatureFrom(authority) == nil
}

// fresh reports whether a certificate is valid, and not so old that it is renewed.
func fresh(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && c.NotAfter.Sub(now) > c.NotAfter.Sub(c.NotBefore)/renewalShare
}

// issue makes a key and signs a certificate for it. Without a parent it signs itself.
func issue(what, parent *x509.Certificate, signer crypto.Signer, now time.Time) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, fmt.Errorf("make a serial number: %w", err)
	}
	what.SerialNumber, what.NotBefore, what.BasicConstraintsValid = serial, now.Add(-skew), true
	if parent == nil {
		parent, signer = what, private
	}
	der, err := x509.CreateCertificate(rand.Reader, what, parent, private.Public(), signer)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", encoded), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// parseAll returns the certificates of a text that can be read.
func parseAll(text []byte) (all []*x509.Certificate) {
	for rest := bytes.Clone(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return all
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, c)
		}
	}
}
