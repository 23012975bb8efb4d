// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
	"k8s.io/utils/clock"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/plugins/reservation"
	"berth.dev/berth/plugins/resourcelimit"
	"berth.dev/berth/plugins/schedulingpolicy"
	"berth.dev/berth/plugins/topologyspread"
	"berth.dev/berth/scheduler/upstream"
)

// podsPerGang is that of config/pods/gang.yaml.
const podsPerGang = 10

var (
	mixResource   = v1alpha1.SchemeGroupVersion.WithResource("capacitymixes")
	groupResource = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
)

// registry are the plugins that the profiles name. A plugin that is in no profile is not built.
func registry(r *recorder, s spec) frameworkruntime.Registry {
	decisions := schedulingpolicy.NewRecorder(decision.NewStore(clock.RealClock{}))
	return frameworkruntime.Registry{
		recorderName:          r.build,
		schedulingpolicy.Name: after(s.CRDs, schedulingpolicy.NewFactory(decisions, nil, nil, upstream.Admission{})),
		reservation.Name:      after(s.CRDs, reservation.NewFactory(nil, nil)),
		capacitymix.Name:      after(s.CRDs, capacitymix.NewFactory()),
		resourcelimit.Name:    after(s.CRDs, resourcelimit.NewFactory()),
		topologyspread.Name:   topologyspread.New,
		coscheduling.Name:     after(s.CRDs, coscheduling.New),
	}
}

// after builds a plugin once the definitions of what it watches are served.
// scheduler_perf waits for the scheduler's informers before it calls what
// WithPrepareFn takes, which would be too late: they would wait for that.
func after(crds []string, build frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		for _, file := range crds {
			if err := install(ctx, handle.KubeConfig(), file); err != nil {
				return nil, fmt.Errorf("install %s: %w", file, err)
			}
		}
		return build(ctx, args, handle)
	}
}

func install(ctx context.Context, config *rest.Config, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, crd); err != nil {
		return err
	}
	clients, err := apiextensions.NewForConfig(config)
	if err != nil {
		return err
	}
	client := clients.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := client.Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	v := crd.Spec.Versions[0].Name
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := clients.ApiextensionsV1().RESTClient().Get().AbsPath("/apis", crd.Spec.Group, v, crd.Spec.Names.Plural).Do(ctx).Error()
		if apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// prepare creates what the peer's pods refer to, before there are nodes.
func prepare(ctx ktesting.TContext, s spec) error {
	g, _ := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for prefix, count := range s.Mixes {
		for i := range count {
			g.Go(func() error { return create(ctx, fmt.Sprintf("%s-%d", prefix, i), mixResource, capacityMix()) })
		}
	}
	for i := range s.Gangs {
		g.Go(func() error { return create(ctx, "group-0", groupResource, podGroup(i)) })
	}
	return g.Wait()
}

func create(ctx ktesting.TContext, namespace string, resource schema.GroupVersionResource, obj *unstructured.Unstructured) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := ctx.Client().CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err := ctx.Dynamic().Resource(resource).Namespace(namespace).Create(ctx, obj,
		metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}

// capacityMix governs all pods of its namespace; without a controller they are one group.
func capacityMix() *unstructured.Unstructured {
	return object(mixResource, "CapacityMix", "mix", map[string]any{"selector": map[string]any{}, "spotPercent": int64(spotPercent)})
}

func podGroup(i int) *unstructured.Unstructured {
	return object(groupResource, "PodGroup", fmt.Sprintf("gang-%d", i), map[string]any{"minMember": int64(podsPerGang)})
}

func object(resource schema.GroupVersionResource, kind, name string, fields map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": name}, "spec": fields,
	}}
}
