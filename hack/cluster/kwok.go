// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	kwokModule = "sigs.k8s.io/kwok"
	kwokLeases = "pkg/kwok/controllers/node_lease_controller.go"
	kwokUtils  = "pkg/kwok/controllers/utils.go"
)

// kwokEdits have KWOK remember which leases it holds. It lists the pods of a node as soon as it has created or taken over
// the node's lease, and leaves alone those of nodes that it does not hold; it reads that from its watch of the leases, though.
// When the watch is behind the list, as on a busy machine, pods that were there before stay as they are for good: seen after
// one in 24 restarts with a load of six on two CPUs.
//
// KWOK also gives up a pod if a connection breaks while it writes the status, or if the API server answers with an internal error,
// as both do in an outage: the pod stays without a status for good. A kubelet tries again, soon and as long as its node is there.
var kwokEdits = []edit{
	{
		kwokModule, kwokLeases,
		"\tholdLeaseSet utilsmaps.SyncMap[string, bool]\n",
		"\tholdLeaseSet, held utilsmaps.SyncMap[string, bool]\n",
	},
	{
		kwokModule, kwokLeases,
		"\tif c.onNodeManagedFunc == nil {\n",
		"\tc.held.Store(nodeName, true)\n\tif c.onNodeManagedFunc == nil {\n",
	},
	{
		kwokModule, kwokLeases,
		"\tc.holdLeaseSet.Delete(name)\n",
		"\tc.holdLeaseSet.Delete(name)\n\tc.held.Delete(name)\n",
	},
	{
		kwokModule, kwokLeases,
		"\tlease, ok := c.getLease(name)\n",
		"\tif _, ok := c.held.Load(name); ok {\n\t\treturn true\n\t}\n\tlease, ok := c.getLease(name)\n",
	},
	{
		kwokModule, kwokUtils,
		"\tif utilnet.IsConnectionRefused(err) {\n",
		"\tif utilnet.IsConnectionRefused(err) || apierrors.ReasonForError(err) == \"\" || apierrors.IsInternalError(err) {\n",
	},
	{kwokModule, kwokUtils, "Cap: 32 * time.Minute", "Cap: 8 * time.Second"},
}

func (c *Cluster) kwokArgs() []string {
	stages := filepath.Join(c.dir, "stages")
	return []string{
		"--kubeconfig=" + c.componentKubeconfig(KWOK),
		"--config=" + filepath.Join(stages, "kwok.yaml"),
		"--config=" + filepath.Join(stages, "node.yaml"),
		"--config=" + filepath.Join(stages, "pod.yaml"),
		"--manage-nodes-with-annotation-selector=" + kwokNodeAnnotation + "=fake",
		fmt.Sprintf("--server-address=127.0.0.1:%d", c.ports.KWOK),
	}
}

// releaseNodeLeases deletes the leases of all nodes.
func (c *Cluster) releaseNodeLeases(ctx context.Context) error {
	leases := c.Client().CoordinationV1().Leases("kube-node-lease")
	if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("release node leases: %w", err)
	}
	return nil
}
