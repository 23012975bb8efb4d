// SPDX-License-Identifier: Apache-2.0

package interruptions

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/internal/mix/interruptions"
)

// Quarantine returns the domains that are in quarantine, nil for none. It reads the ConfigMap, as the schedulers have it: who deletes it
// ends all quarantines, which this process notices when it counts the next time only. Without quarantines of its own it reads nothing.
func (c *Controller) Quarantine(ctx context.Context) *interruptions.Quarantine {
	c.mu.Lock()
	table := c.table
	c.mu.Unlock()
	if table == nil || c.quarantine(table) == nil {
		return nil
	}
	timed, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	object, err := c.Client.CoreV1().ConfigMaps(c.ConfigMap.Namespace).Get(timed, c.ConfigMap.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		log.FromContext(ctx).V(2).Info("Cannot read the interruptions; those that were counted apply", "configMap", c.ConfigMap, "err", err)
		return c.quarantine(table)
	}
	read, err := interruptions.Decode(object.Data[interruptions.DataKey], c.Keys, c.Clock.Now())
	if err != nil { // as for the schedulers
		return nil
	}
	return c.quarantine(&read)
}

// quarantine is that of a table, nil for none.
func (c *Controller) quarantine(t *interruptions.Table) *interruptions.Quarantine {
	until, _ := t.Quarantined(c.Clock.Now())
	if len(until) == 0 {
		return nil
	}
	return &interruptions.Quarantine{Keys: c.Keys, Until: until}
}
