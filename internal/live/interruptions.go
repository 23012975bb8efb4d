// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/overview"
)

// InterruptionsConfigMap is the name of the ConfigMap in which berth-controller counts the interruptions of spot nodes.
const InterruptionsConfigMap = "berth-controller" + v1alpha1.InterruptionsConfigMapSuffix

// Interruptions returns what was counted, nothing if nothing was.
func (i Installation) Interruptions(
	ctx context.Context, c client.Reader, s *overview.Settings, now time.Time,
) (*interruptions.Table, error) {
	var object corev1.ConfigMap
	err := c.Get(ctx, client.ObjectKey{Namespace: i.SystemNamespace, Name: InterruptionsConfigMap}, &object)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	table, err := interruptions.Decode(object.Data[interruptions.DataKey], s.Profile.Args.SpreadSpotOver, now)
	return &table, err
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
	table, err := u.Interruptions(ctx, u.Client, cluster.Settings, u.Now())
	if err != nil {
		u.Warn("%s", UnreadPauses("ConfigMap "+InterruptionsConfigMap, err))
		return domains, nil
	}
	domains.Add(table, u.Now())
	return domains, nil
}
