// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/rebalance"
)

// pausedLong is after how long a pause looks forgotten.
const pausedLong = 24 * time.Hour

// pauses finds moves that have been paused for long.
func (p *patient) pauses(ctx context.Context, r *Report) {
	all, unread := p.allPauses(ctx)
	reportPauses(r, all, unread, p.now)
}

func reportPauses(r *Report, all []rebalance.Pause, unread []string, now time.Time) {
	const check = "paused moves"
	var long []string
	for i := range all {
		if since := all[i].Since; since.IsZero() || now.Sub(since) > pausedLong {
			long = append(long, all[i].String())
		}
	}
	if len(long) > 0 {
		r.add(Warn, check, "kubectl berth resume, once the cause is over", "paused for more than a day, or since an unknown time: %s",
			printers.Listed(long))
	}
	if len(unread) > 0 {
		r.add(Warn, check, "get the rights of the ClusterRole berth-pauser", "%s", strings.Join(unread, "; "))
	}
	if len(long)+len(unread) == 0 {
		r.add(OK, check, "", "pauses: %d, none for more than a day", len(all))
	}
}

// allPauses are those of the cluster, of namespaces and of mixes, and what could not be read of them.
func (p *patient) allPauses(ctx context.Context) (all []rebalance.Pause, unread []string) {
	failed := func(what string, err error) {
		if why := live.Unread(what, err); why != "" {
			unread = append(unread, why)
		}
	}
	add := func(found *rebalance.Pause) {
		if found != nil {
			all = append(all, *found)
		}
	}
	cluster, err := live.Installation{SystemNamespace: p.systemNamespace}.ClusterPause(ctx, p.client)
	failed("whether the cluster is paused", err)
	add(cluster)
	if p.namespace != "" {
		one, err := live.NamespacePause(ctx, p.client, p.namespace)
		failed("whether namespace "+p.namespace+" is paused", err)
		add(one)
	} else {
		var namespaces corev1.NamespaceList
		failed("which namespaces are paused", p.client.List(ctx, &namespaces))
		for i := range namespaces.Items {
			if n := &namespaces.Items[i]; rebalance.IsPaused(n) {
				add(new(rebalance.PauseOf(rebalance.PausedNamespace, n.Name, n)))
			}
		}
	}
	for _, m := range p.cluster.Mixes {
		if s, err := (rebalance.Settings{}).For(nil, m); err == nil && s.Paused != nil {
			s.Paused.Name = m.Namespace + "/" + m.Name
			add(s.Paused)
		}
	}
	return all, unread
}
