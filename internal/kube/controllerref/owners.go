// SPDX-License-Identifier: Apache-2.0

// Package controllerref reads the controllers of pods from the API server, where the
// caches have not seen them yet.
package controllerref

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Kinds of controllers that can be read. The others are not known: their users
// annotate the pod template.
const (
	ReplicaSet  = "ReplicaSet"
	StatefulSet = "StatefulSet"
	Job         = "Job"
	Deployment  = "Deployment"
)

// KindOf returns the kind of an owner if it is one of them, else "".
func KindOf(ref *metav1.OwnerReference) string {
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	switch {
	case group == appsv1.GroupName && (ref.Kind == ReplicaSet || ref.Kind == StatefulSet || ref.Kind == Deployment),
		group == batchv1.GroupName && ref.Kind == Job:
		return ref.Kind
	}
	return ""
}

// Read returns an owner as the API server has it, nil if it is gone, is another
// object of the same name, or is of no kind that can be read.
func Read(ctx context.Context, client kubernetes.Interface, namespace string, ref *metav1.OwnerReference) (owner metav1.Object, err error) {
	switch apps := client.AppsV1(); KindOf(ref) {
	case ReplicaSet:
		owner, err = apps.ReplicaSets(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	case StatefulSet:
		owner, err = apps.StatefulSets(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	case Deployment:
		owner, err = apps.Deployments(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	case Job:
		owner, err = client.BatchV1().Jobs(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	default:
		return nil, nil
	}
	switch {
	case apierrors.IsNotFound(err), err == nil && owner.GetUID() != ref.UID:
		return nil, nil
	case err != nil:
		return nil, err // owner is a typed nil or empty
	}
	return owner, nil
}
