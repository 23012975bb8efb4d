// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/governing"
)

// form is what the value of an annotation consists of, for a pseudonym.
type form int

const (
	// amount is a number, a percentage, a time, a schedule or a word of Kubernetes or Berth.
	amount form = iota
	// names are names and UIDs, between separators.
	names
	// version is the namespace, the name and the generation of an object.
	version
)

// separators are between the parts of an annotation's value.
const separators = "/@, "

// annotations are those that are kept: those that decisions about a replica, its workload, its namespace or its node read.
var annotations = map[string]form{
	v1alpha1.SlotAnnotation:               amount,
	v1alpha1.CapacityTypeAnnotation:       amount,
	v1alpha1.ClaimAnnotation:              names,
	v1alpha1.FallbackAnnotation:           amount,
	v1alpha1.UngatedAtAnnotation:          amount,
	v1alpha1.UngateReasonAnnotation:       amount,
	v1alpha1.DomainRequirementsAnnotation: amount,
	v1alpha1.QuarantineTermsAnnotation:    amount,
	v1alpha1.ReleasedAnnotation:           names,
	v1alpha1.FloorGroupAnnotation:         names,
	v1alpha1.DrainAnnotation:              amount,
	v1alpha1.SpotPercentAnnotation:        amount,
	v1alpha1.MinOnDemandAnnotation:        amount,
	v1alpha1.GroupAnnotation:              names,
	v1alpha1.AcceptedReplicasAnnotation:   amount,
	v1alpha1.EvictJobPodsAnnotation:       amount,
	v1alpha1.PausedAnnotation:             amount,
	v1alpha1.ResolvedLimitAnnotation:      version,
	v1alpha1.ReservationAnnotation:        names,
	v1alpha1.ResourceLimitLabel:           names, // read as an annotation, too

	governing.PrefixSpotalis + "/spot-percentage":     amount,
	governing.PrefixSpotalis + "/min-on-demand":       amount,
	governing.PrefixSpotalis + "/disruption-schedule": amount,
	governing.PrefixSpotalis + "/disruption-duration": amount,

	pods.DoNotDisrupt:                              amount,
	pods.SafeToEvict:                               amount,
	pods.SafeToEvictVolumes:                        names,
	pods.PreferNoEviction:                          amount,
	v1alpha1.PodDeletionCostAnnotation:             amount,
	corev1.MirrorPodAnnotationKey:                  names,
	batchv1.JobCompletionIndexAnnotation:           amount,
	"kubectl.kubernetes.io/default-container":      names,
	"deployment.kubernetes.io/revision":            amount,
	"deployment.kubernetes.io/desired-replicas":    amount,
	"karpenter.sh/nodeclaim-termination-timestamp": amount,
	"kwok.x-k8s.io/node":                           amount,
}

// formOf returns the form of the value of an annotation, and whether the annotation is kept.
func formOf(key string) (form, bool) {
	f, kept := annotations[key]
	if !kept && governing.ReadsAnnotation(key) {
		return names, true
	}
	return f, kept
}

// keepAnnotations keeps what the programs keep of long annotations.
func keepAnnotations(all map[string]string) (kept map[string]string) {
	for key, value := range budget.Bounded(all) {
		if _, keep := formOf(key); keep {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}
