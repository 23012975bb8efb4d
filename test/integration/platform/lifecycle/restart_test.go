// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestTheMixIsExactAfterRepeatedSchedulerKills(t *testing.T) {
	w := testenv.New(t, wide()...)
	s := w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler))
	bursts(w, testenv.Length(5, 10), []int{fewest, 100}, disturbance{
		strike:  func() { testenv.Kill(s) },
		recover: func() { s = w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler)) },
	})
}

func TestTheMixIsExactAfterTheAPIServerIsKilledInABurst(t *testing.T) {
	killTheAPIServer(t)
}

// killTheAPIServer kills it in the middle of a burst, and demands that the
// scheduler lives on and the mix is exact.
//
// All pods are there before the first is scheduled: a ReplicaSet controller that
// does not get the answer that a pod was created creates another, and then deletes the
// surplus by its own order, pods that are not Ready first, whatever their slots
// are. To repair that is up to Berth's controller, which does not run here.
func killTheAPIServer(t *testing.T, pods ...func(*corev1.PodTemplateSpec)) {
	w := testenv.New(t, wide()...)
	h := w.History()
	var s *cluster.Scheduler
	bursts(w, 1, []int{80}, disturbance{
		pods: pods,
		schedule: func() {
			if s != nil {
				testenv.Kill(s)
			}
			s = w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler))
		},
		strike: func() { require.NoError(t, w.Cluster.StopComponent(cluster.APIServer)) },
		// The API server cannot be read now; this is what the watch has seen.
		count:   func(string) int { return h.Bound() % burst },
		recover: func() { require.NoError(t, w.Cluster.StartComponent(w.Ctx, cluster.APIServer)) },
	})
	runs, log := testenv.Runs(s)
	require.True(t, runs, "the scheduler ended with the API server: %s", log)
}

// What the ReplicaSet controller makes twice, and then deletes by its own order,
// Berth's controller repairs.
func TestTheMixIsExactAfterTheAPIServerIsKilledAmongCreates(t *testing.T) {
	w := testenv.New(t, wide()...)
	w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler))
	h := w.History()
	m := split.New(70, 7)
	w.Create(builders.CapacityMix("burst", m.SpotPercent, m.MinOnDemand), builders.Deployment("burst", burst))
	await(w, h, fewest)
	require.NoError(t, w.Cluster.StopComponent(cluster.APIServer))
	require.NoError(t, w.Cluster.StartComponent(w.Ctx, cluster.APIServer))
	w.Controller(testenv.Impatient) // one that led would have lost its lease, and would be restarted by its kubelet
	// A slot may be left empty below another that is held, of the same type: the next pod takes it.
	w.WaitSplit("burst", "all are bound, in the mix", testenv.SplitBy(m, burst))
	w.WaitSatisfied("burst")
}

var gated = []func(*corev1.PodTemplateSpec){builders.Gated}

func TestGatedPodsAreExactAfterRepeatedSchedulerKills(t *testing.T) {
	w := testenv.New(t, wide()...)
	s := w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler))
	bursts(w, testenv.Length(3, 10), []int{fewest, 100}, disturbance{
		pods:    gated,
		strike:  func() { testenv.Kill(s) },
		recover: func() { s = w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler)) },
	})
}

func TestGatedPodsAreExactAfterTheLeaderIsKilled(t *testing.T) {
	w := testenv.New(t, wide()...)
	p := newPair(w)
	bursts(w, 1, []int{60}, disturbance{
		pods: gated,
		strike: func() {
			p.leader.Kill()
			<-p.leader.Done()
		},
		recover: p.succeed,
	})
}

func TestGatedPodsAreExactAfterTheAPIServerIsKilled(t *testing.T) {
	killTheAPIServer(t, gated...)
}

// pair is two schedulers of which one leads.
type pair struct {
	w                *testenv.World
	election         cluster.LeaderElection
	leader, follower *cluster.Scheduler
	leaderID         string // as the lease names it
	started          int
}

// shortLease has a standby take over soon.
var shortLease = cluster.LeaderElection{LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond}

// newPair starts a scheduler that comes to lead, and then one that follows.
func newPair(w *testenv.World) *pair {
	w.T.Helper()
	return newPairOf(w, shortLease, func(o cluster.ProgramOptions) cluster.ProgramOptions { return o })
}

// newPairOf is newPair with another lease, and with other options for the one that leads.
func newPairOf(w *testenv.World, election cluster.LeaderElection, change func(cluster.ProgramOptions) cluster.ProgramOptions) *pair {
	w.T.Helper()
	w.T.Cleanup(func() { w.DropLease("berth-system", "berth-scheduler") }) // the next test need not wait for the lease to end
	election.Enabled = new(true)
	p := &pair{w: w, election: election}
	p.leader = w.RunScheduler(change(p.options()))
	w.Eventually("the first scheduler leads", func() (bool, string) { p.leaderID = p.holder(); return p.leaderID != "", "no holder" })
	p.follower = p.start()
	return p
}

func (p *pair) start() *cluster.Scheduler {
	p.w.T.Helper()
	return p.w.RunScheduler(p.options())
}

func (p *pair) options() cluster.ProgramOptions {
	o := testenv.SchedulerOptions(testenv.SecondScheduler)
	o.LeaderElection = &p.election
	p.started++
	o.Name = fmt.Sprintf("replica-%d", p.started)
	o.Groups = []string{o.Name} // by which the audit log distinguishes them
	return o
}

// holder returns who holds the lease.
func (p *pair) holder() string {
	lease, err := p.w.Kube.CoordinationV1().Leases("berth-system").Get(p.w.Ctx, "berth-scheduler", metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// succeed waits until the follower leads, and starts a new follower.
func (p *pair) succeed() {
	p.w.T.Helper()
	before := p.leaderID
	p.w.Eventually("the follower leads", func() (bool, string) {
		p.leaderID = p.holder()
		return p.leaderID != "" && p.leaderID != before, p.leaderID
	})
	p.leader, p.follower = p.follower, p.start()
}

func TestTheMixIsExactAfterTheLeaderIsKilledOrTerminated(t *testing.T) {
	for name, end := range map[string]func(*cluster.Scheduler){
		"killed":     func(s *cluster.Scheduler) { s.Kill() },
		"terminated": func(s *cluster.Scheduler) { s.Terminate() },
	} {
		t.Run(name, func(t *testing.T) {
			w := testenv.New(t, wide()...)
			p := newPair(w)
			struck := 0 // a scheduler that gets SIGTERM goes on binding what it has begun
			bursts(w, 1, []int{60}, disturbance{
				count: func(string) int { return struck },
				strike: func() {
					struck = len(testenv.Where(w.Pods(), func(p *corev1.Pod) bool {
						return testenv.Bound(p) && p.DeletionTimestamp == nil
					}))
					end(p.leader)
					<-p.leader.Done()
				},
				recover: p.succeed,
			})
		})
	}
}

// I10, F4: a leader that is stopped until another one has taken over, and then goes on, binds nothing and ends.
func TestALeaderThatGoesOnAfterAnotherOneTookOverBindsNothing(t *testing.T) {
	w := testenv.New(t, wide()...)
	p := newPair(w)
	h := w.History()
	m := split.New(70, 7)
	create := func(app string) {
		w.Create(builders.CapacityMix(app, m.SpotPercent, m.MinOnDemand), builders.Deployment(app, burst))
	}
	create("first")
	await(w, h, 40)
	old, name := p.leader, "replica-1"
	old.Pause()
	defer old.Resume()
	p.succeed()
	w.RequireExact("first", m, burst)

	create("second")
	await(w, h, burst+20) // there is work for both
	resumed := time.Now()
	old.Resume()
	w.WaitEnded(old)
	w.RequireExact("second", m, burst)
	w.AssertBoundOnce(h)
	// What was under way when it was stopped may be refused, and events of what it had done may follow. One that uses what it
	// knew before tries a hundred pods and more before leader election ends it.
	const underWay = 20
	tried := 0
	for _, write := range w.WritesOf(name, resumed) {
		if strings.HasPrefix(write, "create pods/binding") {
			tried++
			assert.False(t, strings.HasSuffix(write, ": 201"), write)
		}
	}
	assert.LessOrEqual(t, tried, underWay, "bindings tried")
}

// I10, D12: no stop is as long as the renew deadline, but the lease is not renewed through several of them.
func TestASuspendedLeaderBindsNothingOnceAnotherLeads(t *testing.T) {
	w := testenv.New(t, wide()...)
	var cut *atomic.Bool
	p := newPairOf(w, shortLease, func(o cluster.ProgramOptions) cluster.ProgramOptions {
		o.Kubeconfig, cut = w.LeaselessKubeconfig(cluster.BerthSchedulerUser, o.Groups...)
		return o
	})
	old, before := p.leader, p.leaderID
	defer old.Resume()
	h := w.History()
	m := split.New(70, 7)
	cut.Store(true)
	old.Pause()
	w.Create(builders.CapacityMix("web", m.SpotPercent, m.MinOnDemand), builders.Deployment("web", burst)) // there is work for both
	w.ShortStops(old, time.Second, func() bool { now := p.holder(); return now != "" && now != before })
	taken := w.AcquiredAt("berth-scheduler")
	w.WaitEnded(old)
	w.RequireExact("web", m, burst)
	w.AssertBoundOnce(h)
	for _, write := range w.WritesOf("replica-1", taken) {
		assert.False(t, strings.HasPrefix(write, "create pods/binding") && strings.HasSuffix(write, ": 201"), write)
	}
}
