// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// environmentVerbs are what a user can do with an environment, in the order of the buttons.
var environmentVerbs = []string{"start", "stop", "restart"}

// environmentView is an Environment as it is shown. All texts are inert.
type environmentView struct {
	Namespace, Name, DisplayName, Description, Stack, RunsIn, Ready, Message, Updated string
	Phase                                                                             badge
	Revision                                                                          int64
	Components                                                                        []componentView
	Ports                                                                             []fact
	Conditions                                                                        []fact
	Verbs                                                                             []string
}

// componentView is a component.
type componentView struct {
	Name, Ready, Reason, Message string
	IsReady                      bool
	Stage, Restarts              int32
}

var environmentList = listOf[*v1alpha1.Environment]{
	id: "environments", title: "Environments", kind: "Environment",
	of:   func(r *Reading) []*v1alpha1.Environment { return r.Environments },
	view: func(e *v1alpha1.Environment) any { return environmentOf(e) },
}

func environmentOf(e *v1alpha1.Environment) *environmentView {
	v := &environmentView{
		Namespace: inert(e.Namespace), Name: inert(e.Name), DisplayName: inert(e.Spec.DisplayName), Description: inert(e.Spec.Description),
		Stack: inert(e.Spec.Stack.Name + " " + e.Spec.Stack.Version), RunsIn: inert(e.Status.Namespace), Ready: inert(e.Status.Ready),
		Message: inert(e.Status.Message), Phase: environmentBadge(e), Revision: e.Status.Revision,
		Conditions: conditionsOf(e.Status.Conditions), Verbs: environmentVerbs,
	}
	if e.Status.UpdatedAt != nil {
		v.Updated = timeText(*e.Status.UpdatedAt)
	}
	if v.Message == v.Phase.Word {
		v.Message = ""
	}
	for i := range e.Status.Components {
		c := &e.Status.Components[i]
		v.Components = append(v.Components, componentView{
			Name: inert(c.Name), Ready: fmt.Sprintf("%d/%d", c.ReadyReplicas, c.Replicas), Reason: inert(c.Reason), Message: inert(c.Message),
			IsReady: c.Ready, Stage: c.Stage, Restarts: c.Restarts,
		})
	}
	for _, p := range e.Status.Ports {
		v.Ports = append(v.Ports, fact{
			inert(p.Component), fmt.Sprintf("%d from outside to %d, %s", p.HostPort, p.ContainerPort, p.Protocol),
		})
	}
	return v
}

func environmentBadge(e *v1alpha1.Environment) badge {
	b := badge{Word: inert(string(e.Status.Phase))}
	switch e.Status.Phase {
	case "":
		b.Word = string(v1alpha1.EnvironmentPending)
	case v1alpha1.EnvironmentRunning:
		b.Class = "ok"
	case v1alpha1.EnvironmentFailed:
		b.Class = "bad"
	}
	return b
}

// ChangeEnvironment starts, stops or restarts an environment, by the verb, as the user of a client, and returns the result.
type ChangeEnvironment func(ctx context.Context, c client.Client, e *v1alpha1.Environment, verb string) (*v1alpha1.Environment, error)

// runEnvironment starts, stops or restarts the environment of the path.
func (c *Console) runEnvironment(w http.ResponseWriter, r *http.Request) {
	form, k, ok := c.form(w, r)
	if !ok {
		return
	}
	verb := form.Get("verb")
	if !slices.Contains(environmentVerbs, verb) {
		http.Error(w, fmt.Sprintf("verb is %q: it must be one of %q", inert(verb), environmentVerbs), http.StatusBadRequest)
		return
	}
	e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}}
	err := k.Get(r.Context(), client.ObjectKeyFromObject(e), e)
	if err == nil {
		var after *v1alpha1.Environment
		if after, err = c.change(r.Context(), k, e, verb); err == nil {
			c.hub.wrote(func(r *Reading) { r.Environments = append(without(r.Environments, after), after) })
			http.Redirect(w, r, environmentList.url(after), http.StatusSeeOther)
			return
		}
	}
	c.again(w, r, http.StatusUnprocessableEntity, environmentList.url(e), func(s *state) *page {
		return environmentList.detailOf(e, s, err.Error())
	})
}
