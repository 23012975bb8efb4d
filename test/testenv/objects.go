// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create creates objects in the test's namespace.
func (w *World) Create(objects ...client.Object) {
	w.T.Helper()
	for _, o := range objects {
		o.SetNamespace(w.Namespace)
	}
	w.CreateAsIs(objects...)
}

// CreateAsIs creates objects in the namespaces that they name.
func (w *World) CreateAsIs(objects ...client.Object) {
	w.T.Helper()
	for _, o := range objects {
		require.NoError(w.T, w.Client.Create(w.Ctx, o), "create %T %s", o, o.GetName())
	}
}

// CreateForTest creates objects that are in no namespace, or in one that stays, and deletes them when the test ends.
func (w *World) CreateForTest(objects ...client.Object) {
	w.T.Helper()
	w.CreateAsIs(objects...)
	for _, o := range objects {
		w.T.Cleanup(func() {
			err := w.Client.Delete(context.WithoutCancel(w.Ctx), o)
			require.NoError(w.T, client.IgnoreNotFound(err), "delete %T %s", o, o.GetName())
		})
	}
}

// DryRun sends an object of the test's namespace to the API server, which changes it as on a create and does not keep it.
func (w *World) DryRun(o client.Object) error {
	o.SetNamespace(w.Namespace)
	return w.Client.Create(w.Ctx, o, client.DryRunAll)
}

// Delete deletes an object.
func (w *World) Delete(o client.Object, options ...client.DeleteOption) {
	w.T.Helper()
	require.NoError(w.T, w.Client.Delete(w.Ctx, o, options...), "delete %T %s", o, o.GetName())
}

// WaitDeleted waits until an object is gone.
func (w *World) WaitDeleted(o client.Object) {
	w.T.Helper()
	now := o.DeepCopyObject().(client.Object)
	w.Eventually(fmt.Sprintf("%T %s is gone", o, o.GetName()), func() (bool, string) {
		err := w.Client.Get(w.Ctx, client.ObjectKeyFromObject(o), now)
		return apierrors.IsNotFound(err), fmt.Sprint(err, " ", statusOf(now))
	})
}

// Patch reads an object again, changes it and writes the difference.
func Patch[T client.Object](w *World, o T, change func(T)) {
	w.T.Helper()
	require.NoError(w.T, w.Client.Get(w.Ctx, client.ObjectKeyFromObject(o), o))
	before := o.DeepCopyObject().(T)
	change(o)
	require.NoError(w.T, w.Client.Patch(w.Ctx, o, client.MergeFrom(before)))
}

// Read fills in an object of the test's namespace as it is now, and returns it.
func Read[T client.Object](w *World, name string, into T) T {
	w.T.Helper()
	return ReadIn(w, w.Namespace, name, into)
}

// ReadIn is Read for an object of another namespace, "" for one of none.
func ReadIn[T client.Object](w *World, namespace, name string, into T) T {
	w.T.Helper()
	require.NoError(w.T, w.Client.Get(w.Ctx, types.NamespacedName{Namespace: namespace, Name: name}, into), "get %T %s", into, name)
	return into
}

// WaitFor waits until an object of the test's namespace is as wanted, and returns it.
func WaitFor[T client.Object](w *World, name, what string, ok func(T) bool) T {
	w.T.Helper()
	return WaitForIn(w, w.Namespace, name, what, ok)
}

// WaitForIn is WaitFor for an object of another namespace, "" for one of none.
func WaitForIn[T client.Object](w *World, namespace, name, what string, ok func(T) bool) (o T) {
	w.T.Helper()
	kind := reflect.TypeFor[T]().Elem()
	w.Eventually(kind.Name()+" "+name+": "+what, func() (bool, string) {
		o = reflect.New(kind).Interface().(T) // what is read into keeps the fields that the answer has not
		if err := w.Client.Get(w.Ctx, types.NamespacedName{Namespace: namespace, Name: name}, o); err != nil {
			return false, err.Error()
		}
		return ok(o), statusOf(o)
	})
	return o
}

// statusOf returns the status of an object, for a failed test.
func statusOf(o client.Object) string {
	var of struct {
		Status json.RawMessage `json:"status"`
	}
	b, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(b, &of)
	}
	if err != nil {
		return err.Error()
	}
	return string(of.Status)
}

// List fills in a list of the objects of the test's namespace, or of another that an option names, and returns it.
func List[T client.ObjectList](w *World, into T, options ...client.ListOption) T {
	w.T.Helper()
	options = append([]client.ListOption{client.InNamespace(w.Namespace)}, options...)
	require.NoError(w.T, w.Client.List(w.Ctx, into, options...), "%T", into)
	return into
}

// Pods returns the pods of the test's namespace, or of another that an option names.
func (w *World) Pods(options ...client.ListOption) []corev1.Pod {
	w.T.Helper()
	return List(w, &corev1.PodList{}, options...).Items
}

// Names are those of the objects of a list, sorted.
func (w *World) Names(list client.ObjectList, options ...client.ListOption) (names []string) {
	w.T.Helper()
	items, err := meta.ExtractList(List(w, list, options...))
	require.NoError(w.T, err)
	for _, item := range items {
		names = append(names, item.(client.Object).GetName())
	}
	slices.Sort(names)
	return names
}
