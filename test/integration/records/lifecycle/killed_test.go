// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

// The controller is killed after some of its writes, again and again, while
// records come, change and go, and once the API server stalls as well.
func TestRecordsConvergeWhereverTheControllerIsKilled(t *testing.T) {
	const (
		records = 8
		kills   = 5
	)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	durable := func(c *controller.Configuration) {
		testenv.Impatient(c)
		c.Controllers, c.Records.ODGMImage = []string{controller.ControllerRecords}, odgmImage
	}
	s := &scene{World: testenv.New(t, append(cluster.Nodes("spot", 2), cluster.Nodes("on-demand", 2)...)...)}
	s.ApplyFiles("manifests/rbac/records", "manifests/templates")
	writes := func() int {
		return len(s.Audit(func(r testenv.Request) bool {
			return r.Write() && r.User == cluster.BerthRecordsUser && r.Resource != "leases"
		}))
	}
	name := func(i int) string { return fmt.Sprint("cart-", i) }
	for i := range records {
		functions := []string{"add", "remove"}
		if i == 0 {
			functions = append(functions, "leaving")
		}
		r := record(name(i), functions...)
		r.Spec.NFRRequirements = &v1alpha1.NFRRequirements{Availability: new("0.999")}
		s.Create(r)
	}
	for round := range kills {
		s.process = s.StartController("berth-controller", durable)
		switch round {
		case 2: // a function goes
			s.change(name(0), func(r *v1alpha1.DeploymentRecord) {
				r.Spec.DeploymentUnit.Functions = r.Spec.DeploymentUnit.Functions[:2]
			})
			s.setImage(name(1), newImage)
		case 3:
			s.Delete(s.get(name(2)))
			s.Delete(s.get(name(3)))
		}
		before, after := writes(), 1+random.IntN(20)
		s.Eventually(fmt.Sprintf("%d writes", after), func() (bool, string) {
			n := writes() - before
			return n >= after || round > 0 && s.atRest(records), fmt.Sprint(n)
		})
		api := s.Cluster.Component(cluster.APIServer)
		if round == 4 {
			api.Pause()
		}
		testenv.End(s.process, true)
		api.Resume()
		s.DropLease("berth-system", "berth-records")
	}
	s.process = s.Controller(durable)
	var want []string
	for i := range records {
		if i == 2 || i == 3 {
			s.WaitDeleted(&v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name(i)}})
			continue
		}
		want = append(want, name(i)+"-fn-0", name(i)+"-fn-1")
		r := s.settled(name(i), v1alpha1.PhaseAvailable)
		assert.NotEmpty(t, r.Status.ResourceRefs)
	}
	s.Eventually("there is what the records request, and nothing else", func() (bool, string) {
		mixes := s.Names(&v1alpha1.CapacityMixList{})
		return slices.Equal(s.deployments(), want) && slices.Equal(s.services(), want) && slices.Equal(mixes, want), fmt.Sprint(s.deployments(), s.services(), mixes)
	})
	assert.Equal(t, newImage, s.image(name(1)+"-fn-0"))
}

// atRest reports whether all records that are not being deleted have reported their last change.
func (s *scene) atRest(most int) bool {
	s.T.Helper()
	list := testenv.List(s.World, &v1alpha1.DeploymentRecordList{}).Items
	for _, r := range list {
		if r.DeletionTimestamp != nil || r.Status.ObservedGeneration != r.Generation || r.Status.Phase != v1alpha1.PhaseAvailable {
			return false
		}
	}
	return len(list) <= most
}
