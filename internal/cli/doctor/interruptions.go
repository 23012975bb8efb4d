// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/interruptions"
)

// What is needed of the ConfigMap with the interruptions. Without it, nodes that providers reclaim teach nothing.
var (
	interruptionReaders = []right{"list configmaps " + interruptions.ConfigMap, "watch configmaps " + interruptions.ConfigMap}
	interruptionWriters = []right{
		"get configmaps " + interruptions.ConfigMap, "create configmaps " + interruptions.ConfigMap,
		"patch configmaps " + interruptions.ConfigMap,
	}
)

// interruptions checks that scheduler and controller share the interruptions, and by the same node labels.
func (p *patient) interruptions(ctx context.Context, r *Report) {
	const check = "interruptions"
	var missing []string
	for account, needs := range map[string][]right{"berth-scheduler": interruptionReaders, controllerAccount: interruptionWriters} {
		denied, err := p.deniedTo(ctx, account, p.systemNamespace, needs)
		if err != nil {
			r.unreviewed(check, err)
			return
		}
		if len(denied) > 0 {
			missing = append(missing, account+": "+strings.Join(denied, ", "))
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		r.add(Warn, check, rbacFiles, "not allowed: %s", strings.Join(missing, "; "))
		return
	}
	table, err := live.Installation{SystemNamespace: p.systemNamespace}.Interruptions(ctx, p.client, p.settings, p.now)
	switch {
	case errors.Is(err, interruptions.ErrOtherKeys):
		r.add(Warn, check, "give berth-controller the configuration of the scheduler, and this command too (--scheduler-config)", "%v", err)
	case apierrors.IsForbidden(err):
		r.add(Warn, check, "get the right to get this ConfigMap", "not allowed: get configmaps %s", interruptions.ConfigMap)
	case err != nil:
		r.add(Warn, check, "delete ConfigMap "+p.systemNamespace+"/"+interruptions.ConfigMap+": it is created again", "%v", err)
	default:
		quarantined, _ := table.Quarantined(p.now)
		r.add(OK, check, "", "domains with interruptions in the last hours: %d, in quarantine: %d", len(table.Domains), len(quarantined))
	}
}
