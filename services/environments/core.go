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
	internal "berth.dev/berth/internal/environments/render"
	"berth.dev/berth/services/server"
)

const (
	// undoTimeout bounds taking back a half of what was made, whoever has given up meanwhile.
	undoTimeout = 5 * time.Second
)

// core does what the rpcs request.
type core struct {
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
	looks *sharedLooks
	// logPool counts the containers whose logs are read.
	logPool *server.Pool
}

func (c *core) authorize(ctx context.Context, namespace, name, verb, subresource string) error {
	return server.AuthorizeResource(ctx, c.access, server.Access{
		Verb: verb, Resource: plural, Subresource: subresource, Namespace: namespace, Name: name,
	})
}

// read returns the environment of an id to someone who may do what the verb says.
func (c *core) read(ctx context.Context, namespace, id, verb, subresource string) (*environment, error) {
	if id == "" {
		return nil, server.InvalidField("id", "is missing")
	}
	if err := c.authorize(ctx, namespace, id, verb, subresource); err != nil {
		return nil, err
	}
	return c.find(ctx, namespace, id)
}

// find returns the environment of an id. What cannot be an id is that of none.
func (c *core) find(ctx context.Context, namespace, id string) (*environment, error) {
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
func (c *core) create(ctx context.Context, namespace, id string, a *asked) (*environment, error) {
	if err := c.authorize(ctx, namespace, "", "create", ""); err != nil {
		return nil, err
	}
	e := &environment{Spec: a.spec}
	e.APIVersion, e.Kind = v1alpha1.SchemeGroupVersion.String(), environmentKind
	e.Namespace, e.Name = namespace, id
	e.Spec.RunPolicy, e.Spec.VolumeRetention = v1alpha1.RunPolicyRunning, v1alpha1.VolumeRetentionDelete
	internal.Expand(&e.Spec.Stack)
	a.credentials.refer(&e.Spec.Stack, secretName(id))
	internal.Sign(e, c.caller(ctx))
	if err := c.check(ctx, e, &e.Spec); err != nil {
		return nil, err
	}
	if !a.credentials.empty() {
		if err := c.store.clearFor(ctx, e); err != nil {
			return nil, err
		}
	}
	made, err := c.store.create(ctx, e)
	switch {
	case apierrors.IsAlreadyExists(err):
		return c.finish(ctx, e, a)
	case err != nil:
		return nil, server.Rename(err, wireField(&e.Spec))
	}
	if err := c.store.writeCredentials(ctx, made, nil, a.credentials); err != nil {
		// Nothing is left of what could not be made. If this cannot be done either, the environment waits for its Secret.
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		if undone := c.store.remove(undo, made); undone != nil && !apierrors.IsNotFound(undone) {
			c.log.Error(undone, "An environment without its Secret stays", "environment", id, "namespace", namespace)
		}
		return nil, err
	}
	return made, nil
}

// finish writes the Secret of an environment that was made by the same request, of the same caller, which ended before that.
// Any other that has the name is in the way.
func (c *core) finish(ctx context.Context, wanted *environment, a *asked) (*environment, error) {
	have, err := c.store.get(ctx, wanted.Namespace, wanted.Name)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("there is an environment %q already: %s", nameOf(wanted), wanted.Name)
	if have.DeletionTimestamp != nil {
		text += ", which is being deleted"
	}
	exists := server.Refuse(codes.AlreadyExists, text)
	same := have.DeletionTimestamp == nil && sameSpec(&have.Spec, &wanted.Spec) &&
		have.Annotations[v1alpha1.ActorAnnotation] == wanted.Annotations[v1alpha1.ActorAnnotation]
	if !same || a.credentials.empty() {
		return have, exists
	}
	if complete, err := c.store.hasSecret(ctx, have); err != nil || complete {
		if err == nil {
			err = exists
		}
		return have, err
	}
	return have, c.store.writeCredentials(ctx, have, nil, a.credentials)
}

// check refuses a spec that is wrong, or cannot be run as things are now. Asked is what the request itself has of it.
func (c *core) check(ctx context.Context, e *environment, asked *v1alpha1.EnvironmentSpec) error {
	if err := check(&e.Spec); err != nil {
		return err
	}
	// A host port is one of each node, and not of the cluster.
	if internal.ExposureOf(e, c.exposure) != v1alpha1.ExposureHostPort && asksForPorts(asked) {
		others, err := c.store.list(ctx, "", func(o *environment) bool { return o.Namespace != e.Namespace || o.Name != e.Name })
		if err != nil {
			return err
		}
		return taken(e, others)
	}
	return nil
}

// list returns a page of the environments that match, in the order of their ids, and how many match in all.
func (c *core) list(
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
