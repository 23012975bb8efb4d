// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"net/http"
	"slices"
	"time"

	"berth.dev/berth/test/robustness/history"
)

// lease reports whether a request is about leader election.
func lease(r *history.Request) bool { return r.Resource == "leases" }

// Harmless are the resources that every replica writes to: reviews authenticate and authorize a caller, and events inform.
var Harmless = []string{"leases", "events", "tokenreviews", "subjectaccessreviews"}

// OneLeaderWrites judges I10: a controller writes only while the last renewal of the lease is its own. A request whose client ended
// before the answer is left out: a leader that ends cancels the requests under way.
func OneLeaderWrites(h *history.History) *Verdict {
	v := &Verdict{Promise: "I10, only the leader writes"}
	for i := range h.Requests {
		r := &h.Requests[i]
		if r.Program != history.Controller || !r.OK() || slices.Contains(Harmless, r.Resource) {
			continue
		}
		v.Facts++
		if holder := holderAt(h, r.At); holder != r.Replica {
			v.requested(r, "the lease was that of %q", holder)
		}
	}
	return v
}

// holderAt is the replica that wrote the lease last before a time.
func holderAt(h *history.History, t time.Time) (holder string) {
	for i := range h.Requests {
		r := &h.Requests[i]
		if r.At.After(t) {
			break
		}
		if r.Program == history.Controller && lease(r) && r.OK() && !r.Done.After(t) {
			holder = r.Replica
		}
	}
	return holder
}

// NothingInTheGrace judges I5 after a fault: nothing is moved until the grace after an outage of the API server, or after a change of the
// leader, is over.
func NothingInTheGrace(h *history.History) *Verdict {
	v := &Verdict{Promise: "I5, nothing moves in the grace after an outage or a start"}
	starts := map[time.Time]time.Duration{} // with the grace after them
	for _, at := range acquisitions(h) {
		starts[at] = h.Grace
	}
	for i := range h.Steps {
		if s := &h.Steps[i]; s.Outage {
			starts[recovered(h, s)] = h.Grace - answers
		}
	}
	v.Facts = len(starts)
	for _, m := range moves(h) {
		for at, grace := range starts {
			if d := m.request.At.Sub(at); d >= 0 && d < grace {
				v.requested(m.request, "%s after an outage or a start", d.Round(time.Millisecond))
				break
			}
		}
	}
	return v
}

// answers is how long before its first write a controller can have had the first answer after an outage: it renews its lease each second.
const answers = time.Second

// recovered is when a controller wrote for the first time after an outage, which can be before the API server reported that it was ready.
func recovered(h *history.History, s *history.Step) time.Time {
	for i := range h.Requests {
		r := &h.Requests[i]
		if r.Program == history.Controller && r.OK() && r.At.After(s.Began.Add(answers)) && r.At.Before(s.Ended) {
			return r.At
		}
	}
	return s.Ended
}

// acquisitions are the times at which another controller took the lease over.
func acquisitions(h *history.History) (list []time.Time) {
	holder := ""
	for i := range h.Requests {
		if r := &h.Requests[i]; r.Program == history.Controller && lease(r) && r.OK() && r.Replica != holder {
			holder = r.Replica
			list = append(list, r.At)
		}
	}
	return list
}

// QuietAtRest judges I5: where all mixes are exact and nothing changes, nothing is written.
func QuietAtRest(h *history.History) *Verdict {
	v := &Verdict{Promise: "I5, nothing is written at rest"}
	for i := range h.Steps {
		s := &h.Steps[i]
		if !s.Rest {
			continue
		}
		v.Facts++
		for j := range h.Requests {
			r := &h.Requests[j]
			if !r.At.Before(s.Began) && r.At.Before(s.Ended) && !slices.Contains(Harmless, r.Resource) {
				v.requested(r, "at rest")
			}
		}
	}
	return v
}

// NothingForbidden judges I12: Berth's programs request nothing that they have no right to. An API server that has just started does not
// have its roles yet, and forbids everything until it is ready. It also forbids to create objects of a CustomResourceDefinition that is
// being removed, and a policy of Berth forbids what kube-scheduler does by mistake: to preempt a pod by its name once more when another
// pod has the name.
func NothingForbidden(h *history.History) *Verdict {
	v := &Verdict{Promise: "I12, nothing is forbidden"}
	for i := range h.Requests {
		r := &h.Requests[i]
		if v.Facts++; r.Code == http.StatusForbidden && !excused(h, r) {
			v.requested(r, "forbidden")
		}
	}
	return v
}

// excused reports whether the API server was down, had no such resource, or protected another pod, when it forbade a request.
func excused(h *history.History, r *history.Request) bool {
	return preemptsAgain(h, r) || slices.ContainsFunc(h.Steps, func(s history.Step) bool {
		return (s.Down || s.Removed != "" && s.Removed == r.Resource) && !r.At.Before(s.Began) && !r.At.After(s.Ended)
	})
}

// preemptsAgain reports whether the scheduler has just deleted a pod of the name that it may not delete now.
func preemptsAgain(h *history.History, r *history.Request) bool {
	same := func(q *history.Request) bool {
		return q.Verb == "delete" && q.Resource == "pods" && q.Program == history.Scheduler
	}
	return same(r) && slices.ContainsFunc(h.Requests, func(q history.Request) bool {
		return q.OK() && same(&q) && q.Namespace == r.Namespace && q.Name == r.Name && !q.At.After(r.At) && r.At.Sub(q.At) < view
	})
}
