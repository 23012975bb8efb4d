// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SelectsBy reports whether a selector has a requirement about a label.
func SelectsBy(s *metav1.LabelSelector, key string) bool {
	_, there := s.MatchLabels[key]
	return there || slices.ContainsFunc(s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == key })
}
