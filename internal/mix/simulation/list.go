// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"berth.dev/berth/internal/kube/client"
	"berth.dev/berth/internal/mix/clusterstate"
)

const (
	// pageSize limits the number of pods in memory that are not stripped yet: those of 500 took nearly as much as the whole snapshot.
	pageSize = 100
	// listAttempts is the number of attempts to list if the continue token expires.
	listAttempts = 3
	// notTerminated is the selector of the scheduler's own informer.
	notTerminated = "status.phase!=Succeeded,status.phase!=Failed"
)

// listNodes lists all nodes, stripped page by page.
func listNodes(ctx context.Context, client kubernetes.Interface) ([]*corev1.Node, error) {
	return pages(metav1.ListOptions{}, "nodes", func(o metav1.ListOptions, add func(*corev1.Node)) (string, error) {
		page, err := client.CoreV1().Nodes().List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			add(stripNode(&page.Items[i]))
		}
		return page.Continue, nil
	})
}

// listPods lists the pods that match fields, and are scheduled or nominated, stripped page by page. Replicas share what the filters
// read.
func listPods(ctx context.Context, client kubernetes.Interface, fields string) ([]*clusterstate.Pod, error) {
	known, sets := map[string]string{}, map[string]map[string]string{}
	options := metav1.ListOptions{FieldSelector: fields}
	return pages(options, "pods", func(o metav1.ListOptions, add func(*clusterstate.Pod)) (string, error) {
		page, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			if p := &page.Items[i]; p.Spec.NodeName != "" || p.Status.NominatedNodeName != "" {
				kept := scheduled(p)
				if _, there := known[kept.Filtered]; !there {
					known[kept.Filtered] = kept.Filtered
				}
				kept.Filtered = known[kept.Filtered]
				set := labels.Set(kept.Labels).String()
				if _, there := sets[set]; !there {
					sets[set] = kept.Labels
				}
				kept.Labels = sets[set]
				add(kept)
			}
		}
		return page.Continue, nil
	})
}

// pages collects a list. No resource version is sent: the first page is the current state, and the others have the
// version of the first.
func pages[T any](o metav1.ListOptions, what string, next func(metav1.ListOptions, func(T)) (string, error)) ([]T, error) {
	var all []T
	o.Limit = pageSize
	for attempt := 1; ; {
		more, err := next(o, func(item T) { all = append(all, item) })
		switch {
		case apierrors.IsResourceExpired(err) && attempt < listAttempts:
			attempt++
			all, o.Continue = nil, ""
		case err != nil:
			return nil, fmt.Errorf("list %s: %w", what, err)
		case more == "":
			return all, nil
		default:
			o.Continue = more
		}
	}
}

// listOwn lists all objects of a kind of Berth, none if the API server does not serve the kind.
func listOwn[T metav1.Object](ctx context.Context, cfg *rest.Config, resource string, newPage func() runtime.Object) ([]T, error) {
	client, err := client.New(listOnce(cfg))
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	all, err := pages(metav1.ListOptions{}, resource, func(o metav1.ListOptions, add func(T)) (string, error) {
		page := newPage()
		if err := client.Get().Resource(resource).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(page); err != nil {
			return "", err
		}
		err := meta.EachListItem(page, func(item runtime.Object) error {
			object := item.(T)
			stripMeta(object)
			add(object)
			return nil
		})
		return page.(metav1.ListInterface).GetContinue(), err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return all, err
}
