// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apiserver/pkg/authentication/user"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/services/server"
)

const (
	// tokenTTL is how long the review of a token is cached, and reviewAgain is when the token of a session is reviewed again. With the
	// cache of the API server, a session ends within 30 s after its token is revoked.
	tokenTTL, reviewAgain = 5 * time.Second, 5 * time.Second
	// reviewAtLeast is how long a session lasts while the API server cannot review its token.
	reviewAtLeast = 30 * time.Second
	// maxToken bounds a token, in bytes.
	maxToken = 16 << 10
)

var (
	errNoSession = errors.New("sign in first")
	errRevoked   = errors.New("the session has ended: its token is no longer valid")
)

// visitor is the user of a request.
type visitor struct {
	// id is that of what the visitor writes: one session, or one user of a proxy. Limits count users.
	id    string
	token string
	user  user.Info
	// session is nil if the token came in a header.
	session *session
	// release must be called when the request ends.
	release func()
}

type visitorKey struct{}

func visitorOf(ctx context.Context) *visitor {
	v, _ := ctx.Value(visitorKey{}).(*visitor)
	return v
}

// cookieName is the name of the cookie of a session. A browser accepts the prefix over TLS only: then no other host can set the cookie.
func cookieName(c *controller.Console) string {
	if c.CertFile != "" || c.Insecure {
		return "__Host-berth-console"
	}
	return "berth-console"
}

// visitor returns the user of a request, or errNoSession, errRevoked or an *server.Error.
func (s *Server) visitor(r *http.Request) (*visitor, error) {
	if token := server.Bearer(r.Header); token != "" && s.config.AcceptAuthorizationHeader {
		u, err := s.authenticate(r.Context(), token, r)
		if err != nil {
			return nil, err
		}
		return &visitor{id: string(identityOf(u)), token: token, user: u, release: func() {}}, nil
	}
	cookie, err := r.Cookie(s.cookie)
	if err != nil {
		return nil, errNoSession
	}
	found, release := s.sessions.use(cookie.Value)
	if found == nil {
		return nil, errNoSession
	}
	v := &visitor{id: string(found.id[:]), token: found.token, session: found, release: release}
	if err := s.valid(r.Context(), v, r); err != nil {
		release()
		return nil, err
	}
	return v, nil
}

func (s *Server) authenticate(ctx context.Context, token string, r *http.Request) (user.Info, error) {
	if len(token) > maxToken {
		return nil, server.Refuse(codes.Unauthenticated, "the bearer token is too long")
	}
	return s.auth.Authenticate(ctx, token, r)
}

// valid reviews the token of a visitor again, if the last review is a while ago, and sets its user. While the API server cannot be
// reached, a session lasts for a while.
func (s *Server) valid(ctx context.Context, v *visitor, r *http.Request) error {
	if v.session == nil {
		return s.sameUser(ctx, v, r)
	}
	u, reviewed, ok := s.sessions.state(v.session)
	if !ok {
		return errNoSession
	}
	v.user = u
	age := s.clock.Since(reviewed)
	if age < reviewAgain {
		return nil
	}
	now, err := s.authenticate(ctx, v.token, r)
	switch {
	case err == nil && now.GetName() == u.GetName() && now.GetUID() == u.GetUID():
		s.sessions.accepted(v.session, now)
		v.user = now
		return nil
	case err == nil || server.AsError(err).Code == codes.Unauthenticated:
		s.sessions.end(v.session)
		s.log.Info("Ended a session: its token is no longer valid", "user", u.GetName())
		return errRevoked
	case age < reviewAtLeast:
		return nil
	}
	return err
}

// sameUser reviews the token of a visitor without a session again. Reviews are cached.
func (s *Server) sameUser(ctx context.Context, v *visitor, r *http.Request) error {
	u, err := s.authenticate(ctx, v.token, r)
	switch {
	case err != nil:
		return err
	case u.GetName() != v.user.GetName():
		return errRevoked
	}
	v.user = u
	return nil
}
