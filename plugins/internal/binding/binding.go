// SPDX-License-Identifier: Apache-2.0

// Package binding binds pods with annotations, which the scheduler's own plugin cannot add.
package binding

import (
	"context"
	"errors"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Of returns the Binding of a pod to a node. The API server merges its annotations into the pod in the same transaction, so
// they cost no call more than the stock scheduler makes.
func Of(pod *corev1.Pod, node string, annotations map[string]string) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: annotations},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
}

// Make makes a Binding as DefaultBinder does.
func Make(ctx context.Context, handle fwk.Handle, b *corev1.Binding) error {
	cacher := handle.APICacher()
	if cacher == nil {
		return handle.ClientSet().CoreV1().Pods(b.Namespace).Bind(ctx, b, metav1.CreateOptions{})
	}
	done, err := cacher.BindPod(b)
	if err != nil {
		return err
	}
	return cacher.WaitOnFinish(ctx, done)
}

// Refused reports whether an error of Make means that the API server did not bind the pod. After any other error it may have done so: there
// was no answer, or one that leaves it open.
func Refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}
