// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"net"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxHosts is the maximum number of hosts of the console, maxHost the maximum length of one.
	maxHosts, maxHost = 32, 253
)

// Console configures the console, which are web pages for users with a bearer token. The program berth-console serves them.
type Console struct {
	// bindAddress is the host:port on which berth-console serves, or "0" for none. It may be set only in the configuration of
	// berth-console, which requires it. Defaults to "0".
	//
	// +optional
	BindAddress string `json:"bindAddress"`

	// insecure allows addresses other than loopback without TLS, for a proxy that terminates TLS in front of it. Loopback addresses
	// are always allowed without TLS. Defaults to false.
	//
	// +optional
	Insecure bool `json:"insecure"`

	// certFile is the path of the server's certificate, PEM, which is reloaded when it changes. Defaults to empty, which means no TLS.
	//
	// +optional
	CertFile string `json:"certFile"`

	// keyFile is the path of the certificate's key, PEM. Defaults to empty.
	//
	// +optional
	KeyFile string `json:"keyFile"`

	// hosts are the names, without a port, by which browsers may open the console: at most 32 of 253 bytes, in lower case. Requests
	// for another host are refused. localhost and loopback addresses are always allowed. Defaults to empty, which means the names of
	// the Service berth-console in the namespace of the program.
	//
	// +optional
	// +listType=set
	Hosts []string `json:"hosts"`

	// acceptAuthorizationHeader accepts a bearer token in the header Authorization of each request instead of a session, as proxies
	// for OpenID Connect send it. Headers that name a user have no effect. Defaults to false.
	//
	// +optional
	AcceptAuthorizationHeader bool `json:"acceptAuthorizationHeader"`

	// readOnly serves pages without forms. Defaults to false.
	//
	// +optional
	ReadOnly bool `json:"readOnly"`

	// intervalSeconds is the time between two readings while a page is open, in seconds from 1 to 3600. Reading takes at most a fifth
	// of the time. Defaults to 2.
	//
	// +optional
	IntervalSeconds int32 `json:"intervalSeconds"`

	// idleSeconds is the time after which a session without an open page ends, in seconds from 60 to 86400. Defaults to 1800.
	//
	// +optional
	IdleSeconds int32 `json:"idleSeconds"`

	// maxSessionSeconds is the time after which every session ends, in seconds from 60 to 604800. A session also ends within 30
	// seconds after its token is revoked or expires. Defaults to 43200.
	//
	// +optional
	MaxSessionSeconds int32 `json:"maxSessionSeconds"`

	// limits limits the sessions and requests of users.
	//
	// +optional
	Limits ConsoleLimits `json:"limits"`
}

// ConsoleLimits limits the sessions and requests of users. Each replica counts separately.
type ConsoleLimits struct {
	// connections is the maximum number of open connections, from 16 to 65536. A new connection above it closes one without an
	// authenticated request in progress. Defaults to 256.
	//
	// +optional
	Connections int32 `json:"connections"`

	// sessions is the maximum number of sessions, from 1 to 4096. A new session above it ends the one that was not used for longest
	// and has no open page. Defaults to 100.
	//
	// +optional
	Sessions int32 `json:"sessions"`

	// sessionsPerUser is the maximum number of these of one user, from 1 to 4096. Defaults to 8.
	//
	// +optional
	SessionsPerUser int32 `json:"sessionsPerUser"`

	// streams is the maximum number of open pages that follow the cluster, from 1 to 65536. Defaults to 200.
	//
	// +optional
	Streams int32 `json:"streams"`

	// streamsPerUser is the maximum number of these of one user, in all sessions of the user, from 1 to 65536. Defaults to 20.
	//
	// +optional
	StreamsPerUser int32 `json:"streamsPerUser"`

	// readings is the maximum number of different readings of the cluster at a time, from 1 to 256: users with the same rights in the
	// same namespaces share one. A user has at most a quarter of them, and at least one. Defaults to 16.
	//
	// +optional
	Readings int32 `json:"readings"`

	// unknownTokensPerSecond is the number of bearer tokens per second that are not cached as valid and are sent to the API server for
	// review, from 1 to 10000. The burst is twice the number. Defaults to 10.
	//
	// +optional
	UnknownTokensPerSecond int32 `json:"unknownTokensPerSecond"`

	// unknownTokensPerSecondPerAddress is the same number for one source address, from 1 to 10000. Behind a proxy, all users have its
	// address. Defaults to 5.
	//
	// +optional
	UnknownTokensPerSecondPerAddress int32 `json:"unknownTokensPerSecondPerAddress"`
}

func defaultConsole() Console {
	return Console{
		BindAddress: Disabled, Hosts: []string{}, IntervalSeconds: 2, IdleSeconds: 1800, MaxSessionSeconds: 43200,
		Limits: ConsoleLimits{
			Connections: 256, Sessions: 100, SessionsPerUser: 8, Streams: 200, StreamsPerUser: 20, Readings: 16,
			UnknownTokensPerSecond: 10, UnknownTokensPerSecondPerAddress: 5,
		},
	}
}

// Enabled reports whether the console is served.
func (c *Console) Enabled() bool { return c.BindAddress != Disabled }

func (c *Console) validate(path *field.Path) field.ErrorList {
	all := validateBindAddress(path.Child("bindAddress"), c.BindAddress)
	if c.Enabled() {
		all = append(all, validateReach(path.Child("bindAddress"), c.BindAddress, c.CertFile != "" || c.Insecure)...)
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		all = append(all, field.Required(path.Child("keyFile"), "certFile and keyFile must be set together"))
	}
	all = append(all, validateHosts(path.Child("hosts"), c.Hosts)...)
	all = append(all, inRange(path.Child("intervalSeconds"), c.IntervalSeconds, 1, 3600)...)
	all = append(all, inRange(path.Child("idleSeconds"), c.IdleSeconds, 60, 86400)...)
	all = append(all, inRange(path.Child("maxSessionSeconds"), c.MaxSessionSeconds, 60, 604800)...)
	return append(all, c.Limits.validate(path.Child("limits"))...)
}

func (l *ConsoleLimits) validate(path *field.Path) field.ErrorList {
	const most = 1 << 16
	all := inRange(path.Child("connections"), l.Connections, 16, most)
	all = append(all, inRange(path.Child("sessions"), l.Sessions, 1, 4096)...)
	all = append(all, inRange(path.Child("sessionsPerUser"), l.SessionsPerUser, 1, 4096)...)
	all = append(all, inRange(path.Child("streams"), l.Streams, 1, most)...)
	all = append(all, inRange(path.Child("streamsPerUser"), l.StreamsPerUser, 1, most)...)
	all = append(all, inRange(path.Child("readings"), l.Readings, 1, 256)...)
	all = append(all, inRange(path.Child("unknownTokensPerSecond"), l.UnknownTokensPerSecond, 1, 10000)...)
	return append(all, inRange(path.Child("unknownTokensPerSecondPerAddress"), l.UnknownTokensPerSecondPerAddress, 1, 10000)...)
}

// validateHosts requires names as browsers send them, without a port.
func validateHosts(path *field.Path, hosts []string) field.ErrorList {
	if n := len(hosts); n > maxHosts {
		return field.ErrorList{field.TooMany(path, n, maxHosts)}
	}
	var all field.ErrorList
	seen := map[string]bool{}
	for i, host := range hosts {
		switch {
		case len(host) > maxHost:
			all = append(all, field.TooLong(path.Index(i), host[:maxHost], maxHost))
		case seen[host]:
			all = append(all, field.Duplicate(path.Index(i), host))
		case len(validation.IsDNS1123Subdomain(host)) > 0 && net.ParseIP(host) == nil:
			all = append(all, field.Invalid(path.Index(i), host, "must be a name in lower case or an IP address, without a port: "+
				strings.Join(validation.IsDNS1123Subdomain(host), "; ")))
		}
		seen[host] = true
	}
	return all
}
