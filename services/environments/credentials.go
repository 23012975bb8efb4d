// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
)

// credentials are what a request has of secrets, by the keys of the Secret that they go into. They are never in a spec, a
// reply, an Event or a log.
type credentials struct {
	database, backend map[string]string
	// by is the caller, who may use the Secret that is made of them.
	by string
}

func (c credentials) empty() bool { return len(c.database) == 0 && len(c.backend) == 0 }

const (
	// maxCredentials is what a Secret holds.
	maxCredentials = 1 << 20
	maxSecretKey   = 253
)

// variableName is what the name of an environment variable looks like, as the CRD has it.
var variableName = regexp.MustCompile(`^[-._a-zA-Z][-._a-zA-Z0-9]*$`)

// credentials reads the secrets of a stack. An empty text is none, and so is a map without entries: an update cannot
// distinguish an empty one from one that is left out.
func (r *reader) credentials(path string, in *schedulerv1.ApplicationStack) credentials {
	var out credentials
	size := 0
	if password := r.password(path+".database", in.GetDatabase()); password != "" {
		out.database = map[string]string{v1alpha1.DatabasePasswordKey: password}
		size += len(password)
	}
	backend := map[string]string{}
	if connection := in.GetBackend().GetDatabaseConnectionString(); connection != "" {
		backend[v1alpha1.DatabaseConnectionKey] = connection
		size += len(connection)
	}
	for name, value := range in.GetBackend().GetApiKeys() {
		if key := v1alpha1.APIKeyPrefix + name; !variableName.MatchString(name) || len(key) > maxSecretKey {
			r.refuse(fmt.Sprintf("%s.backend.api_keys[%s]", path, name),
				"has the key %q, which must be letters, digits, '_', '-' and '.', must not begin with a digit, and must have at most %d characters",
				name, maxSecretKey-len(v1alpha1.APIKeyPrefix))
		}
		backend[v1alpha1.APIKeyPrefix+name] = value
		size += len(name) + len(value)
	}
	if len(backend) > 0 {
		out.backend = backend
	}
	if size > maxCredentials {
		r.refuse(path, "has passwords and keys of %d bytes together, and may have %d", size, maxCredentials)
	}
	return out
}

// password is that of a database, which clients also give as the variable that PostgreSQL's image reads.
func (r *reader) password(path string, in *schedulerv1.DatabaseConfig) string {
	password, variable := in.GetPassword(), in.GetContainer().GetEnvironmentVariables()[render.PostgresPassword]
	if password != "" && variable != "" && password != variable {
		r.refuse(fmt.Sprintf("%s.container.environment_variables[%s]", path, render.PostgresPassword), "must be the same as password, or absent")
	}
	return cmp.Or(password, variable)
}

// component is one that reads a Secret.
type component string

const (
	ofDatabase component = stack.Database
	ofBackend  component = stack.Backend
)

// references returns the components of a stack by the name of the Secret that they refer to.
func references(s *v1alpha1.ApplicationStack) map[string][]component {
	out := map[string][]component{}
	if d := s.Database; d != nil && d.SecretRef != nil {
		out[d.SecretRef.Name] = append(out[d.SecretRef.Name], ofDatabase)
	}
	if b := s.Backend; b != nil && b.SecretRef != nil {
		out[b.SecretRef.Name] = append(out[b.SecretRef.Name], ofBackend)
	}
	return out
}

// refer makes components refer to a Secret.
func refer(s *v1alpha1.ApplicationStack, secret string, which map[component]bool) {
	if which[ofDatabase] && s.Database != nil {
		s.Database.SecretRef = &v1alpha1.EnvironmentSecret{Name: secret}
	}
	if which[ofBackend] && s.Backend != nil {
		s.Backend.SecretRef = &v1alpha1.EnvironmentSecret{Name: secret}
	}
}

// over returns what a Secret holds after credentials were written over it. What they do not have stays, but that API keys
// are replaced as a whole: one that is taken away is gone.
func (c credentials) over(held map[string][]byte) map[string][]byte {
	out := map[string][]byte{}
	maps.Copy(out, held)
	if slices.ContainsFunc(slices.Collect(maps.Keys(c.backend)), isAPIKey) {
		maps.DeleteFunc(out, func(key string, _ []byte) bool { return isAPIKey(key) })
	}
	for _, given := range []map[string]string{c.database, c.backend} {
		for key, value := range given {
			out[key] = []byte(value)
		}
	}
	return out
}

// keep copies what a Secret has for a component.
func keep(into, from map[string][]byte, c component) {
	for key, value := range from {
		of := c == ofBackend && (key == v1alpha1.DatabaseConnectionKey || isAPIKey(key))
		if of || c == ofDatabase && key == v1alpha1.DatabasePasswordKey {
			into[key] = value
		}
	}
}

func isAPIKey(key string) bool { return strings.HasPrefix(key, v1alpha1.APIKeyPrefix) }
