// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The condition of spec.protectFloor of a CapacityMix, and its reasons.
const (
	// ConditionFloorProtected is True while PodDisruptionBudgets of Berth keep evictions from leaving fewer than minOnDemand
	// replicas of the governed workloads on on-demand nodes. It is absent without spec.protectFloor, and if the mix governs no
	// workload.
	ConditionFloorProtected = "FloorProtected"

	// ReasonBudgetsKept is the reason of FloorProtected=True.
	ReasonBudgetsKept = "BudgetsKept"

	// ReasonNoFloor is the reason of FloorProtected=False if minOnDemand is 0.
	ReasonNoFloor = "NoFloor"

	// ReasonOverlappingBudget is the reason of FloorProtected=False if a PodDisruptionBudget of a user selects replicas.
	ReasonOverlappingBudget = "OverlappingBudget"

	// ReasonUnits is the reason of FloorProtected=False if replicas are units of pods: a budget counts pods.
	ReasonUnits = "UnitsOfPods"

	// ReasonLabelInUse is the reason of FloorProtected=False if another client set the label berth.dev/floor of a replica.
	ReasonLabelInUse = "LabelInUse"

	// ReasonTooManyBudgets is the reason of FloorProtected=False if a namespace has more PodDisruptionBudgets than Berth reads
	// or writes.
	ReasonTooManyBudgets = "TooManyBudgets"

	// ReasonFloorPending is the reason of FloorProtected=False while a PodDisruptionBudget, or the label of as many replicas as it
	// requires, is not written yet.
	ReasonFloorPending = "Pending"

	// ReasonBudgetRefused is the reason of FloorProtected=False if the API server does not accept a PodDisruptionBudget or a
	// label.
	ReasonBudgetRefused = "BudgetRefused"
)
