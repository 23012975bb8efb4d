// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/kube/kinds"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/records/render"
)

const knativeServing = "serving.knative.dev"

// The kinds whose objects have more to show than that they exist.
var (
	kindMix        = v1alpha1.SchemeGroupVersion.WithKind("CapacityMix")
	kindLimit      = v1alpha1.SchemeGroupVersion.WithKind("ResourceLimit")
	kindDeployment = appsv1.SchemeGroupVersion.WithKind("Deployment")
	kindKnative    = schema.GroupVersionKind{Group: knativeServing, Version: "v1", Kind: "Service"}
	kindHPA        = autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")
	kindService    = corev1.SchemeGroupVersion.WithKind("Service")
)

// recordParts are what the cluster has of a record now.
type recordParts struct {
	rec *v1alpha1.DeploymentRecord
	// cluster has the pods and nodes of the record's namespace.
	cluster *overview.Cluster
	// objects are the record's, by kind and name.
	objects map[objectKey]client.Object
	// read are the kinds that could be listed: what is not among the objects is not there.
	read map[schema.GroupKind]bool
}

// objectKey is an object of the record's namespace. Versions of one kind are one object.
type objectKey struct {
	schema.GroupKind
	name string
}

// readParts reads what there is of a record, and prints to stderr what it could not read.
func readParts(ctx context.Context, o *command.Options, c client.Client, rec *v1alpha1.DeploymentRecord) (*recordParts, error) {
	cluster, err := access.Installation(o).Load(ctx, c, rec.Namespace)
	if err != nil {
		return nil, err
	}
	for _, problem := range cluster.Problems {
		o.Warn("%s", problem)
	}
	p := &recordParts{rec: rec, cluster: cluster, objects: map[objectKey]client.Object{}, read: map[schema.GroupKind]bool{}}
	lists := map[schema.GroupVersionKind]client.ObjectList{
		kindMix: &v1alpha1.CapacityMixList{}, kindLimit: &v1alpha1.ResourceLimitList{}, kindDeployment: &appsv1.DeploymentList{},
		kindHPA: &autoscalingv2.HorizontalPodAutoscalerList{}, kindService: &corev1.ServiceList{},
	}
	for _, ref := range rec.Status.ResourceRefs {
		if groupKindOf(ref) == kindKnative.GroupKind() { // else the API need not even be there
			lists[kindKnative] = kinds.ListOf(kindKnative)
		}
	}
	byName := func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) }
	for _, kind := range slices.SortedFunc(maps.Keys(lists), byName) {
		list := lists[kind]
		err := c.List(ctx, list, client.InNamespace(rec.Namespace), client.MatchingLabels{v1alpha1.OwnerLabel: render.LabelValue(rec.Name)})
		switch {
		case apierrors.IsForbidden(err):
			o.Warn("not allowed: list %s of group %q in namespace %s", plural(kind.Kind), kind.Group, rec.Namespace)
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			o.Warn("the API server does not serve %s of group %q", plural(kind.Kind), kind.Group)
		case err != nil:
			return nil, fmt.Errorf("list %s of group %q in namespace %s: %w", plural(kind.Kind), kind.Group, rec.Namespace, err)
		default:
			p.keep(kind.GroupKind(), list)
		}
	}
	return p, nil
}

// keep takes the record's own objects out of a list.
func (p *recordParts) keep(kind schema.GroupKind, list client.ObjectList) {
	p.read[kind] = true
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(client.Object); ok && metav1.IsControlledBy(object, p.rec) {
			p.objects[objectKey{kind, object.GetName()}] = object
		}
		return nil
	})
}

func groupKindOf(ref v1alpha1.ResourceRef) schema.GroupKind {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
}

func plural(kind string) string {
	if strings.HasSuffix(kind, "x") {
		return strings.ToLower(kind) + "es"
	}
	return strings.ToLower(kind) + "s"
}

// deployment returns the Deployment of a name, nil if it is not there or could not be read.
func (p *recordParts) deployment(name string) *appsv1.Deployment {
	d, _ := p.objects[objectKey{kindDeployment.GroupKind(), name}].(*appsv1.Deployment)
	return d
}

// hpa is the same for a HorizontalPodAutoscaler.
func (p *recordParts) hpa(name string) *autoscalingv2.HorizontalPodAutoscaler {
	h, _ := p.objects[objectKey{kindHPA.GroupKind(), name}].(*autoscalingv2.HorizontalPodAutoscaler)
	return h
}

// podsRead is whether pods and nodes could be read.
func (p *recordParts) podsRead() bool {
	return !p.cluster.Missing("pods") && !p.cluster.Missing("nodes")
}

// podsLike are the live pods of the workload that has the labels.
func (p *recordParts) podsLike(labels map[string]string) (pods []*clusterstate.Pod) {
	for _, pod := range p.cluster.State.AllPods(p.rec.Namespace) {
		if pod.Live() && pod.Labels[v1alpha1.OwnerLabel] == render.LabelValue(p.rec.Name) &&
			pod.Labels[v1alpha1.ComponentLabel] == labels[v1alpha1.ComponentLabel] &&
			pod.Labels[v1alpha1.FunctionLabel] == labels[v1alpha1.FunctionLabel] &&
			pod.Labels[v1alpha1.AddonLabel] == labels[v1alpha1.AddonLabel] {
			pods = append(pods, pod)
		}
	}
	return pods
}

// component is a function, the ODGM or an add-on; zero is the record as a whole.
type component struct {
	function string
	odgm     bool
	addon    string
}

// component returns the part of the record that an object is for, by its labels.
func (p *recordParts) component(labels map[string]string) component {
	switch labels[v1alpha1.ComponentLabel] {
	case render.ComponentODGM:
		return component{odgm: true}
	case render.ComponentAddon:
		return component{addon: labels[v1alpha1.AddonLabel]}
	}
	for i := range p.rec.Status.Functions {
		if key := p.rec.Status.Functions[i].FunctionKey; render.Hash(key) == labels[v1alpha1.FunctionLabel] {
			return component{function: key}
		}
	}
	return component{}
}
