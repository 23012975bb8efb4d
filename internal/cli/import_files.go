// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"berth.dev/berth/internal/cli/importer"
)

// configMapsOf reads the ConfigMaps of a file: one or several documents, YAML or JSON, lists too. Other objects are passed
// over. Those that are not as the API has them come back as failed.
func (o *options) configMapsOf(file, namespace string) (maps []*corev1.ConfigMap, failed []importer.Item, err error) {
	infos, err := o.objectsOf(file, namespace).ContinueOnError().Do().Infos()
	if err != nil {
		return nil, nil, err
	}
	for _, info := range infos {
		u, ok := info.Object.(*unstructured.Unstructured)
		if !ok || u.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("ConfigMap") {
			continue
		}
		if u.GetNamespace() == "" {
			u.SetNamespace(namespace)
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
		return nil, nil, errors.New("no ConfigMap in the files")
	}
	return maps, failed, nil
}

// noSuchKind reports whether an error says that a kind is not served.
func noSuchKind(err error) bool {
	var status apierrors.APIStatus
	missing := errors.As(err, &status) && apierrors.IsNotFound(err) && (status.Status().Details == nil || status.Status().Details.Name == "")
	return meta.IsNoMatchError(err) || missing
}

// objectsOf reads the objects in a file, a folder, what an address answers or standard input ("-").
func (o *options) objectsOf(file, namespace string) *resource.Builder {
	b := resource.NewLocalBuilder().Unstructured().NamespaceParam(namespace).DefaultNamespace().Flatten()
	if file == "-" {
		return b.Stream(o.In, "standard input")
	}
	return b.FilenameParam(false, &resource.FilenameOptions{Filenames: []string{file}})
}
