// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/config/controller"
)

func TestHosts(t *testing.T) {
	service := hostsOf(nil, "berth-system")
	for host, want := range map[string]bool{
		"berth-console.berth-system.svc": true, "berth-console.berth-system.svc:443": true, "berth-console": true,
		"BERTH-console.berth-system.svc.cluster.local": true, "berth-console.other.svc": false, "evil.example": false, "": false,
		"localhost": true, "localhost:9445": true, "127.0.0.1:1": true, "[::1]:1": true, "[::1]": true, "::1": true, "127.1.2.3": true,
		"10.0.0.1": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false, "berth-console.berth-system.svc.": false,
	} {
		assert.Equal(t, want, serves(service, host), host)
	}
	configured := hostsOf([]string{"berth.example"}, "berth-system")
	assert.True(t, serves(configured, "berth.example:8443"))
	assert.False(t, serves(configured, "berth-console.berth-system.svc"))
}

func TestTheCookieHasThePrefixThatTLSAllows(t *testing.T) {
	assert.Equal(t, "berth-console", cookieName(&controller.Console{}))
	assert.Equal(t, "__Host-berth-console", cookieName(&controller.Console{CertFile: "tls.crt"}))
	assert.Equal(t, "__Host-berth-console", cookieName(&controller.Console{Insecure: true}), "a proxy terminates TLS")
}

// FuzzNext requires that no text of a URL leads a browser to another host after the login.
func FuzzNext(f *testing.F) {
	for _, seed := range []string{
		"/", "/limits?page=2", "//evil.example", "/\\evil.example", "https://evil.example/", "javascript:alert(1)", "/\t/evil.example",
		"/login", "", "/%2f/evil.example", "///evil.example", "/@evil.example", "/nodes#x",
	} {
		f.Add(seed)
	}
	base, err := url.Parse("https://berth.example/login")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, next string) {
		got := nextOf(next)
		at, err := base.Parse(got)
		if err != nil || at.Host != base.Host || at.Scheme != base.Scheme {
			t.Fatalf("%q leads to %q", next, got)
		}
		// Browsers take a backslash for a slash, and leave out line breaks and tabs.
		if !strings.HasPrefix(got, "/") || strings.HasPrefix(got, "//") || strings.ContainsAny(got, "\\\r\n\t") {
			t.Fatalf("%q leads to %q", next, got)
		}
	})
}
