// SPDX-License-Identifier: Apache-2.0

package grpcweb

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rs/cors"
)

// AnyOrigin allows pages of all origins.
const AnyOrigin = "*"

// preflightSeconds is the time for which a browser keeps the answer to a preflight.
const preflightSeconds = 600

// requestHeaders are the headers that pages may send, and responseHeaders those that they may read.
var (
	requestHeaders = []string{
		"Authorization", "Content-Type", "Grpc-Timeout", "X-Grpc-Web", "X-User-Agent", "X-Correlation-Id", "Berth-Namespace", "Berth-Wire-Form",
	}
	responseHeaders = []string{
		"Grpc-Status", "Grpc-Message", "Grpc-Status-Details-Bin", "Berth-Warning", "X-Correlation-Id", "Retry-After", "Warning",
	}
)

// Origins decides which pages may call.
type Origins struct {
	cors *cors.Cors
	// others refuses calls of pages of other origins, nil if there are none.
	others *http.CrossOriginProtection
}

// NewOrigins returns the rules for pages of some origins, scheme://host[:port], or of AnyOrigin. Pages of the origin that is called may
// call as well. Browsers send no cookies or client certificates of their own accord, because credentials are not allowed.
func NewOrigins(origins []string) (*Origins, error) {
	o := &Origins{}
	options := cors.Options{
		AllowedOrigins: origins, AllowedHeaders: requestHeaders, ExposedHeaders: responseHeaders, MaxAge: preflightSeconds,
		AllowedMethods: []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete},
		// A page on the Internet that calls a server in a private network, if its origin is allowed.
		AllowPrivateNetwork: true,
	}
	if len(origins) == 0 {
		options.AllowOriginFunc = func(string) bool { return false } // without a list the library allows all
	}
	o.cors = cors.New(options)
	if len(origins) == 1 && origins[0] == AnyOrigin {
		return o, nil
	}
	o.others = http.NewCrossOriginProtection()
	for _, origin := range origins {
		if strings.Contains(origin, AnyOrigin) {
			return nil, fmt.Errorf("origin %q: patterns are not supported, and %q must be the only entry", origin, AnyOrigin)
		}
		if err := o.others.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("origin %q: %w", origin, err)
		}
	}
	return o, nil
}

// IsPreflight reports whether a browser finds out by a request whether a page may call.
func IsPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// Preflight answers a preflight. It has no headers of CORS if the page may not call.
func (o *Origins) Preflight(w http.ResponseWriter, r *http.Request) { o.cors.HandlerFunc(w, r) }

// Call sets the headers by which a browser shows a response to a page, and reports whether the call is allowed: a call without an
// origin, or of one that is allowed.
func (o *Origins) Call(w http.ResponseWriter, r *http.Request) bool {
	o.cors.HandlerFunc(w, r)
	return o.others == nil || o.others.Check(r) == nil
}

// Has reports whether the origin of a request is one of those that may call. A request without an origin has none.
func (o *Origins) Has(r *http.Request) bool {
	return r.Header.Get("Origin") != "" && o.cors.OriginAllowed(r)
}
