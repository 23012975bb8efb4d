// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/hack/cluster"
)

// These functions do through the API what the printed commands do.

// apply applies files of manifests/samples.
func (d *demo) apply(ctx context.Context, files ...string) error {
	for _, file := range files {
		if err := d.cluster.ApplyFiles(ctx, filepath.Join(d.root, "manifests/samples", file)); err != nil {
			return err
		}
	}
	return nil
}

// scale sets the replicas of a Deployment.
func (d *demo) scale(ctx context.Context, app string, n int) error {
	return d.patch(ctx, app, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
}

func (d *demo) patch(ctx context.Context, deployment, change string) error {
	_, err := d.kube.AppsV1().Deployments(namespace).Patch(
		ctx, deployment, types.StrategicMergePatchType, []byte(change), metav1.PatchOptions{},
	)
	if err != nil {
		return fmt.Errorf("patch deployment %s: %w", deployment, err)
	}
	return nil
}

func (d *demo) cordon(ctx context.Context, name string, cordoned bool) error {
	change := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, cordoned)
	_, err := d.kube.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(change), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("cordon node %s: %w", name, err)
	}
	return nil
}

// drain cordons a node and evicts its pods through the Eviction API.
func (d *demo) drain(ctx context.Context, name string) (evicted []pod, err error) {
	if err := d.cordon(ctx, name, true); err != nil {
		return nil, err
	}
	pic, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	evicted = pic.on(name)
	for i := range evicted {
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: evicted[i].name}}
		if err := d.kube.PolicyV1().Evictions(namespace).Evict(ctx, eviction); err != nil {
			return nil, fmt.Errorf("evict pod %s: %w", evicted[i].name, err)
		}
	}
	return evicted, nil
}

// remove deletes a Deployment and waits until its pods are gone.
func (d *demo) remove(ctx context.Context, app string) error {
	background := metav1.DeletePropagationBackground
	if err := d.kube.AppsV1().Deployments(namespace).Delete(ctx, app, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		return fmt.Errorf("delete deployment %s: %w", app, err)
	}
	_, err := d.until(ctx, "the pods of "+app+" are gone", func(pic picture) (bool, string) {
		return len(pic.of(app)) == 0, fmt.Sprintf("%d pods", len(pic.of(app)))
	})
	return err
}

// removeNodes deletes all nodes and waits until they are gone.
func (d *demo) removeNodes(ctx context.Context) error {
	if err := d.kube.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete nodes: %w", err)
	}
	_, err := d.until(ctx, "the nodes are gone", func(pic picture) (bool, string) {
		return len(pic.nodes) == 0, fmt.Sprintf("%d nodes", len(pic.nodes))
	})
	return err
}

// nodeSpecs are the nodes of the acts, each with capacity for four pods.
func nodeSpecs(capacityType string, n int) []cluster.NodeSpec {
	return cluster.Nodes(capacityType, n, func(s *cluster.NodeSpec) {
		s.CPU, s.Memory = "2", "8Gi"
		if s.InstanceType == "m5.4xlarge" {
			s.InstanceType = "m5.large"
		} else {
			s.InstanceType = "m6i.large"
		}
	})
}
