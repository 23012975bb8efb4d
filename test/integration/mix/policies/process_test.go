// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
)

// In one process berth-controller is bound to the permissions of the others, and their policies hold for it. It is the last test: the
// bindings stay.
func TestOneProcessWritesOnlyWhatTheOthersMay(t *testing.T) {
	s := start(t)
	require.NoError(t, s.Cluster.BindSingleProcess(s.Ctx))
	labels := func(key string) map[string]string { return map[string]string{key: "x"} }
	deployment := func(namespace string, of map[string]string) *appsv1.Deployment {
		d := builders.Deployment("stolen", 1)
		d.Namespace, d.Labels = namespace, of
		return d
	}
	create := func(o client.Object) error { return s.controller.Create(s.Ctx, o, client.DryRunAll) }
	for _, key := range []string{v1alpha1.OwnerLabel, v1alpha1.EnvironmentLabel} {
		s.Succeeds("the permissions are in force", func() error { return create(deployment(s.Namespace, labels(key))) })
	}
	budget := builders.PodDisruptionBudget("stolen")
	budget.Namespace = s.Namespace
	s.judge(t, create(budget.DeepCopy()), "metadata.labels: the label") // an expression of a message has no authorizer
	for _, key := range []string{v1alpha1.OwnerLabel, v1alpha1.EnvironmentLabel} {
		budget.Labels = labels(key)
		s.judge(t, create(budget.DeepCopy()), "")
	}
	s.judge(t, create(deployment(s.Namespace, nil)), "metadata.labels: berth-controller")
	s.judge(t, create(deployment("kube-system", labels(v1alpha1.OwnerLabel))), "metadata.namespace: berth-controller")

	remove := func(name string, changes ...func(*corev1.Pod)) error {
		return s.controller.Delete(s.Ctx, s.pod(name, changes...), client.DryRunAll, client.GracePeriodSeconds(0))
	}
	s.judge(t, remove("of-an-environment", func(p *corev1.Pod) { p.Labels = labels(v1alpha1.EnvironmentLabel) }), "")
	s.judge(t, remove("other"), "metadata.labels:")
}
