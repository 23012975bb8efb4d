// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/overview"
)

// Interruptions returns what was counted, nothing if nothing was.
func (i Installation) Interruptions(
	ctx context.Context, c client.Reader, s *overview.Settings, now time.Time,
) (*interruptions.Table, error) {
	var object corev1.ConfigMap
	err := c.Get(ctx, client.ObjectKey{Namespace: i.SystemNamespace, Name: interruptions.ConfigMap}, &object)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	table, err := interruptions.Decode(object.Data[interruptions.DataKey], s.Profile.Args.SpreadSpotOver, now)
	return &table, err
}

// quarantine returns the domains in quarantine. It warns if they may not be read.
func (u *User) quarantine(ctx context.Context, cluster *overview.Cluster) (*interruptions.Quarantine, error) {
	table, err := u.Interruptions(ctx, u.Client, cluster.Settings, u.Now())
	if err != nil {
		u.Warn("%s", Unread("ConfigMap "+interruptions.ConfigMap, err))
		return nil, err
	}
	until, _ := table.Quarantined(u.Now())
	return &interruptions.Quarantine{Keys: table.Keys, Until: until}, nil
}

// AddInterruptions adds to domains what was counted. With an error it is unknown.
func (i Installation) AddInterruptions(
	ctx context.Context, c client.Reader, d *overview.Domains, s *overview.Settings, now time.Time,
) error {
	table, err := i.Interruptions(ctx, c, s, now)
	if err == nil {
		d.Add(table, now)
	}
	return err
}

// Domains returns the interruption domains. What may not be read of their interruptions is unknown.
func (u *User) Domains(ctx context.Context) (*overview.Domains, error) {
	cluster, err := u.Load(ctx, "")
	if err != nil {
		return nil, err
	}
	if cluster.Missing("nodes") {
		return nil, errors.New("cannot list nodes")
	}
	domains := overview.DomainsOf(cluster)
	if err := u.AddInterruptions(ctx, u.Client, domains, cluster.Settings, u.Now()); err != nil {
		u.Warn("%s", Unread("ConfigMap "+interruptions.ConfigMap, err))
	}
	return domains, nil
}
