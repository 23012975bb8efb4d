// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"berth.dev/berth/apis/v1alpha1"
)

// Scheme returns a new scheme with the kinds of Kubernetes and of Berth.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	kinds := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, v1alpha1.AddToScheme)
	if err := kinds.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	return scheme, nil
}
