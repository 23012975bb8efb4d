// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/config/controller"
)

// known are the names of all controllers.
var known, _ = controller.KnownControllers()

func TestControllers(t *testing.T) {
	for list, want := range map[string]struct{ running, lease string }{
		"*":                    {"mix limits policies", "berth-controller"},
		"*,records":            {"mix limits policies records", "berth-controller"},
		"-limits,*":            {"mix policies", "berth-controller"},
		"*,-policies":          {"mix limits", "berth-controller"},
		"*,-mix":               {"limits policies", "berth-limits-policies"},
		"policies":             {"policies", "berth-policies"},
		"environments":         {"environments", "berth-environments"},
		"environments,records": {"records environments", "berth-records-environments"},
		"limits,mix":           {"mix limits", "berth-controller"},
	} {
		c := controller.Default()
		c.Controllers = strings.Split(list, ",")
		require.Empty(t, c.Validate(), list)
		var running []string
		for _, name := range known {
			if c.Runs(name) {
				running = append(running, name)
			}
		}
		assert.Equal(t, want.running, strings.Join(running, " "), list)
		assert.Equal(t, want.lease, c.LeaseName(), list)
		c.LeaderElection.Name = "mine"
		assert.Equal(t, "mine", c.LeaseName(), list)
	}
}

func TestControllersThatCannotRun(t *testing.T) {
	for list, want := range map[string]string{
		"mixes":                    `controllers[0]: Unsupported value: "mixes": supported values: "*", "mix", "limits", "policies", "records", "environments"`,
		"*,-":                      `controllers[1]: Unsupported value: "-"`,
		"*,-*":                     `controllers[1]: Unsupported value: "-*"`,
		"":                         `controllers[0]: Unsupported value: ""`,
		"mix,-mix":                 `controllers[1]: Duplicate value: "-mix"`,
		"-mix,-limits,-policies,*": `controllers: Invalid value: "-mix,-limits,-policies,*": must leave at least one controller`,
		"-records":                 `controllers: Invalid value: "-records": must leave at least one controller`,
	} {
		c := controller.Default()
		c.Controllers = strings.Split(list, ",")
		errs := c.Validate()
		require.Len(t, errs, 1, list)
		require.ErrorContains(t, errs[0], want)
	}
}

// ResourceLimits and DeploymentRecords can be served without the controllers and their permissions.
func TestNoControllersServeOnly(t *testing.T) {
	c := controller.Default()
	c.Controllers = []string{}
	errs := c.Validate()
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], "controllers: Required value: may be empty only with services.bindAddress")
	c.Services.BindAddress = "127.0.0.1:9444"
	require.Empty(t, c.Validate())
	assert.True(t, c.ServesOnly())
	assert.Equal(t, "berth-services", c.LeaseName())
}

// Two processes that run different controllers never share a lease by default.
func TestLeasesOfDifferentControllersDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) *controller.Configuration {
			c := controller.Default()
			c.Controllers = rapid.SliceOfNDistinct(rapid.SampledFrom(known), 1, -1, rapid.ID).Draw(t, label)
			return c
		}
		a, b := draw("a"), draw("b")
		if a.Runs(controller.ControllerMix) == b.Runs(controller.ControllerMix) && a.Runs(controller.ControllerMix) {
			t.Skip("a cluster has one mix controller")
		}
		for _, name := range known {
			if a.Runs(name) != b.Runs(name) {
				require.NotEqual(t, a.LeaseName(), b.LeaseName())
			}
		}
	})
}
