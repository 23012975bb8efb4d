// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/mix/policy"
)

// wantedMix is a CapacityMix as it would be.
type wantedMix struct {
	// given is what the user wrote, unknown fields and all.
	given *unstructured.Unstructured
	// mix is what the API server would make of it; old what is there, nil if nothing.
	mix, old *v1alpha1.CapacityMix
	// unvalidated is why the API server did not judge it.
	unvalidated string
}

// fromFiles reads CapacityMixes and ignores other objects.
func fromFiles(o *command.Options, files []string, recursive bool, namespace string) ([]*wantedMix, error) {
	objects, err := o.Objects(namespace, recursive, files...)
	if err != nil {
		return nil, err
	}
	var out []*wantedMix
	for _, u := range objects {
		if u.GroupVersionKind().Group != v1alpha1.GroupName || u.GetKind() != "CapacityMix" {
			continue
		}
		if v := u.GroupVersionKind().Version; v != v1alpha1.SchemeGroupVersion.Version {
			return nil, fmt.Errorf("CapacityMix %s: apiVersion must be %[4]s/%[2]s, not %[4]s/%[3]s", u.GetName(), v1alpha1.SchemeGroupVersion.Version, v, v1alpha1.GroupName)
		}
		out = append(out, &wantedMix{given: u})
	}
	if len(out) == 0 {
		return nil, errors.New("the files have no CapacityMix")
	}
	return out, nil
}

// whatIf is a mix of the cluster with other numbers.
func whatIf(ctx context.Context, c client.Client, key client.ObjectKey, f *planFlags, given func(flag string) bool) ([]*wantedMix, error) {
	var m v1alpha1.CapacityMix
	if err := c.Get(ctx, key, &m); err != nil {
		return nil, err
	}
	if given("spot-percent") {
		m.Spec.SpotPercent = f.spot
	}
	if given("min-on-demand") {
		m.Spec.MinOnDemand = f.minOnDemand
	}
	if given("max-spot") {
		m.Spec.MaxSpot = new(f.most)
	}
	m.Status = v1alpha1.CapacityMixStatus{}
	m.ManagedFields = nil
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("CapacityMix"))
	return []*wantedMix{{given: u}}, nil
}

// validate lets the API server judge the mix without keeping it: what is there
// already is replaced, as `kubectl apply` of the whole object would.
func (w *wantedMix) validate(ctx context.Context, c client.Client) error {
	key := client.ObjectKeyFromObject(w.given)
	var old v1alpha1.CapacityMix
	err := c.Get(ctx, key, &old)
	switch {
	case err == nil:
		w.old = &old
	case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return fmt.Errorf("CapacityMix %s: %w", key, err)
	}
	strict := client.WithFieldValidation(c, metav1.FieldValidationStrict)
	judged := w.given.DeepCopy()
	unstructured.RemoveNestedField(judged.Object, "status")
	if w.old != nil {
		judged.SetResourceVersion(w.old.ResourceVersion)
		err = strict.Update(ctx, judged, client.DryRunAll)
	} else {
		judged.SetResourceVersion("")
		judged.SetUID("")
		err = strict.Create(ctx, judged, client.DryRunAll)
	}
	switch {
	case apierrors.IsForbidden(err):
		w.unvalidated = err.Error()
		judged = w.given.DeepCopy()
	case err != nil:
		return fmt.Errorf("CapacityMix %s: %w", key, err)
	}
	return w.decode(judged)
}

// decode reads what the API server made of it, or, unvalidated, what was given.
func (w *wantedMix) decode(u *unstructured.Unstructured) error {
	w.mix = &v1alpha1.CapacityMix{}
	convert := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation
	if err := convert(u.Object, w.mix, w.unvalidated != ""); err != nil {
		return fmt.Errorf("CapacityMix %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	if w.old != nil {
		w.mix.CreationTimestamp = w.old.CreationTimestamp
	} else if w.mix.CreationTimestamp.IsZero() {
		w.mix.CreationTimestamp = metav1.Now() // the youngest: older ones win
	}
	if _, _, err := policy.FromCapacityMix(w.mix); err != nil {
		return fmt.Errorf("CapacityMix %s/%s: %w", w.mix.Namespace, w.mix.Name, err)
	}
	return nil
}

// ruleOf is the rule of a mix as people write it.
func ruleOf(m *v1alpha1.CapacityMix) string {
	p, _, err := policy.FromCapacityMix(m)
	if err != nil {
		return "invalid (" + err.Error() + ")"
	}
	return p.Mix.String()
}
