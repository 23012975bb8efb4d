// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGateways(t *testing.T) {
	validates(t, func(c *Configuration) *Environments { return &c.Environments }, map[string]change[Environments]{
		"none":                      {func(*Environments) {}, ""},
		"one":                       {func(e *Environments) { e.Gateway = "edge/public.v2" }, ""},
		"one with another listener": {func(e *Environments) { e.Gateway, e.GatewayTLSListener = "edge/public", "https-wildcard" }, ""},
		"a name without a namespace": {
			func(e *Environments) { e.Gateway = "public" },
			`environments.gateway: Invalid value: "public": must be namespace/name of a Gateway`,
		},
		"a namespace without a name": {
			func(e *Environments) { e.Gateway = "edge/" },
			`environments.gateway: Invalid value: "edge/": must be namespace/name of a Gateway`,
		},
		"a name with no namespace": {
			func(e *Environments) { e.Gateway = "/public" }, `environments.gateway: Invalid value: "/public": must be`,
		},
		"three parts": {
			func(e *Environments) { e.Gateway = "a/b/c" }, `environments.gateway: Invalid value: "a/b/c": must be`,
		},
		"a namespace that cannot be": {
			func(e *Environments) { e.Gateway = "a.b/c" }, `environments.gateway: Invalid value: "a.b/c": must be`,
		},
		"a name that cannot be": {
			func(e *Environments) { e.Gateway = "edge/Public" },
			`environments.gateway: Invalid value: "edge/Public": must be`,
		},
		"a blank": {func(e *Environments) { e.Gateway = " " }, `environments.gateway: Invalid value: " ": must be`},
		"no listener": {
			func(e *Environments) { e.GatewayTLSListener = "" }, `environments.gatewayTLSListener: Invalid value: ""`,
		},
		"a listener that cannot be": {
			func(e *Environments) { e.GatewayTLSListener = "HTTPS" },
			`environments.gatewayTLSListener: Invalid value: "HTTPS"`,
		},
	})
}

func TestOutsideNetworks(t *testing.T) {
	c := Default()
	c.Environments.OutsideNetworks = []string{"10.1.0.0/16", "2001:db8::/32"}
	require.Empty(t, c.Validate())
	c.Environments.OutsideNetworks = []string{"10.1.0.0/16", "10.1.0.0"}
	require.ErrorContains(t, c.Validate().ToAggregate(), `environments.outsideNetworks[1]: Invalid value: "10.1.0.0"`)
}

func TestDomainsAndLabelsOfNamespaces(t *testing.T) {
	validates(t, func(c *Configuration) *Environments { return &c.Environments }, map[string]change[Environments]{
		"names and wildcards": {func(e *Environments) {
			e.Domains = map[string][]string{"shop": {"a.example", "*.b.example"}, "*": {"*"}}
		}, ""},
		"a namespace of two parts": {
			func(e *Environments) { e.Domains = map[string][]string{"a.b": {"a.example"}} },
			"environments.domains[a.b]",
		},
		"an address": {
			func(e *Environments) { e.Domains = map[string][]string{"shop": {"https://a.example"}} },
			"environments.domains[shop][0]",
		},
		"a wildcard in between": {
			func(e *Environments) { e.Domains = map[string][]string{"shop": {"a.*.example"}} },
			"environments.domains[shop][0]",
		},
		"a wildcard of half": {
			func(e *Environments) { e.Domains = map[string][]string{"shop": {"*example"}} },
			"environments.domains[shop][0]",
		},
		"no labels":              {func(e *Environments) { e.NamespaceLabels, e.CopiedLabels = nil, nil }, ""},
		"a label that cannot be": {func(e *Environments) { e.NamespaceLabels = Texts{"a b": "c"} }, "environments.namespaceLabels"},
		"a label of Berth": {
			func(e *Environments) { e.NamespaceLabels = Texts{"berth.dev/environment": "x"} },
			"environments.namespaceLabels[berth.dev/environment]",
		},
		"a copy that cannot be": {func(e *Environments) { e.CopiedLabels = []string{""} }, "environments.copiedLabels[0]"},
		"a copy of Berth's": {
			func(e *Environments) { e.CopiedLabels = []string{"berth.dev/inject"} }, "environments.copiedLabels[0]",
		},
		"directories of nodes": {
			func(e *Environments) { e.HostPaths = []string{"/data"} },
			"environments.namespaceLabels[pod-security.kubernetes.io/enforce]",
		},
		"ports of nodes": {
			func(e *Environments) { e.Exposure = "HostPort" },
			"environments.namespaceLabels[pod-security.kubernetes.io/enforce]",
		},
		"directories, privileged": {func(e *Environments) {
			e.HostPaths, e.NamespaceLabels = []string{"/data"}, Texts{"pod-security.kubernetes.io/enforce": "privileged"}
		}, ""},
		"ports of nodes in the namespace of the object": {
			func(e *Environments) { e.Exposure, e.NamespacePerEnvironment = "HostPort", false }, "",
		},
	})
}

// A file must be able to remove a default.
func TestLabelsAndAmountsOfAFileReplaceTheDefaults(t *testing.T) {
	c, err := Parse([]byte(header + `environments: {quota: {pods: "3"}, namespaceLabels: {}}` + "\n"))
	require.NoError(t, err)
	require.Equal(t, Texts{"pods": "3"}, c.Environments.Quota)
	require.Empty(t, c.Environments.NamespaceLabels)
	require.Equal(t, "None", c.Environments.Exposure)
}
