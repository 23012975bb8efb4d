// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/overview"
)

// The API servers that Berth is tested with.
const (
	oldestServer = "1.35"
	newestServer = "1.37"
)

const (
	controllerLease = "berth-controller"
	rbacFiles       = "kubectl apply -k manifests/rbac"
	installCRDs     = "kubectl apply -k manifests/crds"
)

func (p *patient) version(r *Report) error {
	const check = "server version"
	info, err := p.discovery.ServerVersion()
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	v, err := utilversion.ParseGeneric(info.GitVersion)
	if err == nil {
		v = utilversion.MajorMinor(v.Major(), v.Minor())
	}
	switch minor := v; {
	case err != nil: // a warning, not a failure: all else can be looked at
		r.add(Warn, check, "none", "the API server reports version %q, which cannot be parsed", info.GitVersion)
	case minor.LessThan(utilversion.MustParseGeneric(oldestServer)):
		r.add(Fail, check, "update the control plane", "%s is older than %s, the oldest version that the scheduler supports",
			info.GitVersion, oldestServer)
	case minor.GreaterThan(utilversion.MustParseGeneric(newestServer)):
		r.add(Warn, check, "update Berth", "%s is newer than %s, the latest version that Berth is tested with", info.GitVersion,
			newestServer)
	default:
		r.add(OK, check, "", "%s", info.GitVersion)
	}
	return nil
}

// resources are Berth's kinds and the fields by which a CRD of an older release is known. The kinds of a feature require each other; those
// of no feature are always required.
var resources = []struct {
	kind, plural, feature string
	fields                [][]string
}{
	{"CapacityMix", "capacitymixes", "", [][]string{{"spec", "rebalance"}, {"status", "workloads"}}},
	{"ResourceLimit", "resourcelimits", "", [][]string{{"spec", "nodeAffinity"}, {"status", "workloads"}}},
	{"SchedulingPolicy", "schedulingpolicies", "", [][]string{{"spec", "decisions"}, {"status", "podCount"}}},
	{"Reservation", "reservations", "", [][]string{{"spec", "allocateOnce"}, {"status", "heldCount"}}},
	{"SchedulingDecision", "schedulingdecisions", "", [][]string{{"attempt", "outcome"}, {"expirationTime"}}},
	{"DeploymentRecord", "deploymentrecords", "DeploymentRecords", [][]string{{"spec", "enforcement"}, {"status", "nfrWindows"}}},
	{"DeploymentTemplate", "deploymenttemplates", "DeploymentRecords", [][]string{{"spec", "selection"}, {"status", "recordCount"}}},
	{"Environment", "environments", "Environments", [][]string{{"spec", "forceStop"}, {"status", "openStages"}}},
	{"DatabaseBackup", "databasebackups", "Environments", [][]string{{"spec", "verify"}, {"status", "phase"}}},
	{"DatabaseBackupSchedule", "databasebackupschedules", "Environments", [][]string{{"spec", "keep"}, {"status", "lastBackup"}}},
	{"DatabaseRestore", "databaserestores", "Environments", [][]string{{"spec", "backup"}, {"status", "phase"}}},
}

// crds reports whether CapacityMix is served in the version of this CLI. It checks the other kinds too.
func (p *patient) crds(ctx context.Context, r *Report) bool {
	list, err := p.discovery.ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	served := map[string]bool{}
	if err == nil {
		for i := range list.APIResources {
			served[list.APIResources[i].Kind] = true
		}
	}
	features := map[string]bool{"": true}
	for _, resource := range resources {
		features[resource.feature] = features[resource.feature] || served[resource.kind]
	}
	for _, resource := range resources {
		check, name := resource.kind+" resource", resource.plural+"."+v1alpha1.GroupName
		switch {
		case served[resource.kind], resource.feature == "":
			p.crd(ctx, r, served[resource.kind], check, name, resource.fields)
		case features[resource.feature]:
			r.add(Warn, check, installCRDs, "%s is not served, and %s require it", name, resource.feature)
		}
	}
	return served["CapacityMix"]
}

func (p *patient) crd(ctx context.Context, r *Report, served bool, check, name string, fields [][]string) {
	if !served {
		r.add(Fail, check, installCRDs, "%s is not served in version %s", name, v1alpha1.SchemeGroupVersion.Version)
		return
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := p.client.Get(ctx, client.ObjectKey{Name: name}, object); err == nil { // else its fields cannot be compared, and it is served
		for _, field := range fields {
			if !hasField(object, field...) {
				r.add(Warn, check, installCRDs, "served by an older CRD: field %s is missing", strings.Join(field, "."))
				return
			}
		}
	}
	r.add(OK, check, "", "served in version %s", v1alpha1.SchemeGroupVersion.Version)
}

// hasField reports whether a CRD has a field in the version of this CLI.
func hasField(crd *unstructured.Unstructured, path ...string) bool {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok || version["name"] != v1alpha1.SchemeGroupVersion.Version {
			continue
		}
		fields := []string{"schema", "openAPIV3Schema"}
		for _, f := range path {
			fields = append(fields, "properties", f)
		}
		_, found, _ := unstructured.NestedMap(version, fields...)
		return found
	}
	return false
}

func (p *patient) profile(r *Report) {
	const check = "scheduler profile"
	switch s := p.settings; {
	case p.settingsErr != nil:
		r.add(Fail, check, "correct the configuration: a profile must enable the plugin CapacityMix (manifests/scheduler)", "%v",
			p.settingsErr)
	case s.Source == overview.ShippedDefaults:
		r.add(Warn, check, "set the namespace of Berth with --system-namespace, or the configuration file of the scheduler with --scheduler-config",
			"no configuration can be read: the checks use the default node rules and names")
	default:
		r.add(OK, check, "", "CapacityMix is enabled for %s by %s", strings.Join(s.Profile.SchedulerNames, ", "), s.Source)
	}
}

// controller reports which configuration of the controller the checks, plans and drains use.
func (p *patient) controller(r *Report) {
	const check = "controller configuration"
	switch s := p.settings; {
	case s == nil:
	case s.ControllerErr != nil:
		r.add(Warn, check, "use the kubectl berth of the version that is installed, or correct the configuration", "%v", s.ControllerErr)
	case s.ControllerSource == overview.ShippedDefaults:
		r.add(OK, check, "", "none can be read: what a mix does not specify about moves is taken to be as shipped")
	default:
		r.add(OK, check, "", "what a mix does not specify about moves is as in %s", s.ControllerSource)
	}
}

func (p *patient) leases(ctx context.Context, r *Report) {
	switch s := p.settings; {
	case s == nil:
	case s.Profile.Lease.Name == "":
		r.add(Warn, "scheduler", "enable leaderElection",
			"the configuration has no leader election, so this check cannot determine whether the scheduler runs")
	default:
		p.leaderless = !p.lease(ctx, r, "scheduler", s.Profile.Lease.Namespace, s.Profile.Lease.Name, Fail,
			"start berth-scheduler: without it the pods that use it stay pending")
	}
	p.lease(ctx, r, "controller", p.systemNamespace, controllerLease, Warn,
		"start berth-controller: without it no replica is moved, and mixes have no status")
}

// lease reports whether a leader has renewed its lease in time.
func (p *patient) lease(ctx context.Context, r *Report, check, namespace, name string, level Level, next string) (leads bool) {
	lease, err := p.kube.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		r.add(level, check, next, "lease %s/%s does not exist: no instance has ever been the leader", namespace, name)
		return false
	case err != nil:
		r.add(Warn, check, "get the right to get leases in namespace "+namespace, "lease %s/%s: %v", namespace, name, err)
		return true // as far as the lease shows
	}
	holder, renewed := ptr.Deref(lease.Spec.HolderIdentity, ""), ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 15)) * time.Second
	switch {
	case holder == "":
		r.add(level, check, next, "lease %s/%s has no holder", namespace, name)
	case p.now.Sub(renewed) > lasts:
		r.add(level, check, next, "lease %s/%s of %s was last renewed %s ago", namespace, name, holder, printers.Age(p.now, renewed))
	default:
		r.add(OK, check, "", "%s holds lease %s/%s", holder, namespace, name)
		return true
	}
	return false
}
