// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/apis/config/controller"
)

func TestLeaseNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	got, err := leaseNamespace("", file)
	require.NoError(t, err)
	require.Equal(t, "berth-system", got, "outside of a cluster")

	require.NoError(t, os.WriteFile(file, []byte("spot-tools\n"), 0o600))
	got, err = leaseNamespace("", file)
	require.NoError(t, err)
	require.Equal(t, "spot-tools", got, "in a pod")

	got, err = leaseNamespace("asked-for", file)
	require.NoError(t, err)
	require.Equal(t, "asked-for", got)
}

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

func TestPlainMetricsAskNobody(t *testing.T) {
	o, err := metricsOptions(controller.Metrics{BindAddress: ":8080"})
	require.NoError(t, err)
	require.False(t, o.SecureServing)
	require.Nil(t, o.FilterProvider)
}

func TestAWrongCertificateDirectoryIsNoSelfSignedCertificate(t *testing.T) {
	dir := t.TempDir()
	m := controller.Metrics{BindAddress: ":8443", Secure: true, CertDirectory: dir}
	_, err := metricsOptions(m)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "metrics.certDirectory")

	for _, name := range []string{"tls.crt", "tls.key"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	_, err = metricsOptions(m)
	require.NoError(t, err)
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
