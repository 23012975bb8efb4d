// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	names = Names{DNS: []string{"berth-webhook.berth-system.svc"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
)

func made(t testing.TB, now time.Time) Bundle {
	t.Helper()
	b, isNew, err := Bundle{}.WithAuthority(now)
	require.NoError(t, err)
	require.True(t, isNew)
	b, isNew, err = b.WithServer(names, now)
	require.NoError(t, err)
	require.True(t, isNew)
	return b
}

// trusts returns an error unless a client with the authorities accepts the server's certificate under a name.
func trusts(authorities []byte, server Bundle, name string, now time.Time) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authorities)
	pair, err := tls.X509KeyPair(server.Cert, server.Key)
	if err != nil {
		return err
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: now})
	return err
}

func TestTheCertificateIsForTheServiceAndTheAddress(t *testing.T) {
	b := made(t, start)
	require.NoError(t, trusts(b.Authorities, b, "berth-webhook.berth-system.svc", start))
	require.NoError(t, trusts(b.Authorities, b, "127.0.0.1", start))
	require.Error(t, trusts(b.Authorities, b, "other.berth-system.svc", start))
	require.Error(t, trusts(made(t, start).Authorities, b, "127.0.0.1", start), "of another authority")
	require.NoError(t, trusts(b.Authorities, b, "127.0.0.1", start.Add(-skew/2)), "a clock that is behind")
}

func TestAValidCertificateIsKept(t *testing.T) {
	b := made(t, start)
	for _, later := range []time.Duration{0, time.Hour, 240 * 24 * time.Hour} {
		same, isNew, err := b.WithAuthority(start.Add(later))
		require.NoError(t, err)
		assert.False(t, isNew, later)
		same, isNew, err = same.WithServer(names, start.Add(later))
		require.NoError(t, err)
		assert.False(t, isNew, later)
		assert.Equal(t, b, same)
	}
}

func TestAServerCertificateIsRenewedInTimeAndForOtherNames(t *testing.T) {
	b := made(t, start)
	for name, ask := range map[string]struct {
		names Names
		at    time.Time
	}{
		"a third of its life is left": {names, start.Add(245 * 24 * time.Hour)},
		"it has expired":              {names, start.Add(366 * 24 * time.Hour)},
		"another service":             {Names{DNS: []string{"other"}, IPs: names.IPs}, start},
		"another address":             {Names{DNS: names.DNS}, start},
	} {
		next, isNew, err := b.WithServer(ask.names, ask.at)
		require.NoError(t, err)
		assert.True(t, isNew, name)
		assert.Equal(t, b.Authorities, next.Authorities, name)
		require.NoError(t, trusts(b.Authorities, next, ask.names.DNS[0], ask.at), name)
	}
	broken := b
	broken.Key = []byte("nothing")
	_, isNew, err := broken.WithServer(names, start)
	require.NoError(t, err)
	assert.True(t, isNew)
}

func TestAnAuthorityIsReplacedWithoutAGapInTrust(t *testing.T) {
	old := made(t, start)
	at := start.Add(7 * 365 * 24 * time.Hour)
	old, _, err := old.WithServer(names, at) // issued by the old authority
	require.NoError(t, err)
	next, isNew, err := old.WithAuthority(at)
	require.NoError(t, err)
	require.True(t, isNew)
	require.Equal(t, old.Cert, next.Cert, "it is shown until the new authority is known")
	require.NoError(t, trusts(next.Authorities, old, "127.0.0.1", at), "and trusted by clients with the new one")
	next, isNew, err = next.WithServer(names, at)
	require.NoError(t, err)
	require.True(t, isNew, "the new authority issues another")
	require.NoError(t, trusts(next.Authorities, next, "127.0.0.1", at))
	require.Error(t, trusts(old.Authorities, next, "127.0.0.1", at), "it is the new authority's")

	last, _, err := next.WithAuthority(start.Add(14 * 365 * 24 * time.Hour))
	require.NoError(t, err)
	require.Len(t, parseAll(last.Authorities), 2, "one that has expired is forgotten")
}

func TestAnInvalidSecretIsReplaced(t *testing.T) {
	for name, b := range map[string]Bundle{
		"empty":        {},
		"no PEM":       {Authorities: []byte("a"), AuthorityKey: []byte("b")},
		"another key":  {Authorities: made(t, start).Authorities, AuthorityKey: made(t, start).AuthorityKey},
		"no authority": {Authorities: made(t, start).Cert, AuthorityKey: made(t, start).Key},
	} {
		_, _, err := b.WithServer(names, start)
		require.Error(t, err, name)
		next, isNew, err := b.WithAuthority(start)
		require.NoError(t, err, name)
		assert.True(t, isNew, name)
		_, _, err = next.WithServer(names, start)
		require.NoError(t, err, name)
	}
	pair := made(t, start)
	pair.AuthorityKey, pair.Authorities = pair.Key, pair.Cert
	_, _, err := pair.WithServer(names, start)
	require.ErrorContains(t, err, "cannot issue others")
}

func FuzzBundle(f *testing.F) {
	b := made(f, start)
	f.Add(b.Authorities, b.AuthorityKey, b.Cert, b.Key)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), []byte{}, []byte(nil), []byte("x"))
	f.Fuzz(func(t *testing.T, authorities, authorityKey, cert, key []byte) {
		next, _, err := Bundle{authorities, authorityKey, cert, key}.WithAuthority(start)
		require.NoError(t, err)
		next, _, err = next.WithServer(names, start)
		require.NoError(t, err)
		require.NoError(t, trusts(next.Authorities, next, "127.0.0.1", start))
	})
}
