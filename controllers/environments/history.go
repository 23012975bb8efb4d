// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/applyset"
)

// remember keeps the spec of an environment as a numbered revision, if it differs from the last, and deletes the oldest revisions
// above the limit.
func (c *Controller) remember(ctx context.Context, env *v1alpha1.Environment) error {
	if env.Status.ObservedGeneration == env.Generation && env.Status.Revision > 0 {
		return nil
	}
	var list appsv1.ControllerRevisionList
	err := c.Client.List(ctx, &list, client.InNamespace(env.Namespace), client.MatchingLabels(render.Labels(env)))
	if err != nil {
		return fmt.Errorf("list the history of Environment %s/%s: %w", env.Namespace, env.Name, err)
	}
	all := slices.DeleteFunc(list.Items, func(r appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&r, env) })
	slices.SortFunc(all, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	next, changes, err := nextRevision(env, all)
	if err != nil || next == env.Status.Revision {
		return err
	}
	if len(all) == 0 || all[len(all)-1].Revision < next {
		if err := c.keep(ctx, env, next, changes); err != nil {
			return err
		}
		now := metav1.NewTime(c.Clock.Now().Truncate(1e9))
		env.Status.UpdatedAt = &now
	}
	env.Status.Revision = next
	for i := 0; i < len(all)+1-c.tuning.Load().History; i++ {
		if err := applyset.Delete(ctx, c.Client, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

// nextRevision is the number of the spec, and what changed since the last that is kept.
func nextRevision(env *v1alpha1.Environment, all []appsv1.ControllerRevision) (int64, []string, error) {
	if len(all) == 0 {
		return env.Status.Revision + 1, nil, nil
	}
	last := &all[len(all)-1]
	var before v1alpha1.EnvironmentSpec
	if err := json.Unmarshal(last.Data.Raw, &before); err != nil {
		return 0, nil, fmt.Errorf("read ControllerRevision %s/%s: %w", last.Namespace, last.Name, err)
	}
	changes := render.Diff(&before, &env.Spec)
	if len(changes) == 0 {
		return last.Revision, nil, nil
	}
	return last.Revision + 1, changes, nil
}

// keep creates a revision, with the client that changed the spec and its user, as far as they are known.
func (c *Controller) keep(ctx context.Context, env *v1alpha1.Environment, number int64, changes []string) error {
	text, err := json.Marshal(&env.Spec)
	if err != nil {
		return fmt.Errorf("encode the spec of Environment %s/%s: %w", env.Namespace, env.Name, err)
	}
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       env.Namespace,
			Name:            fmt.Sprintf("%s-%d", env.Name, number),
			OwnerReferences: []metav1.OwnerReference{*ownerReference(env)},
			Labels:          render.Labels(env),
			Annotations:     map[string]string{},
		},
		Data:     runtime.RawExtension{Raw: text},
		Revision: number,
	}
	revision.Labels[v1alpha1.ComponentLabel] = render.ManagedComponent
	writer, actor := render.LastWriter(env)
	for key, value := range map[string]string{
		v1alpha1.ClientAnnotation: writer, v1alpha1.ActorAnnotation: actor, v1alpha1.ChangesAnnotation: strings.Join(changes, "\n"),
	} {
		if value != "" {
			revision.Annotations[key] = value
		}
	}
	if err := c.Client.Create(ctx, revision, client.FieldOwner(FieldOwner)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	return nil
}
