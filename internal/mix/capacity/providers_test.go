// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// labelled returns a node with the labels, given as key, value, key, value, …
func labelled(pairs ...string) *corev1.Node {
	labels := make(map[string]string, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		labels[pairs[i]] = pairs[i+1]
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}}
}

// tainted adds a taint to a node, given as for `kubectl taint`: key[=value][:effect].
func tainted(node *corev1.Node, taint string) *corev1.Node {
	taint, effect, _ := strings.Cut(taint, ":")
	key, value, _ := strings.Cut(taint, "=")
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	return node
}

func assertType(t *testing.T, c *Classifier, want Type, wantRule string, node *corev1.Node) {
	t.Helper()
	got, rule := c.Classify(node)
	assert.Equal(t, want.String(), got.String())
	assert.Equal(t, wantRule, rule)
}

// keysOf are the label keys that a classifier reads, without those that rules require.
func keysOf(c *Classifier) []string { return slices.Sorted(maps.Keys(c.keys)) }

func defaults(t testing.TB) *Classifier {
	t.Helper()
	c, err := NewClassifier(DefaultRules())
	require.NoError(t, err)
	return c
}

type classifyCase struct {
	node *corev1.Node
	want Type
	rule string
}

func runClassify(t *testing.T, cases map[string]classifyCase) {
	t.Helper()
	c := defaults(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { assertType(t, c, tc.want, tc.rule, tc.node) })
	}
}

func TestClassifyProviders(t *testing.T) {
	const (
		karpenter = "karpenter.sh/capacity-type"
		eks       = "eks.amazonaws.com/capacityType"
		gke       = "cloud.google.com/gke-"
		aksVMSS   = "kubernetes.azure.com/scalesetpriority"
		aksPrio   = "kubernetes.azure.com/priority"
		aksAny    = "kubernetes.azure.com/cluster"
		ackSpot   = "node.alibabacloud.com/spot-strategy"
		ackCharge = "node.alibabacloud.com/instance-charge-type"
		castAny   = "provisioner.cast.ai/managed-by"
		ocean     = "spotinst.io/node-lifecycle"
		lifecycle = "node.kubernetes.io/lifecycle"
	)
	runClassify(t, map[string]classifyCase{
		"Karpenter: spot":      {labelled(karpenter, "spot"), Spot, "karpenter-spot"},
		"Karpenter: on-demand": {labelled(karpenter, "on-demand"), OnDemand, "karpenter-on-demand"},
		"Karpenter: reserved":  {labelled(karpenter, "reserved"), OnDemand, "karpenter-reserved"},
		"Karpenter: reserved, not interruptible": {
			labelled(karpenter, "reserved", "karpenter.k8s.aws/capacity-reservation-interruptible", "false"), OnDemand, "karpenter-reserved",
		},
		"Karpenter: interruptible reservation": {
			labelled(karpenter, "reserved", "karpenter.k8s.aws/capacity-reservation-interruptible", "true"), Spot, "karpenter-reserved-interruptible",
		},
		"EKS Auto Mode: interruptible reservation": {
			labelled(karpenter, "reserved", "eks.amazonaws.com/capacity-reservation-interruptible", "true"), Spot, "eks-auto-reserved-interruptible",
		},
		"Karpenter: an interruptible reservation that has ended": {
			labelled(karpenter, "on-demand", "karpenter.k8s.aws/capacity-reservation-interruptible", "true"), OnDemand, "karpenter-on-demand",
		},
		"Yandex: preemptible":                      {labelled("yandex.cloud/preemptible", "true"), Spot, "yandex-preemptible"},
		"Yandex: regular":                          {labelled("yandex.cloud/preemptible", "false"), OnDemand, "yandex-regular"},
		"Rackspace: spot":                          {labelled("servers.ngpc.rxt.io/type", "spot"), Spot, "rackspace-spot"},
		"Rackspace: on-demand":                     {labelled("servers.ngpc.rxt.io/type", "ondemand"), OnDemand, "rackspace-on-demand"},
		"convention: capacity type spot":           {labelled("node.kubernetes.io/capacity-type", "spot"), Spot, "capacity-type-spot"},
		"convention: capacity type in upper case":  {labelled("node.kubernetes.io/capacity-type", "SPOT"), Spot, "capacity-type-spot"},
		"convention: capacity type on-demand":      {labelled("node.kubernetes.io/capacity-type", "on-demand"), OnDemand, "capacity-type-on-demand"},
		"convention: capacity type of Terraform":   {labelled("node.kubernetes.io/capacity-type", "on_demand"), OnDemand, "capacity-type-on-demand"},
		"convention: lifecycle of Terraform":       {labelled("lifecycle", "on_demand"), OnDemand, "bare-lifecycle-on-demand"},
		"convention: lifecycle in one word":        {labelled(lifecycle, "ondemand"), OnDemand, "lifecycle-on-demand"},
		"convention: spot":                         {labelled("spot", "true"), Spot, "bare-spot"},
		"convention: not spot proves no on-demand": {labelled("spot", "false"), Unknown, ""},
		"EKS: managed spot group":                  {labelled(eks, "SPOT"), Spot, "eks-spot"},
		"EKS: managed on-demand group":             {labelled(eks, "ON_DEMAND"), OnDemand, "eks-on-demand"},
		"EKS: capacity block":                      {labelled(eks, "CAPACITY_BLOCK"), OnDemand, "eks-on-demand"},
		"GKE: spot pool":                           {labelled(gke+"nodepool", "p", gke+"spot", "true"), Spot, "gke-spot"},
		"GKE: preemptible pool":                    {labelled(gke+"nodepool", "p", gke+"preemptible", "true"), Spot, "gke-preemptible"},
		"GKE: generic label spot":                  {labelled(gke+"nodepool", "p", gke+"provisioning", "spot"), Spot, "gke-provisioning-spot"},
		"GKE: generic label preemptible":           {labelled(gke+"nodepool", "p", gke+"provisioning", "preemptible"), Spot, "gke-provisioning-spot"},
		"GKE: generic label standard": {
			labelled(gke+"provisioning", "standard"), OnDemand, "gke-provisioning-standard",
		},
		"GKE: no spot label at all":                {labelled(gke+"nodepool", "p"), OnDemand, "gke-not-spot"},
		"AKS: spot pool":                           {labelled(aksAny, "MC_x", aksVMSS, "spot"), Spot, "aks-spot"},
		"AKS: spot pool with the newer label only": {labelled(aksAny, "MC_x", aksPrio, "spot"), Spot, "aks-priority-spot"},
		"AKS: regular":                             {labelled(aksAny, "MC_x", aksVMSS, "regular"), OnDemand, "aks-regular"},
		"AKS: regular with the newer label only":   {labelled(aksAny, "MC_x", aksPrio, "regular"), OnDemand, "aks-priority-regular"},
		"AKS: no priority label at all":            {labelled(aksAny, "MC_x"), OnDemand, "aks-not-spot"},
		"Alibaba: spot with a price limit":         {labelled(ackSpot, "SpotWithPriceLimit", ackCharge, "PostPaid"), Spot, "alibaba-spot"},
		"Alibaba: spot at the market price":        {labelled(ackSpot, "SpotAsPriceGo", ackCharge, "PostPaid"), Spot, "alibaba-spot"},
		"Alibaba: NoSpot":                          {labelled(ackSpot, "NoSpot", ackCharge, "PostPaid"), OnDemand, "alibaba-no-spot"},
		"Alibaba: PrePaid":                         {labelled(ackCharge, "PrePaid"), OnDemand, "alibaba-prepaid"},
		"Alibaba: PostPaid alone decides nothing":  {labelled(ackCharge, "PostPaid", "node.alibabacloud.com/nodepool-id", "p"), Unknown, ""},
		"OpenShift: spot machine set, value is empty": {
			labelled("machine.openshift.io/interruptible-instance", ""), Spot, "openshift-spot",
		},
		"OpenShift: any value counts": {labelled("machine.openshift.io/interruptible-instance", "x"), Spot, "openshift-spot"},
		"OpenShift hosted: spot node pool": {
			labelled("hypershift.openshift.io/interruptible-instance", ""), Spot, "openshift-hosted-spot",
		},
		"OpenShift: no label needs an opt-in":        {labelled("node.openshift.io/os_id", "rhcos"), Unknown, ""},
		"Cluster API: interruptible machine":         {labelled("cluster.x-k8s.io/interruptible", ""), Spot, "cluster-api-interruptible"},
		"OKE: preemptible pool":                      {labelled("oci.oraclecloud.com/oke-is-preemptible", "true"), Spot, "oke-preemptible"},
		"OKE: no label needs an opt-in":              {labelled("oci.oraclecloud.com/fault-domain", "FD-1"), Unknown, ""},
		"CAST: spot":                                 {labelled(castAny, "cast.ai", castSpot, "true"), Spot, "cast-spot"},
		"CAST: no spot label":                        {labelled(castAny, "cast.ai"), OnDemand, "cast-not-spot"},
		"CAST: fallback machine":                     {labelled("scheduling.cast.ai/spot-fallback", "true"), OnDemand, "cast-spot-fallback"},
		"CAST: fallback machine of older releases":   {labelled("scheduling.cast.ai/spot-backup", "true"), OnDemand, "cast-spot-backup"},
		"Ocean: spot":                                {labelled(ocean, "spot"), Spot, "ocean-spot"},
		"Ocean: preemptible":                         {labelled(ocean, "preemptible"), Spot, "ocean-spot"},
		"Ocean: on-demand":                           {labelled(ocean, "od"), OnDemand, "ocean-on-demand"},
		"kOps: spot worker role":                     {labelled("node-role.kubernetes.io/spot-worker", "true"), Spot, "kops-spot-worker"},
		"kOps: spot worker role with an empty value": {labelled("node-role.kubernetes.io/spot-worker", ""), Spot, "kops-spot-worker"},
		"kOps: worker role has no meaning":           {labelled("node-role.kubernetes.io/worker", ""), Unknown, ""},
		"convention: lifecycle spot":                 {labelled(lifecycle, "spot"), Spot, "lifecycle-spot"},
		"convention: lifecycle on-demand":            {labelled(lifecycle, "on-demand"), OnDemand, "lifecycle-on-demand"},
		"convention: lifecycle normal":               {labelled(lifecycle, "normal"), OnDemand, "lifecycle-on-demand"},
		"convention: lifecycle Ec2Spot":              {labelled("lifecycle", "Ec2Spot"), Spot, "bare-lifecycle-spot"},
		"convention: lifecycle OnDemand":             {labelled("lifecycle", "OnDemand"), OnDemand, "bare-lifecycle-on-demand"},
		"convention: node-lifecycle spot":            {labelled("node-lifecycle", "spot"), Spot, "node-lifecycle-spot"},
		"convention: node-lifecycle on-demand":       {labelled("node-lifecycle", "on-demand"), OnDemand, "node-lifecycle-on-demand"},
	})
}

func TestClassifyOrder(t *testing.T) {
	const (
		karpenter, eks = "karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType"
		cast, gke, aks = "scheduling.cast.ai/", "cloud.google.com/gke-", "kubernetes.azure.com/"
	)
	runClassify(t, map[string]classifyCase{
		"CAST: fallback beats the spot label that it carries too": {
			labelled(cast+"spot", "true", cast+"spot-fallback", "true", "provisioner.cast.ai/managed-by", "cast.ai"),
			OnDemand, "cast-spot-fallback",
		},
		"CAST: older fallback beats the spot label": {
			labelled(cast+"spot", "true", cast+"spot-backup", "true"), OnDemand, "cast-spot-backup",
		},
		"CAST: spot on GKE without the cloud's spot label":      {labelled(cast+"spot", "true", gke+"nodepool", "p"), Spot, "cast-spot"},
		"Karpenter: spot beats an on-demand label of the cloud": {labelled(karpenter, "spot", eks, "ON_DEMAND"), Spot, "karpenter-spot"},
		"Karpenter: on-demand beats a spot label of the cloud": {
			labelled(karpenter, "on-demand", eks, "SPOT"), OnDemand, "karpenter-on-demand",
		},
		"Karpenter: spot beats scalesetpriority regular on AKS": {
			labelled(karpenter, "spot", aks+"scalesetpriority", "regular", aks+"cluster", "MC_x"),
			Spot, "karpenter-spot",
		},
		"Karpenter: a value it does not have leaves the word to the cloud": {labelled(karpenter, "burst", eks, "SPOT"), Spot, "eks-spot"},
		"cloud: spot wins a contradiction inside AKS": {
			labelled(aks+"priority", "spot", aks+"scalesetpriority", "regular"),
			Spot, "aks-priority-spot",
		},
		"cloud: spot wins a contradiction inside GKE": {labelled(gke+"spot", "true", gke+"provisioning", "standard"), Spot, "gke-spot"},
		"cloud: spot beats an on-demand label of a convention": {
			labelled(eks, "SPOT", "node.kubernetes.io/lifecycle", "normal"), Spot, "eks-spot",
		},
		"cloud: on-demand beats a spot label of a convention": {
			labelled(eks, "ON_DEMAND", "lifecycle", "Ec2Spot"), OnDemand, "eks-on-demand",
		},
		"convention: spot wins a contradiction": {labelled("lifecycle", "OnDemand", "node-lifecycle", "spot"), Spot, "node-lifecycle-spot"},
		"convention: spot beats the absence of the cloud's label": {
			labelled(gke+"nodepool", "p", "node.kubernetes.io/lifecycle", "spot"), Spot, "lifecycle-spot",
		},
		"Ocean: spot on AKS without the cloud's label": {
			labelled("spotinst.io/node-lifecycle", "spot", aks+"cluster", "MC_x"), Spot, "ocean-spot",
		},
	})
}

func TestClassifyUnknown(t *testing.T) {
	const gkePool = "cloud.google.com/gke-nodepool"
	const unregistered = "karpenter.sh/unregistered:NoExecute"
	runClassify(t, map[string]classifyCase{
		"no node":            {nil, Unknown, ""},
		"no labels":          {&corev1.Node{}, Unknown, ""},
		"kind or bare metal": {labelled("kubernetes.io/hostname", "n", "kubernetes.io/arch", "amd64"), Unknown, ""},
		"EKS: self-managed node": {
			labelled("node.kubernetes.io/instance-type", "m5.large", "topology.kubernetes.io/zone", "us-east-1a"),
			Unknown, "",
		},
		"a spot label with another value":                       {labelled("cloud.google.com/gke-spot", "false"), Unknown, ""},
		"values are case-sensitive":                             {labelled("karpenter.sh/capacity-type", "Spot"), Unknown, ""},
		"keys are case-sensitive":                               {labelled("Karpenter.sh/capacity-type", "spot"), Unknown, ""},
		"lifecycle used for another thing":                      {labelled("lifecycle", "production"), Unknown, ""},
		"GKE: a spot label with an unknown value is not absent": {labelled(gkePool, "p", "cloud.google.com/gke-spot", "maybe"), Unknown, ""},
		"Karpenter: half-registered, label already there": {
			tainted(labelled("karpenter.sh/capacity-type", "spot"), unregistered), Unknown, "",
		},
		"Karpenter: half-registered, label still missing": {tainted(labelled(gkePool, "p"), unregistered), Unknown, ""},
		"cloud controller has not been there yet": {
			tainted(labelled(gkePool, "p"), "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule"),
			Unknown, "",
		},
		"Cluster API has not synchronised the labels yet": {
			tainted(labelled(gkePool, "p"), "node.cluster.x-k8s.io/uninitialized:NoSchedule"),
			Unknown, "",
		},
		"another taint changes nothing": {
			tainted(labelled(gkePool, "p"), "node.kubernetes.io/not-ready:NoExecute"),
			OnDemand, "gke-not-spot",
		},
	})
}

func TestOperators(t *testing.T) {
	all := []Rule{
		{Name: "in", Key: "in", Operator: In, Values: []string{"a", "b"}, Requires: "cloud", Type: Spot},
		{Name: "exists", Key: "exists", Operator: Exists, Requires: "cloud", Type: OnDemand},
		{Name: "absent", Key: "absent", Operator: Absent, Requires: "evidence", Type: OnDemand},
	}
	c, err := NewClassifier(all)
	require.NoError(t, err)
	for name, tc := range map[string]classifyCase{
		"In: first value":                    {labelled("in", "a", "cloud", ""), Spot, "in"},
		"In: second value":                   {labelled("in", "b", "cloud", "x"), Spot, "in"},
		"In: other value":                    {labelled("in", "c", "cloud", ""), Unknown, ""},
		"In: the empty value is not listed":  {labelled("in", "", "cloud", ""), Unknown, ""},
		"In: without the required label":     {labelled("in", "a"), Unknown, ""},
		"Exists: any value":                  {labelled("exists", "x", "cloud", ""), OnDemand, "exists"},
		"Exists: the empty value":            {labelled("exists", "", "cloud", ""), OnDemand, "exists"},
		"Exists: without the required label": {labelled("exists", ""), Unknown, ""},
		"Absent: with evidence":              {labelled("evidence", ""), OnDemand, "absent"},
		"Absent: without evidence":           {labelled("other", ""), Unknown, ""},
		"Absent: present, even if empty":     {labelled("evidence", "", "absent", ""), Unknown, ""},
	} {
		t.Run(name, func(t *testing.T) { assertType(t, c, tc.want, tc.rule, tc.node) })
	}

	t.Run("Absent on every node", func(t *testing.T) {
		c, err := NewClassifier([]Rule{absent("all", "spot", AnyNode)})
		require.NoError(t, err)
		assertType(t, c, OnDemand, "all", &corev1.Node{})
		assertType(t, c, Unknown, "", labelled("spot", ""))
	})
	t.Run("the zero classifier has no rules", func(t *testing.T) {
		assertType(t, &Classifier{}, Unknown, "", labelled("karpenter.sh/capacity-type", "spot"))
	})
}
