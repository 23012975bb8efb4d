// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"fmt"
	"slices"
)

// Effect is what a reason does to a suggestion.
type Effect string

const (
	// Blocks means that no mix is suggested before something changes.
	Blocks Effect = "Blocks"
	// Limits means that fewer replicas are suggested for spot nodes.
	Limits Effect = "Limits"
	// Notes means that the mix is the same, and that its user has to consider something.
	Notes Effect = "Notes"
)

// Reason is why a suggestion is as it is. This file has all reasons, with what each does. They are compared by address.
type Reason struct {
	// Name is stable: JSON and scripts have it.
	Name   string
	Effect Effect
	// Percent is the highest spotPercent of a workload with the reason, 0 where the reason limits it in another way.
	Percent int32
	// Raises is set if the reason raises the risk of the suggestion.
	Raises bool
	// Field is what would have to change first, and Change how. InTemplate is set for fields of the pod template.
	Field, Change string
	InTemplate    bool
	// Meaning is a cell of the table in docs/suggest.md.
	Meaning string
}

// String returns the name.
func (r *Reason) String() string { return r.Name }

// Remedy is the field to change and how, for the documentation. The figures of a change are those of a workload.
func (r *Reason) Remedy() string {
	if r.Field == "" {
		return ""
	}
	field := "`" + r.Field + "`"
	if r.InTemplate {
		field += " of the pod template"
	}
	if r.Change != "" {
		field += ": " + r.Change
	}
	return field
}

// Reasons returns all reasons, in the order of the documentation: it is also that of the checks.
func Reasons() []*Reason { return slices.Clone(reasons) }

var reasons []*Reason

// define adds a reason to the list.
func define(r Reason) *Reason {
	reasons = append(reasons, &r)
	return &r
}

// because returns a finding about a workload, with a message and the change of the reason.
func (r *Reason) because(w *Workload, format string, args ...any) *found {
	field := r.Field
	if r.InTemplate {
		field = w.template() + field
	}
	return &found{
		Finding: Finding{Reason: r.Name, Effect: r.Effect, Message: fmt.Sprintf(format, args...), Field: field, Change: r.Change},
		reason:  r,
	}
}

// removeTheAnnotation is what to do about an annotation that keeps a pod where it is.
const removeTheAnnotation = "remove it once the pods can be lost at any time"

// Reasons that no mix is suggested.
var (
	ReasonNoController = define(Reason{
		Name: "NoController", Effect: Blocks, Field: "metadata.ownerReferences",
		Change:  "create the pods with a Deployment or a StatefulSet",
		Meaning: "the pods have no controller: nothing replaces one that is lost",
	})
	ReasonRunsToCompletion = define(Reason{
		Name: "RunsToCompletion", Effect: Blocks, Field: "spec.podFailurePolicy",
		Change:  "ignore the condition DisruptionTarget (action: Ignore)",
		Meaning: "`restartPolicy` is not Always, and an interrupted pod counts as failed",
	})
	ReasonSingleReplica = define(Reason{
		Name: "SingleReplica", Effect: Blocks, Field: "spec.replicas", Change: "run at least 2",
		Meaning: "no replica is available while the only one is replaced",
	})
	ReasonSystemCritical = define(Reason{
		Name: "SystemCritical", Effect: Blocks, InTemplate: true, Field: "spec.priorityClassName",
		Change:  "a lower one, if the cluster does not depend on the pods",
		Meaning: "the priority is that of `system-cluster-critical` or higher",
	})
	ReasonDoNotDisrupt = define(Reason{
		Name: "DoNotDisrupt", Effect: Blocks, InTemplate: true, Field: "metadata.annotations", Change: removeTheAnnotation,
		Meaning: "a pod has `karpenter.sh/do-not-disrupt`, `cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\"` or " +
			"`descheduler.alpha.kubernetes.io/prefer-no-eviction`",
	})
	ReasonPinned = define(Reason{
		Name: "Pinned", Effect: Blocks, InTemplate: true, Field: "spec.nodeSelector",
		Change:  "remove the capacity type, also from spec.affinity",
		Meaning: "the pods name a capacity type themselves",
	})
	ReasonPodGroup = define(Reason{
		Name: "PodGroupMember", Effect: Blocks, InTemplate: true, Field: "spec.schedulingGroup",
		Change:  "write a mix with `unit` of your own, if the group may lose all members at once",
		Meaning: "the pods are members of a PodGroup, which may need all of them",
	})
	ReasonLocalStorage = define(Reason{
		Name: "LocalStorage", Effect: Blocks, InTemplate: true, Field: "metadata.annotations",
		Change: "name the volume in cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes, if its data may be lost",
		Meaning: "the pods have data on their node, in an `emptyDir` on disk or a `hostPath`. Berth does not move such pods either " +
			"([rebalancing](rebalancing.md#what-prevents-a-move))",
	})
	ReasonLocalVolume = define(Reason{
		Name: "LocalVolume", Effect: Blocks, Field: "spec.volumeClaimTemplates", Change: "use a storage class with volumes of the network",
		Meaning: "a PersistentVolume is on one node: its data is lost with a spot node",
	})
	ReasonVolumesUnknown = define(Reason{
		Name: "VolumesUnknown", Effect: Blocks, Field: "RBAC", Change: "list persistentvolumeclaims and persistentvolumes",
		Meaning: "you may not list the volumes, so it is unknown whether they are on one node",
	})
	ReasonLongTermination = define(Reason{
		Name: "LongTermination", Effect: Blocks, InTemplate: true, Field: "spec.terminationGracePeriodSeconds",
		Meaning: "the pods may take longer to end than the notice of an interruption lasts: 30 s on Azure and Google Cloud, else 120 s",
	})
	ReasonRestarting = define(Reason{
		Name: "Restarting", Effect: Blocks, InTemplate: true, Field: "spec.containers", Change: "find out why containers restart",
		Meaning: "the containers restart once a day in each pod or more often: an interruption comes on top",
	})
	ReasonBudgetsUnknown = define(Reason{
		Name: "BudgetsUnknown", Effect: Blocks, Field: "RBAC", Change: "list poddisruptionbudgets",
		Meaning: "you may not list PodDisruptionBudgets, so it is unknown how many replicas the workload requires",
	})
	ReasonMixesUnknown = define(Reason{
		Name: "MixesUnknown", Effect: Blocks, Field: "RBAC", Change: "list capacitymixes.berth.dev",
		Meaning: "you may not list CapacityMixes, so it is unknown whether one governs the workload",
	})
	ReasonOverlappingBudgets = define(Reason{
		Name: "OverlappingBudgets", Effect: Blocks, Field: "PodDisruptionBudget", Change: "keep one of them for these pods",
		Meaning: "several PodDisruptionBudgets select the pods: the Eviction API refuses each eviction, also before an interruption",
	})
	ReasonBudgetAllowsNone = define(Reason{
		Name: "BudgetAllowsNone", Effect: Blocks, Field: "PodDisruptionBudget",
		Meaning: "the PodDisruptionBudget requires all replicas, or shares what may be missing with too many workloads",
	})
	ReasonNoSelector = define(Reason{
		Name: "NoSelector", Effect: Blocks, InTemplate: true, Field: "metadata.labels",
		Change:  "add a label that no other workload of the namespace has",
		Meaning: "no labels select the pods of this workload alone, so a mix would govern others as well",
	})
	ReasonTooFewReplicas = define(Reason{
		Name: "TooFewReplicas", Effect: Blocks, Field: "spec.replicas",
		Meaning: "what limits the mix leaves no replica for spot nodes",
	})
)

// Reasons that fewer replicas are suggested for spot nodes.
var (
	ReasonBudget = define(Reason{
		Name: "Budget", Effect: Limits, Field: "PodDisruptionBudget",
		Change:  "allow more to be missing, if the workload can do without them",
		Meaning: "spot nodes can all be lost at once, so no more replicas run there than the PodDisruptionBudget allows to be missing",
	})
	ReasonStateful = define(Reason{
		Name: "Stateful", Effect: Limits, Percent: 49, Raises: true,
		Meaning: "a StatefulSet may need a majority of its replicas: it stays on on-demand nodes",
	})
	ReasonAttachedVolume = define(Reason{
		Name: "AttachedVolume", Effect: Limits, Percent: 30, Raises: true,
		Meaning: "a volume of the pods is attached to one node at a time: a replacement waits until the lost node has released it",
	})
	ReasonUnit = define(Reason{
		Name: "Unit", Effect: Limits, Percent: 50, Raises: true,
		Meaning: "a replica is a unit of several pods: the loss of one node interrupts all of them",
	})
	ReasonUnknownOwner = define(Reason{
		Name: "UnknownOwner", Effect: Limits, Percent: 50, Raises: true,
		Meaning: "the owner is of a kind that Kubernetes does not have: how it replaces a pod is unknown",
	})
	ReasonSlowStart = define(Reason{
		Name: "SlowStart", Effect: Limits, Percent: 50, Raises: true, InTemplate: true, Field: "spec.containers",
		Change:  "become Ready sooner",
		Meaning: "half of the pods took longer to become Ready than the notice of an interruption lasts",
	})
	ReasonVerySlowStart = define(Reason{
		Name: "VerySlowStart", Effect: Limits, Percent: 20, Raises: true, InTemplate: true, Field: "spec.containers",
		Change:  "become Ready sooner",
		Meaning: "half of the pods took 10 minutes or longer to become Ready",
	})
	ReasonRestarts = define(Reason{
		Name: "Restarts", Effect: Limits, Percent: 50, Raises: true, InTemplate: true, Field: "spec.containers",
		Change:  "find out why containers restart",
		Meaning: "the containers restart once in 10 days in each pod or more often",
	})
	ReasonHighPriority = define(Reason{
		Name: "HighPriority", Effect: Limits, Percent: 50, Raises: true, InTemplate: true, Field: "spec.priorityClassName",
		Change:  "give it the default priority, if it is no more important than others",
		Meaning: "the pods have a priority above 0: someone considers them important",
	})
	ReasonFrequent = define(Reason{
		Name: "FrequentInterruptions", Effect: Limits, Percent: 50, Raises: true, Field: "Node", Change: "use other instance types",
		Meaning: "15 to 20 % of the spot nodes of an instance type in use are interrupted in a month",
	})
	ReasonVeryFrequent = define(Reason{
		Name: "VeryFrequentInterruptions", Effect: Limits, Percent: 30, Raises: true, Field: "Node", Change: "use other instance types",
		Meaning: "more than 20 % of the spot nodes of an instance type in use are interrupted in a month",
	})
)

// Reasons that do not change the mix.
var (
	ReasonNoBudget = define(Reason{
		Name: "NoBudget", Effect: Notes, Field: "PodDisruptionBudget", Change: "create one with maxUnavailable",
		Meaning: "no PodDisruptionBudget selects the pods: a drain may evict all of them at once",
	})
	ReasonNoPreemption = define(Reason{
		Name: "NoPreemption", Effect: Notes, InTemplate: true, Field: "spec.preemptionPolicy",
		Meaning: "`preemptionPolicy` is Never: a replacement waits for free capacity",
	})
	ReasonNotPlaced = define(Reason{
		Name: "NotPlaced", Effect: Notes, InTemplate: true, Field: "spec.schedulerName",
		Meaning: "another scheduler places the pods. They count in a mix, and follow it after a change of the pod template " +
			"([migrate](migrate.md)), or with the gate ([autoscalers](autoscalers.md))",
	})
	ReasonQuarantine = define(Reason{
		Name: "Quarantine", Effect: Notes, Field: "Node", Change: "apply the mix later",
		Meaning: "an interruption domain in use is [in quarantine](node-types.md#domains-in-quarantine)",
	})
	ReasonNodesUnknown = define(Reason{
		Name: "NodesUnknown", Effect: Notes, Field: "RBAC", Change: "list nodes",
		Meaning: "you may not list the nodes: saving and interruptions are unknown",
	})
	ReasonUnknownType = define(Reason{
		Name: "UnknownType", Effect: Notes, Field: "Node metadata.labels",
		Change:  "label it node.kubernetes.io/lifecycle=spot or =on-demand, or add a rule",
		Meaning: "pods run on nodes whose [capacity type](node-types.md) is unknown: they have no price",
	})
	ReasonBandUnknown = define(Reason{
		Name: "BandUnknown", Effect: Notes,
		Meaning: "no interruption band of an instance type in use is known: how many interruptions to expect is unknown",
	})
	ReasonStartUnknown = define(Reason{
		Name: "StartUnknown", Effect: Notes, InTemplate: true, Field: "spec.containers",
		Meaning: "no pod became Ready without a restart: the time to start is unknown",
	})
)
