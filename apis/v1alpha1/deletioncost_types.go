// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// DeletionCosts specifies who decides the deletion costs of the governed pods.
//
// +kubebuilder:validation:Enum=Enforce;Respect
type DeletionCosts string

const (
	// DeletionCostsEnforce gives each pod the deletion cost of its slot, and restores it when another client overwrites it.
	DeletionCostsEnforce DeletionCosts = "Enforce"

	// DeletionCostsRespect leaves the deletion costs to other clients.
	DeletionCostsRespect DeletionCosts = "Respect"
)

const (
	// ConditionDeletionCostsIntact is False while another client has overwritten the deletion costs of replicas and Berth has
	// not restored them, so that a scale-down does not remove the highest slots first. It is absent if Karpenter was not
	// found, and with spec.deletionCost Respect.
	ConditionDeletionCostsIntact = "DeletionCostsIntact"

	// ReasonOverwritten is the reason of DeletionCostsIntact=False.
	ReasonOverwritten = "Overwritten"

	// ReasonNotOverwritten is the reason of DeletionCostsIntact=True.
	ReasonNotOverwritten = "NotOverwritten"

	// ConditionScaleDownExact is False while spec.deletionCost is Respect and the scale-down of a governed workload can leave
	// the mix. It is absent otherwise.
	ConditionScaleDownExact = "ScaleDownExact"

	// ReasonDeletionCostsRespected is the reason of ScaleDownExact=False.
	ReasonDeletionCostsRespected = "DeletionCostsRespected"
)
