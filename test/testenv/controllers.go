// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// Impatient makes the controller look every 5 seconds, the shortest interval
// that there is, and act at once.
func Impatient(c *controller.Configuration) {
	c.ResyncSeconds = 5
	c.Mix.Rebalance.StabilizationSeconds = 0
	c.Mix.Rebalance.StartupGraceSeconds = 0
	// A leader that cannot renew for so long ends, and a request for it may take half of that: more than three seconds on a busy machine.
	c.LeaderElection.LeaseDurationSeconds = 15
	c.LeaderElection.RenewDeadlineSeconds = 13
	c.LeaderElection.RetryPeriodSeconds = 1
}

// Holds is how long a test watches that an impatient controller does not do something: twice the interval at which it looks at
// everything.
const Holds = 11 * time.Second

// Controller starts the companion controller, waits until it leads, and ends it
// with the test.
func (w *World) Controller(changes ...func(*controller.Configuration)) *cluster.Controller {
	w.T.Helper()
	return w.NamedController("berth-controller", changes...)
}

// NamedController is Controller for a replica of another name, which two that run side by side must have.
func (w *World) NamedController(name string, changes ...func(*controller.Configuration)) *cluster.Controller {
	w.T.Helper()
	c := w.StartController(name, changes...)
	w.WaitLeads(c)
	return c
}

// WaitLeads waits until a replica of the controller is the leader.
func (w *World) WaitLeads(c *cluster.Controller) {
	w.T.Helper()
	Becomes(w, "the controller leads", 1, func() int { return w.Metric(c, "leader_election_master_status", nil) })
}

// StartController starts a replica of the controller, which may be a standby.
func (w *World) StartController(name string, changes ...func(*controller.Configuration)) *cluster.Controller {
	w.T.Helper()
	return w.StartControllerWith(cluster.ProgramOptions{Name: name}, changes...)
}

// StartControllerWith is StartController for a replica that reaches the API server in another way, is not ready at first, or has another
// configuration file than the changes make.
func (w *World) StartControllerWith(o cluster.ProgramOptions, changes ...func(*controller.Configuration)) *cluster.Controller {
	w.T.Helper()
	if shared.controller == "" {
		var err error
		shared.controller, err = cluster.BuildController(context.WithoutCancel(w.Ctx), Path("."), os.Stderr, Race())
		require.NoError(w.T, err)
	}
	config := controller.Default()
	for _, change := range changes {
		change(config)
	}
	if o.ConfigFile == "" {
		o.ConfigFile = filepath.Join(w.T.TempDir(), "config.yaml")
		w.writeConfiguration(o.ConfigFile, config)
	}
	o.Binary, o.Groups = cmp.Or(o.Binary, shared.controller), []string{o.Name}
	if o.User == "" {
		o.User = w.userOf(config)
	}
	c, err := w.Cluster.StartController(w.Ctx, o)
	require.NoError(w.T, err)
	w.T.Cleanup(func() {
		if w.T.Failed() {
			w.T.Log("end of the controller's log:\n" + c.LogTail(60))
		}
		End(c, true)
		w.DropLease("berth-system", config.LeaseName()) // the next test need not wait for it to end
	})
	return c
}

// userOf returns the user that runs the controllers of a configuration, as the manifests have it.
func (w *World) userOf(config *controller.Configuration) string {
	w.T.Helper()
	records, environments := config.Runs(controller.ControllerRecords), config.Runs(controller.ControllerEnvironments)
	mixes := []string{controller.ControllerMix, controller.ControllerLimits, controller.ControllerPolicies}
	others := slices.ContainsFunc(mixes, config.Runs)
	switch {
	case config.ServesOnly() || records && !environments && !others:
		return cluster.BerthRecordsUser
	case environments && !records && !others:
		return cluster.BerthEnvironmentsUser
	case records || environments || config.Services.Enabled():
		require.NoError(w.T, w.Cluster.BindSingleProcess(w.Ctx))
	}
	return cluster.BerthControllerUser
}

// DropLease deletes a lease whose holder is gone: the next one would wait for its end.
func (w *World) DropLease(namespace, name string) {
	w.T.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	require.NoError(w.T, client.IgnoreNotFound(w.Client.Delete(context.WithoutCancel(w.Ctx), lease)))
}

// Reconfigure changes the configuration file of a running controller, and waits
// until the controller has taken it over.
func (w *World) Reconfigure(c *cluster.Controller, change func(*controller.Configuration)) {
	w.T.Helper()
	config, err := controller.Load(c.ConfigFile)
	require.NoError(w.T, err)
	change(config)
	logged := w.loggedChanges(c)
	w.writeConfiguration(c.ConfigFile, config)
	w.Reaches("the controller uses its changed configuration", logged+1, func() int { return w.loggedChanges(c) })
}

// loggedChanges counts the fields that a controller logs as changed.
func (w *World) loggedChanges(c *cluster.Controller) int {
	w.T.Helper()
	return strings.Count(ReadFile(w.T, c.LogPath()), "The configuration was changed")
}

func (w *World) writeConfiguration(file string, config *controller.Configuration) {
	w.T.Helper()
	b, err := json.Marshal(config)
	require.NoError(w.T, err)
	require.NoError(w.T, os.WriteFile(file+".new", b, 0o600))
	require.NoError(w.T, os.Rename(file+".new", file)) // a reader gets all of it or nothing
}

// Mix reads a CapacityMix of the test.
func (w *World) Mix(name string) *v1alpha1.CapacityMix {
	w.T.Helper()
	return Read(w, name, &v1alpha1.CapacityMix{})
}

// ChangeMix changes a CapacityMix of the test.
func (w *World) ChangeMix(name string, change func(*v1alpha1.CapacityMix)) {
	w.T.Helper()
	Patch(w, &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}, change)
}

// WaitStatus waits until the status of a mix is as wanted.
func (w *World) WaitStatus(mix, what string, ok func(*v1alpha1.CapacityMixStatus) bool) *v1alpha1.CapacityMix {
	w.T.Helper()
	return WaitFor(w, mix, what, func(cm *v1alpha1.CapacityMix) bool {
		return cm.Status.ObservedGeneration == cm.Generation && ok(&cm.Status)
	})
}

// WaitCondition waits until a mix has a condition that is true or false, for a reason.
func (w *World) WaitCondition(mix, name string, is bool, reason string) *v1alpha1.CapacityMix {
	w.T.Helper()
	return w.WaitStatus(mix, fmt.Sprintf("%s is %t: %s", name, is, reason), func(s *v1alpha1.CapacityMixStatus) bool {
		return Condition(s, name, is, reason)
	})
}

// Condition reports whether a status has a condition that is true or false, for a reason.
func Condition(s *v1alpha1.CapacityMixStatus, name string, is bool, reason string) bool {
	c := meta.FindStatusCondition(s.Conditions, name)
	return c != nil && (c.Status == "True") == is && c.Reason == reason
}

// BlockedBy reports whether a status has a workload that is blocked for a reason.
func BlockedBy(s *v1alpha1.CapacityMixStatus, reason string) bool {
	return slices.ContainsFunc(s.Workloads, func(w v1alpha1.WorkloadMix) bool { return w.Blocked != nil && w.Blocked.Reason == reason })
}

// controllerRequests returns what the controller requested in the test's namespace of a resource.
func (w *World) controllerRequests(resource string, match func(Request) bool) []Request {
	w.T.Helper()
	return w.Audit(func(r Request) bool {
		return r.User == cluster.BerthControllerUser && r.Resource == resource && match(r)
	})
}

// Evictions returns the evictions that the controller requested in the test's namespace, but for those of pods that changed
// after they were read: each is refused with 409, changes nothing, and is sent again.
func (w *World) Evictions() []Request {
	w.T.Helper()
	return w.controllerRequests("pods/eviction", func(r Request) bool { return r.Code != http.StatusConflict })
}

// Evicted is how many evictions were requested.
func (w *World) Evicted() int {
	w.T.Helper()
	return len(w.Evictions())
}

// WaitEvictions waits until so many evictions were requested.
func (w *World) WaitEvictions(n int) {
	w.T.Helper()
	w.Reaches(fmt.Sprintf("%d pods are evicted", n), n, w.Evicted)
}

// EvictionsOf returns those of a workload's pods, whether they were granted or not.
func (w *World) EvictionsOf(workload string) []Request {
	w.T.Helper()
	return slices.DeleteFunc(w.Evictions(), func(r Request) bool { return !strings.HasPrefix(r.Name, workload+"-") })
}

// PodPatches returns the writes of the controller to pods of the test.
func (w *World) PodPatches() []Request {
	w.T.Helper()
	return w.controllerRequests("pods", Request.Write)
}

// WaitBlocked waits until the only workload of a mix that is blocked is so for a
// reason, and the message has the words.
func (w *World) WaitBlocked(mix, reason string, words ...string) string {
	w.T.Helper()
	message := ""
	w.WaitStatus(mix, "blocked for reason "+reason+" with "+strings.Join(words, ", "), func(s *v1alpha1.CapacityMixStatus) bool {
		for i := range s.Workloads {
			if b := s.Workloads[i].Blocked; b != nil && b.Reason == reason && containsAll(b.Message, words) {
				message = b.Message
				return Condition(s, v1alpha1.ConditionRebalancing, false, reason) &&
					Condition(s, v1alpha1.ConditionSatisfied, false, v1alpha1.ReasonMixNotSatisfied)
			}
		}
		return false
	})
	return message
}

func containsAll(s string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s, w) })
}

// WaitSatisfied waits until the status of a mix reports that it is kept and that nothing moves.
func (w *World) WaitSatisfied(mix string) *v1alpha1.CapacityMix {
	w.T.Helper()
	return w.WaitStatus(mix, "satisfied", func(s *v1alpha1.CapacityMixStatus) bool {
		return Condition(s, v1alpha1.ConditionSatisfied, true, v1alpha1.ReasonExact) &&
			Condition(s, v1alpha1.ConditionRebalancing, false, "OnTarget")
	})
}

// WaitExact waits until an app has n pods, all Ready, in exactly their mix. The slots are waited for, too: if a ReplicaSet creates a
// pod too many and then deletes one by its own order, the controller repairs them afterwards.
func (w *World) WaitExact(app string, m split.Mix, n int, within time.Duration) []corev1.Pod {
	w.T.Helper()
	var pods []corev1.Pod
	w.Within(within, fmt.Sprintf("%s has %d Ready pods in the mix %s", app, n, m), func() (bool, string) {
		pods = w.Live(app)
		s := w.SplitOf(pods)
		gap := slices.ContainsFunc(pods, func(p corev1.Pod) bool { slot, ok := governing.ClaimedSlot(&p); return !ok || slot >= n })
		return s == SplitBy(m, n) && len(Where(pods, Ready)) == n && !gap, fmt.Sprintf("%s, gap: %t", s, gap)
	})
	w.RequireExactPods(pods, m)
	return pods
}

// WaitRepaired is WaitExact, and then waits until the status of the mix of that name is as WaitSatisfied requires.
func (w *World) WaitRepaired(app string, m split.Mix, n int, within time.Duration) []corev1.Pod {
	w.T.Helper()
	pods := w.WaitExact(app, m, n, within)
	w.WaitSatisfied(app)
	return pods
}

// End ends a program and waits until it is gone: killed with SIGKILL, or ended
// with SIGTERM, which lets a controller give its lease back.
func End(c *cluster.Controller, kill bool) {
	if kill {
		c.Kill()
	} else {
		c.Terminate()
	}
	<-c.Done()
}

// program is a scheduler or a controller.
type program interface {
	Done() <-chan struct{}
	LogTail(lines int) string
	LogPath() string
}

// Runs reports whether a program has not ended, and the end of its log if it has.
func Runs(p program) (bool, string) {
	select {
	case <-p.Done():
		return false, p.LogTail(20)
	default:
		return true, ""
	}
}

// WaitEnded waits until a program has ended by itself.
func (w *World) WaitEnded(p program) {
	w.T.Helper()
	select {
	case <-p.Done():
	case <-time.After(SettleTimeout):
		require.FailNow(w.T, "it does not end", p.LogTail(20))
	}
}

// StatusWrites returns the writes of the controller to the status of the test's mixes.
func (w *World) StatusWrites() []Request {
	w.T.Helper()
	return w.controllerRequests("capacitymixes/status", func(Request) bool { return true })
}

// stoppable is a program that can be stopped, and continued.
type stoppable interface {
	program
	Pause()
	Resume()
}

// ShortStops stops a program again and again, each time for a while after which
// it runs for a moment, until something is true or the program has ended. It
// runs afterwards.
func (w *World) ShortStops(p stoppable, stop time.Duration, until func() bool) {
	w.T.Helper()
	const moment = 300 * time.Millisecond
	defer p.Resume()
	p.Pause()
	stopped, next := true, time.Now().Add(stop)
	w.Eventually("the short stops have their effect", func() (bool, string) {
		if runs, _ := Runs(p); runs && time.Now().After(next) {
			if stopped {
				p.Resume()
				next = time.Now().Add(moment)
			} else {
				p.Pause()
				next = time.Now().Add(stop)
			}
			stopped = !stopped
		}
		return until(), p.LogTail(3)
	})
}

// AcquiredAt returns when the holder of a lease acquired it.
func (w *World) AcquiredAt(lease string) time.Time {
	w.T.Helper()
	l := ReadIn(w, "berth-system", lease, &coordinationv1.Lease{})
	require.NotNil(w.T, l.Spec.AcquireTime)
	return l.Spec.AcquireTime.Time
}
