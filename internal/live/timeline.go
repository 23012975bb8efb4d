// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"berth.dev/berth/internal/mix/overview"
)

// Happenings reads the events of a namespace, or of all with "", that a timeline has. The API server selects them by their reasons: it may
// have events of many pods.
func (u *User) Happenings(ctx context.Context, namespace string) (all []overview.Happening, err error) {
	for _, reason := range overview.TimelineReasons() {
		err = eachEvent(ctx, u.Client, namespace, fields.Set{"reason": reason}, func(e *corev1.Event) {
			if h, ok := overview.HappeningOf(e); ok {
				all = append(all, h)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
