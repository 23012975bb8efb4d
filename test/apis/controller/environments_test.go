// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
)

func TestGateways(t *testing.T) {
	validates(t, map[string]change{
		"none":                      {"", ""},
		"one":                       {"environments: {gateway: edge/public.v2}", ""},
		"one with another listener": {"environments: {gateway: edge/public, gatewayTLSListener: https-wildcard}", ""},
		"a name without a namespace": {
			"environments: {gateway: public}",
			`environments.gateway: Invalid value: "public": must be namespace/name of a Gateway`,
		},
		"a namespace without a name": {
			"environments: {gateway: edge/}",
			`environments.gateway: Invalid value: "edge/": must be namespace/name of a Gateway`,
		},
		"a name with no namespace":   {"environments: {gateway: /public}", `environments.gateway: Invalid value: "/public": must be`},
		"three parts":                {"environments: {gateway: a/b/c}", `environments.gateway: Invalid value: "a/b/c": must be`},
		"a namespace that cannot be": {"environments: {gateway: a.b/c}", `environments.gateway: Invalid value: "a.b/c": must be`},
		"a name that cannot be":      {"environments: {gateway: edge/Public}", `environments.gateway: Invalid value: "edge/Public": must be`},
		"a blank":                    {`environments: {gateway: " "}`, `environments.gateway: Invalid value: " ": must be`},
		"no listener":                {`environments: {gatewayTLSListener: ""}`, `environments.gatewayTLSListener: Invalid value: ""`},
		"a listener that cannot be": {
			"environments: {gatewayTLSListener: HTTPS}", `environments.gatewayTLSListener: Invalid value: "HTTPS"`,
		},
	})
}

func TestOutsideNetworks(t *testing.T) {
	validates(t, map[string]change{
		"networks": {`environments: {outsideNetworks: ["10.1.0.0/16", "2001:db8::/32"]}`, ""},
		"an address": {
			`environments: {outsideNetworks: ["10.1.0.0/16", "10.1.0.0"]}`,
			`environments.outsideNetworks[1]: Invalid value: "10.1.0.0"`,
		},
	})
}

func TestDomainsAndLabelsOfNamespaces(t *testing.T) {
	const enforce = "environments.namespaceLabels[pod-security.kubernetes.io/enforce]"
	validates(t, map[string]change{
		"names and wildcards":      {`environments: {domains: {shop: [a.example, "*.b.example"], "*": ["*"]}}`, ""},
		"a namespace of two parts": {"environments: {domains: {a.b: [a.example]}}", "environments.domains[a.b]"},
		"an address":               {`environments: {domains: {shop: ["https://a.example"]}}`, "environments.domains[shop][0]"},
		"a wildcard in between":    {`environments: {domains: {shop: ["a.*.example"]}}`, "environments.domains[shop][0]"},
		"a wildcard of half":       {`environments: {domains: {shop: ["*example"]}}`, "environments.domains[shop][0]"},
		"no labels":                {"environments: {namespaceLabels: {}, copiedLabels: []}", ""},
		"a label that cannot be":   {"environments: {namespaceLabels: {a b: c}}", "environments.namespaceLabels"},
		"a label of Berth": {
			"environments: {namespaceLabels: {berth.dev/environment: x}}",
			"environments.namespaceLabels[berth.dev/environment]",
		},
		"a copy that cannot be": {`environments: {copiedLabels: [""]}`, "environments.copiedLabels[0]"},
		"a copy of Berth's":     {"environments: {copiedLabels: [berth.dev/inject]}", "environments.copiedLabels[0]"},
		"directories of nodes":  {"environments: {hostPaths: [/data]}", enforce},
		"ports of nodes":        {"environments: {exposure: HostPort}", enforce},
		"where requested":       {"environments: {exposures: [HostPort]}", enforce},
		"an exposure that does not exist": {
			"environments: {exposures: [None, Ingress]}", `environments.exposures[1]: Unsupported value: "Ingress"`,
		},
		"directories, privileged": {
			"environments: {hostPaths: [/data], namespaceLabels: {pod-security.kubernetes.io/enforce: privileged}}", "",
		},
		"ports of nodes in the namespace of the object": {"environments: {exposure: HostPort, namespacePerEnvironment: false}", ""},
	})
}

// A file must be able to remove a default.
func TestLabelsAndAmountsOfAFileReplaceTheDefaults(t *testing.T) {
	c, err := controller.Parse([]byte(header + `environments: {quota: {pods: "3"}, namespaceLabels: {}}` + "\n"))
	require.NoError(t, err)
	require.Equal(t, controller.Texts{"pods": "3"}, c.Environments.Quota)
	require.Empty(t, c.Environments.NamespaceLabels)
	require.Equal(t, v1alpha1.ExposureNone, c.Environments.Exposure)
}
