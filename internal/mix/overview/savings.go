// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/mix/savings"
)

// SavingsRequire are the lists without which savings are unknown.
var SavingsRequire = []string{"nodes", "pods", MixesResource}

// maxReason is the length of a reason without a price.
const maxReason = 160

// Savings is what the workloads save on nodes, by what a row is of.
func (o *Overview) Savings(nodes []*corev1.Node, book *prices.Book, by savings.By, now time.Time) *savings.Report {
	r := savings.Of(func(yield func(savings.Replica) bool) {
		for i := range o.Workloads {
			w := &o.Workloads[i]
			for k := range w.Slots {
				if !yield(replicaOf(w, &w.Slots[k], by)) {
					return
				}
			}
		}
	}, nodes, book, now)
	for i := range r.Unpriced {
		r.Unpriced[i].Reason = display.Inert(r.Unpriced[i].Reason, maxReason)
	}
	return r
}

func replicaOf(w *Workload, s *Slot, by savings.By) savings.Replica {
	r := savings.Replica{Row: rowOf(w, s, by), Type: s.Type, Floor: s.Floor}
	for _, p := range s.Members() {
		r.Pods = append(r.Pods, savings.Pod{
			Node: p.Node, NodeType: p.NodeType, MilliCPU: p.Requests.MilliCPU, Memory: p.Requests.Memory,
		})
	}
	return r
}

// SavingsRow is the row of a workload, without figures.
func (w *Workload) SavingsRow() savings.Row { return rowOf(w, nil, savings.ByWorkload) }

// rowOf is the row of a slot, without figures.
func rowOf(w *Workload, s *Slot, by savings.By) savings.Row {
	switch by {
	case savings.ByNamespace:
		return savings.Row{Namespace: w.Namespace}
	case savings.ByMix:
		return savings.Row{Namespace: w.Namespace, Mix: w.Source}
	}
	row := savings.Row{
		Namespace: w.Namespace, Kind: w.Kind, Name: w.Name, Revision: w.Revision, Role: w.Role, Bare: w.Bare, Mix: w.Source,
	}
	if by == savings.ByUnit {
		row.Unit = cmp.Or(s.Unit, s.Pod)
	}
	return row
}
