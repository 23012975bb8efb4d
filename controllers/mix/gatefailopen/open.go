// SPDX-License-Identifier: Apache-2.0

package gatefailopen

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/gate"
)

// fieldManager is the field manager of the patches.
const fieldManager = "berth-controller"

// open lets a pod go. A pod that has changed meanwhile is left alone: a scheduler
// may have removed its gate, with a slot.
func (c *Controller) open(ctx context.Context, p *clusterstate.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pods := c.Kube.CoreV1().Pods(p.Namespace)
	pod, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read pod %s/%s: %w", p.Namespace, p.Name, err)
	case pod.UID != p.UID || pod.DeletionTimestamp != nil || !gate.Last(pod):
		return nil
	}
	patch, err := gate.Patch(pod, gate.Release)
	if err != nil {
		return fmt.Errorf("ungate pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	_, err = pods.Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ungate pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	ungated.WithLabelValues(v1alpha1.UngateReasonNoLeader).Inc()
	log.FromContext(ctx).Info("Ungated a pod without a slot", "pod", p.Namespace+"/"+p.Name)
	c.Recorder.Eventf(reference(pod), corev1.EventTypeWarning, v1alpha1.EventReasonGateFailedOpen,
		"No berth-scheduler removed the scheduling gate for %s: it was removed without a slot, and any scheduler may place the pod on nodes of any type", c.patience())
	return nil
}
