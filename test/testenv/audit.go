// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
)

// Request is one completed request of the audit log, as RBAC names it.
type Request struct {
	User, Verb, Group string
	// Resource includes the subresource: pods/binding.
	Resource             string
	Namespace, Name, UID string
	Code                 int
	// Streams is set for a watch that begins with a list.
	Streams bool
	// DryRun is set for a write that changes nothing.
	DryRun bool
	// At is when the API server received it.
	At time.Time
}

// auditTime is now, as a time of the audit log, which has microseconds.
func auditTime() time.Time { return time.Now().Truncate(time.Microsecond) }

// WritesOf returns what a replica of a program, which has its name as a group, requested to write since a moment, but for
// leases. A request whose client ended before the answer is left out: a fence that shuts cancels the requests under way
// (docs/decisions/0014).
func (w *World) WritesOf(replica string, since time.Time) (list []string) {
	w.T.Helper()
	entries, err := w.Cluster.ReadAuditLog(func(e *cluster.AuditEvent) bool {
		return slices.Contains(e.User.Groups, replica) && e.RequestReceived.After(since) && e.ObjectRef.Resource != "leases" &&
			request(e).Write() &&
			e.ResponseStatus.Code != http.StatusGatewayTimeout
	})
	require.NoError(w.T, err)
	for _, e := range entries {
		o := e.ObjectRef
		list = append(list, fmt.Sprintf("%s %s/%s %s/%s: %d", e.Verb, o.Resource, o.Subresource, o.Namespace, o.Name,
			e.ResponseStatus.Code))
	}
	return list
}

// OK reports whether the request succeeded.
func (r Request) OK() bool { return r.Code >= 200 && r.Code < 300 }

// Write reports whether the request was meant to change something.
func (r Request) Write() bool {
	if r.DryRun {
		return false
	}
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

func (r Request) String() string {
	return fmt.Sprintf("%s %s %s/%s %s/%s: %d", r.User, r.Verb, r.Group, r.Resource, r.Namespace, r.Name, r.Code)
}

// Audit returns the completed requests for objects of the test's namespace that match.
func (w *World) Audit(match func(Request) bool) []Request {
	w.T.Helper()
	return w.AuditAll(func(r Request) bool { return r.Namespace == w.Namespace && match(r) })
}

// AuditAll returns all completed requests since the control plane was started that match.
func (w *World) AuditAll(match func(Request) bool) []Request {
	w.T.Helper()
	requests, err := requests(w.Ctx, match)
	require.NoError(w.T, err)
	return requests
}

// audited are all completed requests since the control plane was started, as far as the log was read. Tests poll it: each line is
// parsed once.
var audited struct {
	sync.Mutex
	trail *cluster.AuditTrail
	all   []Request
}

// requests returns all completed requests since the control plane was started that match.
func requests(ctx context.Context, match func(Request) bool) (list []Request, err error) {
	all, err := allRequests(ctx)
	for _, r := range all {
		if match(r) {
			list = append(list, r)
		}
	}
	return list, err
}

// allRequests returns the completed requests since the control plane was started, with those that were answered just now: the
// line of a request may follow its answer by a moment, so a marked request is made after them, and its line waited for.
func allRequests(ctx context.Context) (_ []Request, err error) {
	audited.Lock()
	defer audited.Unlock()
	if audited.trail == nil {
		if audited.trail, _, err = shared.cluster.OpenAuditLog(); err != nil { // open until the process ends
			return nil, err
		}
	}
	mark := fmt.Sprintf("/version?mark=%x", time.Now().UnixNano())
	soon, end := context.WithTimeout(ctx, time.Second)
	defer end()
	down := shared.kube.CoreV1().RESTClient().Get().RequestURI(mark).Do(soon).Error()
	for deadline := time.Now().Add(SettleTimeout); ; <-time.After(time.Millisecond) {
		marked, err := readAudit(mark)
		if err != nil {
			return nil, err
		}
		if marked || down != nil { // an API server that does not answer may write no line
			return audited.all, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the audit log has no line of %s", mark)
		}
	}
}

// readAudit reads on, and reports whether the line of the marked request was there.
func readAudit(mark string) (marked bool, err error) {
	_, err = audited.trail.Read(func(e *cluster.AuditEvent) bool {
		marked = marked || e.RequestURI == mark
		// A watch is complete only when it ends; it counts from its start.
		if e.Stage != "ResponseComplete" || e.Verb != "watch" || e.ResponseStatus.Code != 200 {
			audited.all = append(audited.all, request(e))
		}
		return false
	})
	return marked, err
}

// Count counts the completed requests that match from now on: the function that it returns has how many there were.
func (w *World) Count(match func(Request) bool) func() int {
	w.T.Helper()
	_, err := allRequests(w.Ctx) // what was answered before does not count
	require.NoError(w.T, err)
	trail, end, err := w.Cluster.FollowAuditLog()
	require.NoError(w.T, err)
	w.T.Cleanup(end)
	n := 0
	return func() int {
		w.T.Helper()
		events, err := trail.Read(func(e *cluster.AuditEvent) bool { return match(request(e)) })
		require.NoError(w.T, err)
		n += len(events)
		return n
	}
}

func request(e *cluster.AuditEvent) Request {
	o := &e.ObjectRef
	r := Request{
		User: e.User.Username, Verb: e.Verb, Group: o.APIGroup, Resource: o.Resource,
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, Code: e.ResponseStatus.Code, At: e.RequestReceived,
	}
	if o.Subresource != "" {
		r.Resource += "/" + o.Subresource
	}
	r.DryRun = strings.Contains(e.RequestURI, "dryRun=All")
	r.Streams = r.Verb == "watch" && strings.Contains(e.RequestURI, "sendInitialEvents=true")
	return r
}
