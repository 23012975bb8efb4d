// SPDX-License-Identifier: Apache-2.0

// Package autoscaler finds out which autoscalers launch nodes in a cluster.
package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	kubeclient "berth.dev/berth/internal/kube/client"
)

// What the autoscalers serve or write. The namespace and the name are the defaults of cluster-autoscaler.
const (
	statusNamespace = "kube-system"
	statusConfigMap = "cluster-autoscaler-status"
)

var nodePools = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}

// CostGate is the feature gate with which Karpenter writes the deletion costs of pods.
const CostGate = "PodDeletionCostManagement"

// Found are the autoscalers of a cluster.
type Found struct{ Karpenter, ClusterAutoscaler bool }

// Any reports whether there is one.
func (f Found) Any() bool { return f.Karpenter || f.ClusterAutoscaler }

// String names the autoscalers: "Karpenter and cluster-autoscaler".
func (f Found) String() string {
	var names []string
	if f.Karpenter {
		names = append(names, "Karpenter")
	}
	if f.ClusterAutoscaler {
		names = append(names, "cluster-autoscaler")
	}
	return strings.Join(names, " and ")
}

// Find reads whether the API server serves the NodePools of Karpenter, and whether cluster-autoscaler has written its status.
// These are two small requests. A caller that may not read the status is treated as if there were none.
func Find(ctx context.Context, kube kubernetes.Interface) (f Found, err error) {
	if f.Karpenter, err = kubeclient.Serves(ctx, kube.Discovery(), nodePools); err != nil {
		err = fmt.Errorf("discover %s: %w", nodePools.GroupVersion(), err)
	}
	_, statusErr := kube.CoreV1().ConfigMaps(statusNamespace).Get(ctx, statusConfigMap, metav1.GetOptions{})
	f.ClusterAutoscaler = statusErr == nil
	if statusErr != nil && !apierrors.IsNotFound(statusErr) && !apierrors.IsForbidden(statusErr) {
		err = errors.Join(err, fmt.Errorf("read ConfigMap %s/%s: %w", statusNamespace, statusConfigMap, statusErr))
	}
	return f, err
}

// ManagesCosts reports whether Karpenter runs with CostGate, by the pod template of its Deployment.
func ManagesCosts(template *corev1.PodSpec) bool {
	for i := range template.Containers {
		c := &template.Containers[i]
		for _, e := range c.Env {
			if e.Name == "FEATURE_GATES" && enablesCostGate(e.Value) {
				return true
			}
		}
		for _, arg := range slices.Concat(c.Command, c.Args) {
			if gates, is := strings.CutPrefix(strings.TrimLeft(arg, "-"), "feature-gates="); is && enablesCostGate(gates) {
				return true
			}
		}
	}
	return false
}

// enablesCostGate reads "A=true,B=false" as Karpenter does: the last entry of a name counts.
func enablesCostGate(gates string) (enabled bool) {
	for entry := range strings.SplitSeq(gates, ",") {
		if name, value, _ := strings.Cut(entry, "="); strings.TrimSpace(name) == CostGate {
			enabled, _ = strconv.ParseBool(strings.TrimSpace(value))
		}
	}
	return enabled
}
