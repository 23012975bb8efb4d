// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/test/testenv"
)

// enough is how many looks find nothing new where there is nothing more to come.
const enough = 40

// step is one of the changes in the life of an environment.
type step struct {
	name string
	do   func()
	// done waits until it is as it should be, and returns all that there is of it then.
	done func() []string
}

// A controller that is killed after any of its writes leaves nothing that the next one cannot go on with.
// Whatever there is in the end is what there is without a kill.
func TestAControllerThatIsKilledAnywhereLeavesNothingBehind(t *testing.T) {
	s := start(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	life := s.life("shop")
	writes, want := make([]int, len(life)), make([][]string, len(life))
	for i, step := range life {
		count := s.writes()
		step.do()
		want[i] = step.done()
		writes[i] = count()
		require.Positive(t, writes[i], step.name)
	}
	require.NotEmpty(t, want[0])
	require.NotEqual(t, want[0], want[1])
	require.Empty(t, want[len(life)-1], "what is gone leaves nothing")

	for kills := range testenv.Length(3, 51) {
		i := kills % len(life)
		count := s.writes()
		at := random.IntN(writes[i] + 1)
		point := fmt.Sprintf("kill %d: after write %d of %s", kills+1, at, life[i].name)
		t.Log(point)
		life[i].do()
		seen, quiet := -1, 0
		s.Eventually("the controller has written", func() (bool, string) {
			n := count()
			if quiet++; n != seen {
				seen, quiet = n, 0
			}
			// How often it writes differs by what it sees at once: this time it may be done with fewer.
			return n >= at || quiet == enough, fmt.Sprint(n)
		})
		testenv.End(s.process, true)
		s.DropLease("berth-system", "berth-environments") // the next need not wait for its end
		s.run()
		require.Equal(t, want[i], life[i].done(), point)
	}
}

// life is that of an environment: what it is made of is the same each time.
func (s *scene) life(name string) []step {
	var e *v1alpha1.Environment
	runs := func() []string {
		e = s.comes(name, v1alpha1.EnvironmentRunning)
		var have []string
		s.Eventually("nothing is on its way", func() (bool, string) {
			before := have
			have = s.everything(e)
			return slices.Equal(before, have), strings.Join(have, "\n")
		})
		return have
	}
	return []step{
		{"create", func() {
			s.volumes(1)
			e = environment(name)
			e.Spec.Stack.Database.PersistentStorage = true
			e.Spec.Stack.Backend.Replicas = new(int32(2))
			s.Create(e)
		}, runs},
		{"update", func() {
			s.change(name, func(e *v1alpha1.Environment) {
				e.Spec.Stack.Frontend.Container.Image = "nginx:1.30"
				e.Spec.Stack.Backend = nil
				e.Spec.Stack.AdditionalServices[0].Container.Env = map[string]v1alpha1.ConfigValue{"A": "1"}
			})
		}, func() []string {
			s.seen(name, "the update is seen", func(e *v1alpha1.Environment) bool { return e.Status.Revision == 2 })
			return runs()
		}},
		{"delete", func() { s.Delete(s.get(name)) }, func() []string {
			s.WaitDeleted(e)
			s.WaitDeleted(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Status.Namespace}})
			s.waitEverything(e, 0, "its history is collected")
			return nil
		}},
	}
}

// everything is what there is of an environment in all namespaces, its pods by their components: their names are random.
func (s *scene) everything(e *v1alpha1.Environment) (all []string) {
	s.T.Helper()
	return s.labelled(render.Labels(e))
}

// labelled is what there is with some labels in all namespaces, as everything has it.
func (s *scene) labelled(labels client.MatchingLabels) (all []string) {
	s.T.Helper()
	kinds := append(render.Kinds(), &corev1.Namespace{}, &corev1.Pod{}, &appsv1.ControllerRevision{})
	for _, kind := range kinds {
		list, err := applyset.ListOf(kind.(client.Object), s.Client.Scheme())
		require.NoError(s.T, err)
		gvk, err := apiutil.GVKForObject(kind, s.Client.Scheme())
		require.NoError(s.T, err)
		require.NoError(s.T, s.Client.List(s.Ctx, list, labels))
		require.NoError(s.T, meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			name := o.GetName()
			if _, is := o.(*corev1.Pod); is {
				name = o.GetLabels()[v1alpha1.EnvironmentComponentLabel]
			}
			all = append(all, gvk.Kind+" "+name)
			return nil
		}))
	}
	slices.Sort(all)
	return all
}

// waitEverything waits until there are so many objects of an environment.
func (s *scene) waitEverything(e *v1alpha1.Environment, n int, what string) {
	s.T.Helper()
	testenv.Becomes(s.World, what, n, func() int { return len(s.everything(e)) })
}

// writes counts what the controller writes from now on, but for its lease and events.
func (s *scene) writes() func() int {
	s.T.Helper()
	return s.Count(func(r testenv.Request) bool {
		return r.Write() && r.User == cluster.BerthEnvironmentsUser && r.Resource != "leases" && r.Resource != "events"
	})
}

// An environment that is as it should be costs no write, by whichever controller looks.
func TestAnUnchangedEnvironmentIsNotWritten(t *testing.T) {
	reached := func(c *controller.Configuration) {
		c.Environments.OutsideNetworks = []string{"10.1.0.0/16", "2001:db8::/32"}
	}
	s := start(t, reached)
	e := environment("shop")
	e.Spec.Network = &v1alpha1.EnvironmentNetwork{Isolated: true}
	e.Spec.Stack.Frontend.Domains, e.Spec.Stack.Frontend.TLSEnabled = []string{"shop.example.com"}, true
	e.Spec.Stack.Database.PersistentStorage = true
	e.Spec.Stack.Backend.Replicas = new(int32(3))
	e.Spec.Stack.Backend.Container.HealthCheck = &v1alpha1.EnvironmentHealthCheck{Command: []string{"true"}, StartPeriodSeconds: 10}
	e = s.runs(e)
	assert.Len(t, in(s, e, "frontend-outside", &networkingv1.NetworkPolicy{}).Spec.Ingress[0].From, 2)
	writes := func() (list []string) {
		for _, r := range s.AuditAll(func(r testenv.Request) bool {
			return r.Write() && r.User == cluster.BerthEnvironmentsUser && (r.Namespace == e.Status.Namespace || r.Namespace == s.Namespace) && r.Resource != "events"
		}) {
			list = append(list, fmt.Sprintf("%s %s %s", r.Verb, r.Resource, r.Name))
		}
		return list
	}
	quiet, since := writes(), time.Now()
	s.Eventually("it is quiet", func() (bool, string) { // the status of a ResourceLimit may come a second later
		before := quiet
		if quiet = writes(); len(quiet) > len(before) {
			since = time.Now()
		}
		return len(quiet) > 0 && time.Since(since) > testenv.Short, strings.Join(quiet[len(before):], ", ")
	})
	for i := range 3 {
		s.change("shop", func(e *v1alpha1.Environment) { e.Annotations = map[string]string{"look": fmt.Sprint(i)} })
	}
	testenv.End(s.process, false)
	s.run(reached)
	s.runs(small("last"))
	after := slices.DeleteFunc(writes()[len(quiet):], func(w string) bool {
		return strings.Contains(w, " last") || strings.Contains(w, "frontend") && strings.Contains(w, "env-last")
	})
	assert.Empty(t, after)
	s.release()
}
