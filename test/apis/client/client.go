// SPDX-License-Identifier: Apache-2.0

// Package client runs half of the replicas of an app on spot nodes.
package client

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// CreateMix creates a CapacityMix for the pods of an app, and returns all mixes of the namespace.
func CreateMix(ctx context.Context, config *rest.Config, namespace, app string) ([]v1alpha1.CapacityMix, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	mix := &v1alpha1.CapacityMix{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
		Spec: v1alpha1.CapacityMixSpec{
			Selector:    v1alpha1.PodSelector{MatchLabels: map[string]string{"app": app}},
			SpotPercent: 50,
			MinOnDemand: 1,
		},
	}
	if err := c.Create(ctx, mix); err != nil {
		return nil, err
	}
	var mixes v1alpha1.CapacityMixList
	if err := c.List(ctx, &mixes, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	return mixes.Items, nil
}
