// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/robustness/plan"
)

// environments is the name of the process that runs Environments.
const environments = string(history.EnvironmentController)

// withRecords has a controller reconcile DeploymentRecords.
func withRecords(c *controller.Configuration) {
	tuned(c)
	c.Controllers = []string{"*", controller.ControllerRecords}
}

// withEnvironments has a controller run Environments, in the namespace of the test, and nothing else.
func withEnvironments(c *controller.Configuration) {
	tuned(c)
	c.Controllers, c.Environments.NamespacePerEnvironment = []string{controller.ControllerEnvironments}, false
}

// product is an object that a step declares, without its spec.
func (r *runner) product(name string) client.Object {
	m := metav1.ObjectMeta{Namespace: r.Namespace, Name: name}
	if name == plan.Environment {
		return &v1alpha1.Environment{ObjectMeta: m}
	}
	return &v1alpha1.DeploymentRecord{ObjectMeta: m}
}

// specify sets the spec of a product to what a step declares.
func specify(o client.Object, s *plan.Step) {
	image := "registry.example/" + s.Version
	switch o := o.(type) {
	case *v1alpha1.DeploymentRecord:
		o.Spec = builders.DeploymentRecord(s.Product).Spec
		for i := range s.Parts {
			o.Spec.DeploymentUnit.Functions = append(o.Spec.DeploymentUnit.Functions, v1alpha1.FunctionSpec{
				FunctionKey: fmt.Sprint("f", i), Image: image, MinScale: new(s.Replicas),
			})
		}
	case *v1alpha1.Environment:
		of := builders.EnvironmentContainer(image, 80)
		of.Resources = &v1alpha1.EnvironmentResources{Memory: "64Mi"} // CPU is what the workloads compete for
		o.Spec.Stack = v1alpha1.ApplicationStack{Name: "shop", Frontend: &v1alpha1.FrontendComponent{Container: of, Replicas: new(s.Replicas)}}
		if s.Parts > 1 {
			o.Spec.Stack.Backend = &v1alpha1.BackendComponent{Container: of, Replicas: new(s.Replicas)}
		}
	}
}

// declare creates or changes a product. One that is being deleted stays as it is.
func (r *runner) declare(s *plan.Step) {
	r.attempt("declare "+s.Product, func(ctx context.Context) error {
		o := r.product(s.Product)
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		switch {
		case apierrors.IsNotFound(err):
			specify(o, s)
			return r.Client.Create(ctx, o)
		case err != nil || o.GetDeletionTimestamp() != nil:
			return err
		}
		before := o.DeepCopyObject().(client.Object)
		specify(o, s)
		return r.Client.Patch(ctx, o, client.MergeFrom(before))
	})
}

func (r *runner) withdraw(s *plan.Step) {
	r.attempt("withdraw "+s.Product, func(ctx context.Context) error { return r.Client.Delete(ctx, r.product(s.Product)) })
}

// waitProducts waits until what is declared runs, and what was withdrawn is gone.
func (r *runner) waitProducts(deadline time.Time) {
	r.T.Helper()
	for _, name := range plan.Products {
		o := r.product(name)
		r.Within(time.Until(deadline), name+" runs, or is gone", func() (bool, string) {
			r.restart()
			err := r.Client.Get(r.Ctx, client.ObjectKeyFromObject(o), o)
			return apierrors.IsNotFound(err) || err == nil && o.GetDeletionTimestamp() == nil && runs(o), fmt.Sprintf("%v %+v", err, o)
		})
	}
}

// runs reports whether a product reports that it is as its last change declares.
func runs(o client.Object) bool {
	switch o := o.(type) {
	case *v1alpha1.DeploymentRecord:
		return o.Status.ObservedGeneration == o.Generation && o.Status.Phase == v1alpha1.PhaseAvailable
	case *v1alpha1.Environment:
		return o.Status.ObservedGeneration == o.Generation && o.Status.Phase == v1alpha1.EnvironmentRunning
	}
	return false
}

// release deletes all products without their controller, which has ended: their finalizers would keep the namespace.
func (r *runner) release() {
	for _, name := range plan.Products {
		o := r.product(name)
		ctx := context.WithoutCancel(r.Ctx)
		err := r.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		require.NoError(r.T, client.IgnoreNotFound(err))
		require.NoError(r.T, client.IgnoreNotFound(r.Client.Delete(ctx, o)))
	}
}

// declaring has a record and an environment come, change and go. Each time the time is what a controller that keeps its promises needs.
var declaring = scenario{"records and environments come, change and go", 4, func(r *runner) {
	r.startController(environments)
	for _, s := range []plan.Step{
		{Kind: plan.Declare, Parts: 2, Replicas: 1, Version: "1"},
		{Kind: plan.Declare, Parts: 1, Replicas: 2, Version: "2"},
		{Kind: plan.Withdraw},
	} {
		for _, s.Product = range []string{"record-0", plan.Environment} {
			actions[s.Kind](r, &s)
		}
		r.wait(8 * time.Second)
		began := time.Now()
		r.wait(time.Second)
		r.steps = append(r.steps, history.Step{Text: "rest", Rest: true, Began: began, Ended: time.Now()})
	}
}}
