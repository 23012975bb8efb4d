// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/test/testenv"
)

// The chart has one list of origins for both programs that serve.
func TestTheChartServesPages(t *testing.T) {
	w := testenv.New(t)
	served := []string{"services.enabled=true", "environments.enabled=true", "services.grpcWeb.allowedOrigins={https://ui.example,http://localhost:5173}"}
	off := normalise(t, template(w, namespace, served...))
	on := normalise(t, template(w, namespace, append(served, "services.grpcWeb.enabled=true")...))
	for _, program := range []string{"berth-records", "berth-environments"} {
		assert.Equal(t, controller.Default().Services.GRPCWeb, controllerConfig(t, off, program).Services.GRPCWeb, program)
		want := controller.GRPCWeb{Enabled: true, AllowedOrigins: []string{"https://ui.example", "http://localhost:5173"}}
		assert.Equal(t, want, controllerConfig(t, on, program).Services.GRPCWeb, program)
	}
}
