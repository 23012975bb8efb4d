// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/autoscaler"
	"berth.dev/berth/test/builders"
)

// ServeKarpenter has the API server serve the NodePools of Karpenter until the test ends. No one acts on them.
func (w *World) ServeKarpenter() {
	w.T.Helper()
	crd := &unstructured.Unstructured{}
	require.NoError(w.T, yaml.Unmarshal([]byte(builders.CRD("karpenter.sh", "v1", "NodePool", "")), &crd.Object))
	w.CreateForTest(crd)
	w.Eventually("the API server serves node pools", func() (bool, string) {
		found, err := autoscaler.Find(w.Ctx, w.Kube)
		require.NoError(w.T, err)
		return found.Karpenter, ""
	})
}

// StatusOfClusterAutoscaler is the ConfigMap in which a cluster-autoscaler reports its status.
func StatusOfClusterAutoscaler() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler-status"},
		Data:       map[string]string{"status": "autoscalerStatus: Running\n"},
	}
}

// WriteRanks writes deletion costs as Karpenter does: all pods of a node have its rank, whatever they had, and on-demand nodes, which cost
// more, are to be emptied first. The node that is emptied last has the rank. It returns how many pods have another cost than that of their
// slot.
func (w *World) WriteRanks(pods []corev1.Pod, last int) (differ int) {
	w.T.Helper()
	on, nodes := w.Types(), NodesOf(pods)
	order := slices.SortedFunc(maps.Keys(nodes), func(a, b string) int {
		return cmp.Or(cmp.Compare(on[a], on[b]), cmp.Compare(a, b))
	})
	for i := range pods {
		p := &pods[i]
		rank := strconv.Itoa(last - slices.Index(order, p.Spec.NodeName))
		w.WriteCost(p, "karpenter", rank)
		if rank != "-"+p.Annotations[v1alpha1.SlotAnnotation] {
			differ++
		}
	}
	return differ
}

// WriteCost writes the deletion cost of a pod as a client does that Karpenter's is alike: a merge patch of the annotation with
// the version that was read. "" removes it.
func (w *World) WriteCost(pod *corev1.Pod, manager, cost string) {
	w.T.Helper()
	w.Succeeds("the deletion cost of "+pod.Name+" is written", func() error { // its status may change meanwhile
		now := &corev1.Pod{}
		if err := w.Client.Get(w.Ctx, client.ObjectKeyFromObject(pod), now); err != nil {
			return err
		}
		before := now.DeepCopy()
		if delete(now.Annotations, v1alpha1.PodDeletionCostAnnotation); cost != "" {
			metav1.SetMetaDataAnnotation(&now.ObjectMeta, v1alpha1.PodDeletionCostAnnotation, cost)
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		return w.Client.Patch(w.Ctx, now, patch, client.FieldOwner(manager))
	})
}
