// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/history"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/overview"
)

const aboutHistory = `Shows what happened to a workload, the newest last: its moves with the free capacity that they were based on, why others were not made, and the
events of its current pods. The cluster keeps events for an hour by default. KIND is any kind that the API server knows, such as deployment,
sts or mix.`

const historyExamples = `  kubectl berth history deployment/web
  kubectl berth history mix/web -n shop -o json`

// eventPage is the number of events in a response, and maxEvents bounds the events of pods that are read.
const eventPage, maxEvents = 500, 10_000

// NewHistory returns the command history.
func NewHistory(o *command.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "history KIND/NAME",
		Short:   "Show the moves and events of a workload",
		Long:    aboutHistory,
		Example: historyExamples,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, err := o.Namespace()
			if err != nil {
				return err
			}
			kind, name, ok := strings.Cut(args[0], "/")
			if !ok || kind == "" || name == "" {
				return fmt.Errorf("%q must be KIND/NAME, such as deployment/web", args[0])
			}
			h, err := ReadHistory(cmd.Context(), o, kind, client.ObjectKey{Namespace: namespace, Name: name})
			if err != nil {
				return err
			}
			return ShowHistory(o, h)
		},
	}
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}

// ReadHistory returns what happened to a workload of a kind, which can be any word that the API server has for the kind.
func ReadHistory(ctx context.Context, o *command.Options, word string, workload client.ObjectKey) (*history.History, error) {
	namespace, name := workload.Namespace, workload.Name
	mapper, err := o.Flags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	kind, err := mapper.KindFor(schema.GroupVersionResource{Resource: strings.ToLower(word)})
	if err != nil {
		return nil, fmt.Errorf("KIND is %q: %w", word, err)
	}
	c, cluster, err := load(ctx, o, namespace)
	if err != nil {
		return nil, err
	}
	h := &history.History{Namespace: namespace, Kind: kind.Kind, Name: name, Entries: []history.Entry{}}
	own := fields.Set{"involvedObject.kind": kind.Kind, "involvedObject.name": name}
	err = eachEvent(ctx, c, namespace, own, func(e *corev1.Event) { h.Entries = append(h.Entries, history.EntryOf(e)) })
	if err != nil {
		return nil, err
	}
	if pods := governedPods(cluster, h); len(pods) > 0 {
		err = eachEvent(ctx, c, namespace, fields.Set{"involvedObject.kind": "Pod"}, func(e *corev1.Event) {
			if pods[e.InvolvedObject.Name] {
				entry := history.EntryOf(e)
				entry.From = e.InvolvedObject.Name
				h.Entries = append(h.Entries, entry)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return h, nil
}

// ShowHistory prints the history of a workload.
func ShowHistory(o *command.Options, h *history.History) error {
	return h.Show(o, fmt.Sprintf("No events found for %s %s/%s. The cluster keeps events for a limited time.", h.Kind, h.Namespace, h.Name))
}

// governedPods are the names of the pods of a workload that a mix governs.
func governedPods(cluster *overview.Cluster, h *history.History) map[string]bool {
	pods := map[string]bool{}
	all := cluster.Overview(nil).Workloads
	for i := range all {
		if all[i].Kind == h.Kind && all[i].Name == h.Name {
			for _, slot := range all[i].Slots {
				if slot.Pod != "" {
					pods[slot.Pod] = true
				}
			}
		}
	}
	return pods
}

// eachEvent reads events of a namespace, a page at a time.
func eachEvent(ctx context.Context, c client.Client, namespace string, of fields.Set, use func(*corev1.Event)) error {
	token := ""
	for read := 0; read < maxEvents; {
		// A new list for each page: decoding reuses the memory of an old one.
		var page corev1.EventList
		err := c.List(ctx, &page, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: of.AsSelector()},
			client.Limit(eventPage), client.Continue(token))
		if err != nil {
			return fmt.Errorf("read the events: %w", err)
		}
		for i := range page.Items {
			use(&page.Items[i])
		}
		if token = page.Continue; token == "" {
			break
		}
		read += len(page.Items)
	}
	return nil
}
