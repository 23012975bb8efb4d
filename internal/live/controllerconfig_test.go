// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/test/clitest"
)

func controllerConfig(name, key, strategy string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: name},
		Data: map[string]string{key: "apiVersion: config.berth.dev/v1alpha1\nkind: ControllerConfiguration\n" +
			"mix: {rebalance: {strategy: " + strategy + "}}\n"},
	}
}

// mounts is a Deployment of the controller with a configuration of its own name.
func mounts(configMap string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-controller"}}
	d.Spec.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{
			Args:         []string{"--config=/etc/berth/controller/mine.yaml"},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/berth/controller"}},
		}},
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}},
		}}},
	}
	return d
}

// What a mix does not specify is that of the controller as it is installed.
func TestTheSettingsOfMovesAreThoseOfTheController(t *testing.T) {
	answers := func(err error) interceptor.Funcs {
		return interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return err
		}}
	}
	hidden := apierrors.NewForbidden(corev1.Resource("configmaps"), "berth-controller-config", errors.New("no right"))
	for name, tc := range map[string]struct {
		funcs    interceptor.Funcs
		objects  []client.Object
		strategy rebalance.Strategy
		source   string
		// unusable is why nothing is known about moves, err why nothing is known at all.
		unusable, err string
	}{
		"nothing is installed": {strategy: rebalance.EvictFirst, source: overview.ShippedDefaults},
		"it may not be read":   {funcs: answers(hidden), strategy: rebalance.EvictFirst, source: overview.ShippedDefaults},
		"a process": {
			objects:  []client.Object{controllerConfig("berth-controller-config", "config.yaml", "Surge")},
			strategy: rebalance.Surge, source: "ConfigMap berth-system/berth-controller-config, key config.yaml",
		},
		"a Deployment": {
			objects: []client.Object{
				mounts("mine"), controllerConfig("mine", "mine.yaml", "SurgeOrEvict"),
				controllerConfig("berth-controller-config", "config.yaml", "Surge"),
			},
			strategy: rebalance.SurgeOrEvict, source: "ConfigMap berth-system/mine, key mine.yaml",
		},
		"it is of another version": {
			objects:  []client.Object{controllerConfig("berth-controller-config", "config.yaml", "Surge, strategem: none")},
			strategy: rebalance.Surge, source: "ConfigMap berth-system/berth-controller-config, key config.yaml",
		},
		"it is not one": {
			objects:  []client.Object{controllerConfig("berth-controller-config", "config.yaml", "[")},
			unusable: "controller configuration in ConfigMap berth-system/berth-controller-config, key config.yaml: ",
		},
		"the API server fails": {funcs: answers(errors.New("down")), err: "get Deployment berth-system/berth-"},
	} {
		t.Run(name, func(t *testing.T) {
			i, c := live.Installation{SystemNamespace: "berth-system"}, clitest.Client(t, tc.funcs, tc.objects...)
			s, err := i.Settings(t.Context(), c)
			if err == nil {
				err = i.AddController(t.Context(), c, s)
			}
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			moves, err := s.RebalanceSettings(nil, nil)
			if tc.unusable != "" {
				require.ErrorContains(t, err, tc.unusable)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.strategy, moves.Strategy)
			assert.Equal(t, tc.source, s.ControllerSource)
		})
	}
}
