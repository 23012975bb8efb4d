// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/hack/cluster"
)

func TestRequestsOfBerthThatWriteAreKept(t *testing.T) {
	now := time.Now()
	entry := func(change func(*cluster.AuditEvent)) *cluster.AuditEvent {
		e := &cluster.AuditEvent{Stage: "ResponseComplete", Verb: "create", RequestReceived: now, StageTimestamp: now.Add(time.Second)}
		e.User.Username, e.User.Groups = cluster.BerthControllerUser, []string{"system:authenticated", "controller-a"}
		e.ObjectRef.Resource, e.ObjectRef.Subresource, e.ObjectRef.Namespace, e.ObjectRef.Name = "pods", "eviction", "shop", "web"
		e.ResponseStatus.Code = 201
		change(e)
		return e
	}
	r, ok := RequestOf(entry(func(*cluster.AuditEvent) {}), now)
	assert.True(t, ok)
	assert.Equal(t, Request{
		Program: Controller, Replica: "controller-a", Verb: "create", Resource: "pods/eviction", Namespace: "shop", Name: "web", Code: 201,
		At: now, Done: now.Add(time.Second),
	}, r)
	for name, c := range map[string]struct {
		change func(*cluster.AuditEvent)
		kept   bool
	}{
		"of another user":              {func(e *cluster.AuditEvent) { e.User.Username = "kwok" }, false},
		"a read":                       {func(e *cluster.AuditEvent) { e.Verb = "list" }, false},
		"a read that is forbidden":     {func(e *cluster.AuditEvent) { e.Verb, e.ResponseStatus.Code = "list", 403 }, true},
		"a watch that began":           {func(e *cluster.AuditEvent) { e.Verb, e.Stage = "watch", "ResponseStarted" }, false},
		"of an earlier run":            {func(e *cluster.AuditEvent) { e.RequestReceived = now.Add(-time.Second) }, false},
		"a binding of the scheduler":   {func(e *cluster.AuditEvent) { e.User.Username = cluster.BerthSchedulerUser }, true},
		"a write that was throttled":   {func(e *cluster.AuditEvent) { e.ResponseStatus.Code = 429 }, true},
		"a deletion of a collection":   {func(e *cluster.AuditEvent) { e.Verb = "deletecollection" }, true},
		"a patch that the server lost": {func(e *cluster.AuditEvent) { e.Verb, e.Stage = "patch", "Panic" }, true},
	} {
		_, ok := RequestOf(entry(c.change), now)
		assert.Equal(t, c.kept, ok, name)
	}
}

func TestRequestsAreOrderedByTheirArrival(t *testing.T) {
	now := time.Now()
	list := []Request{{Name: "c", At: now.Add(2)}, {Name: "b", At: now, Done: now.Add(3)}, {Name: "a", At: now, Done: now.Add(1)}}
	SortRequests(list)
	assert.Equal(t, []string{"a", "b", "c"}, []string{list[0].Name, list[1].Name, list[2].Name})
}

func TestWhatWasThereComesBeforeWhatChanged(t *testing.T) {
	pod := &corev1.Pod{}
	changes := []Change{
		{Revision: 9, Key: "changed"},
		{Revision: 5, Key: "listed pod", Pod: pod, Listed: true},
		{Revision: 8, Key: "new pod", Pod: pod},
		{Revision: 7, Key: "listed", Listed: true},
		{Revision: 6, Key: "listed first", Listed: true},
	}
	slices.SortStableFunc(changes, inOrder)
	var keys []string
	for _, c := range changes {
		keys = append(keys, c.Key)
	}
	assert.Equal(t, []string{"listed first", "listed", "listed pod", "new pod", "changed"}, keys)
}
