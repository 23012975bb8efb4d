// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	internal "berth.dev/berth/internal/environments/render"
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
		// The next need not wait for the lease to end: it would only make this longer.
		s.Delete(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-environments"}})
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
			s.volume()
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
			s.until(name, "the update is seen", func(e *v1alpha1.Environment) bool {
				return e.Status.ObservedGeneration == e.Generation && e.Status.Revision == 2
			})
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
	kinds := append(internal.Kinds(), &corev1.Namespace{}, &corev1.Pod{}, &appsv1.ControllerRevision{})
	for _, kind := range kinds {
		list, err := applyset.ListOf(kind.(client.Object), s.Client.Scheme())
		require.NoError(s.T, err)
		gvk, err := apiutil.GVKForObject(kind, s.Client.Scheme())
		require.NoError(s.T, err)
		require.NoError(s.T, s.Client.List(s.Ctx, list, client.MatchingLabels(internal.Labels(e))))
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
	s.Eventually(what, func() (bool, string) {
		have := s.everything(e)
		return len(have) == n, strings.Join(have, "\n")
	})
}

// writes counts what the controller writes from now on, but for its lease and events.
func (s *scene) writes() func() int {
	s.T.Helper()
	return s.Count(func(r testenv.Request) bool {
		return r.Write() && r.User == cluster.BerthEnvironmentsUser && r.Resource != "leases" && r.Resource != "events"
	})
}
