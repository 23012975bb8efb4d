// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/uncached"
	"berth.dev/berth/services/server"
)

// change reads an environment and writes what once makes of it, and repeats both if the write conflicts with another. It returns the
// environment as it was last read, with an error too, because the audit log names it.
func (c *service) change(
	ctx context.Context, namespace, id string, once func(e *environment) (*environment, error),
) (*environment, error) {
	if err := c.may(ctx, namespace, id, "update", ""); err != nil {
		return nil, err
	}
	done, err := c.turns.Take(ctx, namespace+"/"+id)
	if err != nil {
		return nil, err
	}
	defer done()
	e, err := c.find(ctx, namespace, id)
	if err != nil {
		return nil, err
	}
	var written *environment
	e, err = uncached.Change(e, func() (*environment, error) { return c.find(ctx, namespace, id) }, func(e *environment) (err error) {
		written, err = once(e)
		return err
	})
	switch {
	case err == nil:
		return written, nil
	case server.NotFound(err):
		return e, unknown(id) // deleted in between
	case apierrors.IsConflict(err):
		return e, server.Refuse(codes.Aborted, fmt.Sprintf("too many conflicting updates to environment %q, retry", id))
	}
	return e, err
}

// illegal refuses what makes no sense as an environment is.
func illegal(e *environment, err error) error {
	return server.Refuse(codes.FailedPrecondition, fmt.Sprintf("environment %q: %s", e.Name, err))
}

// write replaces what an environment was read as by what was made of it.
func (c *service) write(ctx context.Context, before, after *environment) (*environment, error) {
	if sameSpec(&before.Spec, &after.Spec) {
		return before, nil
	}
	render.Sign(after, c.caller(ctx))
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	after.Annotations[v1alpha1.UpdatedAtAnnotation] = stamp(before.Generation+1, c.now())
	out, err := c.store.update(ctx, after)
	if err != nil {
		return nil, server.Rename(err, wireField(&after.Spec))
	}
	return out, nil
}

// update changes an environment to what a request has, but for what the request leaves out.
func (c *service) update(ctx context.Context, namespace, id string, a *requested) (*environment, error) {
	a.credentials.by = c.caller(ctx)
	return c.change(ctx, namespace, id, func(before *environment) (*environment, error) {
		if err := rename(before, a.spec.DisplayName); err != nil {
			return nil, err
		}
		if err := render.May(before, render.VerbUpdate); err != nil {
			return nil, illegal(before, err)
		}
		after := before.DeepCopy()
		after.Spec = *merge(&before.Spec, &a.spec)
		if err := c.check(ctx, after, &a.spec); err != nil {
			return nil, err
		}
		if err := c.mayUseSecrets(ctx, before, after); err != nil {
			return nil, err
		}
		if a.credentials.empty() {
			return c.write(ctx, before, after)
		}
		// An update that is refused or conflicts writes nothing.
		if err := c.store.validate(ctx, after); err != nil {
			return nil, server.Rename(err, wireField(&after.Spec))
		}
		secrets, err := c.store.restage(ctx, before, after, a.credentials, func(name string) error {
			return c.mayGetSecret(ctx, namespace, name)
		})
		if err != nil {
			return nil, err
		}
		out, err := c.write(ctx, before, after)
		c.left(c.store.discardUnused(ctx, secrets, err), before)
		return out, err
	})
}

// maxComponents is how many components a stack has at most, as the CRD has it.
const maxComponents = 35

// scale sets the replicas of components, of all or none.
func (c *service) scale(ctx context.Context, namespace, id string, replicas map[string]int32) (*environment, error) {
	switch n := len(replicas); {
	case n == 0:
		return nil, server.InvalidField("replicas", "is empty, and must have the replicas of a component by its name")
	case n > maxComponents:
		return nil, server.InvalidField("replicas", fmt.Sprintf("has %d components, and must have at most %d", n, maxComponents))
	}
	return c.change(ctx, namespace, id, func(before *environment) (*environment, error) {
		if err := render.May(before, render.VerbUpdate); err != nil {
			return nil, illegal(before, err)
		}
		after := before.DeepCopy()
		var r reader
		for _, name := range slices.Sorted(maps.Keys(replicas)) {
			if _, err := render.Scale(after, name, replicas[name]); err != nil {
				r.refuse(fmt.Sprintf("replicas[%s]", name), "%s", err)
			}
		}
		if len(r.violations) > 0 {
			return nil, server.Invalid(r.violations...)
		}
		if err := c.mayUseSecrets(ctx, before, after); err != nil {
			return nil, err
		}
		return c.write(ctx, before, after)
	})
}

// run changes whether an environment runs.
func (c *service) run(ctx context.Context, namespace, id string, once func(*environment) error) (*environment, error) {
	return c.change(ctx, namespace, id, func(before *environment) (*environment, error) {
		after := before.DeepCopy()
		if err := once(after); err != nil {
			return nil, illegal(before, err)
		}
		return c.write(ctx, before, after)
	})
}

// remove deletes an environment. One that is on its way already is no error.
func (c *service) remove(ctx context.Context, namespace, id string) (*environment, error) {
	e, err := c.read(ctx, namespace, id, "delete", "")
	if err != nil || e.DeletionTimestamp != nil {
		return e, err
	}
	if err := render.May(e, render.VerbDelete); err != nil {
		return e, illegal(e, err)
	}
	if err := c.store.remove(ctx, e); err != nil && !server.NotFound(err) {
		return e, err
	}
	return e, nil
}
