// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
)

func TestManagerOptionsFollowTheConfiguration(t *testing.T) {
	c := controller.Default()
	c.LeaderElection.Namespace, c.LeaderElection.RetryPeriodSeconds = "n", 1
	o, err := managerOptions(c)
	require.NoError(t, err)
	require.True(t, o.LeaderElection)
	require.True(t, o.LeaderElectionReleaseOnCancel)
	require.Equal(t, "n", o.LeaderElectionNamespace)
	require.Equal(t, "berth-controller", o.LeaderElectionID)
	require.Equal(t, 15*time.Second, *o.LeaseDuration)
	require.Equal(t, 10*time.Second, *o.RenewDeadline)
	require.Equal(t, time.Second, *o.RetryPeriod)
	require.Equal(t, ":8081", o.HealthProbeBindAddress)
	require.True(t, o.Metrics.SecureServing)
	require.NotNil(t, o.Metrics.FilterProvider, "a request for metrics is authorized")
}

func TestBuildInfoIsAMetric(t *testing.T) {
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "berth_build_info" {
			require.Len(t, family.GetMetric(), 1)
			require.Equal(t, 1.0, family.GetMetric()[0].GetGauge().GetValue())
			require.Len(t, family.GetMetric()[0].GetLabel(), 2)
			return
		}
	}
	t.Fatal("berth_build_info is not there")
}

func TestTheCacheKeepsWhatControllersRead(t *testing.T) {
	mix := &v1alpha1.CapacityMix{}
	mix.Annotations = map[string]string{"example.com/long": strings.Repeat("a", 250_000), v1alpha1.ForceDeleteAnnotation: "true"}
	mix.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	set := &appsv1.ReplicaSet{}
	set.Annotations = map[string]string{"deployment.kubernetes.io/revision": "1"}
	set.ManagedFields = mix.ManagedFields
	for _, o := range []client.Object{mix, set} {
		kept, err := trim(o)
		require.NoError(t, err)
		assert.Len(t, kept.(client.Object).GetAnnotations(), 1)
		assert.Empty(t, o.GetManagedFields())
	}
	assert.Contains(t, mix.Annotations, v1alpha1.ForceDeleteAnnotation)
}
