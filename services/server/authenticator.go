// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Authenticator authenticates bearer tokens and authorizes their users with the API server, as the services do, for a server of another
// kind. It limits the reviews of unknown tokens.
type Authenticator struct {
	reviews   *reviews
	tokens    *tokens
	reviewing *Pool
}

// AuthenticatorOptions configure an Authenticator.
type AuthenticatorOptions struct {
	// Path is the section of the configuration with the limits, which refusals name.
	Path string
	// CacheTTL is how long the review of a token is cached.
	CacheTTL time.Duration
	// Reviews are the reviews in progress, and ReviewsPerToken those of one token.
	Reviews, ReviewsPerToken int
}

// NewAuthenticator returns an Authenticator. Limit must be called before it is used.
func NewAuthenticator(api *rest.Config, o AuthenticatorOptions) (*Authenticator, error) {
	r, err := newReviews(api, nil, o.CacheTTL)
	if err != nil {
		return nil, err
	}
	return &Authenticator{
		reviews: r, tokens: newTokens(o.Path, o.CacheTTL, clock.RealClock{}),
		reviewing: NewPool("calls in authentication", NewLimit(o.Path+".reviews", o.Reviews), NewLimit(o.Path+".reviewsPerToken", o.ReviewsPerToken)),
	}, nil
}

// Limit sets the maximum number of reviews of unknown tokens per second, of all source addresses and of each.
func (a *Authenticator) Limit(all, perAddress int32) { a.tokens.set(all, perAddress) }

// Authenticate returns the user of a token that comes with a request. The error is an *Error: UNAUTHENTICATED for an invalid token,
// RESOURCE_EXHAUSTED for too many, UNAVAILABLE if the API server cannot be reached.
func (a *Authenticator) Authenticate(ctx context.Context, token string, r *http.Request) (user.Info, error) {
	// A copy: other headers of the request are no credentials here.
	ask := &http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}, RemoteAddr: r.RemoteAddr}
	u, err := a.reviews.authenticateWithin(ctx, ask, a.tokens, a.reviewing)
	if err != nil {
		return nil, AsError(err)
	}
	return u, nil
}

// May reports whether the API server allows a user a request. An error means that there is no answer.
func (a *Authenticator) May(ctx context.Context, u user.Info, access Access) (bool, error) {
	err := a.reviews.authorize(ctx, u, access)
	refused, is := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return true, nil
	case is && refused.Code == codes.PermissionDenied:
		return false, nil
	}
	return false, err
}

// Connections limits the open connections of a server. A connection above the limit closes another one without an authenticated
// request in progress.
type Connections struct{ all *connections }

// NewConnections returns Connections with a limit.
func NewConnections(most *Limit) *Connections { return &Connections{&connections{most: most}} }

// Listen returns a listener whose connections count.
func (c *Connections) Listen(l net.Listener) net.Listener { return &listener{l, c.all} }

// Context is the ConnContext of an http.Server whose requests call HoldConnection.
func (*Connections) Context(ctx context.Context, c net.Conn) context.Context {
	return withConnection(ctx, c)
}

// HoldConnection keeps the connection of an authenticated request open until the returned function is called.
func HoldConnection(ctx context.Context) (release func()) { return connectionOf(ctx).hold() }
