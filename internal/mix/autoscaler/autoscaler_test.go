// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/cli/flag"
	"pgregory.net/rapid"
)

func TestFindReadsWhatAutoscalersServeAndWrite(t *testing.T) {
	serves := func(resources ...string) *metav1.APIResourceList {
		list := &metav1.APIResourceList{GroupVersion: nodePools.GroupVersion().String()}
		for _, name := range resources {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
		}
		return list
	}
	status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler-status"}}
	elsewhere := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cluster-autoscaler-status"}}
	for name, tc := range map[string]struct {
		served  []*metav1.APIResourceList
		objects []runtime.Object
		refused error
		want    Found
		text    string
		fails   bool
	}{
		"nothing":                          {},
		"Karpenter":                        {served: []*metav1.APIResourceList{serves("nodeclaims", "nodepools")}, want: Found{Karpenter: true}, text: "Karpenter"},
		"its group without its node pools": {served: []*metav1.APIResourceList{serves("nodeoverlays")}},
		"cluster-autoscaler":               {objects: []runtime.Object{status}, want: Found{ClusterAutoscaler: true}, text: "cluster-autoscaler"},
		"its ConfigMap in another place":   {objects: []runtime.Object{elsewhere}},
		"both":                             {served: []*metav1.APIResourceList{serves("nodepools")}, objects: []runtime.Object{status}, want: Found{true, true}, text: "Karpenter and cluster-autoscaler"},
		"the status may not be read":       {refused: apierrors.NewForbidden(corev1.Resource("configmaps"), statusConfigMap, nil), served: []*metav1.APIResourceList{serves("nodepools")}, want: Found{Karpenter: true}, text: "Karpenter"},
		"the API server does not answer":   {refused: errors.New("connection refused"), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset(tc.objects...)
			kube.Resources = tc.served
			if tc.refused != nil {
				kube.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.refused })
			}
			found, err := Find(context.Background(), kube)
			assert.Equal(t, tc.fails, err != nil, "%v", err)
			assert.Equal(t, tc.want, found)
			assert.Equal(t, tc.text, found.String())
			assert.Equal(t, tc.text != "", found.Any())
		})
	}
}

func TestAnErrorOfDiscoveryIsNoAnswer(t *testing.T) {
	kube := fake.NewClientset()
	kube.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("starting")
	})
	_, err := Find(context.Background(), kube)
	require.ErrorContains(t, err, "discover karpenter.sh/v1: starting")
}

func TestWhereKarpenterHasItsFeatureGate(t *testing.T) {
	env := func(name, value string) corev1.Container {
		return corev1.Container{Env: []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}, {Name: name, Value: value}}}
	}
	args := func(list ...string) corev1.Container { return corev1.Container{Args: list} }
	for name, tc := range map[string]struct {
		containers []corev1.Container
		want       bool
	}{
		"no container":                {},
		"its chart sets the variable": {[]corev1.Container{env("FEATURE_GATES", "NodeRepair=false,PodDeletionCostManagement=true,NodeOverlay=false")}, true},
		"disabled":                    {[]corev1.Container{env("FEATURE_GATES", "PodDeletionCostManagement=false,NodeRepair=true")}, false},
		"not named":                   {[]corev1.Container{env("FEATURE_GATES", "NodeRepair=true")}, false},
		"another variable":            {[]corev1.Container{env("GATES", "PodDeletionCostManagement=true")}, false},
		"the flag":                    {[]corev1.Container{args("--feature-gates=PodDeletionCostManagement=true")}, true},
		"the flag with one dash":      {[]corev1.Container{args("-v", "-feature-gates=PodDeletionCostManagement=true")}, true},
		"another flag":                {[]corev1.Container{args("--gates=PodDeletionCostManagement=true")}, false},
		"a second container":          {[]corev1.Container{args(), env("FEATURE_GATES", "PodDeletionCostManagement=true")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, ManagesCosts(&corev1.PodSpec{Containers: tc.containers}))
		})
	}
}

// Karpenter parses its gates with the flags of Kubernetes. It does not start where they refuse the text.
func TestFeatureGatesAreReadAsKarpenterReadsThem(t *testing.T) {
	entry := rapid.Custom(func(t *rapid.T) string {
		space := rapid.SampledFrom([]string{"", " "})
		return space.Draw(t, "space") + rapid.SampledFrom([]string{CostGate, CostGate + "2", "NodeRepair", ""}).Draw(t, "name") +
			rapid.SampledFrom([]string{"=", " = ", ""}).Draw(t, "sign") + rapid.SampledFrom([]string{"true", "True", "1", "t", "false", "0", "yes", ""}).Draw(t, "value")
	})
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		for i, e := range rapid.SliceOfN(entry, 0, 4).Draw(t, "gates") {
			if i > 0 {
				text += ","
			}
			text += e
		}
		gates := map[string]bool{}
		if err := flag.NewMapStringBool(&gates).Set(text); err == nil {
			require.Equal(t, gates[CostGate], enablesCostGate(text), "%q", text)
		}
	})
}
