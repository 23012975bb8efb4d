// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strings"

	"berth.dev/berth/apis/v1alpha1"
)

// anyNamespace is the key of the domains that are for all namespaces.
const anyNamespace = "*"

// Domains are the host names that frontends may have, by the namespace of their Environment: names, "*.example.com" for every
// name below example.com, and "*" for every name.
type Domains map[string][]string

// Split returns the domains of a frontend that its namespace may have, and those that it may not.
func (d Domains) Split(namespace string, f *v1alpha1.FrontendComponent) (allowed, refused []string) {
	if f == nil {
		return nil, nil
	}
	for _, domain := range f.Domains {
		if d.allows(namespace, domain) {
			allowed = append(allowed, domain)
		} else {
			refused = append(refused, domain)
		}
	}
	return allowed, refused
}

func (d Domains) allows(namespace, domain string) bool {
	covers := func(pattern string) bool {
		below, wildcard := strings.CutPrefix(pattern, "*")
		return pattern == domain || wildcard && strings.HasSuffix(domain, below)
	}
	return slices.ContainsFunc(d[namespace], covers) || slices.ContainsFunc(d[anyNamespace], covers)
}
