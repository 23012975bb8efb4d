// SPDX-License-Identifier: Apache-2.0

// Package live reads once from the API what internal/mix/overview shows of a cluster. It writes nothing: a plan is validated in a dry run.
package live

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/kinds"
	"berth.dev/berth/internal/mix/overview"
)

// Load reads a namespace, or all with "". What may not be read is a problem of
// the result; any other failure is an error.
func Load(ctx context.Context, c client.Client, s *overview.Settings, namespace string) (*overview.Cluster, error) {
	l := &loader{ctx: ctx, client: c}
	pods := objects[*corev1.Pod](l, namespace, "pods", &corev1.PodList{})
	nodes := objects[*corev1.Node](l, "", "nodes", &corev1.NodeList{})
	mixes := objects[*v1alpha1.CapacityMix](l, namespace, overview.MixesResource, &v1alpha1.CapacityMixList{})
	owners := slices.Concat(
		owners(l, namespace, "replicasets.apps", &appsv1.ReplicaSetList{}),
		owners(l, namespace, "deployments.apps", &appsv1.DeploymentList{}),
		owners(l, namespace, "statefulsets.apps", &appsv1.StatefulSetList{}),
		owners(l, namespace, "jobs.batch", &batchv1.JobList{}))
	budgets := objects[*policyv1.PodDisruptionBudget](l, namespace, "poddisruptionbudgets.policy", &policyv1.PodDisruptionBudgetList{})
	if l.err != nil {
		return nil, l.err
	}
	out := overview.NewCluster(s, pods, nodes, mixes, owners, budgets)
	out.Problems = l.problems
	return out, nil
}

// loader lists until something fails that is not a missing right.
type loader struct {
	ctx      context.Context
	client   client.Client
	problems []overview.Problem
	err      error
}

// objects lists objects of one type, of all namespaces with "".
func objects[T client.Object](l *loader, namespace, resource string, empty client.ObjectList) []T {
	if l.err != nil {
		return nil
	}
	all, err := kinds.List[T](l.ctx, l.client, empty, client.InNamespace(namespace))
	if err != nil {
		l.failed(namespace, resource, err)
	}
	return all
}

func (l *loader) failed(namespace, resource string, err error) {
	where := ""
	if namespace != "" {
		where = " in namespace " + namespace
	}
	problem := overview.Problem{Verb: "list", Resource: resource, Namespace: namespace}
	switch {
	case apierrors.IsForbidden(err):
		problem.Message = fmt.Sprintf("not allowed: list %s%s", resource, where)
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		problem.Message, problem.NotServed = fmt.Sprintf("the API server does not serve %s: is Berth installed?", resource), true
	default:
		l.err = fmt.Errorf("list %s%s: %w", resource, where, err)
		return
	}
	l.problems = append(l.problems, problem)
}

// owners are objects of which only their metadata matter.
func owners(l *loader, namespace, resource string, empty client.ObjectList) (all []metav1.Object) {
	for _, o := range objects[client.Object](l, namespace, resource, empty) {
		all = append(all, o)
	}
	return all
}
