// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// environmentVerbs are what a user can do with an environment, in the order of the buttons.
var environmentVerbs = []string{"start", "stop", "restart"}

// databaseComponent is the component that has one replica.
const databaseComponent = "database"

// environmentView is an Environment as it is shown. All texts are inert.
type environmentView struct {
	Namespace, Name, DisplayName, Description, Stack, RunsIn, Ready, Message, Updated string
	Phase                                                                             badge
	Revision                                                                          int64
	Components                                                                        []componentView
	Ports                                                                             []fact
	Conditions                                                                        []fact
	Verbs                                                                             []string
	// Scalable are the components whose replicas can be set.
	Scalable []string
	Database bool
}

// componentView is a component.
type componentView struct {
	Name, Ready, Reason, Message string
	IsReady                      bool
	Stage, Restarts              int32
}

var environmentList = listOf[*v1alpha1.Environment]{
	id: "environments", title: "Environments", kind: "Environment",
	noun: "environment", resource: overview.EnvironmentsResource,
	of:   func(r *overview.Reading) []*v1alpha1.Environment { return r.Environments },
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
	v.Database = e.Spec.Stack.Database != nil
	for _, c := range v.Components {
		if c.Name != databaseComponent {
			v.Scalable = append(v.Scalable, c.Name)
		}
	}
	for _, p := range e.Status.Ports {
		v.Ports = append(v.Ports, fact{
			inert(p.Component), fmt.Sprintf("%d from outside to %d, %s", p.HostPort, p.ContainerPort, inert(string(p.Protocol))),
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
	if !slices.Contains(environmentVerbs, verb) && (environmentForms[verb] == nil || c.reports == nil) {
		http.Error(w, fmt.Sprintf("verb is %q: the pages have no such form", inert(verb)), http.StatusBadRequest)
		return
	}
	e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}}
	err := k.Get(r.Context(), client.ObjectKeyFromObject(e), e)
	did, after := "", e
	if err == nil {
		did, after, err = c.changed(r, k, e, verb, form)
	}
	if err != nil {
		c.again(w, r, http.StatusUnprocessableEntity, environmentList.url(e), func(s *state) *page {
			return environmentList.detailOf(e, s, "", err.Error())
		})
		return
	}
	c.hub.wrote(sessionOf(r), func(r *overview.Reading) { r.Environments = append(without(r.Environments, after), after) })
	if did == "" {
		http.Redirect(w, r, environmentList.url(after), http.StatusSeeOther) //nolint:gosec // a path of the console
		return
	}
	c.again(w, r, http.StatusOK, environmentList.url(e), func(s *state) *page { return environmentList.detailOf(after, s, did, "") })
}

// changed returns an environment after a change, and what the change did if that is not its state.
func (c *Console) changed(r *http.Request, k client.Client, e *v1alpha1.Environment, verb string, form url.Values,
) (did string, after *v1alpha1.Environment, err error) {
	read := environmentForms[verb]
	if read == nil {
		after, err = c.change(r.Context(), k, e, verb)
		return "", after, err
	}
	do, err := read(client.ObjectKeyFromObject(e), form)
	if err != nil {
		return "", nil, err
	}
	if did, err = c.run(r, do); err != nil {
		return "", nil, err
	}
	after = &v1alpha1.Environment{}
	return did, after, k.Get(r.Context(), client.ObjectKeyFromObject(e), after)
}
