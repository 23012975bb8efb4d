// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"slices"
	"strings"

	authv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// right is something that someone has to be allowed to do: "patch pods/status", "list deployments.apps", "get configmaps one" of one
// object.
type right string

func (a right) attributes(namespace string) *authv1.ResourceAttributes {
	verb, what, _ := strings.Cut(string(a), " ")
	what, name, _ := strings.Cut(what, " ")
	what, group, _ := strings.Cut(what, ".")
	resource, subresource, _ := strings.Cut(what, "/")
	return &authv1.ResourceAttributes{
		Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name,
	}
}

// What this CLI reads, and the rights without which scheduler and controller do
// nothing. The full lists are in manifests/rbac.
var (
	ownNeeds = []right{
		"list pods", listNodes, "list capacitymixes.berth.dev", "list resourcelimits.berth.dev", "list schedulingpolicies.berth.dev",
		"list reservations.berth.dev", "list replicasets.apps", "list deployments.apps", "list statefulsets.apps", "list jobs.batch", "list poddisruptionbudgets.policy",
	}
	schedulerNeeds = []right{
		"list capacitymixes.berth.dev", "watch capacitymixes.berth.dev", "list resourcelimits.berth.dev", "watch resourcelimits.berth.dev",
		"list schedulingpolicies.berth.dev", "watch schedulingpolicies.berth.dev", "list reservations.berth.dev",
		"watch reservations.berth.dev", "update reservations/status.berth.dev", "delete reservations.berth.dev", "watch pods", "watch nodes",
		"watch replicasets.apps", "watch statefulsets.apps", "watch deployments.apps", "watch jobs.batch",
		"create pods/binding", "patch pods/status", "watch poddisruptionbudgets.policy", "watch devicetaintrules.resource.k8s.io",
	}
	controllerNeeds = []right{
		"watch capacitymixes.berth.dev", "patch capacitymixes/status.berth.dev", "watch resourcelimits.berth.dev",
		"patch resourcelimits.berth.dev", "patch resourcelimits/status.berth.dev", "watch schedulingpolicies.berth.dev",
		"patch schedulingpolicies/status.berth.dev", "watch pods", "watch nodes", "watch namespaces", "create pods/eviction",
		"list poddisruptionbudgets.policy", "list replicasets.apps",
	}
)

// listNodes is the right on objects without a namespace.
const listNodes right = "list nodes"

// denied returns the rights that a review does not allow.
func denied(needs []right, review func(right) (allowed bool, err error)) (missing []string, err error) {
	for _, a := range needs {
		allowed, err := review(a)
		if err != nil {
			return nil, err
		}
		if !allowed {
			missing = append(missing, string(a))
		}
	}
	return missing, nil
}

func (p *patient) ownRights(ctx context.Context, r *Report) {
	const check = "your rights"
	missing, err := denied(ownNeeds, func(a right) (bool, error) {
		namespace := p.namespace
		if a == listNodes {
			namespace = ""
		}
		review := &authv1.SelfSubjectAccessReview{Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a.attributes(namespace)}}
		got, err := p.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && got.Status.Allowed, err
	})
	switch {
	case err != nil:
		r.add(Warn, check, "none", "the API server cannot review access: %v", err)
	case len(missing) > 0:
		r.add(Warn, check, "bind ClusterRole view, which includes berth-view, and one that lists nodes", "not allowed: %s",
			strings.Join(missing, ", "))
	default:
		r.add(OK, check, "", "you may read everything that this plugin shows")
	}
}

// controllerAccount is the service account of manifests/rbac/controller.yaml.
const controllerAccount = "berth-controller"

// feature is optional, off by default, and needs more rights of the controller.
type feature struct {
	name string
	// account is the service account of the program that runs it, unless that of berth-controller has the permissions of all.
	account string
	// inUse reports whether the cluster has something that needs it.
	inUse func(ctx context.Context, c client.Client) bool
	needs []right
	// files are what grants the rights.
	files string
}

// features need no setting to be on: their rights are checked where they are used.
var features = []feature{
	{
		"placeholders", controllerAccount, usesPlaceholders,
		[]right{"create pods", "delete pods"},
		rbacFiles + "/placeholders",
	},
	{
		"DeploymentRecords", "berth-records", hasAny(&v1alpha1.DeploymentRecordList{}),
		[]right{
			"watch deploymentrecords.berth.dev", "patch deploymentrecords/status.berth.dev", "create deployments.apps", "create services",
			"create horizontalpodautoscalers.autoscaling",
		},
		rbacFiles + "/records",
	},
	{
		"Environments", "berth-environments", hasAny(&v1alpha1.EnvironmentList{}),
		[]right{
			"watch environments.berth.dev", "patch environments/status.berth.dev", "create namespaces", "create secrets",
			"create deployments.apps", "create statefulsets.apps", "create persistentvolumeclaims",
			"watch databasebackups.berth.dev", "patch databasebackups/status.berth.dev", "create jobs.batch",
		},
		rbacFiles + "/environments",
	},
}

// hasAny reports whether there is an object of a kind that one may list.
func hasAny(kind client.ObjectList) func(context.Context, client.Client) bool {
	return func(ctx context.Context, c client.Client) bool {
		list, _ := kind.DeepCopyObject().(client.ObjectList)
		return c.List(ctx, list, client.Limit(1)) == nil && meta.LenList(list) > 0
	}
}

func usesPlaceholders(ctx context.Context, c client.Client) bool {
	var mixes v1alpha1.CapacityMixList
	if err := c.List(ctx, &mixes); err != nil {
		return false // another check reports what may not be read
	}
	return slices.ContainsFunc(mixes.Items, func(m v1alpha1.CapacityMix) bool {
		r := m.Spec.Rebalance
		return r != nil && r.Provisioning == v1alpha1.ProvisioningPlaceholder
	})
}

// accountRights checks the service accounts of manifests/rbac. If Berth runs under another identity, the result is about these all the
// same.
func (p *patient) accountRights(ctx context.Context, r *Report) {
	p.rightsOf(ctx, r, "", schedulerNeeds, Fail, rbacFiles, "berth-scheduler")
	p.rightsOf(ctx, r, "", controllerNeeds, Warn, rbacFiles, controllerAccount)
	for _, f := range features {
		if f.inUse(ctx, p.client) {
			p.rightsOf(ctx, r, " for "+f.name, f.needs, Warn, f.files, f.account, controllerAccount)
		}
	}
}

// signalNeeds are the rights without which a pod waits for all of spotWaitSeconds, whatever an autoscaler reports about it.
var signalNeeds = []right{"list events", "watch events"}

// signalRights checks whether the scheduler may read what the autoscalers of the cluster report.
func (p *patient) signalRights(ctx context.Context, r *Report) {
	if p.autoscalers.Any() {
		p.rightsOf(ctx, r, " for the reports of autoscalers", signalNeeds, Warn, rbacFiles, "berth-scheduler")
	}
}

// deniedTo returns the rights that a service account in Berth's namespace lacks in a namespace, "" for all.
func (p *patient) deniedTo(ctx context.Context, account, namespace string, needs []right) (missing []string, err error) {
	return denied(needs, func(a right) (bool, error) {
		got, err := p.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx,
			&authv1.SubjectAccessReview{Spec: authv1.SubjectAccessReviewSpec{
				ResourceAttributes: a.attributes(namespace), User: "system:serviceaccount:" + p.systemNamespace + ":" + account,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + p.systemNamespace, "system:authenticated"},
			}}, metav1.CreateOptions{})
		return err == nil && got.Status.Allowed, err
	})
}

// rightsOf checks whether a service account, or another one in its place, may do what it needs, and names the files that grant it.
func (p *patient) rightsOf(
	ctx context.Context, r *Report, purpose string, needs []right, level Level, files, account string, instead ...string,
) {
	missing, err := p.deniedTo(ctx, account, "", needs)
	for _, other := range instead {
		if err != nil || len(missing) == 0 {
			break
		}
		if lacking, err := p.deniedTo(ctx, other, "", needs); err == nil && len(lacking) == 0 {
			account, missing = other, nil
		}
	}
	check := "rights of " + account + purpose
	switch {
	case err != nil:
		r.unreviewed(check, err)
	case len(missing) > 0:
		r.add(level, check, files, "not allowed: %s", strings.Join(missing, ", "))
	default:
		r.add(OK, check, "", "service account %s/%s has the rights that it needs", p.systemNamespace, account)
	}
}

// unreviewed adds that rights cannot be reviewed.
func (r *Report) unreviewed(check string, err error) {
	if apierrors.IsForbidden(err) {
		r.add(Warn, check, "run this command as a user who may create subjectaccessreviews",
			"not allowed: create subjectaccessreviews.authorization.k8s.io")
		return
	}
	r.add(Warn, check, "none", "%v", err)
}
