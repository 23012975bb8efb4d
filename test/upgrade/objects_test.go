// SPDX-License-Identifier: Apache-2.0

package upgrade_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

// objects are what no one changes when Berth is replaced, by resource, namespace and name.
type objects map[string]*unstructured.Unstructured

// namespaces are those of the test, of its environments and of Berth.
func (s *site) namespaces() []string {
	s.T.Helper()
	all := []string{s.Namespace, "berth-system"}
	for _, e := range testenv.List(s.World, &v1alpha1.EnvironmentList{}).Items {
		all = append(all, e.Status.Namespace)
	}
	return all
}

// objects reads every object of these namespaces, the namespaces and the volumes.
func (s *site) objects() objects {
	s.T.Helper()
	lists, err := s.Kube.Discovery().ServerPreferredResources()
	require.NoError(s.T, err)
	namespaces, all := s.namespaces(), objects{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		require.NoError(s.T, err)
		for _, r := range l.APIResources {
			resource := gv.WithResource(r.Name).GroupResource()
			if !slices.Contains(r.Verbs, "list") || !kept(resource) {
				continue
			}
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gv.WithKind(r.Kind))
			require.NoError(s.T, s.Client.List(s.Ctx, list), "%s", resource)
			for _, o := range list.Items {
				if ours(&o, namespaces) {
					all[key(resource.String(), o.GetNamespace(), o.GetName())] = &o
				}
			}
		}
	}
	return all
}

// written are the resources that Berth writes, or those whose objects it would replace: each has an object here.
var written = []string{
	"capacitymixes.berth.dev", "deploymentrecords.berth.dev", "deploymenttemplates.berth.dev", "environments.berth.dev", "resourcelimits.berth.dev",
	"controllerrevisions.apps", "deployments.apps", "jobs.batch", "replicasets.apps", "statefulsets.apps",
	"ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io", "poddisruptionbudgets.policy",
	"namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "resourcequotas", "secrets", "services",
}

// resources are those of the objects.
func (o objects) resources() []string {
	all := map[string]bool{}
	for k := range o {
		resource, _, _ := strings.Cut(k, " ")
		all[resource] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func key(resource, namespace, name string) string { return resource + " " + namespace + "/" + name }

// ours reports whether an object is one of some namespaces, or such a namespace itself. Of no namespace are only the volumes here.
func ours(o *unstructured.Unstructured, namespaces []string) bool {
	switch {
	case o.GetNamespace() != "":
		return slices.Contains(namespaces, o.GetNamespace())
	case o.GetKind() == "Namespace":
		return slices.Contains(namespaces, o.GetName())
	}
	return o.GetKind() == "PersistentVolume"
}

// kept reports whether objects of a resource stay as they are. Roles are part of the manifests. Berth renews its leases, and a new
// leader does not count on in the events of its predecessor.
func kept(r schema.GroupResource) bool {
	return r.Resource != "leases" && r.Resource != "events" && r.Group != "rbac.authorization.k8s.io"
}

// changes are the differences to these objects now.
func (o objects) changes(now objects) (list []string) {
	for k, before := range o {
		switch after := now[k]; {
		case after == nil:
			list = append(list, "gone: "+k)
		case after.GetUID() != before.GetUID():
			list = append(list, "recreated: "+k)
		case after.GetResourceVersion() != before.GetResourceVersion():
			list = append(list, "written: "+k+"\n"+cmp.Diff(before.Object, after.Object))
		}
	}
	for k := range now {
		if o[k] == nil {
			list = append(list, "new: "+k)
		}
	}
	slices.Sort(list)
	return list
}

// settled waits until no object has changed for a while, and returns them.
func (s *site) settled() (last objects) {
	s.T.Helper()
	since := time.Now()
	s.Eventually("nothing changes any more", func() (bool, string) {
		now := s.objects()
		changes := last.changes(now)
		if len(changes) > 0 {
			last, since = now, time.Now()
		}
		return time.Since(since) > testenv.Holds, strings.Join(changes, "\n")
	})
	return last
}

// writes are what Berth has requested to write since a moment to the objects of the test that last, whatever came of it.
func (s *site) writes(to objects, since time.Time) (list []string) {
	s.T.Helper()
	users := []string{cluster.BerthSchedulerUser, cluster.BerthControllerUser, cluster.BerthRecordsUser, cluster.BerthEnvironmentsUser}
	namespaces := s.namespaces()
	for _, r := range s.AuditAll(func(r testenv.Request) bool {
		resource, _, _ := strings.Cut(r.Resource, "/")
		of := schema.GroupResource{Group: r.Group, Resource: resource}
		k := key(of.String(), r.Namespace, r.Name)
		// A create need not name its object. The certificate authority of the webhook is in the configuration of that.
		return r.Write() && r.At.After(since) && slices.Contains(users, r.User) && !s.rollsOut(k) &&
			(to[k] != nil || r.Resource == "mutatingwebhookconfigurations" ||
				slices.Contains(namespaces, r.Namespace) && kept(of))
	}) {
		list = append(list, fmt.Sprint(r))
	}
	return list
}

// rollsOut reports whether an object changes in this upgrade: those of the record and its pods, which have the labels oaas.io/owner and
// oaas.io/class, a readiness probe and the variable HTTP_PORT in this version only, the templates, whose port has another default, and
// the ServiceAccount of berth-records, which the earlier version has not.
func (s *site) rollsOut(key string) bool {
	of := s.Namespace + "/" + s.record.Name
	resource, name, _ := strings.Cut(key, " ")
	return resource == "deploymenttemplates.berth.dev" || resource == "serviceaccounts" && name == "berth-system/berth-records" || name == of || strings.HasPrefix(name, of+"-")
}

// lasting are the objects that no upgrade changes.
func (s *site) lasting(o objects) objects {
	o = maps.Clone(o)
	maps.DeleteFunc(o, func(key string, _ *unstructured.Unstructured) bool { return s.rollsOut(key) })
	return o
}

// unmarked is the specification of an object, with its labels, without what this version adds.
func unmarked(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	for _, labels := range [][]string{{"metadata", "labels"}, {"spec", "template", "metadata", "labels"}} {
		for _, label := range []string{"oaas.io/owner", "oaas.io/class"} {
			unstructured.RemoveNestedField(o.Object, append(slices.Clone(labels), label)...)
		}
	}
	containers, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "spec", "containers")
	if list, is := containers.([]any); is {
		for _, c := range list {
			delete(c.(map[string]any), "readinessProbe")
			delete(c.(map[string]any), "env") // HTTP_PORT: the record has no variables
		}
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	return map[string]any{"uid": string(o.GetUID()), "labels": o.GetLabels(), "spec": spec}
}
