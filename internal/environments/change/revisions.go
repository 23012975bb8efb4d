// SPDX-License-Identifier: Apache-2.0

package change

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
)

// History are the revisions of an environment.
type History struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Revisions []Revision `json:"revisions"`
}

// Revision is a spec that an environment had.
type Revision struct {
	Revision int64 `json:"revision"`
	// Current is set for the revision that the environment has.
	Current bool        `json:"current,omitempty"`
	Created metav1.Time `json:"created"`
	// Client is the field manager of the client that requested it: berth-services is the gRPC service.
	Client string `json:"client,omitempty"`
	// Actor is the user who requested it, "" if the client does not record users.
	Actor string `json:"actor,omitempty"`
	// Changes are those since the one before; none for the first.
	Changes []string                 `json:"changes,omitempty"`
	Spec    v1alpha1.EnvironmentSpec `json:"spec"`
}

// Revisions reads the revisions of an environment, the newest last.
func Revisions(ctx context.Context, c client.Client, env *v1alpha1.Environment) (*History, error) {
	var list appsv1.ControllerRevisionList
	if err := c.List(ctx, &list, client.InNamespace(env.Namespace), client.MatchingLabels(render.Labels(env))); err != nil {
		return nil, fmt.Errorf("list the revisions of %s: %w", nameOf(env.Name), err)
	}
	return historyOf(env, list.Items)
}

// historyOf are the revisions of an environment, the newest last. Others may have its labels.
func historyOf(env *v1alpha1.Environment, list []appsv1.ControllerRevision) (*History, error) {
	h := &History{Namespace: env.Namespace, Name: env.Name, Revisions: []Revision{}}
	for i := range list {
		c := &list[i]
		if !metav1.IsControlledBy(c, env) {
			continue
		}
		r := Revision{
			Revision: c.Revision, Current: c.Revision == env.Status.Revision, Created: c.CreationTimestamp,
			Client: c.Annotations[v1alpha1.ClientAnnotation], Actor: c.Annotations[v1alpha1.ActorAnnotation],
		}
		if text := c.Annotations[v1alpha1.ChangesAnnotation]; text != "" {
			r.Changes = strings.Split(text, "\n")
		}
		if err := json.Unmarshal(c.Data.Raw, &r.Spec); err != nil {
			return nil, fmt.Errorf("read ControllerRevision %s/%s: %w", c.Namespace, c.Name, err)
		}
		h.Revisions = append(h.Revisions, r)
	}
	slices.SortFunc(h.Revisions, func(a, b Revision) int { return cmp.Compare(a.Revision, b.Revision) })
	return h, nil
}

// Find returns a revision, or an error that names those that there are.
func (h *History) Find(revision int64) (*Revision, error) {
	var known []string
	for i := range h.Revisions {
		if h.Revisions[i].Revision == revision {
			return &h.Revisions[i], nil
		}
		known = append(known, fmt.Sprint(h.Revisions[i].Revision))
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("%s has no revision %d: it has no revisions yet", nameOf(h.Name), revision)
	}
	return nil, fmt.Errorf("%s has no revision %d: it has %s", nameOf(h.Name), revision, strings.Join(known, ", "))
}

// Rollback gives an environment the spec of a revision, and returns the revision and what changes.
func Rollback(ctx context.Context, c client.Client, env *v1alpha1.Environment, revision int64) (r *Revision, changes []string, err error) {
	h, err := Revisions(ctx, c, env)
	if err != nil {
		return nil, nil, err
	}
	if r, err = h.Find(revision); err != nil {
		return nil, nil, err
	}
	_, err = Environment(ctx, c, env, func(e *v1alpha1.Environment) error {
		if err := render.May(e, render.VerbUpdate); err != nil {
			return err
		}
		back := rolledBack(e.Name, &e.Spec, &r.Spec)
		changes = render.Diff(&e.Spec, back)
		e.Spec = *back
		return nil
	})
	return r, changes, err
}

// rolledBack is the spec of a revision, with runPolicy and restartedAt as they are now. Another restart than the
// last would replace all pods. Passwords and keys of the gRPC service stay as they are now: it deletes the Secret that an update
// replaces.
func rolledBack(id string, now, then *v1alpha1.EnvironmentSpec) *v1alpha1.EnvironmentSpec {
	out := then.DeepCopy()
	current := func(now, then *v1alpha1.EnvironmentSecret) *v1alpha1.EnvironmentSecret {
		if now == nil || then == nil || !render.IsCredentialsName(id, then.Name) || !render.IsCredentialsName(id, now.Name) {
			return then
		}
		return now.DeepCopy()
	}
	if d := out.Stack.Database; d != nil && now.Stack.Database != nil {
		d.SecretRef = current(now.Stack.Database.SecretRef, d.SecretRef)
	}
	if b := out.Stack.Backend; b != nil && now.Stack.Backend != nil {
		b.SecretRef = current(now.Stack.Backend.SecretRef, b.SecretRef)
	}
	out.RunPolicy, out.ForceStop, out.RestartedAt = now.RunPolicy, now.ForceStop, now.RestartedAt.DeepCopy()
	return out
}
