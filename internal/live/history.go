// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
)

// eventPage is the number of events in a response, and maxEvents bounds the events of pods that are read.
const eventPage, maxEvents = 500, 10_000

// History returns what happened to a workload of a kind, which can be any word that the API server has for the kind.
func (u *User) History(ctx context.Context, word string, workload client.ObjectKey) (*overview.History, error) {
	namespace, name := workload.Namespace, workload.Name
	kind, err := u.Kind(word)
	if err != nil {
		return nil, err
	}
	cluster, err := u.Load(ctx, namespace)
	if err != nil {
		return nil, err
	}
	h := &overview.History{
		Namespace: namespace, Kind: kind, Name: name, Entries: []overview.Entry{},
		Unread: cluster.Missing("pods") || cluster.Missing(overview.MixesResource), // it has the events of the pods of the workload
	}
	own := fields.Set{"involvedObject.kind": kind, "involvedObject.name": name}
	err = eachEvent(ctx, u.Client, namespace, own, func(e *corev1.Event) { h.Entries = append(h.Entries, overview.EntryOf(e)) })
	if err != nil {
		return nil, err
	}
	if err := u.eventsOfGoverned(ctx, cluster, h); err != nil {
		return nil, err
	}
	if pods := governedPods(cluster, h); len(pods) > 0 {
		err = eachEvent(ctx, u.Client, namespace, fields.Set{"involvedObject.kind": "Pod"}, func(e *corev1.Event) {
			if pods[e.InvolvedObject.Name] {
				entry := overview.EntryOf(e)
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

// maxGoverned bounds the workloads of a mix whose events are read.
const maxGoverned = 50

// eventsOfGoverned adds the events of the workloads that a mix governs.
func (u *User) eventsOfGoverned(ctx context.Context, cluster *overview.Cluster, h *overview.History) error {
	if h.Kind != "CapacityMix" {
		return nil
	}
	seen := map[string]bool{}
	for _, g := range cluster.State.Groups(h.Namespace) {
		w := g.Workload
		of := w.Kind + "/" + w.Name
		if g.Governing.Source != governing.SourceCapacityMix+h.Name || w.Kind == h.Kind || seen[of] {
			continue // all pods of a mix are a workload of its name
		}
		if seen[of] = true; len(seen) > maxGoverned {
			u.Warn("%d workloads at most: the events of the others are not read", maxGoverned)
			return nil
		}
		about := fields.Set{"involvedObject.kind": w.Kind, "involvedObject.name": w.Name}
		err := eachEvent(ctx, u.Client, h.Namespace, about, func(e *corev1.Event) {
			entry := overview.EntryOf(e)
			entry.From = of
			h.Entries = append(h.Entries, entry)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// governedPods are the names of the pods of a workload that a mix governs.
func governedPods(cluster *overview.Cluster, h *overview.History) map[string]bool {
	pods := map[string]bool{}
	all := cluster.Overview(nil).Workloads
	for i := range all {
		if all[i].Kind == h.Kind && all[i].Name == h.Name {
			for j := range all[i].Slots {
				for _, name := range all[i].Slots[j].PodNames() {
					pods[name] = true
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

// RecordHistory returns what happened to a record.
func (u *User) RecordHistory(ctx context.Context, rec *v1alpha1.DeploymentRecord) *overview.History {
	var events corev1.EventList
	err := u.Client.List(ctx, &events, client.InNamespace(rec.Namespace), client.MatchingFieldsSelector{
		Selector: fields.OneTermEqualSelector("involvedObject.uid", string(rec.UID)),
	})
	if err != nil {
		u.Warn("cannot read the events of the record: %v", err)
	}
	h := overview.RecordHistory(rec, events.Items)
	h.Unread = err != nil
	return h
}
