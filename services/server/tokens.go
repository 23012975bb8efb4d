// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

const (
	// knownTokens is the number of valid tokens, and of invalid tokens, that are cached by their hashes.
	knownTokens, invalidTokens = 4096, 8192
	// tokenAddresses is the number of source addresses for which unknown tokens are counted.
	tokenAddresses = 4096
)

// digest stands for a token: its hash with a key that is new at every start.
type digest [sha256.Size]byte

// tokens limits the reviews of tokens that are not cached as valid, so that random tokens use no capacity of known
// callers.
type tokens struct {
	key   [32]byte
	clock clock.PassiveClock
	ttl   time.Duration
	// known has the digests of valid tokens, invalid those of invalid ones, until a time.
	known, invalid *lru.Cache
	// fieldAll and fieldAddress are the limits' names.
	fieldAll, fieldAddress *Limit

	mu sync.Mutex // guards the rest
	// addresses has the limiters of source addresses.
	addresses *lru.Cache
	all       *rate.Limiter
	// underReview counts the calls of each unknown token under review: one review serves them all.
	underReview map[digest]int
}

// newTokens returns tokens whose limits are fields below a path of the configuration. set sets them.
func newTokens(path string, ttl time.Duration, clock clock.PassiveClock) *tokens {
	t := &tokens{
		clock: clock, ttl: ttl,
		known: lru.New(knownTokens), invalid: lru.New(invalidTokens), addresses: lru.New(tokenAddresses),
		fieldAll:     NewLimit(path+".unknownTokensPerSecond", 0),
		fieldAddress: NewLimit(path+".unknownTokensPerSecondPerAddress", 0),
		underReview:  map[digest]int{},
	}
	_, _ = rand.Read(t.key[:]) // never fails
	return t
}

// set sets the limits, for all addresses and for each.
func (t *tokens) set(all, perAddress int32) {
	t.fieldAll.Set(int(all))
	t.fieldAddress.Set(int(perAddress))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = t.fieldAll.limiter()
	t.addresses.Clear()
}

// limiter allows a number per second, and twice as many in a burst.
func (l *Limit) limiter() *rate.Limiter {
	most := l.most.Load()
	return rate.NewLimiter(rate.Limit(most), int(2*most))
}

// Bearer returns the token of a request as the authenticator parses it, "" if there is none.
func Bearer(header http.Header) string {
	parts := strings.SplitN(strings.TrimSpace(header.Get("Authorization")), " ", 3)
	if len(parts) < 2 || !strings.EqualFold(parts[0], "bearer") {
		return ""
	}
	return parts[1]
}

func (t *tokens) digest(token string) (d digest) {
	mac := hmac.New(sha256.New, t.key[:])
	_, _ = mac.Write([]byte(token)) // never fails
	mac.Sum(d[:0])
	return d
}

// errInvalidCaller has no details, which would help attackers.
func errInvalidCaller() *Error {
	return Refuse(codes.Unauthenticated, "the bearer token or client certificate is not valid")
}

// begin decides whether a token may be reviewed. done must be called with the result, and is nil with an error.
func (t *tokens) begin(d digest, address string) (done func(valid, answered bool), err error) {
	if _, known := t.known.Get(d); known {
		return func(valid, answered bool) { t.note(d, valid, answered) }, nil
	}
	if until, is := t.invalid.Get(d); is && t.clock.Now().Before(until.(time.Time)) {
		e := errInvalidCaller()
		e.cheap = true // no request to the API server was made
		return nil, e
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.underReview[d] == 0 {
		if err := t.charge(address); err != nil {
			return nil, err
		}
	}
	t.underReview[d]++
	return func(valid, answered bool) {
		t.note(d, valid, answered)
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.underReview[d]--; t.underReview[d] == 0 {
			delete(t.underReview, d)
		}
	}, nil
}

// note caches the answer of the API server, if there was one.
func (t *tokens) note(d digest, valid, answered bool) {
	switch {
	case valid:
		t.known.Add(d, nil)
	case answered:
		t.known.Remove(d)
		t.invalid.Add(d, t.clock.Now().Add(t.ttl))
	}
}

// charge counts a review of an unknown token: for its address first, so that one address does not use up the limit for
// all.
func (t *tokens) charge(address string) error {
	now := t.clock.Now()
	var limiter *rate.Limiter
	if l, there := t.addresses.Get(address); there {
		limiter = l.(*rate.Limiter)
	} else {
		limiter = t.fieldAddress.limiter()
		t.addresses.Add(address, limiter)
	}
	if !limiter.AllowN(now, 1) {
		return t.fieldAddress.Refuse(fmt.Sprintf("unknown bearer tokens from address %s", address))
	}
	if !t.all.AllowN(now, 1) {
		return t.fieldAll.Refuse("unknown bearer tokens")
	}
	return nil
}
