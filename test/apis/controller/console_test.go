// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestConsole(t *testing.T) {
	const tls = "certFile: /tls.crt, keyFile: /tls.key"
	many := "[" + strings.TrimSuffix(strings.Repeat("a.example, ", 33), ", ") + "]"
	validates(t, map[string]change{
		"loopback needs no TLS":             {`console: {bindAddress: "127.0.0.1:9445"}`, ""},
		"all addresses need TLS":            {`console: {bindAddress: ":9445"}`, "other hosts can reach it without TLS"},
		"all addresses with TLS":            {`console: {bindAddress: ":9445", ` + tls + "}", ""},
		"all addresses without, on purpose": {`console: {bindAddress: ":9445", insecure: true}`, ""},
		"no port":                           {"console: {bindAddress: localhost}", "console.bindAddress"},
		"a key without a certificate":       {"console: {keyFile: /tls.key}", "console.keyFile: Required"},
		"hosts":                             {`console: {hosts: [berth.example, 10.0.0.1, "fd00::1"]}`, ""},
		"a host with a port":                {`console: {hosts: ["berth.example:443"]}`, "console.hosts[0]: Invalid"},
		"a host in upper case":              {"console: {hosts: [Berth.example]}", "console.hosts[0]: Invalid"},
		"all hosts":                         {`console: {hosts: ["*"]}`, "console.hosts[0]: Invalid"},
		"a host twice":                      {"console: {hosts: [a.example, a.example]}", "console.hosts[1]: Duplicate"},
		"too many hosts":                    {"console: {hosts: " + many + "}", "console.hosts: Too many: 33: must have at most 32"},
		"a host that is too long":           {"console: {hosts: [" + strings.Repeat("a", 254) + "]}", "console.hosts[0]: Too long"},
		"no interval":                       {"console: {intervalSeconds: 0}", "console.intervalSeconds"},
		"idle for a second":                 {"console: {idleSeconds: 59}", "console.idleSeconds: Invalid value: 59: must be at least 60"},
		"a session of more than a week":     {"console: {maxSessionSeconds: 604801}", "console.maxSessionSeconds"},
	})
	for _, limit := range []string{
		"connections", "sessions", "sessionsPerUser", "streams", "streamsPerUser", "readings", "unknownTokensPerSecond",
		"unknownTokensPerSecondPerAddress",
	} {
		validates(t, map[string]change{
			"no " + limit:      {fmt.Sprintf("console: {limits: {%s: 0}}", limit), "console.limits." + limit},
			"endless " + limit: {fmt.Sprintf("console: {limits: {%s: 2147483647}}", limit), "console.limits." + limit},
		})
	}
}
