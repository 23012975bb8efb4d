// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/kube/kinds"
	"berth.dev/berth/internal/records/oaasimport"
)

const aboutRecords = `Creates DeploymentRecords from the objects of the class runtime manager of OaaS: ClassRuntimes, and the DeploymentRecords of its earlier
versions, both of the API group oaas.io. They are read from a namespace of the cluster, or from a file, and are not changed.

A record gets the name and the deployment ID of its object, so that clients find it. As soon as it exists, Berth deploys its functions. In the
namespace of the original, the workloads have the same names: delete the original object first, or import into another namespace.

Records are created or changed by server-side apply, and a second import changes nothing. A field that another field manager has set to another
value is a conflict: it is reported and not changed, unless --force-conflicts is given.

The command reports on stderr what a DeploymentRecord cannot represent. It exits with code 1 if an object could not be imported; it imports all
others.`

const recordsExamples = `  # Show what would be imported from namespace oaas. Nothing is written.
  kubectl berth import records -n oaas --dry-run=server

  # Import the records into another namespace
  kubectl berth import records -n oaas --to-namespace shop

  # Save the records of a namespace as a file, to apply them when the original is removed
  kubectl berth import records -n oaas --dry-run=client -o yaml > records.yaml`

// newRecords returns the command import records.
func newRecords(o *command.Options) *cobra.Command {
	return subcommand(o, &cobra.Command{
		Use:     "records [-f FILE | -n NAMESPACE] [--to-namespace NAMESPACE]",
		Aliases: []string{"deploymentrecords", "deployment-records", "record", "drec"},
		Short:   "Create DeploymentRecords from the ClassRuntimes of OaaS",
		Long:    aboutRecords,
		Example: recordsExamples,
	}, &system{
		what: "ClassRuntimes or DeploymentRecords of OaaS", kinds: "ClassRuntime or DeploymentRecord of " + oaasimport.Group,
		has:  oaasimport.Has,
		list: listRuntimes, parse: parseRuntime,
	})
}

func parseRuntime(u *unstructured.Unstructured) result {
	record, notes, err := oaasimport.Parse(u)
	if err != nil {
		return result{Notes: notes, Err: err}
	}
	object, err := applied("DeploymentRecord", record, &record.Spec)
	return result{Object: object, Notes: notes, Err: err}
}

// listRuntimes returns the objects of a namespace of the generations that the cluster serves.
func listRuntimes(ctx context.Context, c client.Client, namespace string) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	for _, kind := range oaasimport.Kinds() {
		all, err := kinds.List[*unstructured.Unstructured](ctx, c, kinds.ListOf(kind), client.InNamespace(namespace))
		if kinds.NotServed(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list objects of kind %s of namespace %s: %w", kind.Kind, namespace, err)
		}
		found = append(found, all...)
	}
	return found, nil
}
