// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
)

// maxNames is how many budgets a message names; a message ends up in a status, which is bounded.
const maxNames = 3

// DisruptionBudget is what a PodDisruptionBudget allows. Build it with FromPDB.
type DisruptionBudget struct {
	// Name is the name of the PodDisruptionBudget, in the namespace of the pods. UID and Generation identify its spec.
	Name       string
	UID        types.UID
	Generation int64
	// Floor is set where Berth keeps the budget, for a mix with protectFloor.
	Floor bool
	// Selector selects the pods of the budget, in its namespace; nil selects none.
	Selector labels.Selector
	// Allowed is the number of pods that may be disrupted now.
	Allowed int32
	// Observed is whether the disruption controller has seen the present spec. If not, Allowed and the figures below
	// are those of an older one.
	Observed bool
	// UnhealthyAlwaysAllow is whether pods that are not ready may go whatever the figures are
	// (unhealthyPodEvictionPolicy: AlwaysAllow).
	UnhealthyAlwaysAllow bool
	// Healthy, Desired and Expected are numbers of pods: ready ones, ready ones that the budget requests, and all that
	// it selects. A pod that is not ready may go if Healthy is at least Desired. All three are 0 if not known.
	Healthy, Desired, Expected int32
}

// FromPDB reads a PodDisruptionBudget as policy/v1 defines it: no selector selects no pod, an empty one every pod of the
// namespace. The error is that of an invalid selector; the eviction API takes such a budget to select no pod.
func FromPDB(pdb *policyv1.PodDisruptionBudget) (DisruptionBudget, error) {
	selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	if err != nil {
		return DisruptionBudget{}, fmt.Errorf("selector of PodDisruptionBudget %s/%s: %w", pdb.Namespace, pdb.Name, err)
	}
	policy := pdb.Spec.UnhealthyPodEvictionPolicy
	_, floor := pdb.Labels[v1alpha1.FloorLabel]
	return DisruptionBudget{
		Floor:                floor,
		Name:                 pdb.Name,
		UID:                  pdb.UID,
		Generation:           pdb.Generation,
		Selector:             selector,
		Allowed:              pdb.Status.DisruptionsAllowed,
		Observed:             pdb.Status.ObservedGeneration == pdb.Generation,
		UnhealthyAlwaysAllow: policy != nil && *policy == policyv1.AlwaysAllow,
		Healthy:              pdb.Status.CurrentHealthy,
		Desired:              pdb.Status.DesiredHealthy,
		Expected:             pdb.Status.ExpectedPods,
	}, nil
}

// Selecting returns the budgets that select a pod.
func Selecting(budgets []DisruptionBudget, podLabels map[string]string) (matching []DisruptionBudget) {
	for _, b := range budgets {
		if b.Selects(podLabels) {
			matching = append(matching, b)
		}
	}
	return matching
}

// Disruptable returns why the budgets of a pod's namespace forbid its eviction now, by the rules of the eviction API for a
// running pod; the message names the budgets and their figures. It has no reason only if the eviction API allows the eviction.
//
// The verdict is about one pod. Another one needs budgets that were read after the first was evicted, or those of Spend.
func Disruptable(budgets []DisruptionBudget, podLabels map[string]string, ready bool) (v Verdict) {
	switch matching := Selecting(budgets, podLabels); {
	case len(matching) == 0:
	case len(matching) > 1:
		v = ReasonOverlappingPDBs.because("%d PodDisruptionBudgets select the pod (%s), and the eviction API refuses pods of more than one",
			len(matching), namesOf(matching))
	case !matching[0].allows(ready):
		v = ReasonPDB.because("%s", matching[0].refusal())
	}
	return v
}

// Spend returns the budgets of a namespace after the eviction of a pod, as the eviction API counts it.
func Spend(budgets []DisruptionBudget, podLabels map[string]string, ready bool) []DisruptionBudget {
	budgets = slices.Clone(budgets)
	for i := range budgets {
		if b := &budgets[i]; ready && b.Allowed > 0 && b.Selects(podLabels) {
			b.Allowed--
		}
	}
	return budgets
}

func (b DisruptionBudget) allows(ready bool) bool {
	switch {
	case !ready && b.UnhealthyAlwaysAllow:
		return true
	case !b.Observed:
		return false
	case !ready && b.Desired > 0 && b.Healthy >= b.Desired:
		return true
	default:
		return b.Allowed > 0
	}
}

// Never reports whether a budget allows no disruption even while all of its pods are healthy. It is false while that is not known.
func (b DisruptionBudget) Never() bool {
	return b.Observed && b.Allowed == 0 && b.Expected > 0 && b.Desired >= b.Expected
}

// Selects reports whether a budget selects a pod of its namespace.
func (b DisruptionBudget) Selects(podLabels map[string]string) bool {
	return b.Selector != nil && b.Selector.Matches(labels.Set(podLabels))
}

func (b DisruptionBudget) refusal() string {
	if !b.Observed {
		return fmt.Sprintf("PodDisruptionBudget %q has changed, and its controller has not seen the change yet: "+
			"%s allowed is an old figure", b.Name, display.Count(int(b.Allowed), "disruption"))
	}
	message := fmt.Sprintf("PodDisruptionBudget %q allows %s", b.Name, display.Count(int(b.Allowed), "disruption"))
	if b.Expected > 0 {
		message += fmt.Sprintf(": %d of %d pods are healthy and it needs %d", b.Healthy, b.Expected, b.Desired)
	}
	if b.Never() {
		message += ", which is all of them, so waiting does not help"
	}
	return message
}

func namesOf(budgets []DisruptionBudget) string {
	names := make([]string, 0, len(budgets))
	for _, b := range budgets {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	if more := len(names) - maxNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), more)
	}
	return strings.Join(names, ", ")
}
