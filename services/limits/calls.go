// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/uncached"
	"berth.dev/berth/services/server"
)

const (
	defaultFirst, maxFirst = 10, 500
	// namedWorkloads is how many workloads a refused deletion names.
	namedWorkloads = 5
	// namedLimits is how many limits a warning names.
	namedLimits = 10
)

// service implements both APIs. Its errors name fields as the CRD does.
type service struct {
	store  *store
	access server.Authorizer
}

// authorize requests each verb. Where no name is given, the request names none.
func (c *service) authorize(ctx context.Context, namespace, name string, verbs ...string) error {
	for _, verb := range verbs {
		access := server.Access{Verb: verb, Resource: plural, Namespace: namespace, Name: name}
		if err := server.AuthorizeResource(ctx, c.access, access); err != nil {
			return err
		}
	}
	return nil
}

// checkName is for names that become part of a path. Those of new limits are looked at by the API server.
func checkName(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return server.InvalidField("metadata.name", fmt.Sprintf("is %q: %s", name, strings.Join(problems, "; ")))
	}
	return nil
}

func (c *service) create(ctx context.Context, namespace string, l *Limit) (*Limit, error) {
	if err := checkLabels(l.Labels); err != nil {
		return nil, err
	}
	// A create has no name in RBAC.
	if err := c.authorize(ctx, namespace, "", "create"); err != nil {
		return nil, err
	}
	o, err := c.store.create(ctx, newObject(namespace, l))
	if err != nil {
		return nil, err
	}
	return o.limit(), nil
}

func (c *service) get(ctx context.Context, namespace, name string) (*Limit, error) {
	o, err := c.read(ctx, namespace, name, "get")
	if err != nil {
		return nil, err
	}
	return shown(ctx, o)[0], nil
}

// shown returns limits as callers see them, and warns of those that are not shown as a whole.
func shown(ctx context.Context, objects ...*object) []*Limit {
	if text := warning(objects); text != "" {
		server.Warn(ctx, text)
	}
	limits := make([]*Limit, len(objects))
	for i, o := range objects {
		limits[i] = o.limit()
	}
	return limits
}

// warning names what is left out of limits, "" for nothing.
func warning(objects []*object) string {
	var damaged []string
	for _, o := range objects {
		if len(o.unreadable) > 0 {
			damaged = append(damaged, fmt.Sprintf("%s (%s)", o.Name, strings.Join(o.unreadable, ", ")))
		}
	}
	n := len(damaged)
	if n == 0 {
		return ""
	}
	text := "fields that do not match the CRD of ResourceLimits are left out: " + strings.Join(damaged[:min(n, namedLimits)], ", ")
	if n > namedLimits {
		text += fmt.Sprintf(" and %d more", n-namedLimits)
	}
	return text
}

// read returns a limit if the caller has the verbs on it.
func (c *service) read(ctx context.Context, namespace, name string, verbs ...string) (*object, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := c.authorize(ctx, namespace, name, verbs...); err != nil {
		return nil, err
	}
	return c.store.get(ctx, namespace, name)
}

// change reads a limit if the caller has the verbs on it, and writes it. After a conflict it reads it again.
func (c *service) change(ctx context.Context, namespace, name string, write func(*object) error, verbs ...string) error {
	o, err := c.read(ctx, namespace, name, verbs...)
	if err != nil {
		return err
	}
	_, err = uncached.Change(o, func() (*object, error) { return c.store.get(ctx, namespace, name) }, write)
	return err
}

// update replaces description, labels and limits of whatever version there is.
func (c *service) update(ctx context.Context, namespace string, l *Limit) (*Limit, error) {
	if err := checkLabels(l.Labels); err != nil {
		return nil, err
	}
	var written *object
	err := c.change(ctx, namespace, l.Name, func(o *object) (err error) {
		o.replace(l)
		written, err = c.store.update(ctx, o)
		return err
	}, "update")
	if err != nil {
		return nil, err
	}
	return written.limit(), nil
}

// remove deletes a limit and returns a message of what was done. Unless forced it refuses what pods or workloads have.
func (c *service) remove(ctx context.Context, namespace, name string, force bool) (string, error) {
	verbs := []string{"delete"}
	if force {
		verbs = append(verbs, "patch") // the annotation
	}
	err := c.change(ctx, namespace, name, func(o *object) error { return c.removeOnce(ctx, o, force) }, verbs...)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("resource limit %q is deleted", name), nil
}

func (c *service) removeOnce(ctx context.Context, o *object, force bool) error {
	if who := usedBy(&o.Status); who != "" && !force {
		return server.Refuse(codes.FailedPrecondition,
			fmt.Sprintf("resource limit %q is in use by %s; it can be deleted with force", o.Name, who))
	}
	if force && o.Annotations[v1alpha1.ForceDeleteAnnotation] != "true" {
		var err error
		if o, err = c.store.allowDeletion(ctx, o); err != nil {
			return err
		}
	}
	if o.DeletionTimestamp != nil {
		return nil // already under way
	}
	return c.store.remove(ctx, o)
}

// usedBy returns what uses a limit, "" if nothing does.
func usedBy(s *v1alpha1.ResourceLimitStatus) string {
	if s.PodCount == 0 && s.WorkloadCount == 0 && !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionInUse) {
		return ""
	}
	var names []string
	for _, w := range s.Workloads[:min(len(s.Workloads), namedWorkloads)] {
		names = append(names, fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name))
	}
	if len(s.Workloads) > namedWorkloads {
		names = append(names, "…")
	}
	who := count(s.PodCount, "pod")
	if s.WorkloadCount > 0 || s.PodCount == 0 {
		who += " and " + count(s.WorkloadCount, "workload")
	}
	if len(names) > 0 {
		who += ": " + strings.Join(names, ", ")
	}
	return who
}

func count(n int32, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// page is a part of a list. Next is empty at its end.
type page struct {
	limits []*Limit
	next   string
}

// list returns up to first limits, of those that match, from after on. nil means the default.
func (c *service) list(ctx context.Context, namespace string, selector labels.Selector, first *int32, after string) (*page, error) {
	n := defaultFirst
	if first != nil {
		if *first < 1 {
			return nil, server.InvalidField("first", fmt.Sprintf("is %d, and must be 1 or more", *first))
		}
		n = min(int(*first), maxFirst)
	}
	if err := c.authorize(ctx, namespace, "", "list"); err != nil {
		return nil, err
	}
	found, next, err := c.store.list(ctx, namespace, selector, after, n)
	if err != nil {
		return nil, ofToken(err, after)
	}
	return &page{shown(ctx, found...), next}, nil
}

// ofToken names the token in errors that it causes.
func ofToken(err error, after string) error {
	switch {
	case after == "":
		return err
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		e := server.Refuse(codes.Aborted, "after: the list has changed too much since this page; start again without after")
		e.Violations = []server.Violation{{Field: "after", Description: "has expired"}}
		e.HTTPStatus = http.StatusGone
		return e
	case apierrors.IsBadRequest(err):
		return server.InvalidField("after", "is no endCursor of this list: must be that of the page before, or absent for the first page")
	}
	return err
}
