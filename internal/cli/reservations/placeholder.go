// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/kube/hash"
	"berth.dev/berth/internal/mix/placeholder"
	"berth.dev/berth/internal/policies/reservations"
)

const (
	// nameLabel identifies the pods of a Deployment.
	nameLabel = "app.kubernetes.io/name"
	// maxLabel is the number of characters that the value of a label can have, and shortHash that of the end of a longer name.
	maxLabel, shortHash = 63, 10
	// pauseImage does nothing until it is stopped.
	pauseImage = "registry.k8s.io/pause:3.10"
)

// runPlaceholder prints what holds the capacity of a Reservation by pods.
func runPlaceholder(ctx context.Context, o *command.Options, c client.Client, namespace, name string) error {
	object, err := reservationKind.Get(ctx, c, namespace, name)
	if err != nil {
		return err
	}
	d := deployment(reservations.Compile(object))
	for i, object := range []client.Object{priorityClass(), d} {
		text, err := manifest(object)
		if err != nil {
			return fmt.Errorf("print %s: %w", object.GetName(), err)
		}
		if i > 0 {
			fmt.Fprintln(o.Out, "---")
		}
		fmt.Fprint(o.Out, text)
	}
	return nil
}

// manifest is an object as a user writes it, without a status and what is empty.
func manifest(object client.Object) (string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return "", err
	}
	for _, empty := range [][]string{
		{"status"}, {"spec", "strategy"}, {"metadata", "creationTimestamp"}, {"spec", "template", "metadata", "creationTimestamp"},
	} {
		unstructured.RemoveNestedField(content, empty...)
	}
	text, err := yaml.Marshal(content)
	return string(text), err
}

// priorityClass is the one of manifests/rbac/placeholders, which a cluster can have already. Its value cannot be changed.
func priorityClass() *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{
		TypeMeta: metav1.TypeMeta{APIVersion: schedulingv1.SchemeGroupVersion.String(), Kind: "PriorityClass"},
		ObjectMeta: metav1.ObjectMeta{
			Name: placeholder.PriorityClass, Labels: map[string]string{"app.kubernetes.io/part-of": "berth"},
		},
		Value: -10, PreemptionPolicy: new(corev1.PreemptNever),
		Description: "Placeholder pods of Berth, which reserve capacity for a replica before it moves to the other capacity type.",
	}
}

// deployment has the pods that hold the capacity of a Reservation.
func deployment(r *reservations.Reservation) *appsv1.Deployment {
	name := deploymentName(r.Object.Name)
	own := map[string]string{nameLabel: name}
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Object.Namespace, Name: name, Labels: own},
	}
	d.Spec.Replicas = new(int32(r.Replicas)) //nolint:gosec // at most 100
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: own}
	d.Spec.Template = corev1.PodTemplateSpec{
		// With the second label no mix governs the pods, and no Reservation gives them what it holds, whatever they select.
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{nameLabel: name, v1alpha1.PlaceholderLabel: reservations.PlaceholderValue}},
		Spec: corev1.PodSpec{
			SchedulerName: r.SchedulerName(), PriorityClassName: placeholder.PriorityClass,
			NodeSelector: r.Object.Spec.NodeSelector, Tolerations: r.Tolerations(),
			TerminationGracePeriodSeconds: new(int64(0)), // a preemptor does not wait for them to end
			AutomountServiceAccountToken:  new(false), EnableServiceLinks: new(false),
			// The Pod Security Standard "restricted" accepts the pods.
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{container(r)},
		},
	}
	return d
}

func container(r *reservations.Reservation) corev1.Container {
	c := corev1.Container{
		Name: "pause", Image: pauseImage, Resources: corev1.ResourceRequirements{Requests: r.Requests},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	for name, q := range r.Requests {
		if !strings.Contains(string(name), "/") {
			continue
		}
		if c.Resources.Limits == nil {
			c.Resources.Limits = corev1.ResourceList{}
		}
		c.Resources.Limits[name] = q // the API server requires that those of extended resources are equal
	}
	return c
}

// deploymentName is the name of the Deployment, which is also the value of a label, so that a long name ends with a hash.
func deploymentName(reservation string) string {
	name := "reservation-" + reservation
	if len(name) <= maxLabel {
		return name
	}
	return strings.TrimRight(name[:maxLabel-shortHash-1], ".-") + "-" + hash.Of(name, shortHash)
}
