// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"berth.dev/berth/services/server"
)

// sessionID is the hash of a cookie: the memory of the program has no cookie.
type sessionID [sha256.Size]byte

// session is a user who has signed in. Its token is in memory only.
type session struct {
	id    sessionID
	token string
	began time.Time

	// The store guards the rest.
	user user.Info
	// used is when the session was last used, and pages are its requests in progress: open pages, mostly.
	used  time.Time
	pages int
	// reviewed is when the API server last accepted the token.
	reviewed time.Time
	ended    bool
}

// sessions are those of all users.
type sessions struct {
	clock clock.PassiveClock
	// idle is how long a session without an open page lasts, and most every session.
	idle, most time.Duration
	// total is the maximum number, and perUser that of a user.
	total, perUser *server.Limit

	mu  sync.Mutex // guards the rest
	all map[sessionID]*session
}

// begin adds a session and returns its cookie. Above a limit, the session that was not used for longest and has no open page ends.
func (s *sessions) begin(token string, u user.Info) (cookie string, _ *session, err error) {
	cookie = rand.Text()
	now := s.clock.Now()
	added := &session{id: idOf(cookie), token: token, user: u, began: now, used: now, reviewed: now}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	of := 0
	for _, other := range s.all {
		if other.user.GetName() == u.GetName() {
			of++
		}
	}
	if of >= s.perUser.Most() && !s.evict(func(other *session) bool { return other.user.GetName() == u.GetName() }) {
		return "", nil, s.perUser.Refuse("sessions of one user")
	}
	if len(s.all) >= s.total.Most() && !s.evict(func(*session) bool { return true }) {
		return "", nil, s.total.Refuse("sessions")
	}
	s.all[added.id] = added
	return cookie, added, nil
}

func (s *sessions) evict(of func(*session) bool) bool {
	var oldest *session
	for _, other := range s.all {
		if other.pages == 0 && of(other) && (oldest == nil || other.used.Before(oldest.used)) {
			oldest = other
		}
	}
	if oldest != nil {
		s.remove(oldest)
	}
	return oldest != nil
}

// run removes sessions that are over, until the context ends: their tokens would stay in memory.
func (s *sessions) run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.expire()
	}, time.Minute)
}

// expire removes what is over.
func (s *sessions) expire() {
	for _, other := range s.all {
		if s.over(other) {
			s.remove(other)
		}
	}
}

// over reports whether the time of a session is over.
func (s *sessions) over(o *session) bool {
	return s.clock.Since(o.began) >= s.most || o.pages == 0 && s.clock.Since(o.used) >= s.idle
}

func (s *sessions) remove(o *session) {
	o.ended = true
	delete(s.all, o.id)
}

// use returns the session of a cookie for a request, until release is called; nil if there is none.
func (s *sessions) use(cookie string) (found *session, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found = s.all[idOf(cookie)]
	if found == nil {
		return nil, nil
	}
	if s.over(found) {
		s.remove(found)
		return nil, nil
	}
	found.pages++
	return found, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		found.pages--
		found.used = s.clock.Now()
	}
}

// state returns the user of a session and when the token was last accepted. ok is false if it has ended.
func (s *sessions) state(o *session) (u user.Info, reviewed time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !o.ended && s.over(o) {
		s.remove(o)
	}
	return o.user, o.reviewed, !o.ended
}

// accepted notes that the API server has accepted the token. Its user may be in other groups than before.
func (s *sessions) accepted(o *session, u user.Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.user, o.reviewed = u, s.clock.Now()
}

// end ends a session.
func (s *sessions) end(o *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(o)
}

func idOf(cookie string) sessionID { return sha256.Sum256([]byte(cookie)) }
