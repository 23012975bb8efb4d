// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/hack/cluster"
)

// programs are the users of Berth's programs.
var programs = map[string]Program{
	cluster.BerthSchedulerUser:    Scheduler,
	cluster.BerthControllerUser:   Controller,
	cluster.BerthEnvironmentsUser: EnvironmentController,
}

// writes are the verbs that change something.
var writes = []string{"create", "update", "patch", "delete", "deletecollection"}

// RequestOf returns what a history keeps of an entry of the audit log; false for nothing.
func RequestOf(e *cluster.AuditEvent, since time.Time) (Request, bool) {
	program, ours := programs[e.User.Username]
	of := slices.Contains(writes, e.Verb) || e.ResponseStatus.Code == http.StatusForbidden
	of = of && !strings.Contains(e.RequestURI, "dryRun=All") // it changes nothing, and a policy may refuse it
	if !ours || !of || e.RequestReceived.Before(since) || e.Stage != "ResponseComplete" && e.Stage != "Panic" {
		return Request{}, false
	}
	o := &e.ObjectRef
	r := Request{
		Program: program, Replica: replica(e.User.Groups), Verb: e.Verb, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name,
		UID: o.UID, Code: e.ResponseStatus.Code, At: e.RequestReceived, Done: e.StageTimestamp,
	}
	if o.Subresource != "" {
		r.Resource += "/" + o.Subresource
	}
	return r, true
}

// replica is the group of a user that is the name of its process; the others are those of Kubernetes.
func replica(groups []string) string {
	for _, g := range groups {
		if !strings.HasPrefix(g, "system:") {
			return g
		}
	}
	return ""
}

// SortRequests orders requests by the time at which the API server received them.
func SortRequests(list []Request) {
	slices.SortStableFunc(list, func(a, b Request) int { return cmp.Or(a.At.Compare(b.At), a.Done.Compare(b.Done)) })
}
