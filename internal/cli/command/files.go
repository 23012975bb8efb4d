// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/resource"
)

// NoSuchKind reports whether an error says that a kind is not served.
func NoSuchKind(err error) bool {
	var status apierrors.APIStatus
	missing := errors.As(err, &status) && apierrors.IsNotFound(err) && (status.Status().Details == nil || status.Status().Details.Name == "")
	return meta.IsNoMatchError(err) || missing
}

// ObjectsOf reads the objects in a file, a folder, what an address answers or standard input ("-").
func (o *Options) ObjectsOf(file, namespace string) *resource.Builder {
	b := resource.NewLocalBuilder().Unstructured().NamespaceParam(namespace).DefaultNamespace().Flatten()
	if file == "-" {
		return b.Stream(o.In, "standard input")
	}
	return b.FilenameParam(false, &resource.FilenameOptions{Filenames: []string{file}})
}
