// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
	"berth.dev/berth/test/wire/anyform"
)

func small(name string) *anyform.CreateResourceLimitRequest {
	return &anyform.CreateResourceLimitRequest{Name: name, Limits: &anyform.ResourceLimit{Cpu: "1", Memory: "1Gi"}}
}

// inUse makes a workload that has a limit, and waits until the controller has seen it.
func (s *scene) inUse(name string) {
	s.T.Helper()
	s.Create(builders.Deployment("web", 3, builders.OfSize(name)))
	testenv.WaitFor(s.World, name, "it is in use", func(l *v1alpha1.ResourceLimit) bool {
		return l.Status.PodCount == 3 && l.Status.WorkloadCount == 1
	})
}

func (s *scene) gone(ctx context.Context, name string) {
	s.T.Helper()
	s.WaitCode(name+" is gone", codes.NotFound, func() error { return servicetest.Err(s.any().GetResourceLimit(ctx, named(name))) })
}

func TestALimitInUseIsDeletedOnlyByForce(t *testing.T) {
	s := serve(t)
	c := s.any()
	ctx := s.as(s.Editor)
	remove := func(name string, force bool) error {
		r, err := c.DeleteResourceLimit(ctx, &anyform.DeleteResourceLimitRequest{Name: name, Force: force})
		if err == nil {
			assert.True(t, r.Success)
			assert.Contains(t, r.Message, name)
		}
		return err
	}
	for _, name := range []string{"free", "used"} {
		require.NoError(t, servicetest.Err(c.CreateResourceLimit(ctx, small(name))))
		servicetest.Refused(t, servicetest.Err(c.CreateResourceLimit(ctx, small(name))), codes.AlreadyExists, "", name)
	}
	servicetest.Refused(t, remove("unknown", false), codes.NotFound, "", "unknown")
	servicetest.Refused(t, remove("unknown", true), codes.NotFound, "", "unknown")
	require.NoError(t, remove("free", false))
	s.gone(ctx, "free")

	s.inUse("used")
	before := s.stored("used")
	servicetest.Refused(t, remove("used", false), codes.FailedPrecondition, "", "3 pods and 1 workload: Deployment "+s.Namespace+"/web", "force")
	after := s.stored("used")
	assert.Equal(t, before.Generation, after.Generation)
	assert.Equal(t, before.Annotations, after.Annotations)
	assert.Nil(t, after.DeletionTimestamp, "nothing is changed")
	s.rest(s.Editor, "DELETE", "/used", "").refuses(t, 409, "FAILED_PRECONDITION", "")

	require.NoError(t, remove("used", true))
	s.gone(ctx, "used")
}

// A guarded limit is marked before it is deleted, and shows that it is going.
func TestAForcedDeletionIsMarkedForTheGuard(t *testing.T) {
	s := serve(t)
	c := s.any()
	ctx := s.as(s.Editor)
	const finalizer = "test.berth.dev/hold"
	held := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{finalizer}}}
	s.Create(held)
	t.Cleanup(func() {
		testenv.Patch(s.World, s.stored("held"), func(l *v1alpha1.ResourceLimit) { l.Finalizers = nil })
	})
	s.inUse("held")
	for range 2 { // the second finds it on its way
		require.NoError(t, servicetest.Err(c.DeleteResourceLimit(ctx, &anyform.DeleteResourceLimitRequest{Name: "held", Force: true})))
		l := s.stored("held")
		assert.Equal(t, "true", l.Annotations[v1alpha1.ForceDeleteAnnotation])
		assert.NotNil(t, l.DeletionTimestamp)
	}
	got, err := c.GetResourceLimit(ctx, named("held"))
	require.NoError(t, err)
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, got.GetDeletedAt())
}

// What callers cannot set stays, and writers at the same time do not lose each other's objects.
func TestUpdateReplacesOnlyTheFieldsOfCallers(t *testing.T) {
	s := serve(t)
	c := s.any()
	ctx := s.as(s.Editor)
	req := small("x")
	req.Limits.Volumes = map[string]*anyform.VolumeLimit{"data": {Size: "1Gi"}}
	require.NoError(t, servicetest.Err(c.CreateResourceLimit(ctx, req)))
	testenv.Patch(s.World, s.stored("x"), func(l *v1alpha1.ResourceLimit) {
		l.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
		data := l.Spec.Volumes["data"]
		data.MountPath = "/data"
		l.Spec.Volumes["data"] = data
		l.Labels = map[string]string{"berth.dev/own": "1", "old": "1"}
	})
	got, err := c.GetResourceLimit(ctx, named("x"))
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"old": "1"}, got.Labels, "none of ours")

	var writers errgroup.Group
	const many = 8
	aborted := make([]bool, many)
	for i := range many {
		writers.Go(func() error {
			_, err := c.UpdateResourceLimit(ctx, &anyform.UpdateResourceLimitRequest{
				Name: "x", Labels: map[string]string{"new": fmt.Sprint(i)},
				Limits: &anyform.ResourceLimit{Cpu: fmt.Sprint(i + 1), Volumes: map[string]*anyform.VolumeLimit{"data": {Size: "2Gi"}, "more": {Size: "1Gi"}}},
			})
			if aborted[i] = code(err) == codes.Aborted; aborted[i] {
				return nil
			}
			return err
		})
	}
	require.NoError(t, writers.Wait())
	assert.Contains(t, aborted, false, "another client wrote")
	l := s.stored("x")
	require.NotNil(t, l.Spec.Selector)
	assert.Equal(t, map[string]string{"app": "web"}, l.Spec.Selector.MatchLabels)
	assert.Equal(t, "/data", l.Spec.Volumes["data"].MountPath)
	size := l.Spec.Volumes["data"].Size
	assert.Equal(t, "2Gi", size.String())
	assert.Len(t, l.Spec.Volumes, 2)
	assert.Nil(t, l.Spec.Memory)
	assert.Equal(t, "1", l.Labels["berth.dev/own"])
	assert.NotContains(t, l.Labels, "old")
	assert.Equal(t, fmt.Sprint(int(l.Spec.CPU.Value())-1), l.Labels["new"], "one write, whole")
}
