// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/kube/kinds"
	"berth.dev/berth/internal/limits/mcpimport"
)

const aboutLimits = `Creates ResourceLimits from the ConfigMaps in which the MCP orchestrator stores its resource limits, in the format of its code as well as in
that of its design. The ConfigMaps are read from a namespace of the cluster, by the labels of the orchestrator, or from a file. They are not
changed.

Limits are created or changed by server-side apply, and a second import changes nothing. A field that another field manager has set to another
value is a conflict: it is reported and not changed, unless --force-conflicts is given.

The command reports on stderr what a ResourceLimit cannot represent, and each ConfigMap that it skips. It exits with code 1 if a ConfigMap
could not be imported; it imports all others.`

const limitsExamples = `  # Show what would be imported from namespace mcp-servers. Nothing is written.
  kubectl berth import resource-limits -n mcp-servers --dry-run=server

  # Import the limits into the namespace of the workloads
  kubectl berth import resource-limits -n mcp-servers --to-namespace shop

  # Convert a file without a cluster
  kubectl berth import resource-limits -f configmaps.yaml --dry-run=client -o yaml > limits.yaml`

// newLimits returns the command import resource-limits.
func newLimits(o *command.Options) *cobra.Command {
	return subcommand(o, &cobra.Command{
		Use:     "resource-limits [-f FILE | -n NAMESPACE] [--to-namespace NAMESPACE]",
		Aliases: []string{"resourcelimits", "resource-limit", "rlim"},
		Short:   "Create ResourceLimits from the ConfigMaps of the MCP orchestrator",
		Long:    aboutLimits,
		Example: limitsExamples,
	}, &system{
		what: "resource limits of the MCP orchestrator", kinds: "ConfigMap",
		has: func(u *unstructured.Unstructured) bool {
			return u.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("ConfigMap")
		},
		list: listConfigMaps, parse: parseLimit,
	})
}

func parseLimit(u *unstructured.Unstructured) result {
	cm := &corev1.ConfigMap{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cm); err != nil {
		return result{Err: fmt.Errorf("ConfigMap %s/%s: %w", u.GetNamespace(), u.GetName(), err)}
	}
	if _, ok := mcpimport.FormOf(cm); !ok {
		return result{Skipped: fmt.Sprintf("it is not a resource limit: it has neither the labels %s nor %s",
			text(mcpimport.FormQuoted), text(mcpimport.FormPlain))}
	}
	limit, notes, err := mcpimport.Parse(cm)
	if err != nil {
		return result{Notes: notes, Err: err}
	}
	object, err := applied("ResourceLimit", limit, &limit.Spec)
	return result{Object: object, Notes: notes, Err: err}
}

// text is the labels of a form as kubectl takes them.
func text(f mcpimport.Form) string { return f.Selector().String() }

// listConfigMaps returns the ConfigMaps of a namespace that are resource limits of either form.
func listConfigMaps(ctx context.Context, c client.Client, namespace string) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	seen := map[types.UID]bool{}
	for _, form := range mcpimport.Forms() {
		all, err := kinds.List[*unstructured.Unstructured](ctx, c, kinds.ListOf(corev1.SchemeGroupVersion.WithKind("ConfigMap")),
			client.InNamespace(namespace), client.MatchingLabels(form.Selector()))
		if err != nil {
			return nil, fmt.Errorf("list ConfigMaps of namespace %s: %w", namespace, err)
		}
		for _, cm := range all {
			if !seen[cm.GetUID()] { // one that has the labels of both forms
				seen[cm.GetUID()] = true
				found = append(found, cm)
			}
		}
	}
	return found, nil
}
