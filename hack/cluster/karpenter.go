// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

const (
	// KarpenterBinary is the name of Karpenter with its KWOK cloud provider, for Binary.
	KarpenterBinary = "karpenter"
	// KarpenterUser is the identity that Karpenter talks to the API server with.
	KarpenterUser = "karpenter"

	karpenterModule = "sigs.k8s.io/karpenter"
)

// KarpenterNoCapacity is the annotation of a KWOKNodeClass that makes launches fail for lack of capacity: the capacity type, the zone, or
// the type in a zone (spot/test-zone-a) that has none.
const KarpenterNoCapacity = "berth.dev/no-capacity"

// karpenterEdits keep Karpenter's two servers on the loopback interface, for whose address it has no setting, and let launches of its
// KWOK provider fail, which never do otherwise.
var karpenterEdits = []edit{
	{karpenterModule, "pkg/operator/operator.go", `fmt.Sprintf(":%d", `, `fmt.Sprintf("127.0.0.1:%d", `},
	{
		karpenterModule, "kwok/cloudprovider/cloudprovider.go", "	// Create the Node because KwoK nodes don't have a kubelet",
		`	if class, err := c.resolveNodeClassFromNodeClaim(ctx, nodeClaim); err == nil && class.Annotations["` + KarpenterNoCapacity + `"] != "" {
		none, possible := class.Annotations["` + KarpenterNoCapacity + `"], false
		requirements := scheduling.NewNodeSelectorRequirementsWithMinValues(nodeClaim.Spec.Requirements...)
		for _, it := range c.instanceTypes {
			for _, o := range it.Offerings.Compatible(requirements) {
				possible = possible || none != o.CapacityType() && none != o.Zone() && none != o.CapacityType()+"/"+o.Zone()
			}
		}
		if !possible {
			return nil, cloudprovider.NewInsufficientCapacityError(fmt.Errorf("no capacity of %s", none))
		}
	}
	// Create the Node because KwoK nodes don't have a kubelet`,
	},
}

// Karpenter is a running Karpenter. What it launches are KWOK nodes: they carry the annotation by which KWOK selects its own.
type Karpenter struct{ *server }

// StartKarpenter installs Karpenter's CRDs, starts Karpenter with its KWOK cloud provider and its generic instance types,
// with some feature gates turned on, and waits until it is ready. It launches nothing before there is a NodePool. Killed, it
// leaves its nodes behind, with finalizers: delete the NodePools first and let it end their nodes.
func (c *Cluster) StartKarpenter(ctx context.Context, out io.Writer, gates ...string) (*Karpenter, error) {
	binary, err := Binary(ctx, out, KarpenterBinary)
	if err != nil {
		return nil, err
	}
	if err := c.applyKarpenterCRDs(ctx); err != nil {
		return nil, err
	}
	p := &program{ProgramOptions: ProgramOptions{
		Name: KarpenterBinary, Binary: binary, User: KarpenterUser, Groups: []string{"system:masters"},
	}}
	if err := c.prepareProgram(p); err != nil {
		return nil, err
	}
	p.Env = []string{
		"KUBECONFIG=" + p.Kubeconfig,
		"DISABLE_LEADER_ELECTION=true",
		"SYSTEM_NAMESPACE=kube-system",
		fmt.Sprintf("METRICS_PORT=%d", p.ports[0]),
		fmt.Sprintf("HEALTH_PROBE_PORT=%d", p.ports[1]),
		// A caller's environment changes neither gates nor instance types. A gate that is not named has its default.
		"FEATURE_GATES=" + gatesOn(gates),
		"INSTANCE_TYPES_FILE_PATH=",
	}
	p.url = "http://" + loopback(p.ports[0])
	p.ready = []string{"http://" + loopback(p.ports[1]) + "/readyz"}
	s, err := c.startProgram(ctx, p)
	if err != nil {
		return nil, err
	}
	return &Karpenter{s}, nil
}

func gatesOn(names []string) string {
	on := make([]string, len(names))
	for i, name := range names {
		on[i] = name + "=true"
	}
	return strings.Join(on, ",")
}

// applyKarpenterCRDs installs the CRDs of the version that is built.
func (c *Cluster) applyKarpenterCRDs(ctx context.Context) error {
	here, err := sourceDir()
	if err != nil {
		return err
	}
	root, err := moduleDir(ctx, filepath.Join(here, sources[KarpenterBinary].module), karpenterModule)
	if err != nil {
		return err
	}
	return c.ApplyFiles(ctx, filepath.Join(root, "pkg/apis/crds"), filepath.Join(root, "kwok/apis/crds"))
}
