// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"berth.dev/berth/internal/kube/grpcweb"
)

// The targets of calls.
const (
	berth = iota
	environments
)

// environmentsPath begins the paths of the gRPC service of berth-environments. All others are those of berth-controller.
const environmentsPath = "/scheduler.v1."

// namespaceHeader is the metadata with the namespace of a call.
const namespaceHeader = "Berth-Namespace"

// target is where calls are passed on to.
type target struct {
	url *url.URL
	// service, if set, is the Service to whose pods connections are forwarded.
	service, namespace string
}

// targetOf returns the target of a path.
func targetOf(path string) int {
	if strings.HasPrefix(path, environmentsPath) {
		return environments
	}
	return berth
}

// newHandler passes calls on with other credentials than those they have, and with a namespace if they have none. origins are those of web
// pages that may call, nil for none.
func newHandler(targets [2]target, transport http.RoundTripper, namespace string, origins *grpcweb.Origins) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // streams
		Rewrite: func(r *httputil.ProxyRequest) {
			to := targets[targetOf(r.In.URL.Path)].url
			r.SetURL(to)
			r.Out.Host = to.Host
			r.Out.Header.Del("Authorization")
			r.Out.Header.Del("Origin") // the services have other origins
			if namespace != "" && r.Out.Header.Get(namespaceHeader) == "" {
				r.Out.Header.Set(namespaceHeader, namespace)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			refuse(w, r, http.StatusBadGateway, "the service cannot be reached: "+err.Error())
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !local(r.Host):
			// A page of another site whose name resolves to this machine.
			refuse(w, r, http.StatusForbidden, "the proxy is called as "+r.Host+", which is not an address of this machine")
		case r.Header.Get("Origin") == "" && !sameSite(r):
			// An image or a link of a page, which has no Origin: it would be sent with the credentials of the user.
			refuse(w, r, http.StatusForbidden, fmt.Sprintf("the proxy takes no requests of other sites: Sec-Fetch-Site is %.32q",
				r.Header.Get(fetchSite)))
		case r.Header.Get("Origin") == "":
			proxy.ServeHTTP(w, r)
		case origins == nil:
			refuse(w, r, http.StatusForbidden, "the proxy takes no calls from web pages: --allowed-origin is not set")
		case !origins.Has(r):
			refuse(w, r, http.StatusForbidden, fmt.Sprintf("the proxy takes no calls from pages of %.256q: --allowed-origin does not have it",
				r.Header.Get("Origin")))
		default:
			serveBrowser(proxy, origins, w, r)
		}
	})
}

// fetchSite is the header in which a browser reports the site of the page that sends a request. Other clients do not send it.
const fetchSite = "Sec-Fetch-Site"

// sameSite reports whether a request is of no browser, or of its user or of a page of the proxy itself.
func sameSite(r *http.Request) bool {
	return slices.Contains([]string{"", "none", "same-origin"}, r.Header.Get(fetchSite))
}

// serveBrowser answers a preflight, and passes a call of a page on, one of gRPC-Web as one of gRPC.
func serveBrowser(proxy http.Handler, origins *grpcweb.Origins, w http.ResponseWriter, r *http.Request) {
	if grpcweb.IsPreflight(r) {
		origins.Preflight(w, r)
		return
	}
	origins.Call(w, r)
	if !grpcweb.Is(r) {
		proxy.ServeHTTP(w, r)
		return
	}
	web, call, err := grpcweb.Translate(w, r)
	if unsupported, ok := errors.AsType[*grpcweb.UnsupportedError](err); ok {
		http.Error(w, err.Error(), unsupported.Status)
		return
	}
	proxy.ServeHTTP(web, call)
	web.Finish()
}

// local reports whether a host is this machine.
func local(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// refuse answers a gRPC call with a status, and others with the HTTP status.
func refuse(w http.ResponseWriter, r *http.Request, status int, message string) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		http.Error(w, message, status)
		return
	}
	code := codes.Unavailable
	if status == http.StatusForbidden {
		code = codes.PermissionDenied
	}
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(int(code)))
	h.Set("Grpc-Message", url.PathEscape(message))
}
