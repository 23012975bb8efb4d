// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/test/builders"
)

var phases = []v1alpha1.EnvironmentPhase{
	"", v1alpha1.EnvironmentPending, v1alpha1.EnvironmentCreating, v1alpha1.EnvironmentRunning, v1alpha1.EnvironmentUpdating,
	v1alpha1.EnvironmentStopping, v1alpha1.EnvironmentStopped, v1alpha1.EnvironmentFailed, v1alpha1.EnvironmentDeleting,
}

// Every phase, run policy and verb.
func TestAllowed(t *testing.T) {
	// What is allowed with a policy, in all phases but Deleting. What has not started yet may be started again.
	allowed := map[v1alpha1.RunPolicy]map[Verb]bool{
		v1alpha1.RunPolicyRunning: {VerbUpdate: true, VerbStart: false, VerbStop: true, VerbRestart: true, VerbDelete: true},
		v1alpha1.RunPolicyStopped: {VerbUpdate: true, VerbStart: true, VerbStop: false, VerbRestart: true, VerbDelete: true},
		"":                        {VerbUpdate: true, VerbStart: false, VerbStop: true, VerbRestart: true, VerbDelete: true},
	}
	notStarted := []v1alpha1.EnvironmentPhase{
		"", v1alpha1.EnvironmentPending, v1alpha1.EnvironmentCreating, v1alpha1.EnvironmentStopping, v1alpha1.EnvironmentStopped,
	}
	for run, verbs := range allowed {
		for verb, want := range verbs {
			for _, phase := range phases {
				want := want || verb == VerbStart && slices.Contains(notStarted, phase)
				if phase == v1alpha1.EnvironmentDeleting {
					want = verb == VerbDelete
				}
				err := Allowed(phase, run, verb)
				assert.Equal(t, want, err == nil, "%s of %q with %q: %v", verb, phase, run, err)
			}
		}
	}
	assert.EqualError(t, Allowed(v1alpha1.EnvironmentStopped, v1alpha1.RunPolicyStopped, VerbStop), "cannot stop an environment that is Stopped")
	assert.EqualError(t, Allowed("", v1alpha1.RunPolicyStopped, VerbStop), "cannot stop an environment that is Pending")
	assert.EqualError(t, Allowed(v1alpha1.EnvironmentDeleting, v1alpha1.RunPolicyStopped, VerbStart), "cannot start an environment that is Deleting")
	assert.Error(t, Allowed(v1alpha1.EnvironmentRunning, v1alpha1.RunPolicyRunning, "dance"))
}

// well is a component of one replica as it should be.
var well = Observed{Current: true, Replicas: 1, Ready: 1, Updated: 1, Pods: 1}

// situation is a complete environment in which all is well, after some changes.
func situation(change ...func(*Situation)) *Situation {
	e := builders.CompleteEnvironment()
	e.Status = v1alpha1.EnvironmentStatus{Phase: v1alpha1.EnvironmentRunning, OpenStages: stack.Stages, ObservedGeneration: 1}
	s := &Situation{
		Environment: e, Components: stack.Components(&e.Spec.Stack),
		Observed: map[string]Observed{stack.Database: well, "redis-cache": well, stack.Backend: well, stack.Frontend: well},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func failing(component string) func(*Situation) {
	return func(s *Situation) {
		s.Observed[component] = Observed{Current: true, Replicas: 1, Pods: 1, Restarts: 3, Reason: "CrashLoopBackOff", Message: "back-off"}
	}
}

func status(change func(*v1alpha1.EnvironmentStatus)) func(*Situation) {
	return func(s *Situation) { change(&s.Environment.Status) }
}

func starting(open int32) func(*Situation) {
	return status(func(s *v1alpha1.EnvironmentStatus) { s.OpenStages, s.Phase = open, v1alpha1.EnvironmentCreating })
}

func stopped(s *Situation) { s.Environment.Spec.RunPolicy = v1alpha1.RunPolicyStopped }

func changed(s *Situation) { s.Environment.Generation = 2 }

func gone(s *Situation) { s.Observed = map[string]Observed{} }

func TestPhase(t *testing.T) {
	in := func(phase v1alpha1.EnvironmentPhase) func(*Situation) {
		return status(func(s *v1alpha1.EnvironmentStatus) { s.Phase = phase })
	}
	for name, c := range map[string]struct {
		change  []func(*Situation)
		want    v1alpha1.EnvironmentPhase
		message string
	}{
		"all is well":                      {nil, v1alpha1.EnvironmentRunning, "every component is ready"},
		"nothing is there yet":             {[]func(*Situation){gone, starting(0)}, v1alpha1.EnvironmentCreating, "database: 0 of 1 replicas are ready"},
		"some stages are there":            {[]func(*Situation){failing(stack.Backend), starting(2)}, v1alpha1.EnvironmentCreating, "backend: 0 of 1 replicas are ready: back-off"},
		"it takes too long":                {[]func(*Situation){failing(stack.Backend), starting(2), func(s *Situation) { s.Late = true }}, v1alpha1.EnvironmentFailed, "did not start in time: backend"},
		"it took too long, and is there":   {[]func(*Situation){starting(4), func(s *Situation) { s.Late = true }, in(v1alpha1.EnvironmentFailed)}, v1alpha1.EnvironmentRunning, "every"},
		"one fails that ran":               {[]func(*Situation){failing(stack.Backend)}, v1alpha1.EnvironmentRunning, "backend: 0 of 1 replicas are ready: back-off"},
		"one fails that ran, for long":     {[]func(*Situation){failing(stack.Backend), func(s *Situation) { s.Late = true }}, v1alpha1.EnvironmentRunning, "backend"},
		"it is changed":                    {[]func(*Situation){failing(stack.Backend), changed}, v1alpha1.EnvironmentUpdating, "backend"},
		"it was changed, and is not ready": {[]func(*Situation){failing(stack.Backend), in(v1alpha1.EnvironmentUpdating)}, v1alpha1.EnvironmentUpdating, "backend"},
		"it was changed, and is ready":     {[]func(*Situation){in(v1alpha1.EnvironmentUpdating)}, v1alpha1.EnvironmentRunning, "every"},
		"it is changed while it starts":    {[]func(*Situation){failing(stack.Backend), starting(stack.Stages), changed}, v1alpha1.EnvironmentCreating, "backend"},
		"it is changed, and nothing rolls": {[]func(*Situation){changed}, v1alpha1.EnvironmentRunning, "every"},
		"it was refused, and no more":      {[]func(*Situation){failing(stack.Backend), in(v1alpha1.EnvironmentFailed)}, v1alpha1.EnvironmentUpdating, "backend"},
		"it is refused":                    {[]func(*Situation){func(s *Situation) { s.Refused = "port 80 belongs to x" }}, v1alpha1.EnvironmentFailed, "port 80"},
		"it is to stop":                    {[]func(*Situation){stopped}, v1alpha1.EnvironmentStopping, "4 pods are still there"},
		"it has stopped":                   {[]func(*Situation){stopped, gone}, v1alpha1.EnvironmentStopped, "no component runs"},
		"it is to stop, and is late":       {[]func(*Situation){stopped, gone, starting(0), func(s *Situation) { s.Late = true }}, v1alpha1.EnvironmentStopped, "no component runs"},
		"it is deleted, whatever else it is": {[]func(*Situation){stopped, func(s *Situation) {
			s.Refused, s.Environment.DeletionTimestamp = "x", new(metav1.Now())
		}}, v1alpha1.EnvironmentDeleting, "removed"},
	} {
		t.Run(name, func(t *testing.T) {
			phase, message := situation(c.change...).Phase()
			assert.Equal(t, c.want, phase)
			assert.Contains(t, message, c.message)
		})
	}
}

// What counts as ready.
func TestReady(t *testing.T) {
	deployment := stack.Component{Replicas: 2, Workload: stack.OfDeployment}
	job := stack.Component{Replicas: 2, Workload: stack.OfJob}
	for name, c := range map[string]struct {
		component stack.Component
		observed  Observed
		want      bool
	}{
		"all of the current revision":         {deployment, Observed{Current: true, Ready: 2, Updated: 2}, true},
		"one of the revision before":          {deployment, Observed{Current: true, Ready: 2, Updated: 1}, false},
		"one is missing":                      {deployment, Observed{Current: true, Ready: 1, Updated: 2}, false},
		"not what was rendered last":          {deployment, Observed{Ready: 2, Updated: 2}, false},
		"zero replicas":                       {stack.Component{Workload: stack.OfDeployment}, Observed{Current: true}, true},
		"done does not count where it serves": {deployment, Observed{Current: true, Done: true}, false},
		"a Job that runs":                     {job, Observed{Current: true, Ready: 1}, true},
		"a Job that has ended well":           {job, Observed{Current: true, Done: true}, true},
		"a Job that does neither":             {job, Observed{Current: true}, false},
		"a Job of before":                     {job, Observed{Done: true}, false},
	} {
		assert.Equal(t, c.want, c.observed.ready(&c.component), name)
	}
}

// Every component has a status.
func TestStatuses(t *testing.T) {
	list, ready := situation(failing(stack.Backend), starting(2)).Statuses()
	assert.Equal(t, 3, ready, "the frontend is ready by itself, and counts")
	byName := map[string]v1alpha1.EnvironmentComponentStatus{}
	for _, c := range list {
		byName[c.Name] = c
	}
	assert.Equal(t, v1alpha1.EnvironmentComponentStatus{
		Name: stack.Backend, Stage: 3, Replicas: 1, Restarts: 3, Reason: "CrashLoopBackOff", Message: "back-off",
	}, byName[stack.Backend])
	assert.Equal(t, v1alpha1.EnvironmentComponentStatus{Name: stack.Database, Stage: 1, Replicas: 1, ReadyReplicas: 1, Ready: true}, byName[stack.Database])

	list, ready = situation(gone, starting(0)).Statuses()
	assert.Zero(t, ready)
	for i, want := range []string{
		stack.Database + " Waiting: ", "redis-cache WaitsForStage: starts when stage 1 is ready", stack.Backend + " WaitsForStage: starts when stage 1 is ready",
		stack.Frontend + " WaitsForStage: starts when stage 1 is ready",
	} {
		assert.Equal(t, want, list[i].Name+" "+list[i].Reason+": "+list[i].Message)
	}

	list, ready = situation(stopped).Statuses()
	assert.Zero(t, ready, "nothing of a stopped environment is ready, though it still runs")
	for _, c := range list {
		assert.Equal(t, "Stopped", c.Reason)
		assert.False(t, c.Ready)
	}
}

func TestRunsAndGated(t *testing.T) {
	for _, open := range []int32{0, 1, 2, 3, 4} {
		for stage := int32(1); stage <= stack.Stages; stage++ {
			for _, run := range []v1alpha1.RunPolicy{"", v1alpha1.RunPolicyRunning} {
				assert.True(t, Runs(run, false, open, stage))
				assert.True(t, Runs(run, true, open, stage), "force is for a stop alone")
				assert.Equal(t, stage > open+1, Gated(run, open, stage))
			}
			assert.Equal(t, stage <= open, Runs(v1alpha1.RunPolicyStopped, false, open, stage))
			assert.False(t, Runs(v1alpha1.RunPolicyStopped, true, open, stage), "a forced stop has no order")
			assert.False(t, Gated(v1alpha1.RunPolicyStopped, open, stage))
		}
	}
}

// From any situation, a stage is opened only if all from the first that was not open to it are ready; a stage is
// scaled down only if no pod of a later one is left.
func TestOpenStages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := situation(func(s *Situation) {
			s.Environment.Spec = *drawSpec(t)
			s.Components = stack.Components(&s.Environment.Spec.Stack)
			s.Environment.Status.OpenStages = rapid.Int32Range(0, stack.Stages).Draw(t, "open")
			s.Observed = map[string]Observed{}
			for _, c := range s.Components {
				s.Observed[c.Name] = Observed{
					Current: maybe(t, "current"), Done: maybe(t, "done"), Ready: rapid.Int32Range(0, 3).Draw(t, "ready"),
					Updated: rapid.Int32Range(0, 3).Draw(t, "updated"), Pods: rapid.Int32Range(0, 2).Draw(t, "pods"),
				}
			}
		})
		before, after := s.Environment.Status.OpenStages, s.OpenStages()
		stopping := s.Environment.Spec.RunPolicy == v1alpha1.RunPolicyStopped
		for i := range s.Components {
			c := &s.Components[i]
			o := s.Observed[c.Name]
			switch {
			case !stopping && c.Stage > before && c.Stage <= after:
				assert.True(t, o.ready(c), "%s is ready", c.Name)
			case stopping && c.Stage > after+1:
				assert.Zero(t, min(o.Pods, before-after), "%s has no pods", c.Name)
			}
		}
		if stopping {
			assert.LessOrEqual(t, after, before)
		} else {
			assert.GreaterOrEqual(t, after, before, "a stage that has been ready stays open")
		}
		s.Environment.Status.OpenStages = after
		assert.Equal(t, after, s.OpenStages(), "it moves as far as it can at once")
	})
}

// A restart goes stage by stage, and each waits for the one before.
func TestRestartOf(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 2, 3, 4, 5, 6, 0, time.FixedZone("east", 3600)))
	const asked = "2026-02-03T03:05:06Z"
	restart := func(s *Situation) { s.Environment.Spec.RestartedAt = &at }
	through := func(components ...string) func(*Situation) {
		return func(s *Situation) {
			for _, c := range components {
				o := s.Observed[c]
				o.RestartedAt = asked
				s.Observed[c] = o
			}
		}
	}
	for name, c := range map[string]struct {
		change []func(*Situation)
		want   []string // of the database, the cache, the backend and the frontend
	}{
		"none was requested":           {nil, []string{"", "", "", ""}},
		"it begins with the database":  {[]func(*Situation){restart}, []string{asked, "", "", ""}},
		"the database is not back":     {[]func(*Situation){restart, failing(stack.Database), through(stack.Database)}, []string{asked, "", "", ""}},
		"the database is back":         {[]func(*Situation){restart, through(stack.Database)}, []string{asked, asked, "", ""}},
		"the cache is back":            {[]func(*Situation){restart, through(stack.Database, "redis-cache")}, []string{asked, asked, asked, ""}},
		"the backend is back":          {[]func(*Situation){restart, through(stack.Database, "redis-cache", stack.Backend)}, []string{asked, asked, asked, asked}},
		"nothing is started yet":       {[]func(*Situation){restart, gone, starting(0)}, []string{asked, asked, asked, asked}},
		"while it starts":              {[]func(*Situation){restart, failing(stack.Backend), starting(2)}, []string{asked, asked, asked, asked}},
		"what has no pods waits not":   {[]func(*Situation){restart, func(s *Situation) { s.Observed[stack.Frontend] = Observed{Current: true} }}, []string{asked, "", "", asked}},
		"there is no database":         {[]func(*Situation){restart, func(s *Situation) { s.Components = s.Components[1:] }}, []string{"", asked, "", ""}},
		"one that came through failed": {[]func(*Situation){restart, failing(stack.Database), through(stack.Database, "redis-cache")}, []string{asked, asked, "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			got := situation(c.change...).RestartOf()
			assert.Equal(t, c.want, []string{got[stack.Database], got["redis-cache"], got[stack.Backend], got[stack.Frontend]})
		})
	}
}
