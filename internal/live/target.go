// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/overview"
)

// mixKind is the kind of a mix.
const mixKind = "CapacityMix"

// Kind returns the kind that a word names: any that the API server has for it, such as deploy or deployments.apps.
func (u *User) Kind(word string) (string, error) {
	resource := schema.ParseGroupResource(strings.ToLower(word)).WithVersion("")
	kind, err := u.Client.RESTMapper().KindFor(resource)
	if err != nil {
		return "", fmt.Errorf("KIND is %q: %w", word, err)
	}
	return kind.Kind, nil
}

// workloads reads the workloads of a kind and a name.
func (u *User) workloads(ctx context.Context, kind string, key client.ObjectKey) ([]*overview.Workload, error) {
	cluster, err := u.Load(ctx, key.Namespace)
	if err != nil {
		return nil, err
	}
	found := overview.Named(cluster.Overview(nil).Workloads, kind, key.Name)
	if len(found) == 0 {
		if cluster.Missing("pods") {
			return nil, fmt.Errorf("cannot list pods in namespace %s", key.Namespace)
		}
		return nil, fmt.Errorf("no mix governs a pod of %s %s in namespace %s", kind, key.Name, key.Namespace)
	}
	return found, nil
}

// PodOf returns the name of the pod that a word for a kind and a name mean: the pod, or that of a workload that needs an explanation most,
// with a note of which it is.
func (u *User) PodOf(ctx context.Context, word string, key client.ObjectKey) (pod, note string, err error) {
	kind, err := u.Kind(word)
	if err != nil || kind == "Pod" {
		return key.Name, "", err
	}
	found, err := u.workloads(ctx, kind, key)
	if err != nil {
		return "", "", err
	}
	pod, state, pods := overview.Foremost(found)
	if pod == "" {
		return "", "", fmt.Errorf("%s %s has no pod", kind, key.Name)
	}
	return pod, fmt.Sprintf("%s %s has %d governed pods: this is pod/%s, which is %s.", kind, key.Name, pods, pod, state), nil
}

// MixOf returns the name of the mix that a word for a kind and a name mean: the mix, or the one that governs a workload.
func (u *User) MixOf(ctx context.Context, word string, key client.ObjectKey) (string, error) {
	kind, err := u.Kind(word)
	if err != nil || kind == mixKind {
		return key.Name, err
	}
	found, err := u.workloads(ctx, kind, key)
	if err != nil {
		return "", err
	}
	name := overview.MixNameOf(found)
	if name == "" {
		return "", fmt.Errorf("%s %s is governed by %s: a plan requires one CapacityMix", kind, key.Name, found[0].Source)
	}
	return name, nil
}
