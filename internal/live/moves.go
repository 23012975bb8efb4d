// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/overview"
)

// EventClient returns a client that reads events and nothing else. It requires no discovery, which would be several requests for each
// time that a page reads them.
func EventClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Event{}, &corev1.EventList{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	return client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
}

// Moves reads the events about the moves of a workload of a kind.
func Moves(ctx context.Context, c client.Client, kind string, workload client.ObjectKey) (all []overview.MoveEvent, err error) {
	of := fields.Set{"involvedObject.kind": kind, "involvedObject.name": workload.Name}
	err = eachEvent(ctx, c, workload.Namespace, of, func(e *corev1.Event) {
		if m, ok := overview.MoveEventOf(e); ok {
			all = append(all, m)
		}
	})
	return all, err
}
