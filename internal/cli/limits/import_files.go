// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/limits/importer"
)

// configMapsOf reads the ConfigMaps of a file: one or several documents, YAML or JSON, lists too. Other objects are ignored.
// ConfigMaps that cannot be decoded are returned as failed.
func configMapsOf(o *command.Options, file, namespace string) (maps []*corev1.ConfigMap, failed []importer.Item, err error) {
	objects, err := o.Objects(namespace, false, file)
	if err != nil {
		return nil, nil, err
	}
	for _, u := range objects {
		if u.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("ConfigMap") {
			continue
		}
		cm := &corev1.ConfigMap{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cm); err != nil {
			key := u.GetNamespace() + "/" + u.GetName()
			failed = append(failed, importer.Item{ConfigMap: key, Err: fmt.Errorf("ConfigMap %s: %w", key, err)})
			continue
		}
		maps = append(maps, cm)
	}
	if len(maps)+len(failed) == 0 {
		return nil, nil, errors.New("the file has no ConfigMap")
	}
	return maps, failed, nil
}
