// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

const (
	namespace = metav1.NamespaceDefault

	// patience is the timeout of every wait. The conditions take a moment.
	patience = 30 * time.Second
	interval = 40 * time.Millisecond
)

// look returns a picture of the current cluster.
func (d *demo) look(ctx context.Context) (picture, error) {
	return d.lookAt(ctx, client.InNamespace(namespace))
}

// lookAt returns a picture of all nodes, and of the pods that options select.
func (d *demo) lookAt(ctx context.Context, options ...client.ListOption) (picture, error) {
	nodes, pods := &corev1.NodeList{}, &corev1.PodList{}
	if err := d.client.List(ctx, nodes); err != nil {
		return picture{}, fmt.Errorf("list nodes: %w", err)
	}
	if err := d.client.List(ctx, pods, options...); err != nil {
		return picture{}, fmt.Errorf("list pods: %w", err)
	}
	return take(nodes.Items, pods.Items, d.classifier), nil
}

// existing lists objects, each as "Kind name".
func (d *demo) existing(ctx context.Context, options []client.ListOption, lists ...client.ObjectList) ([]string, error) {
	var found []string
	for _, list := range lists {
		gvk, err := d.client.GroupVersionKindFor(list)
		if err != nil {
			return nil, err
		}
		kind := strings.TrimSuffix(gvk.Kind, "List")
		if err := d.client.List(ctx, list, options...); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		err = meta.EachListItem(list, func(o runtime.Object) error {
			found = append(found, kind+" "+o.(client.Object).GetName())
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// until polls until a condition holds, or returns an error after a timeout. The condition describes what it observed,
// which is part of the error.
func (d *demo) until(ctx context.Context, what string, condition func(picture) (bool, string)) (picture, error) {
	var pic picture
	saw := ""
	err := wait.PollUntilContextTimeout(ctx, interval, patience, true, func(ctx context.Context) (bool, error) {
		var err error
		if pic, err = d.look(ctx); err != nil {
			return false, err
		}
		var done bool
		done, saw = condition(pic)
		return done, nil
	})
	switch {
	case ctx.Err() != nil:
		return pic, ctx.Err()
	case wait.Interrupted(err):
		return pic, fmt.Errorf("timeout after %s: %s; last observed: %s", patience, what, saw)
	}
	return pic, err
}

// bound is the condition that an app has n pods and all have a node.
func bound(app string, n int) func(picture) (bool, string) {
	return func(pic picture) (bool, string) {
		pods := pic.of(app)
		c, pending := count(pods)
		return len(pods) == n && pending == 0, fmt.Sprintf("%d pods of %s: %s, %d without a node", len(pods), app, countText(c), pending)
	}
}

// untilBound waits until an app has n pods and all have a node. It returns the first observation of that, so a check of
// it leaves no time for repairs.
func (d *demo) untilBound(ctx context.Context, app string, n int) (picture, error) {
	return d.until(ctx, fmt.Sprintf("%s has %d pods, all with a node", app, n), bound(app, n))
}

// untilReady waits until the Deployment of an app is settled and all its pods are Ready.
func (d *demo) untilReady(ctx context.Context, app string, n int) (picture, error) {
	return d.until(ctx, fmt.Sprintf("%s has %d pods, all Ready", app, n), func(pic picture) (bool, string) {
		pods := pic.of(app)
		ready := 0
		for i := range pods {
			if pods[i].ready {
				ready++
			}
		}
		saw := fmt.Sprintf("%d pods of %s, %d Ready", len(pods), app, ready)
		if len(pods) != n || ready != n || app == db {
			return len(pods) == n && ready == n, saw
		}
		deployment, err := d.kube.AppsV1().Deployments(namespace).Get(ctx, app, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return settled(deployment, n), saw + "; the Deployment is not settled"
	})
}

// settled reports whether the Deployment controller has observed n pods of the newest revision, all Ready.
func settled(d *appsv1.Deployment, n int) bool {
	st := d.Status
	return st.ObservedGeneration == d.Generation && st.Replicas == int32(n) &&
		st.UpdatedReplicas == int32(n) && st.ReadyReplicas == int32(n)
}

func (d *demo) capacityMix(ctx context.Context, name string) (*v1alpha1.CapacityMix, error) {
	cm := &v1alpha1.CapacityMix{}
	if err := d.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cm); err != nil {
		return nil, fmt.Errorf("read CapacityMix %s: %w", name, err)
	}
	return cm, nil
}

// mixOf reads the mix of a workload from the API server: from its CapacityMix or, if there is none, from the
// annotations of its controller.
func (d *demo) mixOf(ctx context.Context, app string, annotated client.Object) (split.Mix, error) {
	if annotated == nil {
		cm, err := d.capacityMix(ctx, app)
		if err != nil {
			return split.Mix{}, err
		}
		p, _, err := governing.FromCapacityMix(cm)
		return p.Mix, err
	}
	if err := d.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: app}, annotated); err != nil {
		return split.Mix{}, fmt.Errorf("read %s: %w", app, err)
	}
	// Annotations have the same meaning on a pod as on its controller.
	resolver := governing.Resolver{
		Conventions: governing.Conventions{Prefixes: []string{governing.PrefixBerth}}, Mixes: governing.NewRegistry(),
	}
	p, invalid := resolver.Resolve(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotated.GetAnnotations()}})
	if p == nil {
		return split.Mix{}, fmt.Errorf("%s has no mix: %v", app, invalid)
	}
	return p.Mix, nil
}

// eventOf waits for an event about a pod and returns its message.
func (d *demo) eventOf(ctx context.Context, p *pod, reason string) (string, error) {
	message := ""
	err := wait.PollUntilContextTimeout(ctx, interval, patience, true, func(ctx context.Context) (bool, error) {
		list, err := d.kube.CoreV1().Events(namespace).List(
			ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + p.name + ",reason=" + reason},
		)
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.InvolvedObject.UID == p.uid {
				message = e.Message // the newest is the last
			}
		}
		return message != "", nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return "", errors.Join(fmt.Errorf("pod %s has no event %s", p.name, reason), err)
	}
	return message, err
}
