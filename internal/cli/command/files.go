// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
)

// Objects reads the objects of files, directories and URLs; "-" is standard input. Objects without a namespace get the given one.
func (o *Options) Objects(namespace string, recursive bool, files ...string) ([]*unstructured.Unstructured, error) {
	b := resource.NewLocalBuilder().Unstructured().ContinueOnError().NamespaceParam(namespace).DefaultNamespace().Flatten()
	var named []string
	for _, f := range files {
		if f == "-" {
			b = b.Stream(o.In, "standard input")
			continue
		}
		named = append(named, f)
	}
	if len(named) > 0 {
		b = b.FilenameParam(false, &resource.FilenameOptions{Filenames: named, Recursive: recursive})
	}
	infos, err := b.Do().Infos()
	if err != nil {
		return nil, err
	}
	objects := make([]*unstructured.Unstructured, 0, len(infos))
	for _, info := range infos {
		u, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("%s has something that is not a Kubernetes object", info.Source)
		}
		if u.GetNamespace() == "" {
			u.SetNamespace(namespace)
		}
		objects = append(objects, u)
	}
	return objects, nil
}
