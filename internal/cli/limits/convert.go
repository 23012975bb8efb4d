// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/limits/mcpimport"
)

// item is the result for one ConfigMap: a limit, a reason to skip it, or an error.
type item struct {
	// ConfigMap is its "namespace/name".
	ConfigMap string
	Limit     *v1alpha1.ResourceLimit
	// Notes say what of the ConfigMap a ResourceLimit cannot hold.
	Notes   []string
	Skipped string
	Err     error
}

// convert creates limits from ConfigMaps, in the order of namespace and name. All limits are in the given
// namespace, or, if that is "", each in that of its ConfigMap.
func convert(configMaps []*corev1.ConfigMap, namespace string) []item {
	sorted := slices.SortedFunc(slices.Values(configMaps), func(a, b *corev1.ConfigMap) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	first := map[types.NamespacedName]*item{}
	items := make([]item, len(sorted))
	for i, cm := range sorted {
		item := &items[i]
		*item = convertOne(cm)
		if item.Limit == nil {
			continue
		}
		if namespace != "" {
			item.Limit.Namespace = namespace
		}
		key := types.NamespacedName{Namespace: item.Limit.Namespace, Name: item.Limit.Name}
		if first[key] == nil {
			first[key] = item
			continue
		}
		item.repeats(first[key])
	}
	return items
}

func convertOne(cm *corev1.ConfigMap) item {
	item := item{ConfigMap: cm.Namespace + "/" + cm.Name}
	_, ok := mcpimport.FormOf(cm)
	switch {
	case !ok:
		item.Skipped = fmt.Sprintf("it is not a resource limit: it has neither the labels %s nor %s",
			text(mcpimport.FormQuoted), text(mcpimport.FormPlain))
	case cm.DeletionTimestamp != nil:
		item.Skipped = "it is being deleted"
	default:
		item.Limit, item.Notes, item.Err = mcpimport.Parse(cm)
	}
	return item
}

// repeats handles a ConfigMap that defines a limit which another one defines.
func (i *item) repeats(first *item) {
	same := equality.Semantic.DeepEqual(i.Limit.Spec, first.Limit.Spec) && equality.Semantic.DeepEqual(i.Limit.Labels, first.Limit.Labels)
	key := i.Limit.Namespace + "/" + i.Limit.Name
	i.Limit = nil
	if same {
		i.Skipped = fmt.Sprintf("it defines the same ResourceLimit %s as ConfigMap %s", key, first.ConfigMap)
		return
	}
	i.Err = fmt.Errorf("ConfigMap %s: it defines ResourceLimit %s differently from ConfigMap %s", i.ConfigMap, key, first.ConfigMap)
}

// text is the labels of a form as kubectl takes them.
func text(f mcpimport.Form) string { return f.Selector().String() }

// listConfigMaps returns the ConfigMaps of a namespace that are resource limits of either form.
func listConfigMaps(ctx context.Context, c client.Client, namespace string) ([]*corev1.ConfigMap, error) {
	var found []*corev1.ConfigMap
	seen := map[types.UID]bool{}
	for _, form := range mcpimport.Forms() {
		all, err := live.List[*corev1.ConfigMap](ctx, c, &corev1.ConfigMapList{}, client.InNamespace(namespace),
			client.MatchingLabels(form.Selector()))
		if err != nil {
			return nil, fmt.Errorf("list ConfigMaps of namespace %s: %w", namespace, err)
		}
		for _, cm := range all {
			if !seen[cm.UID] { // one that has the labels of both forms
				seen[cm.UID] = true
				found = append(found, cm)
			}
		}
	}
	return found, nil
}
