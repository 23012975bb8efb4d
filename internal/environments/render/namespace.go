// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"
	"strings"
)

// podSecurity begins the labels of a namespace with its Pod Security levels and their versions:
// https://kubernetes.io/docs/concepts/security/pod-security-admission/
const podSecurity = "pod-security.kubernetes.io/"

// podSecurityLevels are the levels by what they allow, the most first.
var podSecurityLevels = []string{"privileged", "baseline", "restricted"}

// NamespaceLabels returns the labels of the namespace of an environment: those of the configuration, replaced by those of the author's
// namespace whose keys are copied. A Pod Security level, and its version, is copied only where it allows no more than that of the
// configuration: otherwise authors with a privileged namespace would escape the configuration.
func NamespaceLabels(configured, author map[string]string, copied []string) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, configured)
	for _, key := range copied {
		value, has := author[key]
		if has && !allowsMore(author, configured, strings.TrimSuffix(key, "-version")) {
			labels[key] = value
		}
	}
	return labels
}

// allowsMore reports whether the Pod Security level of a is known and allows more than that of b.
func allowsMore(a, b map[string]string, key string) bool {
	if !strings.HasPrefix(key, podSecurity) {
		return false
	}
	of, than := slices.Index(podSecurityLevels, a[key]), slices.Index(podSecurityLevels, b[key])
	return of >= 0 && of < than
}
