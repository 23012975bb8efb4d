// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
)

// change is a part of a file, and the only error that the file has then; empty: none.
type change struct{ yaml, want string }

func validates(t *testing.T, cases map[string]change) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, err := controller.Parse([]byte(header + tc.yaml))
			require.NoError(t, err)
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
	require.Empty(t, controller.Default().Validate())
}

func TestValidate(t *testing.T) {
	validates(t, map[string]change{
		"a resync of 5 s is the shortest": {"resyncSeconds: 5", ""},
		"a resync of 4 s is too short":    {"resyncSeconds: 4", "resyncSeconds: Invalid value: 4: must be at least 5"},
		"a resync of more than an hour":   {"resyncSeconds: 3601", "resyncSeconds: Invalid value: 3601: must be at most 3600"},
		"no quarantines":                  {"mix: {interruptions: {quarantineSeconds: 0}}", ""},
		"a quarantine for nothing":        {"mix: {interruptions: {sharePercent: 0}}", "mix.interruptions.sharePercent: Invalid value: 0: must be at least 1"},
		"a quarantine of two days": {
			"mix: {interruptions: {quarantineSeconds: 172800}}", "mix.interruptions.quarantineSeconds: Invalid value: 172800: must be at most 86400",
		},
		"no longest quarantine": {
			"mix: {interruptions: {maxQuarantineSeconds: 0}}", "mix.interruptions.maxQuarantineSeconds: Invalid value: 0: must be at least 1",
		},
		"no annotation repairs at all": {"mix: {annotationRepairsPerMinute: 0}", ""},
		"namespaces":                   {"namespaces: [shop, bank]", ""},
		"a namespace twice":            {"namespaces: [shop, shop]", `namespaces[1]: Duplicate value: "shop"`},
		"a namespace that cannot be":   {"namespaces: [Shop]", `namespaces[0]: Invalid value: "Shop"`},
		"an unknown mode": {
			"mix: {rebalance: {mode: Maybe}}",
			`mix.rebalance.mode: Unsupported value: "Maybe": supported values: "Evict", "Off", "Report"`,
		},
		"capacity from an autoscaler": {
			`mix: {rebalance: {provisioning: Placeholder, placeholderImage: "registry.example.com:5000/pause@sha256:1"}}`, "",
		},
		"capacity without a source": {
			"mix: {rebalance: {provisioning: Hope}}",
			`mix.rebalance.provisioning: Unsupported value: "Hope": supported values: "Placeholder", "Wait"`,
		},
		"replacements first": {"mix: {rebalance: {strategy: Surge}}", ""},
		"a strategy that does not exist": {
			"mix: {rebalance: {strategy: Hope}}",
			`mix.rebalance.strategy: Unsupported value: "Hope": supported values: "Evict", "Surge", "SurgeOrEvict"`,
		},
		"a placeholder without an image": {
			`mix: {rebalance: {placeholderImage: ""}}`, `mix.rebalance.placeholderImage: Invalid value: "": must be an image`,
		},
		"an image with blanks around it": {
			`mix: {rebalance: {placeholderImage: "pause "}}`, `mix.rebalance.placeholderImage: Invalid value: "pause ": must be an image`,
		},
		"a renewal that outlasts the lease": {
			"leaderElection: {renewDeadlineSeconds: 15}",
			"leaderElection.renewDeadlineSeconds: Invalid value: 15: must be less than leaseDurationSeconds, 15",
		},
		"a retry that leaves no time to renew": {
			"leaderElection: {renewDeadlineSeconds: 6, retryPeriodSeconds: 5}",
			"leaderElection.retryPeriodSeconds: Invalid value: 5: 1.2 times of it must be less than renewDeadlineSeconds, 6",
		},
		"a lease with a bad name": {"leaderElection: {name: A}", "leaderElection.name"},
		"a burst below the rate":  {"clientConnection: {burst: 49}", "clientConnection.burst: Invalid value: 49: must be at least 300"},
		"a backoff that starts higher": {
			"mix: {rebalance: {maxBackoffSeconds: 29}}", "mix.rebalance.maxBackoffSeconds: Invalid value: 29: must be at least 30",
		},
		"certificates without TLS": {
			"metrics: {secure: false, certDirectory: /certs}", "metrics.certDirectory: Forbidden: may be set only with secure",
		},
		"a canary of some": {"mix: {rebalance: {canary: {percent: 10, namespaces: [shop]}}}", ""},
		"a canary of no namespace": {
			"mix: {rebalance: {canary: {namespaces: [a_b]}}}", `mix.rebalance.canary.namespaces[0]: Invalid value: "a_b"`,
		},
		"a health gate": {"mix: {rebalance: {healthGate: {prometheusURL: https://prometheus:9090, query: up}}}", ""},
		"a health gate without a query": {
			"mix: {rebalance: {healthGate: {prometheusURL: http://prometheus}}}",
			"mix.rebalance.healthGate.query: Required value: must be set together with prometheusURL",
		},
		"a health gate without a server": {
			"mix: {rebalance: {healthGate: {query: up}}}",
			"mix.rebalance.healthGate.prometheusURL: Required value: must be set together with query",
		},
		"a health gate that is no URL": {
			"mix: {rebalance: {healthGate: {prometheusURL: prometheus, query: up}}}", "must be an http or https address",
		},
		"savings by a server": {"mix: {savings: {prometheusURL: https://prometheus:9090, bearerTokenFile: /token, discountPercent: 10}}", ""},
		"no savings":          {"mix: {savings: {intervalSeconds: 0}}", ""},
		"savings all the time": {
			"mix: {savings: {intervalSeconds: 29}}", "mix.savings.intervalSeconds: Invalid value: 29: must be at least 30",
		},
		"a price of nothing": {
			"mix: {savings: {discountPercent: 100}}", "mix.savings.discountPercent: Invalid value: 100: must be at most 99",
		},
		"prices of no URL": {
			"mix: {savings: {metricsURL: /var/metrics}}", `mix.savings.metricsURL: Invalid value: "/var/metrics": must be an http or https address`,
		},
		"prices of two URLs": {
			"mix: {savings: {metricsURL: http://a, prometheusURL: http://b}}",
			"mix.savings.metricsURL: Forbidden: must not be set together with prometheusURL",
		},
		"a token for no URL": {
			"mix: {savings: {bearerTokenFile: /token}}",
			`mix.savings.bearerTokenFile: Invalid value: "/token": requires metricsURL or prometheusURL`,
		},
		"authorities of no URL": {"mix: {savings: {caFile: /ca.pem}}", `mix.savings.caFile: Invalid value: "/ca.pem"`},
		"prices without an answer": {
			"mix: {savings: {timeoutSeconds: 61}}", "mix.savings.timeoutSeconds: Invalid value: 61: must be at most 60",
		},
		"no metrics":                 {`metrics: {bindAddress: "0"}`, ""},
		"an IPv6 address":            {`metrics: {bindAddress: "[::1]:8443"}`, ""},
		"a name":                     {`metrics: {bindAddress: "localhost:8443"}`, ""},
		"an address left empty":      {`health: {bindAddress: ""}`, `health.bindAddress: Invalid value: "": must be host:port`},
		"a port without a colon":     {`health: {bindAddress: "8081"}`, "health.bindAddress"},
		"a port out of range":        {`metrics: {bindAddress: ":65536"}`, "must be a number from 1 to 65535"},
		"a port picked at random":    {`metrics: {bindAddress: "127.0.0.1:0"}`, "must be a number from 1 to 65535"},
		"a host that cannot be":      {`metrics: {bindAddress: "a b:1"}`, "the host must be"},
		"gates that nothing removes": {"mix: {gates: {failOpenSeconds: 0}}", ""},
		"gates after more than an hour": {
			"mix: {gates: {failOpenSeconds: 3601}}", "mix.gates.failOpenSeconds: Invalid value: 3601: must be at most 3600",
		},
		"a lease of the schedulers": {"mix: {gates: {schedulerLease: {namespace: kube-system, name: kube-scheduler}}}", ""},
		"a lease without a name's namespace": {
			"mix: {gates: {schedulerLease: {name: kube-scheduler}}}",
			"mix.gates.schedulerLease.namespace: Required value: must be set together with name",
		},
		"a lease with only a namespace": {
			"mix: {gates: {schedulerLease: {namespace: kube-system}}}",
			"mix.gates.schedulerLease.name: Required value: must be set together with namespace",
		},
		"a lease that cannot be": {
			"mix: {gates: {schedulerLease: {namespace: kube-system, name: A}}}", `mix.gates.schedulerLease.name: Invalid value: "A"`,
		},
		"a lease's namespace that cannot be": {
			"mix: {gates: {schedulerLease: {namespace: a.b, name: a}}}", `mix.gates.schedulerLease.namespace: Invalid value: "a.b"`,
		},
		"a default namespace for limits": {"limits: {defaultNamespace: sizes}", ""},
		"a default namespace for limits that cannot be": {
			"limits: {defaultNamespace: The Sizes}", `limits.defaultNamespace: Invalid value: "The Sizes"`,
		},
		"a webhook that names no scheduler": {`webhook: {schedulerName: ""}`, ""},
		"a scheduler that cannot be":        {"webhook: {schedulerName: a b}", `webhook.schedulerName: Invalid value: "a b"`},
		"a webhook that gates":              {"webhook: {enabled: true, gates: true}", ""},
		"gates without a webhook":           {"webhook: {gates: true}", "webhook.gates: Invalid value: true: has no effect without enabled"},
		"a webhook without its controllers": {
			"controllers: [records]\nwebhook: {enabled: true}",
			"webhook.enabled: Invalid value: true: requires the controller mix or limits",
		},
		"a webhook with policies only": {
			"controllers: [policies]\nwebhook: {enabled: true}",
			"webhook.enabled: Invalid value: true: requires the controller mix or limits",
		},
		"a webhook that listens nowhere": {
			`webhook: {bindAddress: "0"}`, `webhook.bindAddress: Invalid value: "0": must be host:port or :port`,
		},
		"a webhook's address without a port":   {"webhook: {bindAddress: here}", "webhook.bindAddress"},
		"a webhook's namespace that cannot be": {"webhook: {namespace: a_b}", `webhook.namespace: Invalid value: "a_b"`},
		"a webhook without a service":          {`webhook: {serviceName: "1"}`, `webhook.serviceName: Invalid value: "1"`},
		"a webhook without a secret":           {"webhook: {secretName: A}", `webhook.secretName: Invalid value: "A"`},
		"a webhook without a configuration":    {"webhook: {configurationName: A}", `webhook.configurationName: Invalid value: "A"`},
	})
}

// A number that is added without bounds fails here.
func TestEveryNumberIsBoundedOnBothSides(t *testing.T) {
	c := controller.Default()
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
	require.Equal(t, 71, checked)
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
