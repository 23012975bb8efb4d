// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/podwebhook"
	"berth.dev/berth/internal/kube/controllerref"
)

// addWebhook adds the webhook. It serves on every replica.
func (p *parts) addWebhook() error {
	w := &p.cfg.Webhook
	h := &podwebhook.Handler{Limits: p.registry, Synced: p.limitsRead.Load, SchedulerName: w.SchedulerName}
	if err := p.addMixes(h); err != nil {
		return err
	}
	c, err := podwebhook.New(podwebhook.Options{Kube: p.kube, Config: w, Handler: h})
	if err != nil {
		return err
	}
	return c.SetupWithManager(p.mgr)
}

// addMixes makes the webhook apply mixes to pods.
func (p *parts) addMixes(h *podwebhook.Handler) error {
	h.Gates, h.Pins, h.Surges = p.cfg.Webhook.Gates, p.clusterState.Classifier.Pins, p.surges()
	h.Mixes = podwebhook.NewMixes(podwebhook.MixesOptions{
		Conventions: p.clusterState.Conventions,
		Store:       p.store,
		Defaults:    p.clusterState.Defaults,
		Owner:       p.clusterState.Owner,
		List:        p.listMixes,
		Read: func(ctx context.Context, namespace string, ref *metav1.OwnerReference) (metav1.Object, error) {
			return controllerref.Read(ctx, p.kube, namespace, ref)
		},
		Synced: p.hasSynced,
	})
	if h.Gates && p.profile.Label.Key == "" {
		return errors.New("webhook.gates: the scheduler's configuration has no capacityTypeLabel and no node rules that say one: " +
			"no pod can be limited to its type")
	}
	return nil
}

// listMixes reads the mixes of a namespace from the API server.
func (p *parts) listMixes(ctx context.Context, namespace string) ([]v1alpha1.CapacityMix, error) {
	var list v1alpha1.CapacityMixList
	if err := p.mgr.GetAPIReader().List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	return list.Items, nil
}
