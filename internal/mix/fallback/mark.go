// SPDX-License-Identifier: Apache-2.0

package fallback

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
)

// Mark is the state of the pool of a pod that fell back, as the value of v1alpha1.FallbackAnnotation: the number of
// consecutive failed attempts on spot, and when spot is tried again. It outlives the process that wrote it.
type Mark struct {
	Failures int
	RetryAt  time.Time // whole seconds, UTC
}

// mostFailures is the maximum number of failures.
const mostFailures = 999

// String returns the value of the annotation.
func (m Mark) String() string {
	return strconv.Itoa(m.Failures) + "/" + m.RetryAt.UTC().Format(time.RFC3339)
}

// Later reports whether a mark is newer than another of the same pool.
func (m Mark) Later(than Mark) bool {
	if m.RetryAt.Equal(than.RetryAt) {
		return m.Failures > than.Failures
	}
	return m.RetryAt.After(than.RetryAt)
}

// ParseMark parses the value of the annotation.
func ParseMark(text string) (Mark, error) {
	number, at, found := strings.Cut(text, "/")
	failures, err := strconv.ParseUint(number, 10, 16)
	if !found || err != nil || failures == 0 || failures > mostFailures {
		return Mark{}, fmt.Errorf("%q does not begin with a number from 1 to %d and a slash", text, mostFailures)
	}
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return Mark{}, err
	}
	return Mark{Failures: int(failures), RetryAt: t.UTC().Truncate(time.Second)}, nil
}

// MarkOf returns the mark of a pod with a UID that fell back. ok is false for every other pod, and for one with a copy
// of another pod's annotations.
func MarkOf(annotations map[string]string, uid string) (m Mark, ok bool) {
	text, found := annotations[v1alpha1.FallbackAnnotation]
	if !found {
		return Mark{}, false
	}
	if t, ungated := gate.LimitedToBy(annotations, uid); !ungated || t != capacity.OnDemand {
		return Mark{}, false
	}
	m, err := ParseMark(text)
	return m, err == nil
}
