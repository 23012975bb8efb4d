// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/robustness/network"
	"berth.dev/berth/test/robustness/plan"
	"berth.dev/berth/test/testenv"
)

// repaired bounds the time until all mixes are exact after the watches have begun again.
const repaired = 30 * time.Second

// All watches of Berth break, pods are deleted, and etcd is compacted: no watch can go on where it ended, and no event ever shows the
// deletions.
func TestWatchesThatCannotGoOnAfterACompaction(t *testing.T) {
	r := begunWith(t, withoutStatefulSets(split.New(60, 1)))
	broken := time.Now()
	for _, p := range r.networks {
		p.Set(network.Fault{Stalled: true})
	}
	r.step(&plan.Step{Kind: plan.Outage, Target: plan.APIServer, For: 3 * time.Second})
	for _, name := range r.order {
		r.deletePods(&plan.Step{Workload: name, Count: 2})
		r.Eventually("there are other pods of "+name, func() (bool, string) {
			pods := r.Live(name)
			pending := len(pods) - len(testenv.Where(pods, testenv.Bound))
			return len(pods) == plan.MaxReplicas && pending == 2, fmt.Sprintf("%d pods, %d pending", len(pods), pending)
		})
	}
	r.compact()
	over := time.Now()
	for _, p := range r.networks {
		p.Set(network.Fault{})
	}
	r.waitAllSettled(over.Add(repaired))
	t.Logf("all mixes are exact %s after the watches have begun again", time.Since(over))
	for _, user := range []string{cluster.BerthSchedulerUser, cluster.BerthControllerUser} {
		r.Within(patience, user+" lists the pods again: its watch cannot go on", func() (bool, string) {
			return len(r.listed(user, broken)) > 0, "it did not"
		})
	}
	runs, log := testenv.Runs(r.scheduler)
	require.True(t, runs, "the scheduler ended: %s", log)
	r.judged()
}

// compact removes all revisions of etcd but the newest.
func (r *runner) compact() {
	r.T.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{r.Cluster.EtcdURL()}, DialTimeout: patience})
	require.NoError(r.T, err)
	defer func() { _ = client.Close() }() // nothing is under way
	now, err := client.Get(r.Ctx, "compact")
	require.NoError(r.T, err)
	_, err = client.Compact(r.Ctx, now.Header.Revision)
	require.NoError(r.T, err)
}

// listed are the requests of a user since a time that list all pods, or begin a watch with all of them.
func (r *runner) listed(user string, since time.Time) []cluster.AuditEvent {
	r.T.Helper()
	list, err := r.Cluster.ReadAuditLog(func(e *cluster.AuditEvent) bool {
		all := e.Verb == "list" || strings.Contains(e.RequestURI, "sendInitialEvents=true")
		return e.User.Username == user && e.ObjectRef.Resource == "pods" && all && e.RequestReceived.After(since)
	})
	require.NoError(r.T, err)
	return list
}
