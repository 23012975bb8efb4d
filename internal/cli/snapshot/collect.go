// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/kinds"
	"berth.dev/berth/internal/sim/snapshot"
)

// listed is a list of the API that a snapshot has.
type listed struct {
	// list is its name in the snapshot, and resource the one that a right has.
	list, resource string
	empty          client.ObjectList
	namespaced     bool
	// required lists are those without which no simulation is possible.
	required bool
}

// lists are read in this order: nodes first, as a node that is newer than the list of pods would seem to be empty.
var lists = []listed{
	{"nodes", "nodes", &corev1.NodeList{}, false, true},
	{"pods", "pods", &corev1.PodList{}, true, true},
	{"replicaSets", "replicasets.apps", &appsv1.ReplicaSetList{}, true, false},
	{"deployments", "deployments.apps", &appsv1.DeploymentList{}, true, false},
	{"statefulSets", "statefulsets.apps", &appsv1.StatefulSetList{}, true, false},
	{"jobs", "jobs.batch", &batchv1.JobList{}, true, false},
	{"podDisruptionBudgets", "poddisruptionbudgets.policy", &policyv1.PodDisruptionBudgetList{}, true, false},
	{"capacityMixes", "capacitymixes.berth.dev", &v1alpha1.CapacityMixList{}, true, false},
	{"resourceLimits", "resourcelimits.berth.dev", &v1alpha1.ResourceLimitList{}, true, false},
	{"schedulingPolicies", "schedulingpolicies.berth.dev", &v1alpha1.SchedulingPolicyList{}, true, false},
	{"reservations", "reservations.berth.dev", &v1alpha1.ReservationList{}, true, false},
	{"priorityClasses", "priorityclasses.scheduling.k8s.io", &schedulingv1.PriorityClassList{}, false, false},
}

const namespaces = "namespaces"

// step is after how many objects of a list the progress is reported.
const step = 5000

// collector reads a cluster into a snapshot.
type collector struct {
	client  client.Client
	builder *snapshot.Builder
	// namespace is the only one, "" for all.
	namespace string
	note      func(format string, args ...any)
}

// collect reads all lists. What may not be read is noted and missing, unless it is required.
func (c *collector) collect(ctx context.Context) error {
	for i := range lists {
		l := &lists[i]
		action := "list " + l.resource
		if l.namespaced && c.namespace != "" {
			action += " in " + printers.InNamespace(c.namespace)
		}
		if err := c.left(l, action, c.read(ctx, l)); err != nil {
			return err
		}
	}
	all := &listed{list: namespaces, resource: namespaces, empty: &corev1.NamespaceList{}}
	if c.namespace == "" {
		return c.left(all, "list namespaces", c.read(ctx, all))
	}
	return c.left(all, "get "+printers.InNamespace(c.namespace), c.readNamespace(ctx))
}

// read reads a list, reduced page by page.
func (c *collector) read(ctx context.Context, l *listed) error {
	n := 0
	var options []client.ListOption
	if l.namespaced {
		options = append(options, client.InNamespace(c.namespace))
	}
	return kinds.Pages(ctx, c.client, l.empty, func() { n = 0; c.builder.Remove(l.list) }, func(page []client.Object) error {
		for _, o := range page {
			if err := c.builder.Add(o); err != nil {
				return err
			}
		}
		if n/step != (n+len(page))/step {
			c.note("Read %d %s.", n+len(page), l.resource)
		}
		n += len(page)
		return nil
	}, options...)
}

// readNamespace reads the only namespace: selectors of namespaces select by its labels.
func (c *collector) readNamespace(ctx context.Context) error {
	n := &corev1.Namespace{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: c.namespace}, n); err != nil {
		return err
	}
	return c.builder.Add(n)
}

// left decides about a list that could not be read.
func (c *collector) left(l *listed, action string, err error) error {
	reason := snapshot.NotServed
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		reason = snapshot.Forbidden
	case !kinds.NotServed(err):
		return fmt.Errorf("%s: %w", action, err)
	}
	if l.required {
		return fmt.Errorf("a snapshot requires the right to %s: %w", action, err)
	}
	c.builder.Remove(l.list)
	c.builder.Missing(l.list, reason)
	if reason == snapshot.Forbidden {
		c.note("Left out: %s. You may not %s.", l.resource, action)
	} else {
		c.note("Left out: %s. The API server does not serve them.", l.resource)
	}
	return nil
}
