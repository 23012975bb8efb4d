// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/simulation"
)

// Plan returns what changes of mixes would do now. It writes nothing. Without the filters of the scheduler, every replacement is assumed to
// find a node.
func (u *User) Plan(ctx context.Context, changes []overview.MixChange, assumeCapacity bool) (*overview.Plan, error) {
	namespace := changes[0].Then.Namespace
	for _, m := range changes {
		if m.Then.Namespace != namespace {
			namespace = "" // of several namespaces: look at all
		}
	}
	cluster, err := u.Load(ctx, namespace)
	if err == nil {
		err = u.AddController(ctx, u.Client, cluster.Settings)
	}
	if err != nil {
		return nil, err
	}
	for _, needed := range []string{"pods", "nodes"} {
		if cluster.Missing(needed) {
			return nil, fmt.Errorf("cannot list %s, which a plan requires", needed)
		}
	}
	if cluster.Missing("poddisruptionbudgets.policy") {
		u.Warn("cannot list PodDisruptionBudgets: the plan ignores them")
	}
	var room overview.Room = overview.Ample{}
	if !assumeCapacity {
		proven, done, err := u.room(ctx, cluster)
		switch {
		case apierrors.IsForbidden(err):
			u.Warn("free capacity is not checked: %v", err)
		case err != nil:
			return nil, err
		default:
			defer done()
			room = proven
		}
	}
	return overview.PlanOf(ctx, cluster, changes, room, u.Now())
}

// MixWith is a CapacityMix of the cluster with another spec.
func (u *User) MixWith(ctx context.Context, key client.ObjectKey, edit func(*v1alpha1.CapacityMixSpec),
) (*unstructured.Unstructured, error) {
	var m v1alpha1.CapacityMix
	if err := u.Client.Get(ctx, key, &m); err != nil {
		return nil, err
	}
	edit(&m.Spec)
	m.Status = v1alpha1.CapacityMixStatus{}
	m.ManagedFields = nil
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m)
	if err != nil {
		return nil, err
	}
	given := &unstructured.Unstructured{Object: object}
	given.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("CapacityMix"))
	return given, nil
}

// Validate lets the API server judge a CapacityMix, as a user wrote it, unknown fields and all, without keeping it: what is there already
// is replaced, as `kubectl apply` of the whole object would.
func (u *User) Validate(ctx context.Context, given *unstructured.Unstructured) (m overview.MixChange, err error) {
	var now v1alpha1.CapacityMix
	err = u.Client.Get(ctx, client.ObjectKeyFromObject(given), &now)
	switch {
	case err == nil:
		m.Now = &now
	case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return m, err
	}
	strict := client.WithFieldValidation(u.Client, metav1.FieldValidationStrict)
	judged := given.DeepCopy()
	unstructured.RemoveNestedField(judged.Object, "status")
	if m.Now != nil {
		judged.SetResourceVersion(now.ResourceVersion)
		err = strict.Update(ctx, judged, client.DryRunAll)
	} else {
		judged.SetResourceVersion("")
		judged.SetUID("")
		err = strict.Create(ctx, judged, client.DryRunAll)
	}
	switch {
	case apierrors.IsForbidden(err):
		m.Unvalidated = err.Error()
		judged = given.DeepCopy()
	case err != nil:
		return m, err
	}
	return m, decode(judged, &m)
}

// decode reads what the API server made of a mix, or, unvalidated, what was given.
func decode(judged *unstructured.Unstructured, m *overview.MixChange) error {
	m.Then = &v1alpha1.CapacityMix{}
	convert := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation
	if err := convert(judged.Object, m.Then, m.Unvalidated != ""); err != nil {
		return err
	}
	if m.Now != nil {
		m.Then.CreationTimestamp = m.Now.CreationTimestamp
	} else if m.Then.CreationTimestamp.IsZero() {
		m.Then.CreationTimestamp = metav1.Now() // the youngest: older ones win
	}
	_, _, err := governing.FromCapacityMix(m.Then)
	return err
}

// room takes a snapshot of a cluster for the scheduler's own filters to judge. The second result closes it.
func (u *User) room(ctx context.Context, cluster *overview.Cluster) (overview.Room, func(), error) {
	snapshot, err := simulation.Take(ctx, u.Config, cluster.Profile)
	if err != nil {
		return nil, nil, err
	}
	for _, skipped := range cluster.Profile.Skipped {
		u.Warn("free capacity is evaluated without %s, which only the scheduler can query", skipped)
	}
	quarantine := sync.OnceValue(func() *interruptions.Quarantine {
		q, _ := u.quarantine(ctx, cluster) // which warns
		return q
	})
	return &replayed{snapshot: snapshot, cluster: cluster, quarantine: quarantine}, snapshot.Close, nil
}

// filters answer where pods fit; a snapshot of internal/mix/simulation has the scheduler's own.
type filters interface {
	Fits(context.Context, simulation.Question) (simulation.Answer, error)
	FitAll(context.Context, []simulation.Question) ([]simulation.Answer, error)
	Assume(pod *corev1.Pod, node string)
}

// replayed is a room that the scheduler's own filters judge. Every replacement
// that fits takes its capacity, so that the next one has what is left.
type replayed struct {
	snapshot filters
	cluster  *overview.Cluster
	// quarantine returns the interruption domains in quarantine, as far as they may be read.
	quarantine func() *interruptions.Quarantine
	// gone are those that have made way.
	gone []types.UID
}

// Prove implements Room. It identifies a replacement by the pod that it replaces. All of a unit are gone before the first is placed.
func (r *replayed) Prove(ctx context.Context, members []*clusterstate.Pod, t capacity.Type) (overview.Proof, error) {
	gone := slices.Clone(r.gone)
	questions := make([]simulation.Question, 0, len(members))
	for _, p := range members {
		original := r.cluster.Pod(p.Namespace, p.Name)
		switch {
		case original == nil:
			return overview.Proof{}, fmt.Errorf("pod %s/%s no longer exists", p.Namespace, p.Name)
		case len(members) > 1 && len(original.Spec.ResourceClaims) > 0: // as the controller
			return overview.Proof{Why: fmt.Sprintf("pod %s has claims of devices, and no capacity can be proven for all %d pods of its unit",
				p.Name, len(members))}, nil
		}
		gone = append(gone, original.UID)
		questions = append(questions, r.question(p, original, t))
	}
	for i := range questions {
		questions[i].Gone = gone
	}
	answers, err := r.answers(ctx, questions)
	switch {
	case errors.Is(err, simulation.ErrUnknownScheduler):
		return overview.Proof{Why: err.Error()}, nil
	case err != nil:
		return overview.Proof{}, err
	}
	proof := overview.Proof{}
	for i, answer := range answers {
		if !answer.Fits {
			return overview.Proof{Why: unfit(members, i, t) + answer.Message()}, nil
		}
		proof.Nodes = append(proof.Nodes, answer.Node)
	}
	for i, node := range proof.Nodes {
		r.snapshot.Assume(questions[i].Pod, node)
	}
	proof.Fits, r.gone = true, gone
	return proof, nil
}

// question is whether the replacement of a pod fits on nodes of a type.
func (r *replayed) question(p *clusterstate.Pod, original *corev1.Pod, t capacity.Type) simulation.Question {
	q := simulation.Question{
		Pod: original, Nodes: r.cluster.Classifier.Staying(t), Wants: t, Tolerations: r.cluster.Tolerations(p, t),
		Confined: simulation.ConfinedBy(r.cluster.LimitedGroup(p)),
	}
	if t == capacity.Spot && r.cluster.AvoidsInterrupted(p) {
		q.Quarantine = r.quarantine()
	}
	return q
}

// answers are about one replacement, or about those of a unit at the same time, and end with the first that does not fit.
func (r *replayed) answers(ctx context.Context, questions []simulation.Question) ([]simulation.Answer, error) {
	if len(questions) > 1 {
		return r.snapshot.FitAll(ctx, questions)
	}
	answer, err := r.snapshot.Fits(ctx, questions[0])
	return []simulation.Answer{answer}, err
}

// unfit is the beginning of a sentence about the member of a replica for which there is no node.
func unfit(members []*clusterstate.Pod, i int, t capacity.Type) string {
	beside := ""
	if len(members) > 1 {
		beside = fmt.Sprintf(" beside %s of its unit", display.Count(i, "other"))
	}
	return fmt.Sprintf("no %s node has capacity for the replacement of pod %s%s: ", t, members[i].Name, beside)
}
