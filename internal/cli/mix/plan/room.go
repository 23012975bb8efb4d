// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/simulation"
)

// placed are the annotations that come with the binding, or the opening of the gate.
var placed = map[string]bool{
	v1alpha1.SlotAnnotation: true, v1alpha1.CapacityTypeAnnotation: true, v1alpha1.MixAnnotation: true,
	v1alpha1.ClaimAnnotation: true, v1alpha1.FallbackAnnotation: true, v1alpha1.GateOpenedAnnotation: true,
}

// Prover is the part of a replay.Snapshot that a plan asks.
type Prover interface {
	Fits(ctx context.Context, q simulation.Question) (simulation.Answer, error)
	Assume(pod *corev1.Pod, node string)
}

// originals finds the pods that a simulation starts from: a replacement is
// asked about by the pod that it stands for.
type originals interface {
	Pod(namespace, name string) *corev1.Pod
	// Tolerations are those that a pod's mix gives to its pods of a type.
	Tolerations(p *clusterstate.Pod, t capacity.Type) []corev1.Toleration
}

// Replayed is a Room that the scheduler's own filters judge. Every replacement
// that fits takes its room, so that the next one is checked what is left.
type Replayed struct {
	snapshot   Prover
	pods       originals
	classifier *capacity.Classifier
	// gone are those that have made way.
	gone []types.UID
}

// NewReplayed returns the room of a snapshot. pods finds the pods as the API has them.
func NewReplayed(snapshot Prover, pods originals, classifier *capacity.Classifier) *Replayed {
	return &Replayed{snapshot: snapshot, pods: pods, classifier: classifier}
}

// Prove implements Room.
func (r *Replayed) Prove(ctx context.Context, p *clusterstate.Pod, t capacity.Type) (Proof, error) {
	original := r.pods.Pod(p.Namespace, p.Name)
	if original == nil {
		return Proof{}, fmt.Errorf("pod %s/%s no longer exists", p.Namespace, p.Name)
	}
	answer, err := r.snapshot.Fits(ctx, simulation.Question{
		Pod: original, Gone: append(slices.Clone(r.gone), original.UID),
		Nodes: func(n *corev1.Node) bool {
			of, _ := r.classifier.Classify(n)
			_, departing := capacity.Departing(n)
			return of == t && !departing
		},
		Wants: t, Tolerations: r.pods.Tolerations(p, t),
	})
	switch {
	case errors.Is(err, simulation.ErrUnknownScheduler):
		return Proof{Why: err.Error()}, nil
	case err != nil:
		return Proof{}, err
	case !answer.Fits:
		return Proof{Why: fmt.Sprintf("no %s node has capacity for the replacement of pod %s: %s", t, p.Name, answer.Message())}, nil
	}
	r.gone = append(r.gone, original.UID)
	r.snapshot.Assume(original, answer.Node)
	return Proof{Fits: true, Node: answer.Node}, nil
}
