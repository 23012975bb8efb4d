// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/uncached"
	"berth.dev/berth/internal/records/render"
	"berth.dev/berth/services/server"
)

const (
	plural = "deploymentrecords"
	// fieldManager owns what the services write.
	fieldManager = v1alpha1.ServiceFieldManager
)

type record = v1alpha1.DeploymentRecord

// service does what the rpcs request. Its errors name fields as the CRD does, but for the ids of requests.
type service struct {
	client ctrlclient.Client
	access server.Authorizer
	// templates is the namespace of the templates that are for all.
	templates     string
	preconditions func(context.Context, *v1alpha1.DeploymentRecordSpec) error
	// turns are those of calls that deploy, by namespace and name.
	turns server.Turns
}

func (c *service) authorize(ctx context.Context, namespace, name, verb string) error {
	return server.AuthorizeResource(ctx, c.access, server.Access{Verb: verb, Resource: plural, Namespace: namespace, Name: name})
}

// nameOf returns the name of an id's record. field is the path of the id in the request.
func nameOf(field, id string) (string, error) {
	name, err := render.RecordName(id)
	if err != nil {
		return "", server.InvalidField(field, err.Error())
	}
	return name, nil
}

// idOf is the id by which clients name a record: its name, if no client made it.
func idOf(r *record) string {
	if id, given := r.Annotations[v1alpha1.DeploymentIDAnnotation]; given {
		return id
	}
	return r.Name
}

// deploy creates a record, or updates the one of the same id to the unit, and returns it as it is stored. It writes nothing if it is
// that already.
func (c *service) deploy(ctx context.Context, namespace string, u *unit) (*record, error) {
	name, err := nameOf("deployment_unit.id", u.id())
	if err != nil {
		return nil, err
	}
	// A caller needs both verbs, so that an error does not reveal whether the record exists. RBAC has no names for create.
	if err := c.authorize(ctx, namespace, "", "create"); err != nil {
		return nil, err
	}
	if err := c.authorize(ctx, namespace, name, "update"); err != nil {
		return nil, err
	}
	// A deployment is an upsert: whatever others write at the same time, the last one of them wins, and none of them fails.
	done, err := c.turns.Take(ctx, namespace+"/"+name)
	if err != nil {
		return nil, err
	}
	defer done()
	var stored *record
	err = server.Converge(ctx, func() (err error) {
		stored, err = c.deployOnce(ctx, namespace, name, u)
		return err
	})
	return stored, err
}

func (c *service) deployOnce(ctx context.Context, namespace, name string, u *unit) (*record, error) {
	before, err := c.find(ctx, namespace, name)
	if server.NotFound(err) {
		r := newRecord(namespace, name, u)
		r.mark(ctx, u)
		if err := c.check(ctx, namespace, &r.Spec); err != nil {
			return nil, err
		}
		return &r.record, c.client.Create(ctx, &r.record)
	}
	if err != nil {
		return nil, err
	}
	switch id, given := before.Annotations[v1alpha1.DeploymentIDAnnotation]; {
	case !given:
		return nil, server.Refuse(codes.AlreadyExists,
			fmt.Sprintf("there is a DeploymentRecord %q that was not made by this service", name))
	case id != u.id():
		return nil, server.Refuse(codes.AlreadyExists,
			fmt.Sprintf("name %q, derived from %q, is already used by deployment %q", name, u.id(), id))
	case before.DeletionTimestamp != nil:
		return nil, server.Refuse(codes.Unavailable, fmt.Sprintf("deployment %q is being deleted; retry when it is gone", id))
	}
	r := draft{*before.DeepCopy()}
	if changed := r.replace(u); !changed {
		return before, nil
	}
	r.mark(ctx, u)
	if err := c.check(ctx, namespace, &r.Spec); err != nil {
		return nil, err
	}
	return &r.record, c.client.Update(ctx, &r.record) // the version that was read, and no other
}

// check refuses what could not be deployed as things are now.
func (c *service) check(ctx context.Context, namespace string, spec *v1alpha1.DeploymentRecordSpec) error {
	if hint := spec.TemplateHint; hint != "" {
		found, names := false, sets.New[string]()
		for _, in := range slices.Compact([]string{namespace, c.templates}) {
			err := uncached.EachItem(ctx, c.client, &v1alpha1.DeploymentTemplateList{}, in, func(t *v1alpha1.DeploymentTemplate) {
				found = found || render.GoesBy(t, hint)
				names.Insert(t.Name)
			})
			if err != nil {
				return err
			}
			if found {
				break
			}
		}
		if !found {
			return server.Refuse(codes.FailedPrecondition, fmt.Sprintf("selected_template: there is no DeploymentTemplate %q, only %s",
				hint, cmp.Or(strings.Join(sets.List(names), ", "), "none")))
		}
	}
	if c.preconditions == nil {
		return nil
	}
	return c.preconditions(ctx, spec)
}

func (c *service) find(ctx context.Context, namespace, name string) (*record, error) {
	r := &record{}
	return r, c.client.Get(ctx, ctrlclient.ObjectKey{Namespace: namespace, Name: name}, r)
}

// read returns the record of an id to a caller that has the verb.
func (c *service) read(ctx context.Context, namespace, id, verb string) (*record, error) {
	name, err := nameOf("deployment_id", id)
	if err != nil {
		return nil, err
	}
	if err := c.authorize(ctx, namespace, name, verb); err != nil {
		return nil, err
	}
	r, err := c.find(ctx, namespace, name)
	switch {
	case server.NotFound(err), err == nil && idOf(r) != id:
		return nil, server.Refuse(codes.NotFound, fmt.Sprintf("there is no deployment %q", id))
	case err != nil:
		return nil, err
	}
	return r, nil
}

// remove deletes the record of an id. One that is on its way already is no error.
func (c *service) remove(ctx context.Context, namespace, id string) error {
	r, err := c.read(ctx, namespace, id, "delete")
	if err != nil || r.DeletionTimestamp != nil {
		return err
	}
	// Whatever its version, and no other of its name.
	if err := c.client.Delete(ctx, r, ctrlclient.Preconditions{UID: &r.UID}); !server.NotFound(err) {
		return err
	}
	return nil
}

// list returns the records that match, in the order of their names.
func (c *service) list(ctx context.Context, namespace string, match func(*record) bool) (all []*record, err error) {
	if err := c.authorize(ctx, namespace, "", "list"); err != nil {
		return nil, err
	}
	err = uncached.EachItem(ctx, c.client, &v1alpha1.DeploymentRecordList{}, namespace, func(r *record) {
		if match(r) {
			all = append(all, r)
		}
	})
	return all, err
}
