// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
)

const aboutEnvHistory = `Shows the revisions of an environment that are kept, the newest last: when each was made, by whom, and what it changed. The
one that the environment has is marked with "*". --revision N prints the spec of one, as YAML.`

const envHistoryExamples = `  kubectl berth env history shop
  kubectl berth env history shop --revision 2`

// shownChanges is how many changes of a revision a table has, unless it is wide.
const shownChanges = 3

// EnvironmentHistory is what `env history` shows.
type EnvironmentHistory struct {
	Namespace string                `json:"namespace"`
	Name      string                `json:"name"`
	Revisions []EnvironmentRevision `json:"revisions"`
}

// EnvironmentRevision is a spec that an environment had.
type EnvironmentRevision struct {
	Revision int64 `json:"revision"`
	// Current says that the environment has it.
	Current bool        `json:"current,omitempty"`
	Created metav1.Time `json:"created"`
	// Actor is who requested it, "" if no one said.
	Actor string `json:"actor,omitempty"`
	// Changes are those since the one before; none for the first.
	Changes []string                 `json:"changes,omitempty"`
	Spec    v1alpha1.EnvironmentSpec `json:"spec"`
}

func newEnvHistory(o *options) *cobra.Command {
	var number int64
	cmd := o.anEnvironment("history", "The revisions of an environment", aboutEnvHistory, envHistoryExamples, nil)
	cmd.RunE = o.anEnvironment("", "", "", "", func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
		h, err := readHistory(ctx, c, env)
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("revision") {
			return o.showEnvironmentHistory(h)
		}
		r, err := h.find(number)
		if err != nil {
			return err
		}
		return o.showSpec(&r.Spec)
	}).RunE
	cmd.Flags().Int64Var(&number, "revision", 0, "Print the spec of this revision.")
	o.outputFlag(cmd, asWide, asJSON, asYAML)
	return cmd
}

// readHistory reads the revisions of an environment.
func readHistory(ctx context.Context, c client.Client, env *v1alpha1.Environment) (*EnvironmentHistory, error) {
	var list appsv1.ControllerRevisionList
	if err := c.List(ctx, &list, client.InNamespace(env.Namespace), client.MatchingLabels(render.Labels(env))); err != nil {
		return nil, fmt.Errorf("list the revisions of %s: %w", environmentName(env.Name), err)
	}
	return environmentHistoryOf(env, list.Items)
}

// environmentHistoryOf are the revisions of an environment, the newest last. Others may have its labels.
func environmentHistoryOf(env *v1alpha1.Environment, list []appsv1.ControllerRevision) (*EnvironmentHistory, error) {
	h := &EnvironmentHistory{Namespace: env.Namespace, Name: env.Name, Revisions: []EnvironmentRevision{}}
	for i := range list {
		c := &list[i]
		if !metav1.IsControlledBy(c, env) {
			continue
		}
		r := EnvironmentRevision{
			Revision: c.Revision, Current: c.Revision == env.Status.Revision, Created: c.CreationTimestamp, Actor: c.Annotations[v1alpha1.ActorAnnotation],
		}
		if text := c.Annotations[v1alpha1.ChangesAnnotation]; text != "" {
			r.Changes = strings.Split(text, "\n")
		}
		if err := json.Unmarshal(c.Data.Raw, &r.Spec); err != nil {
			return nil, fmt.Errorf("read ControllerRevision %s/%s: %w", c.Namespace, c.Name, err)
		}
		h.Revisions = append(h.Revisions, r)
	}
	slices.SortFunc(h.Revisions, func(a, b EnvironmentRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	return h, nil
}

// find returns a revision, or an error that names those that there are.
func (h *EnvironmentHistory) find(revision int64) (*EnvironmentRevision, error) {
	var known []string
	for i := range h.Revisions {
		if h.Revisions[i].Revision == revision {
			return &h.Revisions[i], nil
		}
		known = append(known, number(h.Revisions[i].Revision))
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("%s has no revision %d: it has none yet", environmentName(h.Name), revision)
	}
	return nil, fmt.Errorf("%s has no revision %d: there are %s", environmentName(h.Name), revision, strings.Join(known, ", "))
}

// showSpec prints a spec, as YAML unless JSON is requested.
func (o *options) showSpec(spec *v1alpha1.EnvironmentSpec) error {
	if done, err := o.printed(spec); done {
		return err
	}
	out, err := yaml.Marshal(spec)
	if err == nil {
		_, err = o.Out.Write(out)
	}
	return err
}

func (o *options) showEnvironmentHistory(h *EnvironmentHistory) error {
	if done, err := o.printed(h); done {
		return err
	}
	if len(h.Revisions) == 0 {
		fmt.Fprintf(o.ErrOut, "Environment %s/%s has no revision yet: the controller makes them.\n", h.Namespace, h.Name)
		return nil
	}
	t := &table{header: []string{"REVISION", "TIME", "AGE", "ACTOR", "CHANGES"}}
	for i := range h.Revisions {
		r := &h.Revisions[i]
		name := number(r.Revision)
		if r.Current {
			name += "*"
		}
		changes := r.Changes
		if more := len(changes) - shownChanges; more > 0 && o.output != asWide {
			changes = append(slices.Clone(changes[:shownChanges]), fmt.Sprintf("and %d more", more))
		}
		t.add(name, r.Created.UTC().Format(time.RFC3339), age(o.now(), r.Created.Time), r.Actor, strings.Join(changes, "; "))
	}
	return t.write(o.Out, false)
}
