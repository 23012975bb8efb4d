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

// environmentVerb is what a user can do with an environment. All that ends pods is confirmed first.
type environmentVerb struct {
	Verb, Title string
	// Effect is what it does, where the page requires a confirmation.
	Effect string
	// did is what the page reports afterwards.
	did string
}

var environmentVerbs = []environmentVerb{
	{Verb: "start", Title: "Start", did: "The start was requested. Components start stage by stage: their progress is below."},
	{
		Verb: "restart", Title: "Restart",
		Effect: "All of its pods are replaced, so it does not respond for a while. Volumes and data stay.",
		did:    "The restart was requested. Components restart stage by stage: their progress is below.",
	},
	{
		Verb: "stop", Title: "Stop", Effect: "All of its pods end. Volumes and data stay, and you can start it again.",
		did: "The stop was requested. Components end one after another: their progress is below. Start undoes it.",
	},
}

// verbsOf are those that are of use for an environment now.
func verbsOf(e *v1alpha1.Environment) []environmentVerb {
	if e.Spec.RunPolicy == v1alpha1.RunPolicyStopped {
		return environmentVerbs[:1]
	}
	return environmentVerbs[1:]
}

// verbOf is a verb by its name, nil if there is none.
func verbOf(name string) *environmentVerb {
	i := slices.IndexFunc(environmentVerbs, func(v environmentVerb) bool { return v.Verb == name })
	if i < 0 {
		return nil
	}
	return &environmentVerbs[i]
}

// environmentPage is the page of an environment, with what was requested before the browser came here.
func environmentPage(path []string, q url.Values, s *state) (*page, error) {
	e, err := environmentList.find(path, s)
	if err != nil {
		return nil, err
	}
	did := ""
	if v := verbOf(q.Get("did")); v != nil {
		did = v.did
	}
	return environmentList.detailOf(e, s, did, ""), nil
}

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
	Verbs                                                                             []environmentVerb
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
		Conditions: conditionsOf(e.Status.Conditions), Verbs: verbsOf(e),
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
	if verbOf(verb) == nil && (environmentForms[verb] == nil || c.reports == nil) {
		WriteProblem(w, http.StatusBadRequest, fmt.Sprintf("The verb is %q: the pages have no such form.", inert(verb)))
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
			return environmentList.detailOf(e, s, "", plainly(err))
		})
		return
	}
	c.hub.wrote(sessionOf(r), func(r *overview.Reading) { r.Environments = append(without(r.Environments, after), after) })
	if did == "" {
		http.Redirect(w, r, environmentList.url(after)+"?did="+verb, http.StatusSeeOther) //nolint:gosec // a path of the console
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
