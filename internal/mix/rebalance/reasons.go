// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"slices"
	"time"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
)

// Reason is why a replica moves, or why none does. This file has all reasons, with what the programs do about each. They are
// compared by address.
type Reason struct {
	// Name is stable: status, metrics and events have it.
	Name string
	// Timed is set if time ends the reason: a verdict with it has RetryAt.
	Timed bool
	// Quiet is set if the reason ends within moments, or if it is desired: no event is recorded.
	Quiet bool
	// DropsPlaceholder is set if the reason does not end soon: a node that runs meanwhile for a placeholder is paid for nothing.
	DropsPlaceholder bool
	// Scope is which replicas of a workload are held if the reason holds one of them.
	Scope Scope
	// Lift removes the cause from an input. It is set if the reason only delays moves: kubectl berth plan continues after it.
	Lift func(*Input)
	// Meaning and Ends are cells of the table in docs/rebalancing.md, Action one of docs/monitoring.md, "" for no row.
	Meaning, Ends, Action string
}

// Scope is which replicas of a workload a hold applies to.
type Scope int

const (
	// OfWorkload means that the cause is the same for all replicas.
	OfWorkload Scope = iota
	// OfRevision means that the cause is in what a replica is created from. The replicas of a StatefulSet may be of two revisions.
	OfRevision
	// OfReplica means that another replica may move.
	OfReplica
)

// String returns the name, "" for no reason.
func (r *Reason) String() string {
	if r == nil {
		return ""
	}
	return r.Name
}

// Holds reports whether a reason that holds one replica of a group holds the others.
func (r *Reason) Holds(g *clusterstate.Group) bool {
	return r.Scope == OfWorkload || r.Scope == OfRevision && !g.Identity
}

// because returns a verdict with a reason that time does not end. It panics for one that time ends.
func (r *Reason) because(format string, args ...any) Verdict {
	return r.until(time.Time{}, format, args...)
}

// until returns a verdict that changes by time alone. It panics if the reason needs the time and there is none.
func (r *Reason) until(retry time.Time, format string, args ...any) Verdict {
	if r.Timed && retry.IsZero() {
		panic("reason " + r.Name + " ends by time, and the verdict has no RetryAt")
	}
	return Verdict{Reason: r, RetryAt: retry, Message: fmt.Sprintf(format, args...)}
}

// Reasons returns all reasons, in the order of the documentation.
func Reasons() []*Reason { return slices.Clone(reasons) }

// Named returns the reason of a name, nil if there is none.
func Named(name string) *Reason {
	if i := slices.IndexFunc(reasons, func(r *Reason) bool { return r.Name == name }); i >= 0 {
		return reasons[i]
	}
	return nil
}

var reasons []*Reason

// define adds a reason to the list.
func define(r Reason) *Reason {
	reasons = append(reasons, &r)
	return &r
}

// Actions about more than one reason.
const (
	restartYourself = "the pod must not be evicted: restart it yourself at a suitable time"
	raiseTheLimit   = "a replacement would be refused: raise the quota or the limit that the message names"
	raiseTheBudget  = "moves are in progress, slowly: raise `maxConcurrent` or `mix.rebalance.clusterMaxConcurrent`"
	raiseThePace    = "moves are in progress, slowly: raise `maxMovesPerHour` or `mix.rebalance.clusterMaxMovesPerHour`"
	waitOrWiden     = "wait, or widen the window"
	changeTheMode   = "moves are disabled by configuration: silence the alert for this `mix`, or change the mode"
	repairReplicas  = "find out why replicas are not Ready; nothing is moved before they are"
	readTheAnswer   = "read the message: it has the answer of the API server, and names the admission webhook or policy"
	runDoctor       = "if it persists: read the message, then run `kubectl berth doctor`"
)

// ReasonMove means that the replica may be evicted, once the capacity for its replacement is proven.
var ReasonMove = define(Reason{Name: "Move", Quiet: true})

// ReasonOnTarget means that no replica has to move.
var ReasonOnTarget = define(Reason{Name: "OnTarget", Quiet: true, DropsPlaceholder: true, Meaning: "the mix is exact"})

// Reasons of the condition Rebalancing alone: no verdict has them.
var (
	_ = define(Reason{
		Name: v1alpha1.ReasonPodsPending, Meaning: "no replica has to move, and some have no node",
		Ends: "capacity for these pods; the scheduler's message on the pod names what is missing",
	})
	_ = define(Reason{Name: v1alpha1.ReasonWaiting, Meaning: "replicas are being created, replaced or evaluated", Ends: "by itself"})
)

// Reasons about a workload.
var (
	ReasonOff = define(Reason{
		Name: "Off", Quiet: true, DropsPlaceholder: true,
		Meaning: "`rebalance.mode` is `Off`", Ends: "a change of the setting", Action: changeTheMode,
	})
	ReasonPaused = define(Reason{
		Name: "Paused", DropsPlaceholder: true,
		Lift: func(in *Input) { in.Cluster.Pauses, in.Settings.Paused = nil, nil },
		Meaning: "a user [paused](#pause-and-resume-moves) the moves of the mix, of the namespace or of the cluster; the message has who, " +
			"since when and why",
		Ends: "`kubectl berth resume`", Action: "moves are paused: `kubectl berth resume` once the cause in the message is over",
	})
	ReasonNotInCanary = define(Reason{
		Name: "NotInCanary", DropsPlaceholder: true, Quiet: true, Lift: func(in *Input) { in.Cluster.Canary = nil },
		Meaning: "the controller moves replicas of [some mixes first](#begin-with-a-canary), and this is none of them",
		Ends:    "a change of `mix.rebalance.canary`", Action: "raise `mix.rebalance.canary.percent`, or add the namespace there",
	})
	// ReasonReport and ReasonDryRun replace ReasonMove where nothing is evicted.
	ReasonReport = define(Reason{
		Name: "ReportOnly", Scope: OfReplica,
		Meaning: "`rebalance.mode` is `Report`; the message names the pod that would move", Ends: "a change of the setting", Action: changeTheMode,
	})
	ReasonDryRun = define(Reason{
		Name: "DryRun", Scope: OfReplica,
		Meaning: "the controller runs with `--dry-run`; the message names the pod that would move", Ends: "a change of the setting",
		Action: changeTheMode,
	})
	ReasonNoController = define(Reason{
		Name: "NoController", DropsPlaceholder: true,
		Meaning: "the pods have no controller, so nothing would replace them",
		Action:  "bare pods: nothing would replace them, so replace them yourself",
	})
	ReasonOwnerEnded = define(Reason{
		Name: "OwnerEnded", DropsPlaceholder: true,
		Meaning: "the owner finished, failed, was suspended or deleted, or requests no pods: it creates no replacement",
		Action:  "nothing: the owner creates no more pods",
	})
	ReasonCountsAsFailure = define(Reason{
		Name: "CountsAsFailure", DropsPlaceholder: true,
		Meaning: "`restartPolicy` is not `Always`: the owner, a Job for example, counts an evicted pod as failed",
		Ends:    "the opt-in of a [Job](#jobs)",
		Action:  "the owner counts an evicted pod as failed: leave it, or let the Job [opt in](rebalancing.md#jobs)",
	})
	ReasonOtherScheduler = define(Reason{
		Name: "OtherScheduler", DropsPlaceholder: true, Scope: OfRevision,
		Meaning: "another scheduler would place the replacement, and not by the mix", Ends: "`schedulerName` in the pod template",
		Action: "the pod template names another `schedulerName`: set `berth-scheduler`",
	})
	ReasonReplacementUnknown = define(Reason{
		Name: "ReplacementUnknown", DropsPlaceholder: true, Scope: OfRevision,
		Meaning: "the pod template of the owner cannot be read, or the owner is of a custom kind and is being updated, so the next pod is " +
			"not known; the message names the kind and the field",
		Ends: "a template in `spec.template`, the [right to read it](#owners-of-custom-kinds), or the end of the update",
		Action: "the pod template of the owner cannot be read: grant berth-controller `get` for its kind " +
			"([rebalancing](rebalancing.md#owners-of-custom-kinds)); if it has no `spec.template`, replace the pods yourself; if the owner is " +
			"being updated, complete the update",
	})
	ReasonReplacementRefused = define(Reason{
		Name: "ReplacementRefused", DropsPlaceholder: true, Scope: OfRevision,
		Meaning: "the API server refuses the pod that the owner would create; the message is that of the API server",
		Ends:    "the quota, the policy or the webhook that refuses it, or the pod template",
		Action:  "the API server would refuse the replacement: change the template, or the policy, quota or webhook that the message names",
	})
	ReasonFixedNode = define(Reason{
		Name: "FixedNode", DropsPlaceholder: true, Scope: OfRevision,
		Meaning: "the pod template has a `nodeName`, so a replacement runs there again", Ends: "a change of the template",
		Action: "the pod template has a `nodeName`: remove it",
	})
	ReasonStartupGrace = define(Reason{
		Name: "StartupGrace", Timed: true, Quiet: true,
		Meaning: "the controller has just started, or the API server was unavailable", Ends: "time: 60 s; if it lasts, the log of berth-controller names the call that had no answer", Action: waitOrWiden,
	})
	ReasonStorm = define(Reason{
		Name: "SpotStorm", Timed: true,
		Meaning: "more than 20 % of the spot nodes were lost within a minute", Ends: "two minutes without such a loss", Action: waitOrWiden,
	})
	ReasonHealthGate = define(Reason{
		Name: "HealthGate", DropsPlaceholder: true, Lift: func(in *Input) { in.Cluster.Health = nil },
		Meaning: "the query of the [health gate](#stop-moves-by-a-query) is not good, or has no answer; the message has the value or the error",
		Ends:    "a good answer", Action: "read the message: repair what the query measures, or Prometheus if there is no answer",
	})
	ReasonRollingOut = define(Reason{
		Name: "RollingOut", Quiet: true, DropsPlaceholder: true,
		Lift:    func(in *Input) { in.Group.Rollout = clusterstate.Rollout{} },
		Meaning: "a rollout is in progress and places pods by the mix itself", Ends: "its end, its progress deadline, or 10 minutes",
		Action: "a rollout hangs: `kubectl rollout status`",
	})
	ReasonStabilizing = define(Reason{
		Name: "Stabilizing", Timed: true, Quiet: true, Lift: func(in *Input) { in.Settings.Stabilization = 0 },
		Meaning: "the mix has been broken only for a short time", Ends: "`stabilizationSeconds`", Action: waitOrWiden,
	})
	ReasonBackingOff = define(Reason{
		Name: "BackingOff", Timed: true, Lift: func(in *Input) { in.History.RetryAt = in.Cluster.Now },
		Meaning: "earlier moves failed", Ends: "time: 30 s, doubled with each failure up to 30 minutes",
		Action: "moves failed: [BerthRebalancerThrashing](#berthrebalancerthrashing)",
	})
	ReasonOutsideWindow = define(Reason{
		Name: "OutsideWindow", DropsPlaceholder: true, Lift: func(in *Input) { in.Settings.Windows = Windows{} },
		Meaning: "no window is open", Ends: "time", Action: waitOrWiden,
	})
	// ReasonInvalidWindow takes the place of the checks: without its settings, nothing is decided about a workload.
	ReasonInvalidWindow = define(Reason{
		Name: "InvalidWindow", Meaning: "a window is not valid", Ends: "a correction of the window",
		Action: "correct `spec.rebalance.windows`; the message names the error",
	})
	ReasonMixBudget = define(Reason{
		Name: "MixBudget", Quiet: true,
		Meaning: "as many replicas of the mix as allowed are being moved", Ends: "the end of a move", Action: raiseTheBudget,
	})
	ReasonClusterBudget = define(Reason{
		Name: "ClusterBudget", Quiet: true,
		Meaning: "as many replicas of the cluster as allowed are being moved, or it is the turn of " +
			"[other namespaces](#how-namespaces-share-the-budget)",
		Ends: "the end of a move, at most two minutes", Action: raiseTheBudget,
	})
	ReasonPace = define(Reason{
		Name: "Pace", Timed: true, Lift: func(in *Input) { in.History.Pace = Pace{} },
		Meaning: "as many moves of the mix as [allowed](#limit-the-pace) began within an hour; the message names when the next may begin",
		Ends:    "time, at most 61 minutes", Action: raiseThePace,
	})
	ReasonClusterPace = define(Reason{
		Name: "ClusterPace", Timed: true, Lift: func(in *Input) { in.Cluster.Pace = Pace{} },
		Meaning: "as many moves of the cluster as [allowed](#limit-the-pace) began within an hour, or it is the turn of other namespaces; " +
			"the message names when the next may begin",
		Ends: "time, at most 61 minutes", Action: raiseThePace,
	})
	ReasonReplicasMissing = define(Reason{
		Name: "ReplicasMissing",
		Meaning: "pods that the workload had before its last move are not available, and the owner does not report how many it " +
			"requests",
		Ends: "the pods, or `berth.dev/accepted-replicas`",
		Action: "evicted pods are not replaced: find out why their owner does not create them. After a deliberate scale-down, " +
			"annotate a pod with `berth.dev/accepted-replicas` ([rebalancing](rebalancing.md#owners-of-custom-kinds))",
	})
	ReasonMaxUnavailable = define(Reason{
		Name:    "MaxUnavailable",
		Meaning: "a rollout without progress has as many unavailable replicas as its `maxUnavailable` allows", Ends: "the rollout",
		Action: "a rollout that makes no progress has as many unavailable replicas as its `maxUnavailable` allows: repair or undo " +
			"the rollout",
	})
	ReasonNotReady = define(Reason{
		Name: "NotReady", Lift: func(in *Input) { in.Group = allReady(in.Group) },
		Meaning: "a replica of the workload is not Ready, or not for `minReadySeconds` yet; the message names the time",
		Ends:    "the replica, or time", Action: repairReplicas,
	})
)

// Reasons about one replica.
var (
	ReasonUnitWouldRestart = define(Reason{
		Name: "UnitWouldRestart", DropsPlaceholder: true, Scope: OfReplica,
		Meaning: "the replica is a [unit](#units-and-groups-of-many-owners) of more than one pod, and all of them would restart; the " +
			"message names the operator and how many",
		Action: "delete what makes the pods of the unit in the foreground, at a suitable time ([move a unit](workloads.md#move-a-unit-yourself)): " +
			"the mix places them again",
	})
	ReasonPinned = define(Reason{
		Name: "Pinned", DropsPlaceholder: true, Scope: OfRevision,
		Meaning: "the pod names a capacity type in its own nodeSelector or affinity", Action: restartYourself,
	})
	ReasonPodGroupMember = define(Reason{
		Name: "PodGroupMember", DropsPlaceholder: true, Scope: OfRevision,
		Meaning: "the pod belongs to a PodGroup (`spec.schedulingGroup`), which may need all of its pods",
		Action:  "a pod group may need all of its pods: restart the group at a suitable time, and it is placed by the mix",
	})
	ReasonDoNotDisrupt = define(Reason{
		Name: "DoNotDisrupt", DropsPlaceholder: true,
		Meaning: "`karpenter.sh/do-not-disrupt` (`true`, or a duration), `cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\"` " +
			"or `descheduler.alpha.kubernetes.io/prefer-no-eviction` on the pod",
		Ends:   "removal of the annotation; a duration counts from the creation of the pod, and the message names its end",
		Action: restartYourself,
	})
	ReasonLocalStorage = define(Reason{
		Name: "LocalStorage", DropsPlaceholder: true,
		Meaning: "an emptyDir that is not in memory, or a hostPath: its data would be lost",
		Ends: "`cluster-autoscaler.kubernetes.io/safe-to-evict: \"true\"`, or the name of the volume in " +
			"`cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes`",
		Action: restartYourself,
	})
	ReasonNoGain = define(Reason{
		Name: "NoGain", DropsPlaceholder: true,
		Meaning: "a lower slot of the type that the pod runs on is free, and the replacement would claim it",
		Action:  "the replacement would run on the same type again; the next pod that claims the free slot changes that",
	})
	ReasonSpotUnavailable = define(Reason{
		Name: "SpotUnavailable", Timed: true, DropsPlaceholder: true,
		Meaning: "replicas with the gate went to on-demand because spot nodes did not come " +
			"([fallback](autoscalers.md#when-spot-does-not-come)), no spot node has free capacity, and spot is not tried yet; the " +
			"message names the time",
		Ends:   "a spot node, or time",
		Action: "nothing: spot nodes did not come, no spot node has free capacity, and spot is tried again at the time in the message",
	})
	ReasonFloor = define(Reason{
		Name:    "OnDemandFloor",
		Meaning: "fewer than `minOnDemand` available replicas would remain on on-demand", Ends: "replicas that become available",
		Action: repairReplicas,
	})
	ReasonNotReleasable = define(Reason{
		Name: "NotReleasable", Scope: OfRevision, DropsPlaceholder: true,
		Meaning: "`rebalance.strategy` is `Surge`, and the replica cannot be [released](#moves-that-cost-no-replica) from its ReplicaSet; the " +
			"message names why",
		Ends:   "a change of what the message names, or `strategy: SurgeOrEvict`",
		Action: "change what the message names, or set `rebalance.strategy: SurgeOrEvict` to have such replicas evicted",
	})
	ReasonPDB = define(Reason{
		Name:    "DisruptionBudget",
		Meaning: "a PodDisruptionBudget does not allow it; the message names it and its figures", Ends: "the budget",
		Action: "the PodDisruptionBudget allows no eviction: find out why its pods are not healthy, or relax it",
	})
	ReasonOverlappingPDBs = define(Reason{
		Name:    "OverlappingDisruptionBudgets",
		Meaning: "two budgets select the pod: the Eviction API refuses such an eviction", Ends: "removal of one budget",
		Action: "two budgets select the pod: remove one",
	})
	ReasonInsufficientCapacity = define(Reason{
		Name: "InsufficientCapacity", Scope: OfReplica,
		Meaning: "no node of the type has free capacity for the replacement; the message has the scheduler's reasons",
		Ends:    "free capacity",
		Action: "add nodes of the missing type; or let an autoscaler add them, with [`rebalance.provisioning: Placeholder`]" +
			"(rebalancing.md#request-capacity-from-an-autoscaler); or change the mix",
	})
	ReasonProvisioning = define(Reason{
		Name: "Provisioning", Quiet: true,
		Meaning: "a placeholder pod requests the capacity; the message names it", Ends: "the placeholder runs, or 10 minutes",
		Action: "nothing: a placeholder pod requests the capacity. If it stays Pending, `kubectl describe` it: the events of the " +
			"autoscaler name what it cannot launch",
	})
)

// Reasons that a call to the API server gives. Each holds the replica for a while.
var (
	ReasonNoPlaceholder = define(Reason{
		Name: "PlaceholderRefused",
		Meaning: "no free capacity and no placeholder; the message has the cause: a quota, missing rights, a device by claim, " +
			"[pod affinity](#request-capacity-from-an-autoscaler)",
		Ends: "the next evaluation",
		Action: "read the message: a quota of the namespace, `manifests/rbac/placeholders` is not applied, no " +
			"`capacityTypeLabel`",
	})
	ReasonQuota = define(Reason{
		Name:    "QuotaExceeded",
		Meaning: "a ResourceQuota is exceeded, so it forbids the replacement; the message names the quota, the resource and the figures",
		Ends:    "the quota, or fewer pods", Action: raiseTheLimit,
	})
	ReasonLimitRange = define(Reason{
		Name:    "LimitRange",
		Meaning: "a LimitRange forbids such a pod; the message names the LimitRange, the resource and the figures",
		Ends:    "the LimitRange, or the pod template", Action: raiseTheLimit,
	})
	ReasonStaleView = define(Reason{
		Name: "StaleView", Timed: true, Quiet: true,
		Meaning: "the API server has other pods of the workload, or another mix, than the watch has delivered", Ends: "the watch",
		Action: "if it persists: a watch of the controller, of pods or of the mix, lags behind the API server; see its log",
	})
	ReasonUnrecorded = define(Reason{
		Name:    "MoveUnrecorded",
		Meaning: "the [journal](#the-journal-of-moves) could not be written; the message has the cause",
		Ends:    "the missing right, the API server",
		Action:  "the controller cannot write its ConfigMap of moves: see the message and `manifests/rbac`",
	})
	// ReasonRefused is for refusals that no other reason names, such as that of an admission policy.
	ReasonRefused = define(Reason{
		Name: "EvictionRefused", Timed: true,
		Meaning: "the API server refused the eviction: an admission policy or webhook, or a missing right; the message has its answer",
		Ends:    "time, as after a failed move", Action: readTheAnswer,
	})
	ReasonEvictionFailed = define(Reason{
		Name: "EvictionFailed", Timed: true,
		Meaning: "the API server could not carry the eviction out, for example because an admission webhook cannot be called; the " +
			"message has its answer",
		Ends: "time, as after a failed move", Action: readTheAnswer,
	})
	ReasonCapacityUnproven = define(Reason{
		Name: "CapacityUnproven", Timed: true,
		Meaning: "the API server did not answer", Ends: "the next evaluation", Action: runDoctor,
	})
	ReasonChanged = define(Reason{
		Name: "PodChanged", Timed: true, Quiet: true, Scope: OfReplica,
		Meaning: "the pod changed after the decision", Ends: "the next evaluation", Action: runDoctor,
	})
)
