// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// AnyOrigin allows pages of all origins.
	AnyOrigin = "*"
	// maxOrigins is the maximum number of origins, maxOrigin the maximum length of one.
	maxOrigins, maxOrigin = 32, 256
)

// GRPCWeb configures gRPC-Web and CORS, by which pages in browsers call the services.
type GRPCWeb struct {
	// enabled serves gRPC-Web on the addresses of gRPC, and answers CORS preflights. Defaults to false.
	//
	// +optional
	Enabled bool `json:"enabled"`

	// allowedOrigins are the origins of pages that may call, such as https://ui.example:8443: at most 32 of 256 bytes, as
	// browsers send them. "*" alone allows all. Pages need a bearer token in any case. Defaults to none, which means that
	// only pages of the origin of the services may call, for instance behind the same proxy.
	//
	// +optional
	// +listType=set
	AllowedOrigins []string `json:"allowedOrigins"`
}

func (g *GRPCWeb) validate(path *field.Path) field.ErrorList {
	path = path.Child("allowedOrigins")
	if len(g.AllowedOrigins) == 0 {
		return nil
	}
	if !g.Enabled {
		return field.ErrorList{field.Forbidden(path, "may be set only with enabled")}
	}
	if n := len(g.AllowedOrigins); n > maxOrigins {
		return field.ErrorList{field.TooMany(path, n, maxOrigins)}
	}
	var all field.ErrorList
	for i, origin := range g.AllowedOrigins {
		switch problem := wrongOrigin(origin); {
		case len(origin) > maxOrigin:
			all = append(all, field.TooLong(path.Index(i), origin[:maxOrigin], maxOrigin))
		case slices.Contains(g.AllowedOrigins[:i], origin):
			all = append(all, field.Duplicate(path.Index(i), origin))
		case origin == AnyOrigin && len(g.AllowedOrigins) > 1:
			all = append(all, field.Invalid(path.Index(i), origin, "must be the only entry: it allows all origins"))
		case origin != AnyOrigin && problem != "":
			all = append(all, field.Invalid(path.Index(i), origin, problem))
		}
	}
	return all
}

// wrongOrigin returns why no browser sends an origin, "" if one does. A browser leaves out the default port.
func wrongOrigin(origin string) string {
	scheme, host, _ := strings.Cut(origin, "://")
	defaults := map[string]string{"http": ":80", "https": ":443"}
	switch {
	case strings.Contains(origin, AnyOrigin):
		return `must be one origin: patterns are not supported, "*" alone allows all`
	case http.NewCrossOriginProtection().AddTrustedOrigin(origin) != nil, strings.ContainsAny(host, "@ "):
		return "must be scheme://host or scheme://host:port, without a path"
	case strings.ToLower(origin) != origin:
		return "must be in lower case, as browsers send it"
	case defaults[scheme] != "" && strings.HasSuffix(host, defaults[scheme]):
		return fmt.Sprintf("must not have the default port of %s, which browsers leave out", scheme)
	}
	return ""
}
