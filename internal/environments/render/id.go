// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"

	"berth.dev/berth/internal/kube/hash"
)

const (
	// maxID is how long an id may be: its namespace has a prefix and a hash in addition.
	maxID = 52
	// hashed is how many digits of a hash an id ends with.
	hashed = 8
)

// ID returns the id of the environment of a name that a client gave: the name as
// far as a DNS label can have it, and a hash that distinguishes what looks the
// same then. The same name in the same namespace has the same id.
func ID(namespace, name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	readable := b.String()
	readable = strings.Trim(readable[:min(len(readable), maxID-hashed-1)], "-")
	if readable == "" {
		readable = "env"
	}
	return readable + "-" + hash.Of(namespace+"/"+name, hashed)
}

// NamespaceOf returns the namespace that an environment has for itself.
func NamespaceOf(prefix, namespace, id string) string {
	const digits = 6
	return prefix + id + "-" + hash.Of(namespace+"/"+id, digits)
}

// CredentialsName returns the name of the Secret that the gRPC service creates with the environment of an id. That of a later update
// has a suffix.
func CredentialsName(id string) string { return id + "-credentials" }

// IsCredentialsName reports whether a Secret has a name that the gRPC service gives to those of an environment.
func IsCredentialsName(id, name string) bool { return strings.HasPrefix(name, CredentialsName(id)) }
