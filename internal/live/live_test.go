// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
	"berth.dev/berth/test/clitest"
)

func load(t *testing.T, list func(list client.ObjectList, o *client.ListOptions) error) (*overview.Cluster, error) {
	t.Helper()
	c := clitest.Client(t, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			o := &client.ListOptions{}
			o.ApplyOptions(opts)
			return list(l, o)
		},
	})
	s, err := live.Defaults()
	require.NoError(t, err)
	return live.Load(t.Context(), c, s, "shop")
}

func podNamed(name string) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

func TestListsAreRestartedWhenTheirPagesExpire(t *testing.T) {
	var tokens []string
	expired := false
	c, err := load(t, func(l client.ObjectList, o *client.ListOptions) error {
		pods, ok := l.(*corev1.PodList)
		if !ok {
			return nil
		}
		assert.EqualValues(t, 500, o.Limit)
		assert.Equal(t, "shop", o.Namespace)
		tokens = append(tokens, o.Continue)
		switch {
		case o.Continue == "":
			pods.Items, pods.Continue = []corev1.Pod{podNamed("a")}, "next"
		case !expired:
			expired = true
			return apierrors.NewResourceExpired("too old")
		default:
			pods.Items = []corev1.Pod{podNamed("b")}
		}
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"", "next", "", "next"}, tokens)
	require.Len(t, c.Pods, 2)
	assert.Equal(t, "a", c.Pods[0].Name, "a page does not overwrite the one before")
	assert.NotNil(t, c.State.Pod("shop", "b"))
	assert.Empty(t, c.Problems)
}

func TestOnlyAForbiddenListIsAProblem(t *testing.T) {
	c, err := load(t, func(l client.ObjectList, _ *client.ListOptions) error {
		if _, ok := l.(*corev1.NodeList); ok {
			return apierrors.NewForbidden(corev1.Resource("nodes"), "", fmt.Errorf("no"))
		}
		return nil
	})
	require.NoError(t, err)
	require.Len(t, c.Problems, 1)
	assert.Equal(t, "not allowed: list nodes", c.Problems[0].String())
	assert.True(t, c.Missing("nodes"))
	assert.False(t, c.Missing("pods"))

	_, err = load(t, func(client.ObjectList, *client.ListOptions) error {
		return apierrors.NewInternalError(fmt.Errorf("down"))
	})
	require.ErrorContains(t, err, "list pods in namespace shop: ")
}

func TestAReadingNamesTheForbiddenLists(t *testing.T) {
	c := clitest.Client(t, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, l client.ObjectList, _ ...client.ListOption) error {
			switch l.(type) {
			case *v1alpha1.ResourceLimitList, *v1alpha1.DeploymentRecordList, *v1alpha1.EnvironmentList:
				return apierrors.NewForbidden(corev1.Resource("x"), "", fmt.Errorf("no"))
			}
			return nil
		},
	})
	s, err := live.Defaults()
	require.NoError(t, err)
	r, err := live.Read(t.Context(), c, s, "")
	require.NoError(t, err)
	assert.Equal(t, []string{overview.LimitsResource, overview.RecordsResource, overview.EnvironmentsResource}, r.Unread)
	assert.Equal(t, []string{
		"not allowed: list resourcelimits.berth.dev", "not allowed: list deploymentrecords.berth.dev", "not allowed: list environments.berth.dev",
	}, r.Problems)
}

func TestSettingsAreThoseOfTheSchedulersFile(t *testing.T) {
	for _, name := range []string{"second-scheduler.yaml", "replace-default.yaml"} {
		s, err := live.FromFile(filepath.Join("..", "..", "manifests", "scheduler", name))
		require.NoError(t, err)
		assert.NotEmpty(t, s.Rules)
		want := simulation.Lease{Namespace: "berth-system", Name: "berth-scheduler"}
		if name == "replace-default.yaml" {
			want = simulation.Lease{Namespace: "kube-system", Name: "kube-scheduler"}
		}
		assert.Equal(t, want, s.Profile.Lease)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: mine
  plugins: {multiPoint: {enabled: [{name: CapacityMix}]}}
  pluginConfig:
  - name: CapacityMix
    args:
      nodeRules: [{name: pool, key: pool, operator: In, values: [cheap], capacityType: spot}]
      defaultMix: {spotPercent: 30}
`), 0o600))
	s, err := live.FromFile(file)
	require.NoError(t, err)
	assert.Zero(t, s.Profile.Lease, "there is none")
	rule, ok := s.Rule("pool")
	assert.True(t, ok)
	assert.Equal(t, "pool", rule.Key)
	require.NotNil(t, s.Defaults["mine"])
	assert.EqualValues(t, 30, s.Defaults["mine"].Mix.SpotPercent)

	_, err = live.FromData([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"), "here")
	require.ErrorContains(t, err, "scheduler configuration in here: ")
}

func TestRebalanceSettings(t *testing.T) {
	defaults, err := live.Defaults()
	require.NoError(t, err)
	s, err := defaults.RebalanceSettings(nil, nil)
	require.NoError(t, err)
	assert.Equal(t, rebalance.Evict, s.Mode)

	m := &v1alpha1.CapacityMix{}
	m.Spec.Rebalance = &v1alpha1.RebalanceSpec{
		Mode: v1alpha1.RebalanceModeReport, MaxConcurrent: new(int32(3)), StabilizationSeconds: new(int32(5)),
		Windows: []v1alpha1.RebalanceWindow{{Schedule: "0 3 * * *", DurationSeconds: 3600}},
	}
	s, err = defaults.RebalanceSettings(nil, m)
	require.NoError(t, err)
	assert.Equal(t, rebalance.Report, s.Mode)
	assert.Equal(t, 3, s.MaxConcurrent)
	assert.Equal(t, 5*time.Second, s.Stabilization)
	open, _ := s.Windows.Open(time.Date(2026, 1, 1, 3, 30, 0, 0, time.UTC))
	assert.True(t, open)

	m.Spec.Rebalance.Windows[0].TimeZone = "Mars"
	_, err = defaults.RebalanceSettings(nil, m)
	require.ErrorContains(t, err, "spec.rebalance.windows[0].timeZone")
}
