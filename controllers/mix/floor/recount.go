// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/floor"
	"berth.dev/berth/internal/mix/governing"
)

// The disruption controller finds the budget of a pod that changed by the labels that it has then. After a label was removed it counts
// the pods of the budget again only for an event of the budget.
const (
	// recounts is how often the budget is touched after a removal: its event may come before that of the pod.
	recounts = 2
	// recountAgain is the time between two of them.
	recountAgain = 2 * time.Second
)

// recount touches the budget of a group some of whose pods have lost the label. It returns when to do so again, 0 for no more.
func (c *Controller) recount(ctx context.Context, key governing.GroupKey) (wait time.Duration, err error) {
	left := c.lost[key]
	if left == 0 {
		return 0, nil
	}
	name, now := floor.NameOf(governing.FloorLabel(key)), c.Clock.Now()
	if until := c.touched[key].Add(recountAgain); left < recounts && now.Before(until) {
		return until.Sub(now), nil
	}
	if wait = c.pace.turn(key.Namespace, true, now); wait > 0 {
		return wait, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		v1alpha1.FloorRecountAnnotation: now.UTC().Format(time.RFC3339Nano),
	}}})
	if err != nil {
		return 0, err
	}
	_, err = c.Kube.PolicyV1().PodDisruptionBudgets(key.Namespace).Patch(ctx, name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: FieldOwner})
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("patch PodDisruptionBudget %s/%s: %w", key.Namespace, name, err)
	}
	if c.lost[key], c.touched[key] = left-1, now; left > 1 {
		return recountAgain, nil
	}
	delete(c.lost, key)
	delete(c.touched, key)
	return 0, nil
}
