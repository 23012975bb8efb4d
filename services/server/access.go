// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/uncached"
)

// reviewTimeout is the timeout of one review by the API server.
const reviewTimeout = 5 * time.Second

// reviewAgain is the time for which the authentication of a call is valid.
const reviewAgain = 50 * time.Second

// Access is one request to the API server, in the terms of RBAC.
type Access struct {
	Verb, Group, Version, Resource, Subresource, Namespace, Name string
}

// Authorizer refuses what the caller of a context may not do.
type Authorizer interface {
	Authorize(ctx context.Context, a Access) error
}

// AuthorizeResource authorizes a request for a resource of Berth's group in a namespace. It sets the group and the version.
func AuthorizeResource(ctx context.Context, by Authorizer, a Access) error {
	if problems := validation.IsDNS1123Label(a.Namespace); len(problems) > 0 {
		return InvalidField("namespace", fmt.Sprintf("is %q: %s", a.Namespace, strings.Join(problems, "; ")))
	}
	a.Group, a.Version = v1alpha1.SchemeGroupVersion.Group, v1alpha1.SchemeGroupVersion.Version
	return by.Authorize(ctx, a)
}

// reviews authenticates and authorizes callers with the API server.
type reviews struct {
	authn authenticator.Request
	authz authorizer.Authorizer
}

func newReviews(config *rest.Config, clients dynamiccertificates.CAContentProvider, tokenTTL time.Duration) (*reviews, error) {
	config = uncached.WithDeadlines(config)
	authentication, err := authenticationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	authorization, err := authorizationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	again := &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}
	var r reviews
	// Reviews of tokens are cached by a hash with a key that is new at every start, never by the token.
	r.authn, _, err = authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient:            authentication,
		TokenAccessReviewTimeout:           reviewTimeout,
		WebhookRetryBackoff:                again,
		CacheTTL:                           tokenTTL,
		ClientCertificateCAContentProvider: clients,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("create authenticator: %w", err)
	}
	// Authorization is not cached: a revoked permission takes effect immediately.
	r.authz, err = authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: authorization,
		WebhookRetryBackoff:       again,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("create authorizer: %w", err)
	}
	return &r, nil
}

// authenticate returns the caller. There are no anonymous callers.
func (r *reviews) authenticate(ctx context.Context, header http.Header, state *tls.ConnectionState) (user.Info, error) {
	// Only the headers for authentication: other headers could also carry a token.
	ask := (&http.Request{Header: http.Header{}, TLS: state}).WithContext(ctx)
	for _, value := range header.Values("Authorization") {
		ask.Header.Add("Authorization", value)
	}
	response, ok, err := r.authn.AuthenticateRequest(ask)
	switch {
	case ok:
		return response.User, nil
	case err == nil:
		e := Refuse(codes.Unauthenticated, "missing credentials: send a bearer token, or a client certificate")
		e.cheap = true
		return nil, e
	case ctx.Err() != nil:
		return nil, AsError(ctx.Err())
	case ofRequest(err):
		return nil, &unavailable{fmt.Errorf("authenticate caller: %w", err)}
	}
	return nil, errInvalidCaller()
}

// ofRequest returns the error of a failed request to the API server, as opposed to its answer. Each authentication
// method has its own error type.
func ofRequest(err error) bool {
	if all, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		return slices.ContainsFunc(all.Errors(), ofRequest)
	}
	_, isStatus := errors.AsType[*apierrors.StatusError](err)
	_, isNet := errors.AsType[net.Error](err)
	return isStatus || isNet || errors.Is(err, context.DeadlineExceeded)
}

// authorize returns PERMISSION_DENIED unless the caller may make the request.
func (r *reviews) authorize(ctx context.Context, caller user.Info, a Access) error {
	decision, reason, err := r.authz.Authorize(ctx, authorizer.AttributesRecord{
		User: caller, Verb: a.Verb, Namespace: a.Namespace, APIGroup: a.Group, APIVersion: a.Version,
		Resource: a.Resource, Subresource: a.Subresource, Name: a.Name, ResourceRequest: true,
	})
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && reason == "":
		return &unavailable{fmt.Errorf("review access: %w", err)}
	}
	what := fmt.Sprintf("%s %s", a.Verb, a.Resource)
	if a.Group != "" {
		what += "." + a.Group
	}
	if a.Name != "" {
		what += fmt.Sprintf(" %q", a.Name)
	}
	return Refuse(codes.PermissionDenied, fmt.Sprintf("user %q may not %s in namespace %q", caller.GetName(), what, a.Namespace))
}

// unavailable is an error of the API server that the caller did not cause.
type unavailable struct{ error }

func (u *unavailable) Unwrap() []error {
	return []error{u.error, Refuse(codes.Unavailable, "the API server is unavailable and cannot authenticate or authorize the caller")}
}

// authenticate returns the caller by the credentials of a call, within the limits for unknown tokens.
func (s *Server) authenticate(ctx context.Context, c *call) (user.Info, error) {
	caller, err := s.reviews.authenticateWithin(ctx, c.request, s.tokens, s.limits.reviewing)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.authenticated = time.Now()
	}
	return caller, err
}

// authenticateWithin returns the caller by the credentials of a request, within the limits for unknown tokens and for reviews.
func (r *reviews) authenticateWithin(ctx context.Context, request *http.Request, t *tokens, reviewing *Pool) (user.Info, error) {
	key, done := addressOf(request), func(bool, bool) {}
	if token := Bearer(request.Header); token != "" {
		d := t.digest(token)
		var err error
		if done, err = t.begin(d, key); err != nil {
			return nil, err
		}
		key = string(d[:])
	}
	if err := reviewing.Take(key, 1); err != nil {
		done(false, false)
		return nil, err
	}
	defer reviewing.Free(key, 1)
	caller, err := r.authenticate(ctx, request.Header, request.TLS)
	done(err == nil, err == nil || AsError(err).Code == codes.Unauthenticated)
	return caller, err
}

// stillValid authenticates the caller of a long stream again.
func (s *Server) stillValid(ctx context.Context, c *call) error {
	c.mu.Lock()
	fresh := time.Since(c.authenticated) < reviewAgain
	c.mu.Unlock()
	if fresh || c.request == nil {
		return nil
	}
	caller, err := s.authenticate(ctx, c)
	if err != nil {
		return err
	}
	if caller.GetName() != c.caller.GetName() {
		return errInvalidCaller()
	}
	return nil
}

// Authorize returns PERMISSION_DENIED unless the caller of ctx may make the request to the API server. A service
// authorizes exactly the requests that it makes. For a long call the credentials are reviewed again.
func (s *Server) Authorize(ctx context.Context, a Access) error {
	c := callOf(ctx)
	if c.caller == nil {
		return Refuse(codes.Unauthenticated, "missing credentials")
	}
	if err := s.stillValid(ctx, c); err != nil {
		return err
	}
	return s.reviews.authorize(ctx, c.caller, a)
}
