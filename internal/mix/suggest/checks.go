// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"fmt"
	"slices"
	"time"

	"berth.dev/berth/internal/kube/display"
)

const (
	// systemCritical is the value of the PriorityClass system-cluster-critical. Users cannot have a higher one than a billion.
	systemCritical = 2_000_000_000
	// verySlow is a time to start after which few replicas may be away.
	verySlow = 10 * time.Minute
	// day is the age of a pod that counts its restarts.
	day = 24 * time.Hour
	// fewRestarts are too few to derive anything of them.
	fewRestarts = 3
)

// check returns what there is to find about a workload, nil for nothing.
type check func(*Workload) *found

// checks are in the order of the reasons.
var checks = []check{
	noController,
	runsToCompletion,
	singleReplica,
	systemCriticalPods,
	doNotDisrupt,
	pinned,
	podGroup,
	localStorage,
	localVolume,
	volumesUnknown,
	longTermination,
	restarting,
	budgetsUnknown,
	mixesUnknown,
	overlappingBudgets,
	budgetAllowsNone,
	noSelector,
	budget,
	stateful,
	attachedVolume,
	unit,
	unknownOwner,
	slowStart,
	restarts,
	highPriority,
	frequentInterruptions,
	noBudget,
	noPreemption,
	notPlaced,
	quarantine,
	nodesUnknown,
	unknownType,
	bandUnknown,
	startUnknown,
}

func noController(w *Workload) *found {
	if w.Replaced != ByNobody {
		return nil
	}
	return ReasonNoController.because(w, "the pod has no controller that would create another")
}

func runsToCompletion(w *Workload) *found {
	if !w.RunsOnce || w.IgnoresDisruptions || w.Replaced == ByNobody {
		return nil
	}
	f := ReasonRunsToCompletion.because(w, "restartPolicy is not Always: an interrupted pod counts as failed")
	switch {
	case w.Kind == "CronJob":
		f.Field = "spec.jobTemplate." + f.Field
	case w.Replaced != ByKubernetes:
		f.Field, f.Change = w.template()+"spec.restartPolicy", "Always, if the owner creates a lost pod again"
	}
	return f
}

func singleReplica(w *Workload) *found {
	if w.Replicas != 1 || w.Replaced == ByNobody {
		return nil
	}
	return ReasonSingleReplica.because(w, "there is one replica, and none while it is replaced")
}

func systemCriticalPods(w *Workload) *found {
	if w.Priority < systemCritical {
		return nil
	}
	return ReasonSystemCritical.because(w, "the priority of %s is %d: the cluster depends on these pods", classOf(w), w.Priority)
}

// classOf names the PriorityClass of a workload in a sentence.
func classOf(w *Workload) string {
	if w.PriorityClass == "" {
		return "the pods"
	}
	return "PriorityClass " + w.PriorityClass
}

func doNotDisrupt(w *Workload) *found {
	if w.Keep == "" {
		return nil
	}
	f := ReasonDoNotDisrupt.because(w, "a pod has the annotation %s", w.Keep)
	f.Field += "[" + w.Keep + "]"
	return f
}

func pinned(w *Workload) *found {
	if !w.Pinned {
		return nil
	}
	return ReasonPinned.because(w, "the pods name a capacity type in their nodeSelector or affinity")
}

func podGroup(w *Workload) *found {
	if !w.Grouped {
		return nil
	}
	return ReasonPodGroup.because(w, "the pods are members of a PodGroup, which may need all of them")
}

func localStorage(w *Workload) *found {
	if w.LocalData == "" {
		return nil
	}
	return ReasonLocalStorage.because(w, "volume %s has data on the node, which is lost with it", w.LocalData)
}

func localVolume(w *Workload) *found {
	if w.LocalClaim == "" {
		return nil
	}
	return ReasonLocalVolume.because(w, "the PersistentVolume of claim %s is on one node", w.LocalClaim)
}

func volumesUnknown(w *Workload) *found {
	if !w.VolumesUnread {
		return nil
	}
	return ReasonVolumesUnknown.because(w, "it is unknown whether the volumes of the pods are on one node")
}

func longTermination(w *Workload) *found {
	if w.Grace <= w.Notice {
		return nil
	}
	f := ReasonLongTermination.because(w, "a pod may take %s to end, and an interruption is announced %s before",
		seconds(w.Grace), seconds(w.Notice))
	f.Change = fmt.Sprintf("at most %d", w.Notice/time.Second)
	return f
}

func seconds(d time.Duration) string { return fmt.Sprintf("%d s", d/time.Second) }

// often reports whether containers restart at least once in a time in each pod.
func (w *Workload) often(within time.Duration) bool {
	return w.Restarts >= fewRestarts && time.Duration(w.Restarts) >= w.Age/within
}

func (w *Workload) restartsText() string {
	return fmt.Sprintf("%s in %d days of all pods together", display.Count(w.Restarts, "restart"), max(1, (w.Age+day-1)/day))
}

func restarting(w *Workload) *found {
	if !w.often(day) {
		return nil
	}
	return ReasonRestarting.because(w, "the containers restart already: %s", w.restartsText())
}

func restarts(w *Workload) *found {
	if w.often(day) || !w.often(10*day) {
		return nil
	}
	return ReasonRestarts.because(w, "the containers restart: %s", w.restartsText())
}

func budgetsUnknown(w *Workload) *found {
	if !w.BudgetsUnread {
		return nil
	}
	return ReasonBudgetsUnknown.because(w, "you may not list PodDisruptionBudgets: how many replicas must be available is unknown")
}

func mixesUnknown(w *Workload) *found {
	if !w.MixesUnread {
		return nil
	}
	return ReasonMixesUnknown.because(w, "you may not list CapacityMixes: whether one governs the pods is unknown")
}

func overlappingBudgets(w *Workload) *found {
	if len(w.Budgets) < 2 {
		return nil
	}
	names := make([]string, 0, len(w.Budgets))
	for i := range w.Budgets {
		names = append(names, w.Budgets[i].Name)
	}
	return ReasonOverlappingBudgets.because(w, "%d PodDisruptionBudgets select the pods (%s): the Eviction API refuses each eviction",
		len(names), listed(names))
}

// listed are the first names of a list, in their order.
func listed(names []string) string { return display.Listed(slices.Sorted(slices.Values(names))) }

func budgetAllowsNone(w *Workload) *found {
	if len(w.Budgets) != 1 {
		return nil
	}
	b := &w.Budgets[0]
	if _, ok := b.bounds(w); ok {
		return nil
	}
	name, value := b.field()
	f := ReasonBudgetAllowsNone.because(w, "PodDisruptionBudget %s has %s: %s, and selects %s of %s", b.Name, name, value,
		display.Count(b.Pods, "pod"), display.Count(max(1, b.Workloads), "workload"))
	f.Field = "PodDisruptionBudget/" + b.Name + " spec." + name
	f.Change = "allow at least 1 pod to be missing"
	if least := max(1, b.Workloads) * max(1, w.Unit); least > 1 {
		f.Change = fmt.Sprintf("allow at least %d pods to be missing, or have a budget for each workload", least)
	}
	return f
}

func budget(w *Workload) *found {
	if len(w.Budgets) != 1 {
		return nil
	}
	b := &w.Budgets[0]
	limits, ok := b.bounds(w)
	name, value := b.field()
	if !ok || !value.Set {
		return nil
	}
	f := ReasonBudget.because(w, "PodDisruptionBudget %s has %s: %s", b.Name, name, value)
	f.Field = "PodDisruptionBudget/" + b.Name + " spec." + name
	f.bounds = limits
	return f
}

func noBudget(w *Workload) *found {
	if w.BudgetsUnread || len(w.Budgets) > 0 {
		return nil
	}
	return ReasonNoBudget.because(w, "no PodDisruptionBudget selects the pods: a drain may evict all of them at once")
}

func noSelector(w *Workload) *found {
	if w.Selector != nil || w.Governed != "" || w.Replaced == ByNobody {
		return nil
	}
	return ReasonNoSelector.because(w, "no labels select the pods of this workload and no others")
}
