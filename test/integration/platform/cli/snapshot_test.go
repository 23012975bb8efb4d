// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/sim/derive"
	"berth.dev/berth/internal/sim/snapshot"
	"berth.dev/berth/test/builders"
)

// secretive gives the pods of a template what no snapshot has.
func secretive(t *corev1.PodTemplateSpec) {
	t.Annotations = map[string]string{"example.com/note": "hidden-1"}
	t.Spec.ServiceAccountName = "default"
	t.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "hidden-2"}}}}
	for i := range t.Spec.Containers {
		c := &t.Spec.Containers[i]
		c.Image, c.Command, c.Args = "registry.example/hidden-3", []string{"hidden-4"}, []string{"hidden-5"}
		c.Env = []corev1.EnvVar{{Name: "HIDDEN", Value: "hidden-6"}}
		c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "hidden-7"}}}}
	}
}

// What a real API server returns is in the file without secrets, and is read back; pseudonyms are of all names.
func TestASnapshotOfAClusterHasItsObjectsAndNoSecrets(t *testing.T) {
	w := begin(t, append(cluster.Nodes("spot", 1), cluster.Nodes("on-demand", 1)...)...)
	w.Create(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "hidden-2"}, StringData: map[string]string{"key": "hidden-8"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hidden-7"}, Data: map[string]string{"A": "hidden-9"}},
		builders.CapacityMix("payments", 50, 1), builders.PodDisruptionBudget("payments", builders.MaxUnavailable("1")),
		builders.Deployment("payments", 4, secretive),
	)
	w.WaitReady("payments", 4)
	me := user(w, "simulating", viewer)
	taken := func(args ...string) (string, *snapshot.Snapshot, result) {
		path := filepath.Join(t.TempDir(), "snapshot.json")
		r := kubectl(w, me, "", append([]string{"snapshot", "-n", w.Namespace, "-o", path}, args...)...).ok(t)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		s, err := snapshot.Load(path)
		require.NoError(t, err)
		assert.NotRegexp(t, "(?i)hidden", string(text))
		return string(text), s, r
	}

	text, s, r := taken()
	assert.NotContains(t, text, "managedFields")
	assert.Regexp(t, `(?m)^Left out: priorityclasses\.scheduling\.k8s\.io\. You may not list`, r.errOut)
	assert.Equal(t, []snapshot.Missing{{List: "priorityClasses", Reason: snapshot.Forbidden}}, s.Missing)
	assert.NotEmpty(t, s.ServerVersion)
	matches(t, s)
	derives(t, s)

	text, s, _ = taken("--anonymise")
	assert.NotContains(t, text, "payments")
	assert.NotContains(t, text, w.Namespace)
	assert.NotContains(t, text, string(w.Pods()[0].UID))
	matches(t, s)
	derives(t, s)

	blind := user(w, "blind", []rbacv1.PolicyRule{builders.Rule("", []string{"nodes"}, "list")})
	refused := kubectl(w, blind, "", "snapshot", "-A", "-o", filepath.Join(t.TempDir(), "snapshot.json"))
	require.ErrorContains(t, refused.err, "a snapshot requires the right to list pods")
}

// matches requires a Deployment of four pods, two on each type of node, and what selects them.
func matches(t *testing.T, s *snapshot.Snapshot) {
	t.Helper()
	require.Len(t, s.Deployments, 1)
	require.Len(t, s.ReplicaSets, 1)
	require.Len(t, s.Pods, 4)
	require.Len(t, s.CapacityMixes, 1)
	require.Len(t, s.PodDisruptionBudgets, 1)
	require.Len(t, s.Namespaces, 1)
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	types := map[string]capacity.Type{}
	for _, n := range s.Nodes {
		types[n.Name], _ = classifier.Classify(n)
		assert.NotZero(t, n.Status.Allocatable.Cpu().MilliValue())
	}
	on := map[capacity.Type]int{}
	for _, p := range s.Pods {
		on[types[p.Spec.NodeName]]++
		assert.Equal(t, s.ReplicaSets[0].UID, metav1.GetControllerOf(p).UID)
		assert.Equal(t, s.Deployments[0].Namespace, p.Namespace)
		selector, err := metav1.LabelSelectorAsSelector(s.PodDisruptionBudgets[0].Spec.Selector)
		require.NoError(t, err)
		assert.True(t, selector.Matches(labels.Set(p.Labels)))
		for key, value := range s.CapacityMixes[0].Spec.Selector.MatchLabels {
			assert.Equal(t, value, p.Labels[key])
		}
		assert.NotZero(t, p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue())
		assert.Equal(t, corev1.PodRunning, p.Status.Phase)
	}
	assert.Equal(t, map[capacity.Type]int{capacity.Spot: 2, capacity.OnDemand: 2}, on)
	assert.Equal(t, s.Deployments[0].UID, metav1.GetControllerOf(s.ReplicaSets[0]).UID)
}

// derives requires the scenario of that Deployment to load: with its mix, its budget, and the nodes of both types.
func derives(t *testing.T, s *snapshot.Snapshot) {
	t.Helper()
	d, err := derive.Derive(s, derive.Options{Duration: time.Hour, Now: time.Now()})
	require.NoError(t, err)
	text, err := d.YAML() // it loads what it returns
	require.NoError(t, err)
	require.Len(t, d.Scenario.NodePools, 2, string(text))
	require.Len(t, d.Scenario.Workloads, 1, string(text))
	w := d.Scenario.Workloads[0]
	assert.EqualValues(t, 4, w.Replicas)
	assert.Equal(t, 1, w.MaxUnavailable.IntValue())
	assert.EqualValues(t, 50, w.Mix.SpotPercent)
	assert.EqualValues(t, 1, w.Mix.MinOnDemand)
}
