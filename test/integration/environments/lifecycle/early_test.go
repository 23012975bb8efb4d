// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

// An environment that is deleted within a second of its creation leaves nothing behind, wherever the controller is then and
// although it ends meanwhile.
func TestAnEnvironmentThatIsDeletedEarlyLeavesNothingBehind(t *testing.T) {
	patient := func(c *controller.Configuration) { // a busy API server costs no lease: the controller would end
		c.LeaderElection.LeaseDurationSeconds, c.LeaderElection.RenewDeadlineSeconds = 60, 50
	}
	s := start(t, patient)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	aMoment := func() time.Duration { return time.Duration(random.Int64N(int64(time.Second))) }
	namespaces := s.Count(func(r testenv.Request) bool {
		return r.Verb == "create" && r.Resource == "namespaces" && r.User == cluster.BerthEnvironmentsUser && r.OK()
	})
	const rounds, together = 6, 4
	for batch := range testenv.Length(1, 9) {
		var all []*v1alpha1.Environment
		for round := range rounds {
			var lives errgroup.Group
			for range together {
				e, delay := environment(fmt.Sprintf("early-%d-%d", batch, len(all))), aMoment()
				e.Namespace, e.Spec.Stack.Database.PersistentStorage = s.Namespace, true
				all = append(all, e)
				lives.Go(func() error {
					if err := s.Client.Create(s.Ctx, e); err != nil {
						return err
					}
					<-time.After(delay)
					return s.Client.Delete(s.Ctx, e)
				})
			}
			if round%3 == 2 {
				<-time.After(aMoment())
				testenv.End(s.process, random.IntN(2) == 0)
				s.DropLease("berth-system", "berth-environments")
				s.run(patient)
			}
			require.NoError(t, lives.Wait())
		}
		for _, e := range all {
			s.WaitDeleted(e)
		}
		s.Eventually("nothing is left", func() (bool, string) {
			left := s.labelled(client.MatchingLabels{v1alpha1.EnvironmentNamespaceLabel: s.Namespace})
			return len(left) == 0, fmt.Sprintf("%d objects: %s", len(left), strings.Join(left, ", "))
		})
	}
	assert.Positive(t, namespaces(), "some were deleted when there was something of them")
}

// The claims of a shared namespace have no owner. One that the controller has just created goes although its cache does not
// have it.
func TestAClaimThatTheCacheDoesNotHaveIsDeleted(t *testing.T) {
	s := &scene{World: testenv.New(t, cluster.Nodes("on-demand", 1)...)}
	s.ApplyFiles("manifests/rbac/environments")
	kubeconfig, stalled := s.StallingKubeconfigOf(cluster.BerthEnvironmentsUser, "persistentvolumeclaims")
	s.process = s.StartControllerWith(cluster.ProgramOptions{Name: "berth-controller", Kubeconfig: kubeconfig}, testenv.Impatient,
		func(c *controller.Configuration) {
			c.Controllers, c.Environments.NamespacePerEnvironment = []string{controller.ControllerEnvironments}, false
		})
	s.WaitLeads(s.process)
	stalled.Store(true)
	e := environment("shop")
	e.Spec.Stack.Database.PersistentStorage = true
	s.Create(e)
	e.Status.Namespace = s.Namespace
	testenv.Becomes(s.World, "it has a claim", 1, func() int { return len(s.names(e, &corev1.PersistentVolumeClaimList{})) })
	s.deleted(e)
	s.waitEverything(e, 0, "nothing is left")
}
