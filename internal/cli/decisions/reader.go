// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"berth.dev/berth/internal/policies/decision"
)

// timeout bounds a request, with the connection that it requires.
const timeout = 20 * time.Second

// ErrNoRecord means that the scheduler has no record of the pod.
var ErrNoRecord = errors.New("no record")

// endpoint is where a scheduler serves its records.
type endpoint struct {
	// name names it in messages.
	name string
	// host is that of the URL, and dial connects to it.
	host string
	dial func(ctx context.Context) (net.Conn, error)
	// verified is set where the certificate of the scheduler has to be verified.
	verified bool
}

// direct is an address of --scheduler-address.
func direct(address string) endpoint {
	return endpoint{
		name: address, host: address, verified: !loopback(address),
		dial: func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", address) },
	}
}

func loopback(address string) bool {
	host, _, _ := net.SplitHostPort(address) // validated: the address has a port
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// reader reads records as the user of a kubeconfig.
type reader struct {
	config *rest.Config
	at     endpoint
}

// read returns the records of a pod.
func (r *reader) read(ctx context.Context, namespace, pod string) ([]*decision.Record, error) {
	status, body, err := r.get(ctx, decision.Path(namespace, pod))
	switch {
	case err != nil:
		return nil, r.explain(err)
	case status == http.StatusOK:
		var list decision.List
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, fmt.Errorf("read the decisions of %s: %w", r.at.name, err)
		}
		return list.Items, nil
	case status == http.StatusNotFound && strings.HasPrefix(string(body), decision.NoRecord):
		return nil, fmt.Errorf("%w of a scheduling attempt of pod %s/%s", ErrNoRecord, namespace, pod)
	case status == http.StatusForbidden:
		return nil, fmt.Errorf("the scheduler does not allow it: %s", strings.TrimSpace(string(body)))
	case status == http.StatusUnauthorized:
		return nil, fmt.Errorf("the scheduler does not accept the credentials of the kubeconfig: %s", strings.TrimSpace(string(body)))
	}
	return nil, fmt.Errorf("read the decisions of %s: %d %s", r.at.name, status, http.StatusText(status))
}

// explain adds what to do to an error of a connection.
func (r *reader) explain(err error) error {
	var unverified *tls.CertificateVerificationError
	switch {
	case strings.Contains(err.Error(), "connection refused"):
		return fmt.Errorf("no berth-scheduler serves decisions at %s: set its flag --decisions-bind-address=127.0.0.1:10260 "+
			"(scheduler.decisionsBindAddress of the chart): %w", r.at.name, err)
	case errors.As(err, &unverified):
		return fmt.Errorf("--scheduler-address is %q: %w: use a loopback address, or start the scheduler with a certificate of "+
			"the authority in the kubeconfig (--tls-cert-file)", r.at.name, err)
	}
	return fmt.Errorf("read the decisions of %s: %w", r.at.name, err)
}

func (r *reader) get(ctx context.Context, path string) (status int, body []byte, err error) {
	transport, err := r.transport()
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.at.host+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	// The transport would send the token to wherever a response redirects to.
	c := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := c.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(response.Body, decision.MaxResponse))
	return response.StatusCode, body, err
}

// transport sends requests with the credentials of the kubeconfig: a token, or the client certificate.
func (r *reader) transport() (http.RoundTripper, error) {
	if r.config.Impersonate.UserName != "" {
		return nil, errors.New("--scores cannot be combined with --as: the scheduler authorizes the user of the kubeconfig")
	}
	t, err := rest.TLSConfigFor(r.config)
	if err != nil {
		return nil, err
	}
	if t == nil {
		t = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	t.ServerName = ""
	// The scheduler makes its certificate at its start, so there is nothing to verify it with. A forwarded connection ends in the
	// pod that the API server has authenticated, and a loopback address is that of this machine. Without either, the certificate
	// is verified, whatever the kubeconfig has for the API server: the token must not go to an unknown server.
	t.InsecureSkipVerify = !r.at.verified
	return rest.HTTPWrappersForConfig(r.config, &http.Transport{
		TLSClientConfig:   t,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return r.at.dial(ctx) },
		DisableKeepAlives: true, // there is one request
	})
}
