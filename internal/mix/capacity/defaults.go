// SPDX-License-Identifier: Apache-2.0

package capacity

import "slices"

// Labels that more than one rule reads.
const (
	KarpenterCapacityType = "karpenter.sh/capacity-type"
	castSpot              = "scheduling.cast.ai/spot"
	gkeSpot               = "cloud.google.com/gke-spot"
	aksScaleSetPriority   = "kubernetes.azure.com/scalesetpriority"
)

// DefaultRules returns a fresh copy of the shipped rules. docs/node-types.md describes them for users, with the source of each
// and the date of the last check: what providers write changes.
func DefaultRules() []Rule {
	return slices.Concat(provisionerRules(), cloudRules(), conventionRules(), absentRules())
}

// WithDefaults puts a user's rules before the shipped ones, except that Absent rules, the user's first, follow all
// other rules: an Absent rule for one provider must never match before another provider's explicit label. A shipped
// rule with the name of a user's rule is omitted.
func WithDefaults(rules []Rule) []Rule {
	all := slices.Clone(rules)
	for _, d := range DefaultRules() {
		if !slices.ContainsFunc(rules, func(r Rule) bool { return r.Name == d.Name }) {
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b Rule) int { return absentLast(a) - absentLast(b) })
	return all
}

func absentLast(r Rule) int {
	if r.Operator == Absent {
		return 1
	}
	return 0
}

func in(name, key string, t Type, values ...string) Rule {
	return Rule{Name: name, Key: key, Operator: In, Values: values, Type: t}
}

func spotIfPresent(name, key string) Rule {
	return Rule{Name: name, Key: key, Operator: Exists, Type: Spot}
}

func absent(name, key, requires string) Rule {
	return Rule{Name: name, Key: key, Operator: Absent, Requires: requires, Type: OnDemand}
}

// provisionerRules come first: the tool that launched the machine is authoritative. Its nodes also have the cloud's
// labels, and those can be wrong there (the Azure provider of Karpenter has set scalesetpriority=regular on spot
// nodes).
func provisionerRules() []Rule {
	const ocean = "spotinst.io/node-lifecycle"
	return []Rule{
		in("karpenter-spot", KarpenterCapacityType, Spot, "spot"),
		in("karpenter-on-demand", KarpenterCapacityType, OnDemand, "on-demand"),
		// Reserved capacity is paid for in advance and not reclaimed, unless its owner may: then the notice is two minutes, as
		// for spot. Only reserved nodes have these labels; once the reservation ends, the node becomes on-demand by the rule above.
		in("karpenter-reserved-interruptible", "karpenter.k8s.aws/capacity-reservation-interruptible", Spot, "true"),
		in("eks-auto-reserved-interruptible", "eks.amazonaws.com/capacity-reservation-interruptible", Spot, "true"),
		in("karpenter-reserved", KarpenterCapacityType, OnDemand, "reserved"),
		// A fallback node is an on-demand machine that also has the spot label, so that pods with a spot selector are
		// scheduled to it: it must be recognized before that label is read. spot-backup is its name in older releases.
		in("cast-spot-fallback", "scheduling.cast.ai/spot-fallback", OnDemand, "true"),
		in("cast-spot-backup", "scheduling.cast.ai/spot-backup", OnDemand, "true"),
		in("cast-spot", castSpot, Spot, "true"),
		in("ocean-spot", ocean, Spot, "spot", "preemptible"),
		in("ocean-on-demand", ocean, OnDemand, "od"),
	}
}

// cloudRules read what the cloud or the platform sets on its own nodes. Spot precedes on-demand, so that a node with
// contradictory labels of one cloud never counts toward minOnDemand.
func cloudRules() []Rule {
	const (
		eks       = "eks.amazonaws.com/capacityType"
		gke       = "cloud.google.com/gke-provisioning"
		aks       = "kubernetes.azure.com/priority" // the successor of scalesetpriority; nodes have either or both
		ackSpot   = "node.alibabacloud.com/spot-strategy"
		ackCharge = "node.alibabacloud.com/instance-charge-type"
		yandex    = "yandex.cloud/preemptible"
		rackspace = "servers.ngpc.rxt.io/type"
	)
	return []Rule{
		in("eks-spot", eks, Spot, "SPOT"),
		in("gke-spot", gkeSpot, Spot, "true"),
		in("gke-preemptible", "cloud.google.com/gke-preemptible", Spot, "true"),
		in("gke-provisioning-spot", gke, Spot, "spot", "preemptible"),
		in("aks-spot", aksScaleSetPriority, Spot, "spot"),
		in("aks-priority-spot", aks, Spot, "spot"),
		in("alibaba-spot", ackSpot, Spot, "SpotWithPriceLimit", "SpotAsPriceGo"),
		// Present with an empty value on the nodes of a spot MachineSet, a hosted spot NodePool, a Cluster API machine.
		spotIfPresent("openshift-spot", "machine.openshift.io/interruptible-instance"),
		spotIfPresent("openshift-hosted-spot", "hypershift.openshift.io/interruptible-instance"),
		spotIfPresent("cluster-api-interruptible", "cluster.x-k8s.io/interruptible"),
		in("oke-preemptible", "oci.oraclecloud.com/oke-is-preemptible", Spot, "true"),
		in("yandex-preemptible", yandex, Spot, "true"),
		in("rackspace-spot", rackspace, Spot, "spot"),

		// A capacity block ends on a date that is known at purchase. Until then it is not reclaimed.
		in("eks-on-demand", eks, OnDemand, "ON_DEMAND", "CAPACITY_BLOCK"),
		in("gke-provisioning-standard", gke, OnDemand, "standard"),
		in("aks-regular", aksScaleSetPriority, OnDemand, "regular"),
		in("aks-priority-regular", aks, OnDemand, "regular"),
		in("alibaba-no-spot", ackSpot, OnDemand, "NoSpot"),
		// Subscription machines are never spot. PostPaid is ambiguous: spot is billed that way too.
		in("alibaba-prepaid", ackCharge, OnDemand, "PrePaid"),
		in("yandex-regular", yandex, OnDemand, "false"),
		in("rackspace-on-demand", rackspace, OnDemand, "ondemand"),
	}
}

// conventionRules read labels that users and installers set on nodes, so the cloud's labels take precedence. Generic
// keys are read by value only: a cluster may use a label "lifecycle" for something else.
func conventionRules() []Rule {
	const (
		kubernetes, bare, node = "node.kubernetes.io/lifecycle", "lifecycle", "node-lifecycle"
		capacityType           = "node.kubernetes.io/capacity-type"
	)
	spot := []string{"spot", "Spot", "SPOT", "Ec2Spot"}
	onDemand := []string{"on-demand", "OnDemand", "ON_DEMAND", "on_demand", "ondemand", "Ec2OnDemand", "od", "normal"}
	return []Rule{
		spotIfPresent("kops-spot-worker", "node-role.kubernetes.io/spot-worker"),
		in("lifecycle-spot", kubernetes, Spot, spot...),
		in("bare-lifecycle-spot", bare, Spot, spot...),
		in("node-lifecycle-spot", node, Spot, spot...),
		in("capacity-type-spot", capacityType, Spot, spot...),
		in("bare-spot", "spot", Spot, "true"), // no other value is certain
		in("lifecycle-on-demand", kubernetes, OnDemand, onDemand...),
		in("bare-lifecycle-on-demand", bare, OnDemand, onDemand...),
		in("node-lifecycle-on-demand", node, OnDemand, onDemand...),
		in("capacity-type-on-demand", capacityType, OnDemand, onDemand...),
	}
}

// absentRules classify nodes without a spot label as on-demand, only if the platform itself sets the label of Requires
// on all its nodes and the spot label on all its spot nodes. A wrong entry here counts spot nodes toward minOnDemand. A
// missing one only requires one line of configuration. Omitted on purpose, each with its line of configuration in
// docs/node-types.md:
//   - Alibaba ACK: its controller sets NoSpot on every other node; no label means a controller before v2.10.2, which
//     does not label spot nodes either.
//   - OpenShift: node.openshift.io/os_id is also on user-provisioned nodes, whose machines have no such label.
//   - Oracle OKE: self-managed nodes have the same labels and may be preemptible without the spot label.
//   - EKS: managed node groups set ON_DEMAND; a self-managed node has neither.
func absentRules() []Rule {
	return []Rule{
		// Reserved labels of CAST AI, set at node creation and overwritten if a user sets them.
		absent("cast-not-spot", castSpot, "provisioner.cast.ai/managed-by"),
		// GKE labels both Spot and preemptible pools. The rules above match the preemptible ones.
		absent("gke-not-spot", gkeSpot, "cloud.google.com/gke-nodepool"),
		// System labels that users cannot set. Regular pools have the priority label or none.
		absent("aks-not-spot", aksScaleSetPriority, "kubernetes.azure.com/cluster"),
	}
}
