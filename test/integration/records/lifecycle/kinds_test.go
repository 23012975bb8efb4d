// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/internal/records/render"
	"berth.dev/berth/test/testenv"
)

// ofKind are manifests of all kinds that a template may make.
var ofKind = map[string]string{
	"deployment": `{apiVersion: apps/v1, kind: Deployment, metadata: {name: "${name}"}, spec: {replicas: 0, selector: {matchLabels: {a: b}},
		template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "${image}"}]}}}}`,
	"service":   `{apiVersion: v1, kind: Service, metadata: {name: "${name}"}, spec: {ports: [{port: 80}]}}`,
	"configmap": `{apiVersion: v1, kind: ConfigMap, metadata: {name: "${name}"}, data: {a: b}}`,
	"scaler": `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: "${name}"},
		spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}}}`,
	"policy":  `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: "${name}"}, spec: {podSelector: {}}}`,
	"budget":  `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: "${name}"}, spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}}`,
	"knative": `{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: "${name}"}, spec: {template: {}}}`,
	"mix":     `{apiVersion: berth.dev/v1alpha1, kind: CapacityMix, metadata: {name: "${name}"}, spec: {selector: {matchLabels: {a: b}}, spotPercent: 50}}`,
	"limit":   `{apiVersion: berth.dev/v1alpha1, kind: ResourceLimit, metadata: {name: "${name}"}, spec: {cpu: "1"}}`,
}

// rights are checked after all tests.
var rights = testenv.Rights{
	User: cluster.BerthRecordsUser, ClusterRoles: []string{"berth-records"}, Applied: true,
	NeverUsed: map[string]string{
		"update berth.dev/deploymentrecords/finalizers": "the admission plugin OwnerReferencesPermissionEnforcement checks it, which is off here",
	},
}

// An object of every kind is created, not taken over from others, and deleted.
func TestEveryKindCanBeCreated(t *testing.T) {
	s := start(t, func(d *controller.Records) { d.Features.Knative = new(true) })
	s.serveKnative()
	require.Len(t, ofKind, len(render.Kinds))
	for kind, manifest := range ofKind {
		s.template(kind, manifest)
		// Someone has an object of the name of the first record. It is left alone.
		foreign := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(strings.NewReplacer("${name}", "taken-"+kind, "${image}", image, "\n", " ", "\t", "").Replace(manifest)), &foreign.Object))
		foreign.SetNamespace(s.Namespace)
		s.Succeeds("there is a "+kind, func() error { return s.Client.Create(s.Ctx, foreign.DeepCopy()) }) // Knative's API takes a moment
		s.Create(hinted("taken-"+kind, kind), hinted("free-"+kind, kind))
	}
	for kind := range ofKind {
		// Knative is seen after a while.
		testenv.WaitFor(s.World, "taken-"+kind, "the object of another owner is not taken over", func(r *v1alpha1.DeploymentRecord) bool {
			return condition(r, v1alpha1.ConditionDegraded).Reason == v1alpha1.ReasonNameTaken
		})
		testenv.WaitFor(s.World, "free-"+kind, "one is made", func(r *v1alpha1.DeploymentRecord) bool { return len(r.Status.ResourceRefs) == 1 })
		s.delete("free-" + kind)
	}
}

// serveKnative has the API server serve Knative's API. No one acts on it.
func (s *scene) serveKnative() {
	s.T.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "services.serving.knative.dev"}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "serving.knative.dev", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "services", Singular: "service", Kind: "Service", ListKind: "ServiceList", ShortNames: []string{"ksvc"}},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)},
			},
		}},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	require.NoError(s.T, err)
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	s.CreateForTest(o)
}

// knative is a Knative Service, nil if there is none.
func (s *scene) knative(name string) *unstructured.Unstructured {
	s.T.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "serving.knative.dev", Version: "v1", Kind: "Service"})
	err := s.Client.Get(s.Ctx, types.NamespacedName{Namespace: s.Namespace, Name: name}, o)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	require.NoError(s.T, err)
	return o
}

// knativeAnnotations are those of the revisions of a Knative Service.
func (s *scene) knativeAnnotations(name string) map[string]string {
	s.T.Helper()
	o := s.knative(name)
	if o == nil {
		return nil
	}
	annotations, _, err := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "annotations")
	require.NoError(s.T, err)
	return annotations
}

// The scheduler keeps the mix that a required availability is rendered to.
func TestPodsOfARecordArePlacedByItsAvailability(t *testing.T) {
	s := share(t)
	r := record("cart", "add")
	r.Spec.NFRRequirements = &v1alpha1.NFRRequirements{Availability: new("0.999")}
	r.Spec.DeploymentUnit.Functions[0].MinScale = new(int32(10))
	r.Spec.ResourceAllocation = &v1alpha1.ResourceAllocation{CPU: "100m", Memory: "64Mi"}
	s.create(r)
	want := render.SplitFor(0.999, render.DefaultReliability)
	cm := s.Mix("cart")
	require.Equal(t, []int32{want.SpotPercent, want.MinOnDemand}, []int32{cm.Spec.SpotPercent, cm.Spec.MinOnDemand})
	pods := s.Pods()
	require.Len(t, pods, 10)
	s.RequireExactPods(pods, split.New(want.SpotPercent, want.MinOnDemand))
	for _, p := range pods {
		assert.Equal(t, "cart", p.Labels[v1alpha1.ResourceLimitLabel])
		assert.Len(t, p.Spec.TopologySpreadConstraints, 1)
	}
	assert.Equal(t, "100m", testenv.Read(s.World, "cart", &v1alpha1.ResourceLimit{}).Spec.CPU.String())
}

// A requested template that cannot be used is replaced, as in the original, and the record's condition has the reason until it can be used.
func TestARequestedTemplateThatCannotBeUsedIsReplaced(t *testing.T) {
	s := start(t)
	r := s.create(hinted("cart", "kn"))
	assert.Equal(t, "edge", r.Status.Template)
	assert.Equal(t, []string{"cart"}, s.deployments())
	c := condition(r, v1alpha1.ConditionTemplateAsRequested)
	assert.Equal(t, metav1.ConditionFalse, c.Status)
	assert.Equal(t, "template knative needs API group serving.knative.dev, which the API server does not serve, "+
		"and records.features.knative is off; template edge is used instead", c.Message)
	s.saw("cart", v1alpha1.EventReasonTemplateFallback)
	unknown := condition(s.create(hinted("unknown", "nobody")), v1alpha1.ConditionTemplateAsRequested)
	assert.Equal(t, `there is no DeploymentTemplate "nobody", only dev, edge, k8s-deployment, knative; template edge is used instead`, unknown.Message)
	s.create(record("without", "add"))
	assert.Empty(t, condition(s.get("without"), v1alpha1.ConditionTemplateAsRequested).Status)

	s.restart(func(d *controller.Records) { d.Features.Knative = new(true) })
	says := func(what, message string) {
		t.Helper()
		testenv.Becomes(s.World, what, message, func() string { return condition(s.get("cart"), v1alpha1.ConditionTemplateAsRequested).Message })
	}
	says("the feature is on", "template knative needs API group serving.knative.dev, which the API server does not serve; template edge is used instead")
	s.serveKnative()
	says("both are there", "template knative is used")
	assert.Equal(t, metav1.ConditionTrue, condition(s.get("cart"), v1alpha1.ConditionTemplateAsRequested).Status)
	s.restart(func(d *controller.Records) { d.Features.Knative = new(false) })
	says("the feature is off", "template knative needs API group serving.knative.dev, and records.features.knative is off; template edge is used instead")
	s.change("cart", func(r *v1alpha1.DeploymentRecord) { r.Spec.TemplateHint = "" })
	says("no templateHint", "")
	s.delete("cart")
}

// Knative comes while the controller runs: what it can render better is rendered again.
func TestKnativeAppearsAtRunTime(t *testing.T) {
	s := start(t, func(d *controller.Records) { d.Features.Knative = new(true) })
	r := record("cart", "add")
	r.Spec.DeploymentUnit.Functions[0].MinScale = new(int32(2))
	r.Spec.DeploymentUnit.Functions[0].MaxScale = new(int32(5))
	r = s.create(r)
	require.Equal(t, "edge", r.Status.Template)

	s.serveKnative()
	var service *unstructured.Unstructured
	s.Eventually("there is a Knative Service, and no Deployment", func() (bool, string) {
		service = s.knative("cart")
		return service != nil && len(s.deployments()) == 0, fmt.Sprint(s.deployments())
	})
	annotations := s.knativeAnnotations("cart")
	assert.Equal(t, []string{"2", "5"}, []string{annotations["autoscaling.knative.dev/minScale"], annotations["autoscaling.knative.dev/maxScale"]})
	assert.Equal(t, "cluster-local", service.GetLabels()["networking.knative.dev/visibility"])
	r = s.settled("cart", v1alpha1.PhaseProgressing)
	assert.Equal(t, "knative", r.Status.Template)

	require.NoError(t, unstructured.SetNestedSlice(service.Object, []any{map[string]any{"type": "Ready", "status": string(corev1.ConditionTrue)}}, "status", "conditions"))
	require.NoError(t, s.Client.Status().Update(s.Ctx, service))
	s.settled("cart", v1alpha1.PhaseAvailable)
	s.delete("cart")
}
