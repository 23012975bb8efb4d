// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/v1alpha1"
)

// change of a valid configuration, and the only error that it has then; empty: none.
type change[T any] struct {
	change func(*T)
	want   string
}

// validates applies each change to a part of the default configuration.
func validates[T any](t *testing.T, part func(*Configuration) *T, cases map[string]change[T]) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := Default()
			tc.change(part(c))
			errs := c.Validate()
			if tc.want == "" {
				require.Empty(t, errs)
				return
			}
			require.NotEmpty(t, errs)
			for _, err := range errs {
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestDefaultsAreValid(t *testing.T) {
	require.Empty(t, Default().Validate())
}

func TestValidate(t *testing.T) {
	validates(t, func(c *Configuration) *Configuration { return c }, map[string]change[Configuration]{
		"a resync of 5 s is the shortest": {func(c *Configuration) { c.ResyncSeconds = 5 }, ""},
		"a resync of 4 s is too short": {
			func(c *Configuration) { c.ResyncSeconds = 4 },
			"resyncSeconds: Invalid value: 4: must be at least 5",
		},
		"a resync of more than an hour": {
			func(c *Configuration) { c.ResyncSeconds = 3601 },
			"resyncSeconds: Invalid value: 3601: must be at most 3600",
		},
		"no annotation repairs at all": {func(c *Configuration) { c.Mix.AnnotationRepairsPerMinute = 0 }, ""},
		"namespaces":                   {func(c *Configuration) { c.Namespaces = []string{"shop", "bank"} }, ""},
		"a namespace twice": {
			func(c *Configuration) { c.Namespaces = []string{"shop", "shop"} },
			`namespaces[1]: Duplicate value: "shop"`,
		},
		"a namespace that cannot be": {
			func(c *Configuration) { c.Namespaces = []string{"Shop"} },
			`namespaces[0]: Invalid value: "Shop"`,
		},
		"an unknown mode": {
			func(c *Configuration) { c.Mix.Rebalance.Mode = "Maybe" },
			`mix.rebalance.mode: Unsupported value: "Maybe": supported values: "Evict", "Off", "Report"`,
		},
		"capacity from an autoscaler": {
			func(c *Configuration) {
				c.Mix.Rebalance.Provisioning = v1alpha1.ProvisioningPlaceholder
				c.Mix.Rebalance.PlaceholderImage = "registry.example.com:5000/pause@sha256:1"
			}, "",
		},
		"capacity without a source": {
			func(c *Configuration) { c.Mix.Rebalance.Provisioning = "Hope" },
			`mix.rebalance.provisioning: Unsupported value: "Hope": supported values: "Placeholder", "Wait"`,
		},
		"a placeholder without an image": {
			func(c *Configuration) { c.Mix.Rebalance.PlaceholderImage = "" },
			`mix.rebalance.placeholderImage: Invalid value: "": must be an image`,
		},
		"an image with blanks around it": {
			func(c *Configuration) { c.Mix.Rebalance.PlaceholderImage = "pause " },
			`mix.rebalance.placeholderImage: Invalid value: "pause ": must be an image`,
		},
		"a renewal that outlasts the lease": {
			func(c *Configuration) { c.LeaderElection.RenewDeadlineSeconds = 15 },
			"leaderElection.renewDeadlineSeconds: Invalid value: 15: must be less than leaseDurationSeconds, 15",
		},
		"a retry that leaves no time to renew": {
			func(c *Configuration) {
				c.LeaderElection.RenewDeadlineSeconds, c.LeaderElection.RetryPeriodSeconds = 6, 5
			},
			"leaderElection.retryPeriodSeconds: Invalid value: 5: 1.2 times of it must be less than renewDeadlineSeconds, 6",
		},
		"a lease with a bad name": {func(c *Configuration) { c.LeaderElection.Name = "A" }, "leaderElection.name"},
		"a burst below the rate": {
			func(c *Configuration) { c.ClientConnection.Burst = 49 },
			"clientConnection.burst: Invalid value: 49: must be at least 300",
		},
		"a backoff that starts higher": {
			func(c *Configuration) { c.Mix.Rebalance.MaxBackoffSeconds = 29 },
			"mix.rebalance.maxBackoffSeconds: Invalid value: 29: must be at least 30",
		},
		"certificates without TLS": {
			func(c *Configuration) { c.Metrics.Secure, c.Metrics.CertDirectory = false, "/certs" },
			"metrics.certDirectory: Forbidden: may be set only with secure",
		},
		"no metrics":      {func(c *Configuration) { c.Metrics.BindAddress = "0" }, ""},
		"an IPv6 address": {func(c *Configuration) { c.Metrics.BindAddress = "[::1]:8443" }, ""},
		"a name":          {func(c *Configuration) { c.Metrics.BindAddress = "localhost:8443" }, ""},
		"an address left empty": {
			func(c *Configuration) { c.Health.BindAddress = "" },
			`health.bindAddress: Invalid value: "": must be host:port`,
		},
		"a port without a colon": {func(c *Configuration) { c.Health.BindAddress = "8081" }, "health.bindAddress"},
		"a port out of range":    {func(c *Configuration) { c.Metrics.BindAddress = ":65536" }, "must be a number from 1 to 65535"},
		"a port picked at random": {
			func(c *Configuration) { c.Metrics.BindAddress = "127.0.0.1:0" },
			"must be a number from 1 to 65535",
		},
		"gates that nothing removes": {func(c *Configuration) { c.Mix.Gates.FailOpenSeconds = 0 }, ""},
		"gates after more than an hour": {
			func(c *Configuration) { c.Mix.Gates.FailOpenSeconds = 3601 },
			"mix.gates.failOpenSeconds: Invalid value: 3601: must be at most 3600",
		},
		"a lease of the schedulers": {
			func(c *Configuration) {
				c.Mix.Gates.SchedulerLease = SchedulerLease{Namespace: "kube-system", Name: "kube-scheduler"}
			}, "",
		},
		"a lease without a name's namespace": {
			func(c *Configuration) { c.Mix.Gates.SchedulerLease.Name = "kube-scheduler" },
			"mix.gates.schedulerLease.namespace: Required value: must be set together with name",
		},
		"a lease with only a namespace": {
			func(c *Configuration) { c.Mix.Gates.SchedulerLease.Namespace = "kube-system" },
			"mix.gates.schedulerLease.name: Required value: must be set together with namespace",
		},
		"a lease that cannot be": {
			func(c *Configuration) {
				c.Mix.Gates.SchedulerLease = SchedulerLease{Namespace: "kube-system", Name: "A"}
			},
			`mix.gates.schedulerLease.name: Invalid value: "A"`,
		},
		"a lease's namespace that cannot be": {
			func(c *Configuration) { c.Mix.Gates.SchedulerLease = SchedulerLease{Namespace: "a.b", Name: "a"} },
			`mix.gates.schedulerLease.namespace: Invalid value: "a.b"`,
		},
		"a default namespace for limits": {func(c *Configuration) { c.Limits.DefaultNamespace = "sizes" }, ""},
		"a default namespace for limits that cannot be": {
			func(c *Configuration) { c.Limits.DefaultNamespace = "The Sizes" },
			`limits.defaultNamespace: Invalid value: "The Sizes"`,
		},
		"a webhook that names no scheduler": {func(c *Configuration) { c.Webhook.SchedulerName = "" }, ""},
		"a scheduler that cannot be": {
			func(c *Configuration) { c.Webhook.SchedulerName = "a b" }, `webhook.schedulerName: Invalid value: "a b"`,
		},
		"a webhook that gates": {func(c *Configuration) { c.Webhook.Enabled, c.Webhook.Gates = true, true }, ""},
		"gates without a webhook": {
			func(c *Configuration) { c.Webhook.Gates = true },
			`webhook.gates: Invalid value: true: has no effect without enabled`,
		},
		"a webhook that listens nowhere": {
			func(c *Configuration) { c.Webhook.BindAddress = "0" },
			`webhook.bindAddress: Invalid value: "0": must be host:port or :port`,
		},
		"a webhook's address without a port": {func(c *Configuration) { c.Webhook.BindAddress = "here" }, "webhook.bindAddress"},
		"a webhook's namespace that cannot be": {
			func(c *Configuration) { c.Webhook.Namespace = "a_b" }, `webhook.namespace: Invalid value: "a_b"`,
		},
		"a webhook without a service": {
			func(c *Configuration) { c.Webhook.ServiceName = "1" }, `webhook.serviceName: Invalid value: "1"`,
		},
		"a webhook without a secret": {
			func(c *Configuration) { c.Webhook.SecretName = "A" }, `webhook.secretName: Invalid value: "A"`,
		},
		"a webhook without a configuration": {
			func(c *Configuration) { c.Webhook.ConfigurationName = "A" },
			`webhook.configurationName: Invalid value: "A"`,
		},
		"a host that cannot be": {func(c *Configuration) { c.Metrics.BindAddress = "a b:1" }, "the host must be"},
	})
}

// A number that is added without bounds fails here.
func TestEveryNumberIsBoundedOnBothSides(t *testing.T) {
	c := Default()
	checked := 0
	visit(reflect.ValueOf(c).Elem(), "", func(path string, v reflect.Value) {
		before := v.Int()
		defer v.SetInt(before)
		for _, extreme := range []int64{math.MinInt32, math.MaxInt32} {
			v.SetInt(extreme)
			require.ErrorContains(t, c.Validate().ToAggregate(), fmt.Sprintf("%s: Invalid value: %d", path, extreme))
		}
		checked++
	})
	require.Equal(t, 46, checked)
}

// visit calls f for every integer field.
func visit(v reflect.Value, path string, f func(path string, v reflect.Value)) {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		inner := strings.TrimPrefix(path+"."+name, ".")
		switch field := v.Field(i); field.Kind() {
		case reflect.Struct:
			visit(field, inner, f)
		case reflect.Int32:
			f(inner, field)
		}
	}
}
