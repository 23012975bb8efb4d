// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net"
	"slices"
	"strings"
)

// serviceName is the name of the Service of the console.
const serviceName = "berth-console"

// hostsOf are the configured hosts or, if there are none, the names of the Service in a namespace.
func hostsOf(configured []string, namespace string) []string {
	if len(configured) > 0 {
		return configured
	}
	name := serviceName + "." + namespace
	return []string{serviceName, name, name + ".svc", name + ".svc.cluster.local"}
}

// serves reports whether the Host of a request is one of the hosts. A browser names this machine only in requests to this machine, so no
// name of an attacker is one of its names.
func serves(hosts []string, host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil { // no port
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	name = strings.ToLower(name)
	if ip := net.ParseIP(name); name == "localhost" || ip != nil && ip.IsLoopback() {
		return true
	}
	return slices.Contains(hosts, name)
}
