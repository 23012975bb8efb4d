// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	nodeutil "k8s.io/component-helpers/node/util"
)

const (
	// CapacityTypeLabel is the node label that NodeSpec.CapacityType sets.
	CapacityTypeLabel = "karpenter.sh/capacity-type"

	// PodReadyDelay is a pod annotation: how long the pod runs before it becomes Ready, as a Go duration. Default: no time.
	PodReadyDelay = "pod-ready.stage.kwok.x-k8s.io/delay"
	// PodDeleteDelay is a pod annotation: how long the pod stays Terminating. Default: no time.
	PodDeleteDelay = "pod-delete.stage.kwok.x-k8s.io/delay"
	// PodCompleteDelay is a pod annotation: how long after it became Ready the pod succeeds. Default: never.
	PodCompleteDelay = "pod-complete.stage.kwok.x-k8s.io/delay"

	kwokNodeAnnotation = "kwok.x-k8s.io/node"
	parallelRequests   = 16
)

// NodeSpec describes a KWOK node. Empty fields get defaults: 16 CPUs, 64Gi, 110 pods; no capacity type, zone or
// instance type label.
type NodeSpec struct {
	Name         string
	CapacityType string // "spot", "on-demand" or ""
	Zone         string
	InstanceType string
	CPU, Memory  string
	Pods         int
	Labels       map[string]string
	Annotations  map[string]string
	Taints       []corev1.Taint
}

// Nodes returns n nodes of a capacity type, named spot-0, on-demand-0 (or node-0 for none) and so on, spread over three
// zones and two instance types. Each change is applied to every one of them.
func Nodes(capacityType string, n int, changes ...func(*NodeSpec)) []NodeSpec {
	prefix := cmp.Or(capacityType, "node")
	out := make([]NodeSpec, n)
	for i := range out {
		out[i] = NodeSpec{
			Name:         fmt.Sprintf("%s-%d", prefix, i),
			CapacityType: capacityType,
			Zone:         "zone-" + string(rune('a'+i%3)),
			InstanceType: []string{"m5.4xlarge", "m6i.4xlarge"}[i%2],
		}
		for _, change := range changes {
			change(&out[i])
		}
	}
	return out
}

// AddNodes creates KWOK nodes and waits until all are Ready and take pods.
//
// The nodes come up with the Ready condition, and so save the API server most of the writes that a new node costs; as in any cluster they
// carry
// the not-ready taint until the controller manager has seen them. A node created without conditions works too: KWOK sets them.
func (c *Cluster) AddNodes(ctx context.Context, specs ...NodeSpec) error {
	client := c.Client()
	if err := dropStaleLeases(ctx, client, specs); err != nil {
		return err
	}
	names := sets.New[string]()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelRequests)
	for _, spec := range specs {
		names.Insert(spec.Name)
		g.Go(func() error {
			node, err := spec.node()
			if err != nil {
				return err
			}
			if _, err := client.CoreV1().Nodes().Create(gctx, node, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create node %s: %w", spec.Name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return c.waitNodesReady(ctx, client, names)
}

// dropStaleLeases deletes leases left by former nodes of these names. KWOK would renew such a lease, the garbage collector
// would then delete it for its dead owner, and the node would be left alone until KWOK's next renewal.
func dropStaleLeases(ctx context.Context, client kubernetes.Interface, specs []NodeSpec) error {
	held, err := leaseNames(ctx, client)
	if err != nil {
		return err
	}
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	for _, spec := range specs {
		if !held.Has(spec.Name) {
			continue
		}
		if err := leases.Delete(ctx, spec.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete stale lease of node %s: %w", spec.Name, err)
		}
	}
	return nil
}

// waitNodesReady waits until the nodes take pods and KWOK holds their leases.
func (c *Cluster) waitNodesReady(ctx context.Context, client kubernetes.Interface, names sets.Set[string]) error {
	n := time.Duration(names.Len())
	// A list costs the API server time that it needs for the nodes themselves.
	interval, timeout := 50*time.Millisecond+n*2*time.Millisecond, startTimeout+n*50*time.Millisecond
	missing := 0
	err := wait.PollUntilContextTimeout(ctx, interval, timeout, true, func(ctx context.Context) (bool, error) {
		ready, err := c.readyNodes(ctx, client)
		missing = names.Difference(ready).Len()
		return missing == 0, err
	})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("wait for nodes: %d of %d not ready: %w", missing, names.Len(), err)
	if kwok := c.Component(KWOK); kwok != nil {
		err = fmt.Errorf("%w; the last lines of KWOK:\n%s", err, kwok.LogTail(20))
	}
	return err
}

func (c *Cluster) readyNodes(ctx context.Context, client kubernetes.Interface) (sets.Set[string], error) {
	ready := sets.New[string]()
	// Version 0 is served from the watch cache: cheap, and current enough to wait on.
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		if takesPods(&nodes.Items[i]) {
			ready.Insert(nodes.Items[i].Name)
		}
	}
	if c.opts.NoKWOK {
		return ready, nil
	}
	leases, err := leaseNames(ctx, client)
	return ready.Intersection(leases), err
}

func leaseNames(ctx context.Context, client kubernetes.Interface) (sets.Set[string], error) {
	list, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list node leases: %w", err)
	}
	names := sets.New[string]()
	for i := range list.Items {
		names.Insert(list.Items[i].Name)
	}
	return names, nil
}

func takesPods(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	_, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

// node returns the Node object, its capacity and conditions in the status.
func (s NodeSpec) node() (*corev1.Node, error) {
	capacity, err := s.capacity()
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", s.Name, err)
	}
	labels := map[string]string{
		corev1.LabelHostname:   s.Name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: "amd64",
		// As a kubelet does; the controller manager would add them otherwise, with a write per node.
		"beta.kubernetes.io/os":   "linux",
		"beta.kubernetes.io/arch": "amd64",
	}
	for key, value := range map[string]string{
		CapacityTypeLabel:              s.CapacityType,
		corev1.LabelTopologyZone:       s.Zone,
		corev1.LabelInstanceTypeStable: s.InstanceType,
	} {
		if value != "" {
			labels[key] = value
		}
	}
	annotations := map[string]string{kwokNodeAnnotation: "fake"}
	maps.Copy(labels, s.Labels)
	maps.Copy(annotations, s.Annotations)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{Taints: s.Taints},
		Status: corev1.NodeStatus{
			Phase:       corev1.NodeRunning,
			Capacity:    capacity,
			Allocatable: capacity,
			Conditions:  healthy(),
			Addresses:   []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: s.Name}},
			NodeInfo:    corev1.NodeSystemInfo{Architecture: "amd64", OperatingSystem: "linux", KubeletVersion: "kwok"},
		},
	}, nil
}

func (s NodeSpec) capacity() (corev1.ResourceList, error) {
	capacity := corev1.ResourceList{}
	for name, value := range map[corev1.ResourceName]string{
		corev1.ResourceCPU:              cmp.Or(s.CPU, "16"),
		corev1.ResourceMemory:           cmp.Or(s.Memory, "64Gi"),
		corev1.ResourceEphemeralStorage: "200Gi",
		corev1.ResourcePods:             strconv.Itoa(cmp.Or(s.Pods, 110)),
	} {
		q, err := resource.ParseQuantity(value)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", name, value, err)
		}
		capacity[name] = q
	}
	return capacity, nil
}

// healthy returns the conditions of a node that is well.
func healthy() []corev1.NodeCondition {
	now := metav1.Now()
	condition := func(of corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: of, Status: status, Reason: "Simulated", LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeReady, corev1.ConditionTrue),
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse),
		condition(corev1.NodeNetworkUnavailable, corev1.ConditionFalse),
	}
}

// CreateNamespace creates a namespace and waits until pods can be created in it.
func (c *Cluster) CreateNamespace(ctx context.Context, name string) error {
	if c.opts.NoControllerManager {
		return createNamespace(ctx, c.Client(), name)
	}
	return CreateNamespace(ctx, c.Client(), name)
}

// CreateNamespace is Cluster.CreateNamespace for any cluster.
func CreateNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	if err := createNamespace(ctx, client, name); err != nil {
		return err
	}
	return waitServiceAccount(ctx, client, name)
}

func createNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}
