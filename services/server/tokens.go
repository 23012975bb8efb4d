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

// digest identifies a token: its hash with a key that is new at every start.
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
	// addresses has the *source of source addresses.
	addresses *lru.Cache
	all       *rate.Limiter
	// suspects is the limiter of all sources together that are suspect, half of all: some addresses that guess tokens leave the other
	// half to the first tokens of all others.
	suspects *rate.Limiter
	// underReview counts the calls of each unknown token under review: one review serves them all.
	underReview map[digest]int
}

// source is what is known of an address that sends unknown tokens.
type source struct {
	limiter *rate.Limiter
	// reviews are those in progress, and failed is when the API server last refused a token.
	reviews int
	failed  time.Time
}

// suspicion is how long an address is suspect after a token that the API server refused.
const suspicion = time.Minute

// suspect reports whether an address may be guessing: it has sent another token that is not known to be valid.
func (s *source) suspect(now time.Time) bool {
	return s.reviews > 0 || !s.failed.IsZero() && now.Sub(s.failed) < suspicion
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
	t.all, t.suspects = limiter(t.fieldAll.most.Load()), limiter(max(1, t.fieldAll.most.Load()/2))
	t.addresses.Clear()
}

// limiter allows a number per second, and twice as many in a burst.
func limiter(most int64) *rate.Limiter { return rate.NewLimiter(rate.Limit(most), int(2*most)) }

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
	var from *source // nil for a token under review, which is charged already
	if t.underReview[d] == 0 {
		if from, err = t.charge(address); err != nil {
			return nil, err
		}
		from.reviews++
	}
	t.underReview[d]++
	return func(valid, answered bool) {
		t.note(d, valid, answered)
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.underReview[d]--; t.underReview[d] == 0 {
			delete(t.underReview, d)
		}
		if from == nil {
			return
		}
		if from.reviews--; answered && !valid {
			from.failed = t.clock.Now()
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

// charge counts a review of an unknown token, and returns its source: for its address first, so that one address does not use up the
// limit for all, and then for all that are suspect. Guarded by mu.
func (t *tokens) charge(address string) (*source, error) {
	now := t.clock.Now()
	var from *source
	if s, there := t.addresses.Get(address); there {
		from = s.(*source)
	} else {
		from = &source{limiter: limiter(t.fieldAddress.most.Load())}
		t.addresses.Add(address, from)
	}
	switch {
	case !from.limiter.AllowN(now, 1):
		return nil, t.fieldAddress.Refuse(fmt.Sprintf("unknown bearer tokens from address %s", address))
	case from.suspect(now) && !t.suspects.AllowN(now, 1):
		return nil, t.fieldAll.Refuse("unknown bearer tokens of addresses that send several, which may use half of the limit")
	case !t.all.AllowN(now, 1):
		return nil, t.fieldAll.Refuse("unknown bearer tokens")
	}
	return from, nil
}
