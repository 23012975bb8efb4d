// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// marked is a node with one taint.
func marked(taint string) *corev1.Node { return tainted(labelled(), taint) }

func annotated(key, value string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: value}}}
}

func conditioned(condition corev1.NodeConditionType, status corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
		{Type: condition, Status: status},
	}}}
}

func cordoned() *corev1.Node {
	return tainted(&corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}, corev1.TaintNodeUnschedulable+":NoSchedule")
}

func drained() *corev1.Node {
	n := annotated("berth.dev/drain", "2026-11-21T00:00:00Z")
	n.Spec.Unschedulable = true
	return n
}

func deleting() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}}
}

func TestDeparting(t *testing.T) {
	const nth = "aws-node-termination-handler/"
	for name, tc := range map[string]struct {
		node *corev1.Node
		want string
	}{
		"deletion timestamp":                        {deleting(), "node-deleted"},
		"NTH: spot interruption":                    {marked(nth + "spot-itn=event:NoSchedule"), "aws-spot-interruption"},
		"NTH: spot interruption with a soft effect": {marked(nth + "spot-itn:PreferNoSchedule"), "aws-spot-interruption"},
		"NTH: scheduled maintenance":                {marked(nth + "scheduled-maintenance=event:NoSchedule"), "aws-scheduled-maintenance"},
		"NTH: scheduled reboot, no taints":          {labelled(nth+"action", "UncordonAfterReboot"), "aws-scheduled-maintenance"},
		"NTH: autoscaling group terminates":         {marked(nth + "asg-lifecycle-termination=event:NoSchedule"), "aws-asg-termination"},
		"NTH: load balancer label outlives the drain": {
			labelled("node.kubernetes.io/exclude-from-external-load-balancers", "aws-node-termination-handler"), "",
		},
		"Karpenter: disrupted":                      {marked("karpenter.sh/disrupted:NoSchedule"), "karpenter-disrupted"},
		"Karpenter before v1: disrupting":           {marked("karpenter.sh/disruption=disrupting:NoSchedule"), "karpenter-disrupted"},
		"kubectl berth drain, and kubectl uncordon": {annotated("berth.dev/drain", "2026-11-21T00:00:00Z"), ""},
		"kubectl berth drain":                       {drained(), "berth-drain"},
		"Karpenter: termination timestamp": {
			annotated("karpenter.sh/nodeclaim-termination-timestamp", "2026-11-21T00:00:00Z"), "karpenter-termination",
		},
		"cluster-autoscaler: to be deleted": {
			marked("ToBeDeletedByClusterAutoscaler=1700000000:NoSchedule"), "cluster-autoscaler-scale-down",
		},
		"GKE: termination notice": {
			marked("cloud.google.com/impending-node-termination:NoSchedule"), "gke-termination-notice",
		},
		"GKE: host maintenance under way":           {labelled("cloud.google.com/active-node-maintenance", "ONGOING"), "gke-maintenance"},
		"AKS: remediator":                           {marked("remediator.kubernetes.azure.com/unschedulable:NoSchedule"), "aks-node-drain"},
		"AKS: older remediator":                     {marked("remediator.aks.microsoft.com/unschedulable:NoSchedule"), "aks-node-drain"},
		"CAST: draining label, whatever the reason": {labelled("autoscaling.cast.ai/draining", "spot-interruption"), "cast-draining"},
		"CAST: draining taint":                      {marked("autoscaling.cast.ai/draining=true:NoSchedule"), "cast-draining"},
		"OpenShift: terminating":                    {conditioned("Terminating", corev1.ConditionTrue), "openshift-terminating"},
		"Kubernetes: drain in progress":             {conditioned(corev1.NodeDrainInProgress, corev1.ConditionTrue), "node-drain"},
		"Kubernetes: drained":                       {conditioned(corev1.NodeDrained, corev1.ConditionTrue), "node-drain"},
		"Kubernetes: maintenance in progress":       {conditioned(corev1.NodeMaintenanceInProgress, corev1.ConditionTrue), "node-maintenance"},
		"Kubernetes: graceful shutdown in progress": {conditioned(corev1.NodeGracefulNodeShutdownInProgress, corev1.ConditionTrue), "node-shutdown"},
		"Kubernetes: maintenance planned":           {conditioned(corev1.NodeMaintenancePlanned, corev1.ConditionTrue), ""},
		"Kubernetes: drain in progress unknown":     {conditioned(corev1.NodeDrainInProgress, corev1.ConditionUnknown), ""},
		"Kubernetes: machine is shut down":          {marked("node.cloudprovider.kubernetes.io/shutdown:NoSchedule"), "cloud-shutdown"},
		"Kubernetes: out of service":                {marked("node.kubernetes.io/out-of-service:NoExecute"), "out-of-service"},
		"the second taint counts as the first":      {tainted(cordoned(), "karpenter.sh/disrupted"), "karpenter-disrupted"},
		"NTH: rebalance advice":                     {marked(nth + "rebalance-recommendation=event:NoSchedule"), ""},
		"NTH: event label alone":                    {labelled(nth+"event-id", "x", nth+"action-time", "1"), ""},
		"a load balancer label of someone else":     {labelled("node.kubernetes.io/exclude-from-external-load-balancers", "true"), ""},
		"Karpenter before v1: candidate":            {marked("karpenter.sh/disruption=candidate:NoSchedule"), ""},
		"Karpenter: unregistered is arriving":       {marked("karpenter.sh/unregistered:NoExecute"), ""},
		"cluster-autoscaler: soft candidate":        {marked("DeletionCandidateOfClusterAutoscaler:PreferNoSchedule"), ""},
		"GKE: host maintenance planned": {
			labelled("cloud.google.com/active-node-maintenance", "PENDING", "cloud.google.com/scheduled-maintenance-time", "1"),
			"",
		},
		"AKS: some event is scheduled":               {conditioned("VMEventScheduled", corev1.ConditionTrue), ""},
		"AKS: preemption or mere advice":             {conditioned("PreemptionScheduled", corev1.ConditionTrue), ""},
		"OpenShift: not terminating":                 {conditioned("Terminating", corev1.ConditionFalse), ""},
		"OpenShift: terminating unknown":             {conditioned("Terminating", corev1.ConditionUnknown), ""},
		"plain cordon":                               {cordoned(), ""},
		"not ready":                                  {marked("node.kubernetes.io/not-ready:NoExecute"), ""},
		"unreachable":                                {marked("node.kubernetes.io/unreachable:NoExecute"), ""},
		"a spot taint is no notice":                  {marked("kubernetes.azure.com/scalesetpriority=spot:NoSchedule"), ""},
		"a healthy node":                             {labelled("karpenter.sh/capacity-type", "spot"), ""},
		"no node":                                    {nil, ""},
		"a departing key as an annotation is no use": {annotated("karpenter.sh/disrupted", "true"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			reason, departing := Departing(tc.node)
			assert.Equal(t, tc.want, reason)
			assert.Equal(t, tc.want != "", departing)
			if departing {
				assert.False(t, Accepting(tc.node), "no new pods on a departing node")
			}
		})
	}
}

func TestAccepting(t *testing.T) {
	for name, tc := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"a healthy node":                      {labelled("karpenter.sh/capacity-type", "spot"), true},
		"a tainted spot pool":                 {marked("cloud.google.com/gke-spot=true:NoSchedule"), true},
		"a dedicated node":                    {marked("dedicated=gpu:NoSchedule"), true},
		"not ready, soft":                     {marked(corev1.TaintNodeNotReady + ":PreferNoSchedule"), true},
		"memory pressure":                     {marked(corev1.TaintNodeMemoryPressure + ":NoSchedule"), true},
		"cluster-autoscaler: soft candidate":  {marked("DeletionCandidateOfClusterAutoscaler:PreferNoSchedule"), true},
		"no node":                             {nil, false},
		"cordoned":                            {cordoned(), false},
		"cordoned, taint not there yet":       {&corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}, false},
		"cordoned by taint only":              {marked(corev1.TaintNodeUnschedulable + ":NoSchedule"), false},
		"not ready, NoSchedule":               {marked(corev1.TaintNodeNotReady + ":NoSchedule"), false},
		"not ready, NoExecute":                {marked(corev1.TaintNodeNotReady + ":NoExecute"), false},
		"unreachable":                         {marked(corev1.TaintNodeUnreachable + ":NoExecute"), false},
		"network unavailable":                 {marked(corev1.TaintNodeNetworkUnavailable + ":NoSchedule"), false},
		"disk pressure":                       {marked(corev1.TaintNodeDiskPressure + ":NoSchedule"), false},
		"process pressure":                    {marked(corev1.TaintNodePIDPressure + ":NoSchedule"), false},
		"Karpenter: unregistered":             {marked("karpenter.sh/unregistered:NoExecute"), false},
		"cloud controller has not been there": {marked("node.cloudprovider.kubernetes.io/uninitialized:NoSchedule"), false},
		"Cluster API has not been there":      {marked("node.cluster.x-k8s.io/uninitialized:NoSchedule"), false},
		"NTH: rebalance advice plus cordon":   {tainted(cordoned(), "aws-node-termination-handler/rebalance-recommendation"), false},
		"departing":                           {deleting(), false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, Accepting(tc.node)) })
	}
}
