// SPDX-License-Identifier: Apache-2.0

package controller

import "testing"

func TestServices(t *testing.T) {
	tls := func(s *Services) { s.CertFile, s.KeyFile = "/tls.crt", "/tls.key" }
	validates(t, func(c *Configuration) *Services { return &c.Services }, map[string]change[Services]{
		"nothing is served":     {func(*Services) {}, ""},
		"loopback needs no TLS": {func(s *Services) { s.BindAddress = "127.0.0.1:3000" }, ""},
		"loopback of IPv6":      {func(s *Services) { s.BindAddress = "[::1]:3000" }, ""},
		"localhost":             {func(s *Services) { s.BindAddress = "localhost:3000" }, ""},
		"all addresses need TLS": {
			func(s *Services) { s.BindAddress = ":3000" },
			`services.bindAddress: Invalid value: ":3000": other hosts can reach it without TLS`,
		},
		"another address needs TLS": {
			func(s *Services) { s.BindAddress = "10.0.0.1:3000" }, "other hosts can reach it without TLS",
		},
		"a name needs TLS": {
			func(s *Services) { s.BindAddress = "berth.example:3000" }, "other hosts can reach it without TLS",
		},
		"all addresses with TLS":            {func(s *Services) { tls(s); s.BindAddress = ":3000" }, ""},
		"all addresses without, on purpose": {func(s *Services) { s.BindAddress, s.Insecure = ":3000", true }, ""},
		"more addresses": {func(s *Services) {
			tls(s)
			s.BindAddress, s.ExtraBindAddresses = ":3000", []string{":8000", "127.0.0.1:7088"}
		}, ""},
		"one of more needs TLS": {func(s *Services) {
			s.BindAddress, s.ExtraBindAddresses = "127.0.0.1:3000", []string{"127.0.0.1:3001", ":8000"}
		}, `services.extraBindAddresses[1]: Invalid value: ":8000": other hosts can reach it without TLS`},
		"more addresses than none": {
			func(s *Services) { s.ExtraBindAddresses = []string{"127.0.0.1:3001"} },
			"services.extraBindAddresses[0]: Forbidden",
		},
		"an address twice": {func(s *Services) {
			s.BindAddress, s.ExtraBindAddresses = "127.0.0.1:3000", []string{"127.0.0.1:3000"}
		}, "services.extraBindAddresses[0]: Duplicate"},
		"an extra address that is off": {func(s *Services) {
			s.BindAddress, s.ExtraBindAddresses = "127.0.0.1:3000", []string{"0"}
		}, "services.extraBindAddresses[0]: Invalid"},
		"no port":                         {func(s *Services) { s.BindAddress = "localhost" }, "services.bindAddress"},
		"a certificate without a key":     {func(s *Services) { s.CertFile = "/tls.crt" }, "services.keyFile: Required"},
		"client certificates without TLS": {func(s *Services) { s.ClientCAFile = "/ca.crt" }, "services.clientCAFile: Forbidden"},
		"client certificates":             {func(s *Services) { tls(s); s.ClientCAFile = "/ca.crt" }, ""},
		"a default above the maximum":     {func(s *Services) { s.DefaultTimeoutSeconds = 61 }, "services.defaultTimeoutSeconds"},
		"a stream of a day":               {func(s *Services) { s.MaxStreamSeconds = 86400 }, ""},
		"a stream of more than a day": {
			func(s *Services) { s.MaxStreamSeconds = 86401 },
			"services.maxStreamSeconds: Invalid value: 86401: must be at most 86400",
		},
		"streams that are short": {func(s *Services) { s.MaxStreamSeconds = 1 }, ""},
		"no connections": {
			func(s *Services) { s.RequestLimits.Connections = 0 },
			"services.requestLimits.connections: Invalid value: 0: must be at least 16",
		},
		"no calls": {func(s *Services) { s.RequestLimits.Calls = 0 }, "services.requestLimits.calls"},
		"no calls of a caller": {
			func(s *Services) { s.RequestLimits.CallsPerCaller = -1 }, "services.requestLimits.callsPerCaller",
		},
		"no streams": {func(s *Services) { s.RequestLimits.Streams = 0 }, "services.requestLimits.streams"},
		"streams without a bound": {
			func(s *Services) { s.RequestLimits.StreamsPerCaller = 1<<31 - 1 },
			"services.requestLimits.streamsPerCaller: Invalid value: 2147483647: must be at most 65536",
		},
		"no open calls": {func(s *Services) { s.RequestLimits.OpenCalls = 0 }, "services.requestLimits.openCalls"},
		"no open calls of an address": {
			func(s *Services) { s.RequestLimits.OpenCallsPerAddress = 0 }, "services.requestLimits.openCallsPerAddress",
		},
		"no unknown tokens": {
			func(s *Services) { s.RequestLimits.UnknownTokensPerSecond = 0 },
			"services.requestLimits.unknownTokensPerSecond",
		},
		"no unknown tokens of an address": {
			func(s *Services) { s.RequestLimits.UnknownTokensPerSecondPerAddress = 0 },
			"services.requestLimits.unknownTokensPerSecondPerAddress",
		},
		"no namespace":             {func(s *Services) { s.Limits.Namespace = "" }, "services.limits.namespace"},
		"no namespace for records": {func(s *Services) { s.Records.Namespace = "a/b" }, "services.records.namespace"},
	})
}
