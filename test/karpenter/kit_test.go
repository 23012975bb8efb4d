// SPDX-License-Identifier: Apache-2.0

// Package karpenter_test runs Berth beside Karpenter, with its KWOK cloud
// provider. It takes minutes and is not part of `make test`: `make test-karpenter`.
package karpenter_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

const (
	// defaultScheduler is the schedulerName of pods that name none.
	defaultScheduler = "default-scheduler"
	// poolLabel is on every node that Karpenter launched.
	poolLabel = "karpenter.sh/nodepool"
	// patience bounds what takes node launches.
	patience = 4 * time.Minute
	// cpu is what a replica requests: perNode of them fit on a node.
	cpu     = "1"
	perNode = 3
)

// the mix of the tests: 14 of 20 on spot.
var web = split.New(70, 2)

var (
	nodePools  = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}
	nodeClaims = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}
)

// pool is a NodePool.
type pool struct {
	name string
	// types are the capacity types that it may launch.
	types []string
	// cpus limits it; empty is no limit.
	cpus string
	// consolidateAfter is how long a node must have been left alone before Karpenter thinks about it.
	consolidateAfter string
}

// both allows spot and on-demand, and nothing is consolidated.
var both = pool{name: "both", types: []string{"spot", "on-demand"}, consolidateAfter: "Never"}

func (p pool) manifest() string {
	limits := ""
	if p.cpus != "" {
		limits = fmt.Sprintf("  limits: {cpu: %q}\n", p.cpus)
	}
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
%s  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized
    consolidateAfter: %s
    budgets: [{nodes: "100%%"}]
  template:
    spec:
      expireAfter: Never
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: karpenter.kwok.sh/instance-cpu, operator: In, values: ["4"]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [%s]}
`, p.name, limits, p.consolidateAfter, strings.Join(p.types, ", "))
}

const nodeClass = `
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
`

// autoscaled is a world without nodes, in which Karpenter launches them.
type autoscaled struct {
	*testenv.World
	karpenter *cluster.Karpenter
}

// start starts Karpenter with NodePools. With the test Karpenter's nodes end, then Karpenter.
func start(t *testing.T, pools ...pool) *autoscaled {
	t.Helper()
	w := &autoscaled{World: testenv.New(t)}
	w.run()
	t.Cleanup(w.end)
	require.NoError(t, w.Cluster.Apply(w.Ctx, nodeClass))
	for _, p := range pools {
		require.NoError(t, w.Cluster.Apply(w.Ctx, p.manifest()))
	}
	return w
}

// run starts Karpenter with some feature gates turned on.
func (w *autoscaled) run(gates ...string) {
	w.T.Helper()
	k, err := w.Cluster.StartKarpenter(w.Ctx, os.Stderr, gates...)
	require.NoError(w.T, err)
	w.karpenter = k
}

// restart replaces the running Karpenter by one with some feature gates turned on.
func (w *autoscaled) restart(gates ...string) {
	w.T.Helper()
	w.kill()
	w.run(gates...)
}

func (w *autoscaled) kill() {
	w.karpenter.Kill()
	<-w.karpenter.Done()
}

func (w *autoscaled) end() {
	// The test's own context may have ended.
	w.Ctx = context.WithoutCancel(w.Ctx)
	if w.T.Failed() {
		w.T.Log(w.Picture(w.Ctx))
		for _, pod := range w.Live("web") {
			if !testenv.Ready(&pod) {
				w.T.Logf("not Ready: %s since %s: %+v", pod.Name, pod.CreationTimestamp, pod.Status.Conditions)
			}
		}
		w.T.Log("end of Karpenter's log:\n" + w.karpenter.LogTail(60))
	}
	defer w.kill()
	background := metav1.DeletePropagationBackground
	require.NoError(w.T, w.Kube.AppsV1().Deployments(w.Namespace).DeleteCollection(w.Ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}))
	for _, p := range w.list(nodePools) {
		require.NoError(w.T, client.IgnoreNotFound(w.Client.Delete(w.Ctx, &p)))
	}
	testenv.Becomes(w.UpTo(patience), "NodeClaims and nodes of Karpenter", 0, func() int {
		return len(w.list(nodeClaims)) + len(w.nodes())
	})
}

func (w *autoscaled) list(kind schema.GroupVersionKind) []unstructured.Unstructured {
	w.T.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	return testenv.List(w.World, list).Items
}

func (w *autoscaled) nodes() []corev1.Node {
	w.T.Helper()
	return testenv.List(w.World, &corev1.NodeList{}).Items
}

// requireKarpentersNodes demands that Karpenter launched every node.
func (w *autoscaled) requireKarpentersNodes() {
	w.T.Helper()
	nodes := w.nodes()
	require.NotEmpty(w.T, nodes)
	for _, n := range nodes {
		require.Contains(w.T, n.Labels, poolLabel, "node %s", n.Name)
	}
}

// launches are the nodes that Karpenter has requested, now or before, by their capacity type.
type launches map[types.UID]string

// see adds what there is now.
func (l launches) see(w *autoscaled) {
	w.T.Helper()
	for _, claim := range w.list(nodeClaims) {
		// A claim gets its type with its machine.
		if t := claim.GetLabels()[cluster.CapacityTypeLabel]; t != "" || l[claim.GetUID()] == "" {
			l[claim.GetUID()] = t
		}
	}
}

// launched reports whether all have their machines.
func (l launches) launched() bool { return !slices.Contains(slices.Collect(maps.Values(l)), "") }

// since returns those that are not among earlier ones.
func (l launches) since(earlier launches) launches {
	later := maps.Clone(l)
	maps.DeleteFunc(later, func(uid types.UID, _ string) bool { _, known := earlier[uid]; return known })
	return later
}

func (l launches) String() string {
	n := map[string]int{}
	for _, t := range l {
		n[t]++
	}
	return fmt.Sprintf("%d launches: %v", len(l), n)
}
