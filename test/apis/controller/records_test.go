// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
)

func TestOTLPEndpoint(t *testing.T) {
	for endpoint, ok := range map[string]bool{"": true, "http://collector.mesh:4317": true, "collector:4317": false, "grpc://collector": false} {
		c := controller.Default()
		c.Records.OTLPEndpoint = endpoint
		errs := c.Validate()
		if ok {
			require.Empty(t, errs, endpoint)
			continue
		}
		require.Len(t, errs, 1, endpoint)
		require.ErrorContains(t, errs[0], "records.otlpEndpoint: Invalid value")
	}
}

func TestRouter(t *testing.T) {
	const refused = ""
	for router, address := range map[string]string{
		"mesh/router":          "tcp/router.mesh.svc.cluster.local:17447",
		"mesh/router:7447":     "tcp/router.mesh.svc.cluster.local:7447",
		"router":               refused,
		"mesh/":                refused,
		"/router":              refused,
		"mesh/router:":         refused,
		"mesh/router:0":        refused,
		"mesh/router:65536":    refused,
		"mesh/router:7447:1":   refused,
		"mesh/router.b":        refused,
		"mesh/router/x":        refused,
		"mesh.evil.example/r":  refused,
		"mesh/router,tcp/evil": refused,
		" ":                    refused,
	} {
		c := controller.Default()
		c.Records.Router = router
		errs := c.Validate()
		if address == refused {
			require.NotEmpty(t, errs, router)
			require.ErrorContains(t, errs[0], "records.router: Invalid value")
			continue
		}
		require.Empty(t, errs, router)
		require.Equal(t, address, c.Records.RouterAddress())
	}
	require.Empty(t, controller.Default().Records.RouterAddress(), "none by default")
}
