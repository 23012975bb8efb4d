// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/records/render"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
	"berth.dev/berth/test/wire/oaashead"
)

func TestIDsAreKeptAndNamesAreDerived(t *testing.T) {
	s := serve(t)
	for id, name := range map[string]string{
		"My_Deployment.ID@Prod":        "my-deployment-id-prod",
		"ünïcode-Ä":                    "n-code",
		strings.Repeat("b", 253):       strings.Repeat("b", 253),
		strings.Repeat("ä", 300) + "c": "c",
	} {
		require.NoError(t, s.deploy(headUnit(id)))
		r := s.stored(name)
		assert.Equal(t, id, r.Annotations[v1alpha1.DeploymentIDAnnotation])
		assert.Equal(t, render.Hash(id), r.Labels[v1alpha1.DeploymentIDLabel])
		got, err := s.status(id)
		require.NoError(t, err)
		assert.Equal(t, id, got.Deployment.Id)
		require.NoError(t, s.deploy(headUnit(id)), "a retry")
	}
	before := s.count()
	for _, id := range []string{"", "@_.", "日本", strings.Repeat("a", 254)} {
		servicetest.Refused(t, s.deploy(headUnit(id)), codes.InvalidArgument, "deployment_unit.id")
		servicetest.Refused(t, servicetest.Err(s.status(id)), codes.InvalidArgument, "deployment_id")
		servicetest.Refused(t, servicetest.Err(s.remove(id)), codes.InvalidArgument, "deployment_id")
	}
	assert.Equal(t, before, s.count())
}

// colliding makes two ids that differ, and the name of both.
func colliding(i int) (first, second, name string) {
	const symbols = "_.@ /:äЖ日"
	name = fmt.Sprintf("c%d", i)
	for range 1 + rand.IntN(4) {
		name += "-" + string(rune('a'+rand.IntN(26)))
	}
	spell := func() string {
		var b strings.Builder
		for _, c := range name {
			switch {
			case c == '-' && rand.IntN(2) == 0:
				all := []rune(symbols)
				b.WriteRune(all[rand.IntN(len(all))])
			case rand.IntN(2) == 0:
				b.WriteString(strings.ToUpper(string(c)))
			default:
				b.WriteRune(c)
			}
		}
		return b.String()
	}
	for first == second {
		first, second = spell(), spell()
	}
	return first, second, name
}

func TestTheFirstOfTwoIDsOfOneNameKeepsIt(t *testing.T) {
	s := serve(t)
	var calls errgroup.Group
	calls.SetLimit(4)
	for i := range 100 {
		first, second, name := colliding(i)
		calls.Go(func() error {
			for try := range 4 {
				if err := s.deploy(headUnit(first)); err != nil {
					return fmt.Errorf("%q, try %d: %w", first, try, err)
				}
				if err := s.deploy(headUnit(second)); status.Code(err) != codes.AlreadyExists {
					return fmt.Errorf("%q beside %q: %w", second, first, err)
				}
			}
			if _, err := s.status(second); status.Code(err) != codes.NotFound {
				return fmt.Errorf("%q beside %q is found: %w", second, first, err)
			}
			if _, err := s.remove(second); status.Code(err) != codes.NotFound {
				return fmt.Errorf("%q beside %q is deleted: %w", second, first, err)
			}
			if r := s.stored(name); r.Generation != 1 || r.Annotations[v1alpha1.DeploymentIDAnnotation] != first {
				return fmt.Errorf("%q beside %q: %v", second, first, r.ObjectMeta)
			}
			return nil
		})
	}
	require.NoError(t, calls.Wait())
	assert.Equal(t, 100, s.count())

	// A record without an id is not taken over.
	s.Create(&v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}})
	servicetest.Refused(t, s.deploy(headUnit("by-hand")), codes.AlreadyExists, "", "by-hand")
	got, err := s.status("by-hand")
	require.NoError(t, err)
	assert.Equal(t, "by-hand", got.Deployment.Id)
}

func TestDeployIsAnUpsert(t *testing.T) {
	s := serve(t)
	u := headUnit("x")
	require.NoError(t, s.deploy(u))
	first := s.stored("x")
	for i := range 3 {
		again := proto.Clone(u).(*oaashead.DeploymentUnit)
		again.CreatedAt = &oaashead.Timestamp{Seconds: u.CreatedAt.Seconds + int64(i)} // recreated by each retry
		require.NoError(t, s.deploy(again))
	}
	assert.Equal(t, first.Generation, s.stored("x").Generation)
	assert.Equal(t, first.ResourceVersion, s.stored("x").ResourceVersion, "not a write")

	// What users and the controller added stays; what the unit has changes.
	testenv.Patch(s.World, s.stored("x"), func(r *v1alpha1.DeploymentRecord) {
		r.Labels["team"], r.Finalizers = "ml", []string{"test.berth.dev/hold"}
		r.Spec.Addons = &[]v1alpha1.Addon{}
		r.Spec.Enforcement = &v1alpha1.NFREnforcement{Mode: v1alpha1.EnforcementOff}
	})
	t.Cleanup(func() {
		testenv.Patch(s.World, s.stored("x"), func(r *v1alpha1.DeploymentRecord) { r.Finalizers = nil })
	})
	before := s.stored("x")
	require.NoError(t, s.deploy(u))
	assert.Equal(t, before.ResourceVersion, s.stored("x").ResourceVersion)
	u.Functions[0].ProvisionConfig.ContainerImage = new("example.com/add:2")
	u.Functions = append(u.Functions, &oaashead.FunctionDeploymentSpec{FunctionKey: "remove", ProvisionConfig: &oaashead.ProvisionConfig{ContainerImage: new("r")}})
	u.FunctionBindings = nil
	require.NoError(t, s.deploy(u))
	after := s.stored("x")
	assert.Equal(t, before.Generation+1, after.Generation)
	assert.Equal(t, "example.com/add:2", after.Spec.DeploymentUnit.Functions[0].Image)
	assert.Len(t, after.Spec.DeploymentUnit.Functions, 2)
	assert.Empty(t, after.Spec.DeploymentUnit.FunctionBindings)
	assert.Equal(t, "ml", after.Labels["team"])
	assert.Equal(t, before.Finalizers, after.Finalizers)
	assert.Equal(t, &[]v1alpha1.Addon{}, after.Spec.Addons)
	assert.Equal(t, v1alpha1.EnforcementOff, after.Spec.Enforcement.Mode)

	// Many at the same time: each is whole, none fails, and the last one wins.
	var writers errgroup.Group
	for i := range 50 {
		writers.Go(func() error {
			mine := headUnit("x")
			mine.ClassKey = fmt.Sprint("class ", i)
			mine.Functions[0].ProvisionConfig.ContainerImage = new(fmt.Sprint("image:", i))
			return s.deploy(mine)
		})
	}
	require.NoError(t, writers.Wait())
	spec := s.stored("x").Spec.DeploymentUnit
	assert.Equal(t, strings.TrimPrefix(spec.ClassKey, "class "), strings.TrimPrefix(spec.Functions[0].Image, "image:"))
}

// Two that create the same at the same time have one record, and both get the answer that it is accepted.
func TestTwoFirstDeploysAreOne(t *testing.T) {
	s := serve(t)
	var calls errgroup.Group
	for range 8 {
		calls.Go(func() error { return s.deploy(headUnit("x")) })
	}
	require.NoError(t, calls.Wait())
	assert.EqualValues(t, 1, s.stored("x").Generation)
}

func TestDeleteIsIdempotentWhileItRuns(t *testing.T) {
	s := serve(t)
	require.NoError(t, s.deploy(headUnit("x")))
	testenv.Patch(s.World, s.stored("x"), func(r *v1alpha1.DeploymentRecord) { r.Finalizers = []string{v1alpha1.RecordFinalizer} })
	for range 3 {
		r, err := s.remove("x")
		require.NoError(t, err)
		assert.Equal(t, "deleted", r.GetMessage())
		assert.NotNil(t, s.stored("x").DeletionTimestamp)
	}
	got, err := s.runtime("x")
	require.NoError(t, err)
	assert.Equal(t, oaashead.DeploymentCondition_DELETED, got.Deployment.Status.Condition)
	assert.Equal(t, "Deleting", got.Deployment.Status.GetMessage())
	servicetest.Refused(t, s.deploy(headUnit("x")), codes.Unavailable, "", "being deleted")
	testenv.Patch(s.World, s.stored("x"), func(r *v1alpha1.DeploymentRecord) { r.Finalizers = nil })
	s.gone("x")
	servicetest.Refused(t, servicetest.Err(s.remove("x")), codes.NotFound, "", `"x"`)
	require.NoError(t, s.deploy(headUnit("x")), "it can be deployed again")
}

func TestListsAreFilteredAndCut(t *testing.T) {
	s := serve(t)
	for i := range 7 {
		u := planUnit(fmt.Sprintf("d%d", i))
		u.PackageName, u.ClassKey, u.TargetEnv = fmt.Sprint("p", i%2), fmt.Sprint("c", i%3), fmt.Sprint("e", i/4)
		require.NoError(t, s.deployPlan(u))
	}
	s.setStatus("d1", func(r *v1alpha1.DeploymentRecord) {
		r.Status.Conditions = []metav1.Condition{{Type: "Available", Status: "True"}}
	})
	s.setStatus("d2", func(r *v1alpha1.DeploymentRecord) {
		r.Status.Conditions = []metav1.Condition{{Type: "Degraded", Status: "True", Reason: "Why", Message: "because"}}
	})
	type request = oaashead.ListClassRuntimesRequest
	for name, tc := range map[string]struct {
		req  *request
		want string
	}{
		"all":                     {&request{}, "d0 d1 d2 d3 d4 d5 d6"},
		"a package":               {&request{PackageName: new("p1")}, "d1 d3 d5"},
		"a class":                 {&request{ClassKey: new("c0")}, "d0 d3 d6"},
		"an environment":          {&request{TargetEnv: new("e1")}, "d4 d5 d6"},
		"several of them":         {&request{PackageName: new("p0"), TargetEnv: new("e1")}, "d4 d6"},
		"nothing has it":          {&request{PackageName: new("p")}, ""},
		"an empty one":            {&request{PackageName: new("")}, ""},
		"a status":                {&request{Status: new("Available")}, "d1"},
		"a whole status":          {&request{Status: new("Degraded (Why): because")}, "d2"},
		"the state of a status":   {&request{Status: new("Degraded")}, "d2"},
		"no status yet":           {&request{Status: new("found"), Limit: new(uint32(2))}, "d0 d3"},
		"a page":                  {&request{Limit: new(uint32(3)), Offset: new(uint32(2))}, "d2 d3 d4"},
		"the last page":           {&request{Limit: new(uint32(3)), Offset: new(uint32(6))}, "d6"},
		"beyond the end":          {&request{Offset: new(uint32(8))}, ""},
		"a page of what is found": {&request{PackageName: new("p1"), Offset: new(uint32(1))}, "d3 d5"},
	} {
		list, err := s.head().ListClassRuntimes(s.As(s.Viewer), tc.req)
		require.NoError(t, err)
		var ids []string
		for _, i := range list.Items {
			ids = append(ids, i.Id)
		}
		assert.Equal(t, tc.want, strings.Join(ids, " "), name)
	}
}
