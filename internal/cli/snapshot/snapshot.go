// SPDX-License-Identifier: Apache-2.0

// Package snapshot is the command that writes what a simulation needs of a cluster into a file.
package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/config/buildinfo"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/sim/snapshot"
)

const about = `Writes what a simulation needs of a cluster into a file: nodes, pods, their owners, PodDisruptionBudgets, PriorityClasses, labels of
namespaces, and the objects of Berth, each with the fields that decisions read.

The file has no Secret and no ConfigMap, and of pods no environment, command, argument, image, probe or service account. Of annotations it has
those that decisions read. Labels and names are as in the cluster, unless --anonymise replaces them by pseudonyms.

The command reads with your own rights. Lists that you may not read are left out and named, except for pods and nodes, which are required.`

// stdout is the file that is standard output.
const stdout = "-"

// flags are those of the command.
type flags struct {
	file       string
	anonymise  bool
	seed       string
	keepLabels []string
}

// New returns the command snapshot.
func New(o *command.Options) *cobra.Command {
	f := flags{}
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Write what a simulation needs of the cluster into a file",
		Long:  about,
		Example: "  kubectl berth snapshot -A -o cluster.json.gz\n  kubectl berth snapshot -n shop -o shop.json\n" +
			"  kubectl berth snapshot -A --anonymise -o cluster.json.gz\n" +
			"  kubectl berth snapshot -A --anonymise --keep-labels example.com/market | gzip > cluster.json.gz",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			namespace, c, err := o.Cluster()
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), o, c, namespace, serverVersion(o))
		},
	}
	set := cmd.Flags()
	set.StringVarP(&f.file, "output", "o", stdout, "The file to write, compressed if its name ends in .gz. - is standard output.")
	set.BoolVar(&f.anonymise, "anonymise", false,
		"Replace names, labels and all other texts that are not of Kubernetes or Berth by pseudonyms. Labels of nodes such as the zone are kept.")
	set.StringVar(&f.seed, "seed", "", "With --anonymise: the secret that determines the pseudonyms. The same one gives the same pseudonyms in "+
		"another snapshot. Default: a random one.")
	set.StringSliceVar(&f.keepLabels, "keep-labels", nil, "With --anonymise: further labels whose keys and values are kept, by commas.")
	command.Check(cmd, func() error {
		switch {
		case f.file == "":
			return errors.New("--output is empty: it must be a file, or - for standard output")
		case !f.anonymise && (f.seed != "" || len(f.keepLabels) > 0):
			return errors.New("--seed and --keep-labels require --anonymise")
		}
		return nil
	})
	cmd.Flags().BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "Read all namespaces.")
	return cmd
}

// serverVersion is the version of the API server, "" if that is unknown.
func serverVersion(o *command.Options) string {
	discovery, err := o.Flags.ToDiscoveryClient()
	if err != nil {
		return ""
	}
	info, err := discovery.ServerVersion()
	if err != nil {
		return ""
	}
	return info.GitVersion
}

func (f *flags) run(ctx context.Context, o *command.Options, c client.Client, namespace, version string) error {
	s, err := take(ctx, o, c, namespace, version)
	if err != nil {
		return err
	}
	if f.anonymise {
		seed := f.seed
		if seed == "" {
			seed = rand.Text()
		}
		if s, err = s.Anonymise(seed, f.keepLabels...); err != nil {
			return err
		}
	}
	if f.file == stdout {
		err = s.Write(o.Out)
	} else {
		err = s.WriteFile(ctx, f.file)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.file, err)
	}
	o.Note("Wrote %s.", written(s))
	return nil
}

// take reads a namespace, or with "" all.
func take(ctx context.Context, o *command.Options, c client.Client, namespace, version string) (*snapshot.Snapshot, error) {
	b := snapshot.NewBuilder(snapshot.Header{
		Time: metav1.NewTime(o.Now().UTC()), BerthVersion: buildinfo.Version(), ServerVersion: version, Namespace: namespace,
	})
	if namespace != "" {
		o.Note("Pods of other namespaces are left out: nodes seem to have the capacity that these pods use. -A reads all namespaces.")
	}
	reads := &collector{client: c, builder: b, namespace: namespace, note: o.Note}
	if err := reads.collect(ctx); err != nil {
		return nil, err
	}
	return b.Snapshot(), nil
}

// written names the lists that have objects: "12 nodes, 240 pods".
func written(s *snapshot.Snapshot) string {
	var parts []string
	for _, c := range s.Counts() {
		if c.Objects > 0 {
			parts = append(parts, display.Count(c.Objects, things[c.List]))
		}
	}
	if len(parts) == 0 {
		return "a snapshot without objects"
	}
	return strings.Join(parts, ", ")
}

// things are the objects of the lists.
var things = map[string]string{
	"namespaces": "Namespace", "priorityClasses": "PriorityClass", "nodes": "node", "capacityMixes": "CapacityMix",
	"resourceLimits": "ResourceLimit", "schedulingPolicies": "SchedulingPolicy", "reservations": "Reservation",
	"podDisruptionBudgets": "PodDisruptionBudget", "deployments": "Deployment", "replicaSets": "ReplicaSet",
	"statefulSets": "StatefulSet", "jobs": "Job", "pods": "pod",
}
