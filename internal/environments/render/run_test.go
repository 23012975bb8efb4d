// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// cluster is one that does with workloads what a cluster does, one pod at a time.
type cluster struct {
	situation *Situation
	workloads map[string]*workload
	// up and down are the stages of components in the order in which they became ready, or had no pods any more.
	up, down []int32
}

// workload is what the cluster has of a component, and what was applied.
type workload struct {
	component        *stack.Component
	there, gated     bool
	replicas         int32
	revision, wanted int
	pods, ready, new int32
}

func newCluster(s *Situation) *cluster {
	c := &cluster{situation: s, workloads: map[string]*workload{}}
	s.Environment.Status = v1alpha1.EnvironmentStatus{ObservedGeneration: 1}
	for i := range s.Components {
		c.workloads[s.Components[i].Name] = &workload{component: &s.Components[i]}
	}
	return c
}

// expected returns what a component should be, as Render has it.
func (c *cluster) expected(w *workload) (replicas int32, gated bool) {
	e := c.situation.Environment
	if Runs(e.Spec.RunPolicy, e.Spec.ForceStop, e.Status.OpenStages, w.component.Stage) {
		replicas = w.component.Replicas
	}
	return replicas, Gated(e.Spec.RunPolicy, e.Status.OpenStages, w.component.Stage)
}

func (c *cluster) observe() {
	c.situation.Observed = map[string]Observed{}
	for name, w := range c.workloads {
		replicas, gated := c.expected(w)
		c.situation.Observed[name] = Observed{
			Current:  w.there && w.replicas == replicas && w.gated == gated && w.revision == w.wanted,
			Replicas: w.replicas, Ready: w.ready, Updated: w.new, Pods: w.pods,
		}
	}
}

// reconcile does as the controller does: it finds how far the environment is, applies what follows from it, and reports.
func (c *cluster) reconcile(t *rapid.T) {
	e := c.situation.Environment
	for {
		c.observe()
		before, open := e.Status.OpenStages, c.situation.OpenStages()
		if open == before {
			break
		}
		for _, w := range c.workloads {
			o := c.situation.Observed[w.component.Name]
			switch stage := w.component.Stage; {
			case open > before && stage > before && stage <= open:
				assert.True(t, o.ready(w.component), "%s is ready when a later stage opens", w.component.Name)
			case open < before && stage > open+1:
				assert.Zero(t, w.pods, "%s has no pods when an earlier stage stops", w.component.Name)
			}
		}
		e.Status.OpenStages = open
	}
	for _, w := range c.workloads {
		replicas, gated := c.expected(w)
		if w.revision != w.wanted || w.gated != gated {
			w.new = 0
		}
		w.there, w.replicas, w.gated, w.revision = true, replicas, gated, w.wanted
	}
	// What is reported is what was seen before all that was applied.
	from := e.Status.Phase
	e.Status.Phase, _ = c.situation.Phase()
	e.Status.ObservedGeneration = e.Generation
	c.legal(t, from, e.Status.Phase)
}

// What may follow what. Each may follow itself.
var follows = map[v1alpha1.EnvironmentPhase][]v1alpha1.EnvironmentPhase{
	"":                           {v1alpha1.EnvironmentCreating, v1alpha1.EnvironmentStopped},
	v1alpha1.EnvironmentCreating: {v1alpha1.EnvironmentRunning, v1alpha1.EnvironmentStopping, v1alpha1.EnvironmentStopped},
	v1alpha1.EnvironmentRunning:  {v1alpha1.EnvironmentUpdating, v1alpha1.EnvironmentStopping},
	v1alpha1.EnvironmentUpdating: {v1alpha1.EnvironmentRunning, v1alpha1.EnvironmentStopping},
	v1alpha1.EnvironmentStopping: {v1alpha1.EnvironmentStopped, v1alpha1.EnvironmentCreating},
	v1alpha1.EnvironmentStopped:  {v1alpha1.EnvironmentCreating},
	v1alpha1.EnvironmentFailed:   {v1alpha1.EnvironmentRunning},
	v1alpha1.EnvironmentDeleting: nil,
	v1alpha1.EnvironmentPending:  nil,
}

func (c *cluster) legal(t *rapid.T, from, to v1alpha1.EnvironmentPhase) {
	assert.True(t, from == to || slices.Contains(follows[from], to), "%q became %q", from, to)
}

// act moves a component by a pod: one comes, becomes ready, is replaced or goes. It reports whether there was something to do.
func (c *cluster) act(w *workload) bool {
	switch {
	case w.pods > w.replicas:
		w.pods--
		w.ready, w.new = min(w.ready, w.pods), min(w.new, w.pods)
		if w.pods == 0 {
			c.down = append(c.down, w.component.Stage)
		}
	case w.pods < w.replicas:
		w.pods++
	case w.gated || w.new == w.replicas && w.ready == w.replicas:
		return false
	default:
		w.ready, w.new = w.replicas, w.new+1
		if w.new == w.replicas {
			c.up = append(c.up, w.component.Stage)
		}
	}
	return true
}

// settle lets the cluster do all that there is to do, in any order.
func (c *cluster) settle(t *rapid.T) {
	for range 400 {
		var busy []*workload
		for i := range c.situation.Components {
			w := c.workloads[c.situation.Components[i].Name]
			probe := *w
			if (&cluster{}).act(&probe) {
				busy = append(busy, w)
			}
		}
		if len(busy) == 0 {
			c.reconcile(t)
			return
		}
		c.act(busy[rapid.IntRange(0, len(busy)-1).Draw(t, "who")])
		c.reconcile(t)
	}
	require.Fail(t, "it does not come to rest")
}

// verb applies a verb of a user, if it is allowed.
func (c *cluster) verb(t *rapid.T) {
	e := c.situation.Environment
	verb := pick(t, "verb", VerbStart, VerbStop, VerbUpdate)
	if Allowed(e.Status.Phase, e.Spec.RunPolicy, verb) != nil {
		return
	}
	e.Generation++
	switch verb {
	case VerbStart:
		e.Spec.RunPolicy = v1alpha1.RunPolicyRunning
	case VerbStop:
		e.Spec.RunPolicy = v1alpha1.RunPolicyStopped
	case VerbUpdate:
		w := c.workloads[c.situation.Components[rapid.IntRange(0, len(c.situation.Components)-1).Draw(t, "changed")].Name]
		w.wanted++
	case VerbRestart, VerbDelete:
	}
}

func drawCluster(t *rapid.T) *cluster {
	return newCluster(situation(func(s *Situation) {
		spec := &s.Environment.Spec.Stack
		spec.AdditionalServices = append(spec.AdditionalServices, v1alpha1.AdditionalService{Name: "queue"})
		spec.Backend.Replicas = new(rapid.Int32Range(1, 3).Draw(t, "replicas"))
		if maybe(t, "no database") {
			spec.Database = nil
		}
		if maybe(t, "no backend") {
			spec.Backend = nil
		}
		s.Components = stack.Components(spec)
	}))
}

// Whatever order pods come, fail and go in, and whatever the spec becomes meanwhile, an environment goes
// from phase to phase as it may, and comes to run or to stop in the end.
func TestAnEnvironmentReachesRunningAndStopped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		e := c.situation.Environment
		c.reconcile(t)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			w := c.workloads[c.situation.Components[rapid.IntRange(0, len(c.situation.Components)-1).Draw(t, "which")].Name]
			switch pick(t, "what", "pod", "pod", "pod", "fails", "verb") {
			case "pod":
				c.act(w)
			case "fails":
				w.ready, w.new = 0, 0
			case "verb":
				c.verb(t)
			}
			c.reconcile(t)
		}
		c.settle(t)
		if e.Spec.RunPolicy != v1alpha1.RunPolicyStopped {
			assert.Equal(t, v1alpha1.EnvironmentRunning, e.Status.Phase)
			assert.Equal(t, stack.Stages, e.Status.OpenStages)
			e.Spec.RunPolicy = v1alpha1.RunPolicyStopped
			c.down = nil
			c.reconcile(t)
			c.settle(t)
			assert.True(t, slices.IsSortedFunc(c.down, func(a, b int32) int { return int(b - a) }), "in reverse: %v", c.down)
			assert.Len(t, c.down, len(c.situation.Components))
		}
		assert.Equal(t, v1alpha1.EnvironmentStopped, e.Status.Phase)
		assert.Zero(t, e.Status.OpenStages)

		e.Spec.RunPolicy = v1alpha1.RunPolicyRunning
		c.up = nil
		c.reconcile(t)
		c.settle(t)
		assert.Equal(t, v1alpha1.EnvironmentRunning, e.Status.Phase)
		assert.True(t, slices.IsSorted(c.up), "in order: %v", c.up)
		assert.Len(t, c.up, len(c.situation.Components))
	})
}

// One that runs and of which a component fails stays Running, and its status has the reason.
func TestAFailedComponentRecovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		c.reconcile(t)
		c.settle(t)
		for range 10 {
			w := c.workloads[c.situation.Components[rapid.IntRange(0, len(c.situation.Components)-1).Draw(t, "which")].Name]
			w.ready, w.new = 0, 0
			c.reconcile(t)
			phase, message := c.situation.Phase()
			assert.Equal(t, v1alpha1.EnvironmentRunning, phase)
			assert.Contains(t, message, w.component.Name)
			for _, w := range c.workloads {
				assert.False(t, w.gated, "nothing that runs is gated again")
				assert.Equal(t, w.component.Replicas, w.replicas)
			}
			c.settle(t)
		}
	})
}
