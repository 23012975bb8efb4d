// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/limits/mcpimport"
)

// pageSize is the limit of a list request.
const pageSize = 500

// List returns the ConfigMaps of a namespace that are resource limits of either form.
func List(ctx context.Context, c client.Client, namespace string) ([]*corev1.ConfigMap, error) {
	var found []*corev1.ConfigMap
	seen := map[types.UID]bool{}
	for _, form := range mcpimport.Forms() {
		token := ""
		for {
			var page corev1.ConfigMapList
			err := c.List(ctx, &page, client.InNamespace(namespace), client.MatchingLabels(form.Selector()), client.Limit(pageSize), client.Continue(token))
			if err != nil {
				return nil, fmt.Errorf("list ConfigMaps of namespace %s: %w", namespace, err)
			}
			for i := range page.Items {
				cm := &page.Items[i]
				if !seen[cm.UID] { // one that has the labels of both forms
					seen[cm.UID] = true
					found = append(found, cm)
				}
			}
			if token = page.Continue; token == "" {
				break
			}
		}
	}
	return found, nil
}
