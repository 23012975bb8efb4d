// SPDX-License-Identifier: Apache-2.0

package pods

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OfNode reports whether a pod belongs to its node, by its controller, nil for none: it runs on each, and is not replaced elsewhere.
func OfNode(controller *metav1.OwnerReference) bool {
	return controller != nil && (controller.Kind == "DaemonSet" || controller.Kind == "Node")
}
