// SPDX-License-Identifier: Apache-2.0

// Package prometheus queries a Prometheus server for the figures of internal/records/nfr and for values of metrics, and reads the metrics
// that a program serves.
package prometheus

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// maxResponse is the most that is read of an answer: an answer to one of the queries has 21 points at most.
const maxResponse = 1 << 20

// Config is how Prometheus is reached.
type Config struct {
	// Address is its URL, with a path if it is served below one: http or https.
	Address string
	// BearerTokenFile has what it is sent as a bearer token. It is read again for each request. Empty sends none.
	BearerTokenFile string
	// CAFile has the certificates, as PEM, that its own is verified with; empty means those of the system. It is read once.
	CAFile string
	// Timeout bounds each query; 0 means nfr.QueryTimeout.
	Timeout time.Duration
	// MaxResponse is the most bytes that are read of an answer; 0 means 1 MiB.
	MaxResponse int64
}

// httpClient follows no redirect: the token is for this server only.
func (c *Config) httpClient() (*http.Client, error) {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read caFile: %w", err)
		}
		if tlsConfig.RootCAs = x509.NewCertPool(); !tlsConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read caFile %s: no certificate in it", c.CAFile)
		}
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second,
	}
	return &http.Client{
		Transport:     &roundTripper{next: transport, tokenFile: c.BearerTokenFile, most: cmp.Or(c.MaxResponse, maxResponse)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// checkAddress validates an address.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("must be a URL") // the error has the address in it, which may have a password in it
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must begin with http:// or https://")
	case u.Host == "":
		return errors.New("must name a host")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("must have no query and no fragment")
	}
	return nil
}

// errToken is a fault that is none of the network.
var errToken = errors.New("read bearerTokenFile")

// roundTripper adds the token and bounds the answers.
type roundTripper struct {
	next      http.RoundTripper
	tokenFile string
	most      int64
}

func (r *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if r.tokenFile != "" {
		token, err := os.ReadFile(r.tokenFile)
		if err != nil {
			if req.Body != nil {
				_ = req.Body.Close()
			}
			return nil, fmt.Errorf("%w: %w", errToken, err)
		}
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := r.next.RoundTrip(req)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, r.most)
	}
	return resp, err
}
