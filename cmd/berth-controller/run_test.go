// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/apis/config/controller"
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
	require.NotNil(t, o.Metrics.FilterProvider, "who may read is requested")
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
