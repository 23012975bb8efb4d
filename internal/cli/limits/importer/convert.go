// SPDX-License-Identifier: Apache-2.0

// Package importer creates ResourceLimits from the ConfigMaps in which the MCP orchestrator stores its resource limits.
package importer

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/mcpimport"
)

// Item is the result for one ConfigMap: a limit, a reason to skip it, or an error.
type Item struct {
	// ConfigMap is its "namespace/name".
	ConfigMap string
	Limit     *v1alpha1.ResourceLimit
	// Notes say what of the ConfigMap a ResourceLimit cannot hold.
	Notes   []string
	Skipped string
	Err     error
}

// Convert creates limits from ConfigMaps, in the order of namespace and name. All limits are in the given
// namespace, or, if that is "", each in that of its ConfigMap.
func Convert(configMaps []*corev1.ConfigMap, namespace string) []Item {
	sorted := slices.SortedFunc(slices.Values(configMaps), func(a, b *corev1.ConfigMap) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	first := map[types.NamespacedName]*Item{}
	items := make([]Item, len(sorted))
	for i, cm := range sorted {
		item := &items[i]
		*item = convert(cm)
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

func convert(cm *corev1.ConfigMap) Item {
	item := Item{ConfigMap: cm.Namespace + "/" + cm.Name}
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
func (i *Item) repeats(first *Item) {
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
