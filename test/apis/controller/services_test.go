// SPDX-License-Identifier: Apache-2.0

package controller_test

import "testing"

func TestServices(t *testing.T) {
	const tls = "certFile: /tls.crt, keyFile: /tls.key"
	validates(t, map[string]change{
		"nothing is served":     {"", ""},
		"loopback needs no TLS": {`services: {bindAddress: "127.0.0.1:3000"}`, ""},
		"loopback of IPv6":      {`services: {bindAddress: "[::1]:3000"}`, ""},
		"localhost":             {`services: {bindAddress: "localhost:3000"}`, ""},
		"all addresses need TLS": {
			`services: {bindAddress: ":3000"}`,
			`services.bindAddress: Invalid value: ":3000": other hosts can reach it without TLS`,
		},
		"another address needs TLS":         {`services: {bindAddress: "10.0.0.1:3000"}`, "other hosts can reach it without TLS"},
		"a name needs TLS":                  {`services: {bindAddress: "berth.example:3000"}`, "other hosts can reach it without TLS"},
		"all addresses with TLS":            {`services: {bindAddress: ":3000", ` + tls + "}", ""},
		"all addresses without, on purpose": {`services: {bindAddress: ":3000", insecure: true}`, ""},
		"more addresses": {
			`services: {bindAddress: ":3000", extraBindAddresses: [":8000", "127.0.0.1:7088"], ` + tls + "}", "",
		},
		"one of more needs TLS": {
			`services: {bindAddress: "127.0.0.1:3000", extraBindAddresses: ["127.0.0.1:3001", ":8000"]}`,
			`services.extraBindAddresses[1]: Invalid value: ":8000": other hosts can reach it without TLS`,
		},
		"more addresses than none": {`services: {extraBindAddresses: ["127.0.0.1:3001"]}`, "services.extraBindAddresses[0]: Forbidden"},
		"an address twice": {
			`services: {bindAddress: "127.0.0.1:3000", extraBindAddresses: ["127.0.0.1:3000"]}`,
			"services.extraBindAddresses[0]: Duplicate",
		},
		"an extra address that is off": {
			`services: {bindAddress: "127.0.0.1:3000", extraBindAddresses: ["0"]}`, "services.extraBindAddresses[0]: Invalid",
		},
		"no port":                         {"services: {bindAddress: localhost}", "services.bindAddress"},
		"a certificate without a key":     {"services: {certFile: /tls.crt}", "services.keyFile: Required"},
		"client certificates without TLS": {"services: {clientCAFile: /ca.crt}", "services.clientCAFile: Forbidden"},
		"client certificates":             {"services: {clientCAFile: /ca.crt, " + tls + "}", ""},
		"a default above the maximum":     {"services: {defaultTimeoutSeconds: 61}", "services.defaultTimeoutSeconds"},
		"a stream of a day":               {"services: {maxStreamSeconds: 86400}", ""},
		"a stream of more than a day": {
			"services: {maxStreamSeconds: 86401}", "services.maxStreamSeconds: Invalid value: 86401: must be at most 86400",
		},
		"streams that are short": {"services: {maxStreamSeconds: 1}", ""},
		"no connections": {
			"services: {requestLimits: {connections: 0}}",
			"services.requestLimits.connections: Invalid value: 0: must be at least 16",
		},
		"no calls":             {"services: {requestLimits: {calls: 0}}", "services.requestLimits.calls"},
		"no calls of a caller": {"services: {requestLimits: {callsPerCaller: -1}}", "services.requestLimits.callsPerCaller"},
		"no streams":           {"services: {requestLimits: {streams: 0}}", "services.requestLimits.streams"},
		"streams without a bound": {
			"services: {requestLimits: {streamsPerCaller: 2147483647}}",
			"services.requestLimits.streamsPerCaller: Invalid value: 2147483647: must be at most 65536",
		},
		"no open calls":               {"services: {requestLimits: {openCalls: 0}}", "services.requestLimits.openCalls"},
		"no open calls of an address": {"services: {requestLimits: {openCallsPerAddress: 0}}", "services.requestLimits.openCallsPerAddress"},
		"no unknown tokens": {
			"services: {requestLimits: {unknownTokensPerSecond: 0}}", "services.requestLimits.unknownTokensPerSecond",
		},
		"no unknown tokens of an address": {
			"services: {requestLimits: {unknownTokensPerSecondPerAddress: 0}}",
			"services.requestLimits.unknownTokensPerSecondPerAddress",
		},
		"no namespace":             {`services: {limits: {namespace: ""}}`, "services.limits.namespace"},
		"no namespace for records": {"services: {records: {namespace: a/b}}", "services.records.namespace"},
	})
}
