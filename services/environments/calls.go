// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/services/server"
)

// service does what the rpcs request.
type service struct {
	store  *store
	access server.Authorizer
	log    logr.Logger
	tokens tokens
	caller func(context.Context) string
	// exposure is that of environments that do not set it.
	exposure v1alpha1.EnvironmentExposure
	// summary reads disk and network of the kubelets.
	summary bool
	now     func() time.Time
	// poll is how often those who follow logs look for new containers.
	poll  time.Duration
	lists *sharedLists
	// logPool counts the containers whose logs are read.
	logPool *server.Pool
	// turns are those of calls that change an environment, by namespace and id.
	turns server.Turns
}

func (c *service) authorize(ctx context.Context, namespace, name, verb, subresource string) error {
	return server.AuthorizeResource(ctx, c.access, server.Access{
		Verb: verb, Resource: plural, Subresource: subresource, Namespace: namespace, Name: name,
	})
}

// read returns the environment of an id to a caller that has the verb.
func (c *service) read(ctx context.Context, namespace, id, verb, subresource string) (*environment, error) {
	if err := c.may(ctx, namespace, id, verb, subresource); err != nil {
		return nil, err
	}
	return c.find(ctx, namespace, id)
}

// may refuses a caller that does not have the verb for the environment of an id.
func (c *service) may(ctx context.Context, namespace, id, verb, subresource string) error {
	if id == "" {
		return server.InvalidField("id", "is missing")
	}
	return c.authorize(ctx, namespace, id, verb, subresource)
}

// find returns the environment of an id. What cannot be an id is that of none.
func (c *service) find(ctx context.Context, namespace, id string) (*environment, error) {
	if len(validation.IsDNS1123Label(id)) > 0 {
		return nil, unknown(id)
	}
	e, err := c.store.get(ctx, namespace, id)
	if server.NotFound(err) {
		return nil, unknown(id)
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

func unknown(id string) error {
	return server.Refuse(codes.NotFound, fmt.Sprintf("there is no environment %q", id))
}

// create makes an environment, and starts it.
func (c *service) create(ctx context.Context, namespace, id string, a *requested) (*environment, error) {
	if err := c.authorize(ctx, namespace, "", "create", ""); err != nil {
		return nil, err
	}
	e := &environment{Spec: a.spec}
	e.APIVersion, e.Kind = v1alpha1.SchemeGroupVersion.String(), environmentKind
	e.Namespace, e.Name = namespace, id
	e.Spec.RunPolicy, e.Spec.VolumeRetention = v1alpha1.RunPolicyRunning, v1alpha1.VolumeRetentionDelete
	if err := render.Expand(&e.Spec.Stack); err != nil {
		return nil, server.InvalidField("spec.application_stack", err.Error())
	}
	a.credentials.by = c.caller(ctx)
	given := map[component]bool{ofDatabase: len(a.credentials.database) > 0, ofBackend: len(a.credentials.backend) > 0}
	refer(&e.Spec.Stack, render.CredentialsName(id), given)
	render.Sign(e, c.caller(ctx))
	if err := c.check(ctx, e, &e.Spec); err != nil {
		return nil, err
	}
	if a.credentials.empty() {
		return c.commit(ctx, e, c.store.create)
	}
	// What is refused writes nothing.
	if out, err := c.commit(ctx, e, func(ctx context.Context, e *environment) (*environment, error) {
		return e, c.store.validateNew(ctx, e)
	}); err != nil {
		return out, err
	}
	secret, err := c.store.stage(ctx, e, a.credentials)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	made, err := c.commit(within, e, c.store.create)
	if err != nil {
		if refused(err) {
			c.left(c.store.discard(ctx, secret), e)
		}
		return made, err
	}
	c.left(c.store.own(ctx, made, secret), e)
	return made, nil
}

// commit creates an environment. Of several of the same name the API server accepts one.
func (c *service) commit(
	ctx context.Context, e *environment, create func(context.Context, *environment) (*environment, error),
) (*environment, error) {
	made, err := create(ctx, e)
	if apierrors.IsAlreadyExists(err) {
		have, err := c.store.get(ctx, e.Namespace, e.Name)
		if err != nil {
			return nil, err
		}
		return have, exists(have)
	}
	return made, server.Rename(err, wireField(&e.Spec))
}

// exists refuses the creation of an environment whose name another one has.
func exists(have *environment) error {
	text := fmt.Sprintf("there is an environment %q already: %s", nameOf(have), have.Name)
	if have.DeletionTimestamp != nil {
		text += ", which is being deleted"
	}
	return server.Refuse(codes.AlreadyExists, text)
}

// left logs that a Secret of an environment is not as it should be after a call that has its answer.
func (c *service) left(err error, e *environment) {
	if err != nil {
		c.log.Error(err, "A Secret stays, or has no owner", "environment", e.Name, "namespace", e.Namespace)
	}
}

// list returns a page of the environments that match, in the order of their ids, and how many match in all.
func (c *service) list(
	ctx context.Context, namespace string, req *schedulerv1.ListEnvironmentsRequest,
) (*schedulerv1.ListEnvironmentsResponse, error) {
	q, err := c.query(namespace, req)
	if err != nil {
		return nil, err
	}
	if err := c.authorize(ctx, namespace, "", "list", ""); err != nil {
		return nil, err
	}
	all, err := c.store.list(ctx, namespace, q.match)
	if err != nil {
		return nil, err
	}
	out := &schedulerv1.ListEnvironmentsResponse{TotalCount: int32(min(len(all), 1<<31-1))}
	page, next := q.page(all)
	if next != "" {
		if out.NextPageToken, err = c.tokens.write(next, q.filter); err != nil {
			return nil, err
		}
	}
	for _, e := range page {
		out.Environments = append(out.Environments, toWire(e))
	}
	return out, nil
}
