// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func noSchedule(key, value string) *corev1.Node {
	return tainted(labelled(), corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule})
}

func withEffect(key string, effect corev1.TaintEffect) *corev1.Node {
	return tainted(labelled(), corev1.Taint{Key: key, Effect: effect})
}

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
	return tainted(&corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}},
		corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
}

func deleting() *corev1.Node {
	now := metav1.NewTime(time.Unix(1, 0))
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}
}

func TestDeparting(t *testing.T) {
	const nth = "aws-node-termination-handler/"
	for name, tc := range map[string]struct {
		node *corev1.Node
		want string
	}{
		"deletion timestamp":     {deleting(), "node-deleted"},
		"NTH: spot interruption": {noSchedule(nth+"spot-itn", "event"), "aws-spot-interruption"},
		"NTH: spot interruption with a soft effect": {
			withEffect(nth+"spot-itn", corev1.TaintEffectPreferNoSchedule), "aws-spot-interruption",
		},
		"NTH: scheduled maintenance":        {noSchedule(nth+"scheduled-maintenance", "event"), "aws-scheduled-maintenance"},
		"NTH: scheduled reboot, no taints":  {labelled(nth+"action", "UncordonAfterReboot"), "aws-scheduled-maintenance"},
		"NTH: autoscaling group terminates": {noSchedule(nth+"asg-lifecycle-termination", "event"), "aws-asg-termination"},
		"NTH: load balancer label outlives the drain": {
			labelled("node.kubernetes.io/exclude-from-external-load-balancers", "aws-node-termination-handler"), "",
		},
		"Karpenter: disrupted":            {noSchedule("karpenter.sh/disrupted", ""), "karpenter-disrupted"},
		"Karpenter before v1: disrupting": {noSchedule("karpenter.sh/disruption", "disrupting"), "karpenter-disrupted"},
		"Karpenter: termination timestamp": {
			annotated("karpenter.sh/nodeclaim-termination-timestamp", "2026-11-21T00:00:00Z"), "karpenter-termination",
		},
		"cluster-autoscaler: to be deleted": {
			noSchedule("ToBeDeletedByClusterAutoscaler", "1700000000"), "cluster-autoscaler-scale-down",
		},
		"GKE: termination notice": {
			noSchedule("cloud.google.com/impending-node-termination", ""), "gke-termination-notice",
		},
		"GKE: host maintenance under way":           {labelled("cloud.google.com/active-node-maintenance", "ONGOING"), "gke-maintenance"},
		"AKS: remediator":                           {noSchedule("remediator.kubernetes.azure.com/unschedulable", ""), "aks-node-drain"},
		"AKS: older remediator":                     {noSchedule("remediator.aks.microsoft.com/unschedulable", ""), "aks-node-drain"},
		"CAST: draining label, whatever the reason": {labelled("autoscaling.cast.ai/draining", "spot-interruption"), "cast-draining"},
		"CAST: draining taint":                      {noSchedule("autoscaling.cast.ai/draining", "true"), "cast-draining"},
		"OpenShift: terminating":                    {conditioned("Terminating", corev1.ConditionTrue), "openshift-terminating"},
		"Kubernetes: machine is shut down":          {noSchedule("node.cloudprovider.kubernetes.io/shutdown", ""), "cloud-shutdown"},
		"Kubernetes: out of service": {
			withEffect("node.kubernetes.io/out-of-service", corev1.TaintEffectNoExecute), "out-of-service",
		},
		"the second taint counts as the first": {
			tainted(cordoned(), corev1.Taint{Key: "karpenter.sh/disrupted"}), "karpenter-disrupted",
		},
		"NTH: rebalance advice":                 {noSchedule(nth+"rebalance-recommendation", "event"), ""},
		"NTH: event label alone":                {labelled(nth+"event-id", "x", nth+"action-time", "1"), ""},
		"a load balancer label of someone else": {labelled("node.kubernetes.io/exclude-from-external-load-balancers", "true"), ""},
		"Karpenter before v1: candidate":        {noSchedule("karpenter.sh/disruption", "candidate"), ""},
		"Karpenter: unregistered is arriving":   {withEffect("karpenter.sh/unregistered", corev1.TaintEffectNoExecute), ""},
		"cluster-autoscaler: soft candidate": {
			withEffect("DeletionCandidateOfClusterAutoscaler", corev1.TaintEffectPreferNoSchedule), "",
		},
		"GKE: host maintenance planned": {
			labelled("cloud.google.com/active-node-maintenance", "PENDING", "cloud.google.com/scheduled-maintenance-time", "1"),
			"",
		},
		"AKS: some event is scheduled":               {conditioned("VMEventScheduled", corev1.ConditionTrue), ""},
		"AKS: preemption or mere advice":             {conditioned("PreemptionScheduled", corev1.ConditionTrue), ""},
		"OpenShift: not terminating":                 {conditioned("Terminating", corev1.ConditionFalse), ""},
		"OpenShift: terminating unknown":             {conditioned("Terminating", corev1.ConditionUnknown), ""},
		"plain cordon":                               {cordoned(), ""},
		"not ready":                                  {withEffect("node.kubernetes.io/not-ready", corev1.TaintEffectNoExecute), ""},
		"unreachable":                                {withEffect("node.kubernetes.io/unreachable", corev1.TaintEffectNoExecute), ""},
		"a spot taint is no notice":                  {noSchedule("kubernetes.azure.com/scalesetpriority", "spot"), ""},
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
		"a healthy node":      {labelled("karpenter.sh/capacity-type", "spot"), true},
		"a tainted spot pool": {noSchedule("cloud.google.com/gke-spot", "true"), true},
		"a dedicated node":    {noSchedule("dedicated", "gpu"), true},
		"not ready, soft":     {withEffect(corev1.TaintNodeNotReady, corev1.TaintEffectPreferNoSchedule), true},
		"memory pressure":     {withEffect(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule), true},
		"cluster-autoscaler: soft candidate": {
			withEffect("DeletionCandidateOfClusterAutoscaler", corev1.TaintEffectPreferNoSchedule), true,
		},
		"no node":                       {nil, false},
		"cordoned":                      {cordoned(), false},
		"cordoned, taint not there yet": {&corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}, false},
		"cordoned by taint only":        {withEffect(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule), false},
		"not ready, NoSchedule":         {withEffect(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule), false},
		"not ready, NoExecute":          {withEffect(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute), false},
		"unreachable":                   {withEffect(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute), false},
		"network unavailable":           {withEffect(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule), false},
		"disk pressure":                 {withEffect(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule), false},
		"process pressure":              {withEffect(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule), false},
		"Karpenter: unregistered":       {withEffect("karpenter.sh/unregistered", corev1.TaintEffectNoExecute), false},
		"cloud controller has not been there": {
			withEffect("node.cloudprovider.kubernetes.io/uninitialized", corev1.TaintEffectNoSchedule), false,
		},
		"Cluster API has not been there": {withEffect("node.cluster.x-k8s.io/uninitialized", corev1.TaintEffectNoSchedule), false},
		"NTH: rebalance advice plus cordon": {
			tainted(cordoned(), corev1.Taint{Key: "aws-node-termination-handler/rebalance-recommendation"}), false,
		},
		"departing": {deleting(), false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, Accepting(tc.node)) })
	}
}
