// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"strings"

	authv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// right is something that someone has to be allowed to do.
type right struct{ verb, group, resource, subresource string }

func (a right) String() string {
	s := a.resource
	if a.subresource != "" {
		s += "/" + a.subresource
	}
	if a.group != "" {
		s += "." + a.group
	}
	return a.verb + " " + s
}

// What this CLI reads, and the rights without which scheduler and controller do
// nothing. The full lists are in manifests/rbac.
var (
	ownNeeds = []right{
		{"list", "", "pods", ""},
		{"list", "", "nodes", ""},
		{"list", "berth.dev", "capacitymixes", ""},
		{"list", "berth.dev", "resourcelimits", ""},
		{"list", "apps", "replicasets", ""},
		{"list", "apps", "deployments", ""},
		{"list", "apps", "statefulsets", ""},
		{"list", "batch", "jobs", ""},
		{"list", "policy", "poddisruptionbudgets", ""},
	}
	schedulerNeeds = []right{
		{"list", "berth.dev", "capacitymixes", ""},
		{"watch", "berth.dev", "capacitymixes", ""},
		{"list", "berth.dev", "resourcelimits", ""},
		{"watch", "berth.dev", "resourcelimits", ""},
		{"watch", "", "pods", ""},
		{"watch", "", "nodes", ""},
		{"watch", "apps", "replicasets", ""},
		{"watch", "apps", "statefulsets", ""},
		{"watch", "apps", "deployments", ""},
		{"watch", "batch", "jobs", ""},
		{"create", "", "pods", "binding"},
		{"patch", "", "pods", "status"},
		{"watch", "policy", "poddisruptionbudgets", ""},
	}
	controllerNeeds = []right{
		{"watch", "berth.dev", "capacitymixes", ""},
		{"patch", "berth.dev", "capacitymixes", "status"},
		{"watch", "berth.dev", "resourcelimits", ""},
		{"patch", "berth.dev", "resourcelimits", ""},
		{"patch", "berth.dev", "resourcelimits", "status"},
		{"watch", "", "pods", ""},
		{"watch", "", "nodes", ""},
		{"create", "", "pods", "eviction"},
		{"list", "policy", "poddisruptionbudgets", ""},
		{"list", "apps", "replicasets", ""},
	}
)

func (p *patient) ownRights(ctx context.Context, r *Report) {
	const check = "your rights"
	var missing []string
	for _, a := range ownNeeds {
		namespace := p.namespace
		if a.resource == "nodes" {
			namespace = ""
		}
		review := &authv1.SelfSubjectAccessReview{Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a.attributes(namespace)}}
		got, err := p.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			r.add(Warn, check, "none", "the API server cannot review access: %v", err)
			return
		}
		if !got.Status.Allowed {
			missing = append(missing, a.String())
		}
	}
	if len(missing) > 0 {
		r.add(Warn, check, "bind ClusterRole view, which includes berth-view, and one that lists nodes", "not allowed: %s",
			strings.Join(missing, ", "))
		return
	}
	r.add(OK, check, "", "you may read everything that this plugin shows")
}

func (a right) attributes(namespace string) *authv1.ResourceAttributes {
	return &authv1.ResourceAttributes{Verb: a.verb, Group: a.group, Resource: a.resource, Subresource: a.subresource, Namespace: namespace}
}

// controllerAccount is the service account of manifests/rbac/controller.yaml.
const controllerAccount = "berth-controller"

// feature is something that is off unless someone wants it, and that the controller needs more rights for.
type feature struct {
	name string
	// account is the service account of the program that runs it.
	account string
	// inUse says whether the cluster has something that needs it.
	inUse func(ctx context.Context, c client.Client) bool
	needs []right
	// files are what grants the rights.
	files string
}

// features are those of which no one has to say that they are on: they are checked where they are used.
var features = []feature{
	{
		"placeholders", controllerAccount, usesPlaceholders,
		[]right{{"create", "", "pods", ""}, {"delete", "", "pods", ""}},
		rbacFiles + "/placeholders",
	},
	{"DeploymentRecords", controllerAccount, func(ctx context.Context, c client.Client) bool {
		return hasAny(ctx, c, &v1alpha1.DeploymentRecordList{})
	}, []right{
		{"watch", "berth.dev", "deploymentrecords", ""},
		{"patch", "berth.dev", "deploymentrecords", "status"},
		{"create", "apps", "deployments", ""},
		{"create", "", "services", ""},
		{"create", "autoscaling", "horizontalpodautoscalers", ""},
	}, rbacFiles + "/records"},
	{"Environments", "berth-environments", func(ctx context.Context,
		c client.Client,
	) bool {
		return hasAny(ctx, c, &v1alpha1.EnvironmentList{})
	}, []right{
		{"watch", "berth.dev", "environments", ""},
		{"patch", "berth.dev", "environments", "status"},
		{"create", "", "namespaces", ""},
		{"create", "", "secrets", ""},
		{"create", "apps", "deployments", ""},
		{"create", "apps", "statefulsets", ""},
		{"create", "", "persistentvolumeclaims", ""},
	}, rbacFiles + "/environments"},
}

// hasAny says whether there is an object of a kind that one may list.
func hasAny(ctx context.Context, c client.Client, list client.ObjectList) bool {
	return c.List(ctx, list, client.Limit(1)) == nil && meta.LenList(list) > 0
}

func usesPlaceholders(ctx context.Context, c client.Client) bool {
	var mixes v1alpha1.CapacityMixList
	if err := c.List(ctx, &mixes); err != nil {
		return false // what may not be read is told elsewhere
	}
	for i := range mixes.Items {
		if r := mixes.Items[i].Spec.Rebalance; r != nil && r.Provisioning == v1alpha1.ProvisioningPlaceholder {
			return true
		}
	}
	return false
}

// accountRights checks the service accounts of manifests/rbac. If Berth runs under another identity, the result is about these all the
// same.
func (p *patient) accountRights(ctx context.Context, r *Report) {
	p.rightsOf(ctx, r, "berth-scheduler", "", schedulerNeeds, Fail, rbacFiles)
	p.rightsOf(ctx, r, controllerAccount, "", controllerNeeds, Warn, rbacFiles)
	for _, f := range features {
		if f.inUse(ctx, p.client) {
			p.rightsOf(ctx, r, f.account, " for "+f.name, f.needs, Warn, f.files)
		}
	}
}

// rightsOf asks whether a service account may do what it needs, and says what grants it that.
func (p *patient) rightsOf(ctx context.Context, r *Report, account, purpose string, needs []right, level Level, files string) {
	check := "rights of " + account + purpose
	var missing []string
	for _, a := range needs {
		got, err := p.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx,
			&authv1.SubjectAccessReview{Spec: authv1.SubjectAccessReviewSpec{
				ResourceAttributes: a.attributes(""), User: "system:serviceaccount:" + p.systemNamespace + ":" + account,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + p.systemNamespace, "system:authenticated"},
			}}, metav1.CreateOptions{})
		switch {
		case apierrors.IsForbidden(err):
			r.add(Warn, check, "run this command as a user who may create subjectaccessreviews",
				"not allowed: create subjectaccessreviews.authorization.k8s.io")
			return
		case err != nil:
			r.add(Warn, check, "none", "%v", err)
			return
		case !got.Status.Allowed:
			missing = append(missing, a.String())
		}
	}
	if len(missing) > 0 {
		r.add(level, check, files, "not allowed: %s", strings.Join(missing, ", "))
		return
	}
	r.add(OK, check, "", "service account %s/%s has the rights that it needs", p.systemNamespace, account)
}
