// SPDX-License-Identifier: Apache-2.0

package api

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/simulator/store"
)

// discovery answers what clients find the resources by, nil for another path.
func discovery(parts []string) any {
	switch {
	case len(parts) == 1 && parts[0] == "api":
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case len(parts) == 1 && parts[0] == "apis":
		return groups()
	case len(parts) == 2 && parts[0] == "api":
		return resourcesOf(schema.GroupVersion{Version: parts[1]})
	case len(parts) == 3 && parts[0] == "apis":
		return resourcesOf(schema.GroupVersion{Group: parts[1], Version: parts[2]})
	}
	return nil
}

func groups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, r := range store.Kinds {
		version := metav1.GroupVersionForDiscovery{GroupVersion: r.GroupVersion().String(), Version: r.Version}
		known := slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == r.Group })
		if r.Group != "" && !known {
			list.Groups = append(list.Groups, metav1.APIGroup{
				Name: r.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
			})
		}
	}
	return list
}

func resourcesOf(of schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: of.String(),
	}
	for _, r := range store.Kinds {
		if r.GroupVersion() != of {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: r.Resource, Kind: r.Kind, Namespaced: r.Namespaced,
			Verbs: metav1.Verbs{"get", "list", "create", "update", "patch", "delete"},
		})
		if hasScale(r.Object) {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.Resource + "/scale", Kind: "Scale", Group: "autoscaling", Version: "v1", Namespaced: true, Verbs: metav1.Verbs{"get"},
			})
		}
	}
	return list
}
