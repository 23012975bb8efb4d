// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// ENV-23
func TestGateways(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Environments)
		want   string // empty: nothing is wrong
	}{
		"none":                       {func(*Environments) {}, ""},
		"one":                        {func(e *Environments) { e.Gateway = "edge/public.v2" }, ""},
		"one with another listener":  {func(e *Environments) { e.Gateway, e.GatewayTLSListener = "edge/public", "https-wildcard" }, ""},
		"a name without a namespace": {func(e *Environments) { e.Gateway = "public" }, `environments.gateway: Invalid value: "public": must be namespace/name of a Gateway`},
		"a namespace without a name": {func(e *Environments) { e.Gateway = "edge/" }, `environments.gateway: Invalid value: "edge/": must be namespace/name of a Gateway`},
		"a name with no namespace":   {func(e *Environments) { e.Gateway = "/public" }, `environments.gateway: Invalid value: "/public": must be`},
		"three parts":                {func(e *Environments) { e.Gateway = "a/b/c" }, `environments.gateway: Invalid value: "a/b/c": must be`},
		"a namespace that cannot be": {func(e *Environments) { e.Gateway = "a.b/c" }, `environments.gateway: Invalid value: "a.b/c": must be`},
		"a name that cannot be":      {func(e *Environments) { e.Gateway = "edge/Public" }, `environments.gateway: Invalid value: "edge/Public": must be`},
		"a blank":                    {func(e *Environments) { e.Gateway = " " }, `environments.gateway: Invalid value: " ": must be`},
		"no listener":                {func(e *Environments) { e.GatewayTLSListener = "" }, `environments.gatewayTLSListener: Invalid value: ""`},
		"a listener that cannot be":  {func(e *Environments) { e.GatewayTLSListener = "HTTPS" }, `environments.gatewayTLSListener: Invalid value: "HTTPS"`},
	} {
		t.Run(name, func(t *testing.T) {
			c := Default()
			tc.change(&c.Environments)
			errs := c.Validate()
			if tc.want == "" {
				require.Empty(t, errs)
				return
			}
			require.NotEmpty(t, errs)
			require.ErrorContains(t, errs[0], tc.want)
		})
	}
}

// ENV-11
func TestOutsideNetworks(t *testing.T) {
	c := Default()
	c.Environments.OutsideNetworks = []string{"10.1.0.0/16", "2001:db8::/32"}
	require.Empty(t, c.Validate())
	c.Environments.OutsideNetworks = []string{"10.1.0.0/16", "10.1.0.0"}
	require.ErrorContains(t, c.Validate().ToAggregate(), `environments.outsideNetworks[1]: Invalid value: "10.1.0.0"`)
}
