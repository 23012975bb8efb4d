// SPDX-License-Identifier: Apache-2.0

// Package mcpimport turns the ConfigMaps in which the MCP orchestrator keeps its resource limits into ResourceLimits, and
// back. There are two forms of them: the one of its plan, with plain text, and the one that its code writes, where every
// value is JSON.
package mcpimport

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Form is a way to write a resource limit into a ConfigMap.
type Form string

const (
	// FormPlain is the form of the plan: scalars are plain text, what is absent has no key.
	FormPlain Form = "plain"

	// FormQuoted is the form of the code: every value is JSON, what is absent is null.
	FormQuoted Form = "quoted"
)

// The upstream prefix, and what is made of it.
const (
	prefix       = "mcp-orchestrator.egoavara.net"
	customPrefix = "custom." + prefix + "/"

	typeValue = "resource-limit"

	labelType      = prefix + "/type"
	labelManaged   = prefix + "/managed"
	labelTypeOf    = prefix + "/type-of"
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "mcp-orchestrator"
	namespaceLabel = "namespace." + prefix + "/"

	annotationDescription = prefix + "/description"
)

// Selector returns the labels by which a ConfigMap of a form is known.
func (f Form) Selector() labels.Set {
	if f == FormPlain {
		return labels.Set{labelType: typeValue, labelManaged: "true"}
	}
	return labels.Set{labelTypeOf: typeValue, labelManagedBy: managedBy}
}

// namePrefix precedes the name of the limit in the name of the ConfigMap.
func (f Form) namePrefix() string {
	if f == FormPlain {
		return "resource-limit-rl-"
	}
	return "rl-"
}

// Forms are all forms.
func Forms() []Form { return []Form{FormPlain, FormQuoted} }

// FormOf returns by its labels of which form a ConfigMap is, false if it is no resource limit.
func FormOf(cm *corev1.ConfigMap) (Form, bool) {
	for _, form := range Forms() {
		if form.Selector().AsSelector().Matches(labels.Set(cm.Labels)) {
			return form, true
		}
	}
	return "", false
}

// limitName takes the prefix of either form from the name of a ConfigMap.
func limitName(name string) (string, bool) {
	for _, form := range Forms() {
		if rest, ok := strings.CutPrefix(name, form.namePrefix()); ok {
			return rest, true
		}
	}
	return "", false
}

// Keys of a ConfigMap's data.
const (
	keyCPU              = "cpu"
	keyMemory           = "memory"
	keyCPULimit         = "cpu_limit"
	keyMemoryLimit      = "memory_limit"
	keyEphemeralStorage = "ephemeral_storage"
	keyVolumes          = "volumes"
	keyNodeSelector     = "node_selector"
	keyNodeAffinity     = "node_affinity"
)
