// SPDX-License-Identifier: Apache-2.0

// Package backup writes Environments and their Secrets to a file and restores them from one. The data of their volumes is no part of it.
package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/kinds"
)

// ownedByAnnotation on a Secret of a backup is the name of the Environment that owned it.
const ownedByAnnotation = v1alpha1.AnnotationPrefix + "/owned-by"

var (
	environmentKind = v1alpha1.SchemeGroupVersion.WithKind("Environment")
	secretKind      = corev1.SchemeGroupVersion.WithKind("Secret")
)

// Annotations that record who wrote an object and how. They are not true of a copy.
var writersAnnotations = []string{
	v1alpha1.ActorAnnotation, v1alpha1.ActorGenerationAnnotation, v1alpha1.UpdatedAtAnnotation, corev1.LastAppliedConfigAnnotation,
}

// Warner is called with a message for the user although the operation continues.
type Warner func(format string, args ...any)

// Read returns the objects of a backup, Secrets first: the named Environments of a namespace, or all that are not being deleted.
// It returns nothing if anything cannot be read, because half a backup looks like a whole one.
func Read(ctx context.Context, c client.Client, namespace string, names []string, withSecrets bool,
	warn Warner,
) ([]*unstructured.Unstructured, error) {
	list, err := readEnvironments(ctx, c, namespace, names, warn)
	if err != nil {
		return nil, err
	}
	var secrets, environments []*unstructured.Unstructured
	seen := map[client.ObjectKey]bool{}
	for _, u := range list {
		named, err := secretsNamedBy(u)
		if err != nil {
			return nil, err
		}
		for _, name := range named {
			key := client.ObjectKey{Namespace: u.GetNamespace(), Name: name}
			if seen[key] {
				continue
			}
			seen[key] = true
			if !withSecrets {
				warn("Secret %s of %s is not in the backup (use --with-secrets)", key, KeyOf(u))
				continue
			}
			secret, err := readSecret(ctx, c, key)
			switch {
			case apierrors.IsNotFound(err):
				warn("Secret %s of %s does not exist", key, KeyOf(u))
			case err != nil:
				return nil, fmt.Errorf("read Secret %s: %w", key, err)
			default:
				secrets = append(secrets, secret)
			}
		}
		environments = append(environments, Plain(u))
	}
	return append(secrets, environments...), nil
}

// readEnvironments reads Environments with all their fields, also those that this version does not have.
func readEnvironments(ctx context.Context, c client.Client, namespace string, names []string,
	warn Warner,
) (list []*unstructured.Unstructured, err error) {
	for _, name := range names {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(environmentKind)
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u); err != nil {
			return nil, err
		}
		list = append(list, u)
	}
	if len(names) > 0 {
		return list, nil
	}
	all := kinds.ListOf(environmentKind)
	if err := c.List(ctx, all, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	for i := range all.Items {
		u := &all.Items[i]
		if u.GetDeletionTimestamp() != nil {
			warn("%s is being deleted and is not in the backup", KeyOf(u))
			continue
		}
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return list, nil
}

// readSecret reads a Secret as it is in a backup: without its owner, whose name an annotation keeps.
func readSecret(ctx context.Context, c client.Client, key client.ObjectKey) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(secretKind)
	if err := c.Get(ctx, key, u); err != nil {
		return nil, err
	}
	out := Plain(u)
	if owner := metav1.GetControllerOf(u); owner != nil && owner.Kind == environmentKind.Kind {
		annotations := out.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[ownedByAnnotation] = owner.Name
		out.SetAnnotations(annotations)
	}
	return out, nil
}

// Plain returns an object without status and without the metadata that the cluster sets: with what is left it can be created again.
func Plain(u *unstructured.Unstructured) *unstructured.Unstructured {
	from := u.DeepCopy()
	out := &unstructured.Unstructured{Object: map[string]any{}}
	for field, value := range from.Object {
		if field != "metadata" && field != "status" {
			out.Object[field] = value
		}
	}
	out.SetName(from.GetName())
	out.SetNamespace(from.GetNamespace())
	if labels := from.GetLabels(); len(labels) > 0 {
		out.SetLabels(labels)
	}
	annotations := from.GetAnnotations()
	for _, name := range writersAnnotations {
		delete(annotations, name)
	}
	if len(annotations) > 0 {
		out.SetAnnotations(annotations)
	}
	return out
}

// PlainObject does the same for a typed object. It also removes the empty creation time of a pod template.
func PlainObject(object client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("convert object %s: %w", client.ObjectKeyFromObject(object), err)
	}
	unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
	return Plain(&unstructured.Unstructured{Object: content}), nil
}

// KeyOf names an object in messages: "Secret shop/web".
func KeyOf(u *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", u.GetKind(), u.GetNamespace(), u.GetName())
}

// SecretsOf returns the names of the Secrets that a spec refers to.
func SecretsOf(spec *v1alpha1.EnvironmentSpec) (names []string) {
	if d := spec.Stack.Database; d != nil && d.SecretRef != nil {
		names = append(names, d.SecretRef.Name)
	}
	if b := spec.Stack.Backend; b != nil && b.SecretRef != nil {
		names = append(names, b.SecretRef.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func secretsNamedBy(u *unstructured.Unstructured) ([]string, error) {
	env := &v1alpha1.Environment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, env); err != nil {
		return nil, fmt.Errorf("%s: %w", KeyOf(u), err)
	}
	return SecretsOf(&env.Spec), nil
}

// MissingSecrets returns those of some Secrets that do not exist. It warns of those for which this cannot be determined.
func MissingSecrets(ctx context.Context, c client.Client, namespace string, names []string, warn Warner) (missing []string) {
	for _, name := range names {
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{})
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, name)
		case err != nil:
			warn("cannot determine whether Secret %s/%s exists: %v", namespace, name, err)
		}
	}
	return missing
}

// Check returns an error if objects are not those of a backup.
func Check(objects []*unstructured.Unstructured) error {
	environments := 0
	for _, u := range objects {
		switch u.GroupVersionKind() {
		case environmentKind:
			environments++
		case secretKind:
		default:
			return fmt.Errorf("%s of %s cannot be part of a backup: only Environments and Secrets can", KeyOf(u), u.GetAPIVersion())
		}
	}
	if environments == 0 {
		return errors.New("the file has no Environment")
	}
	return nil
}

// Write writes objects as documents of one YAML stream.
func Write(w io.Writer, objects []*unstructured.Unstructured) error {
	for i, object := range objects {
		text, err := documentOf(object)
		if err != nil {
			return err
		}
		// A stream that begins with "{" would be treated as JSON as a whole.
		if i > 0 || strings.HasPrefix(text, "{") {
			text = "---\n" + text
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// documentOf returns an object as YAML that reads back as it was. The YAML library rejects some characters; an object with one of
// them is written as JSON, which is YAML too and can escape them.
func documentOf(object *unstructured.Unstructured) (string, error) {
	stored, err := json.MarshalIndent(object.Object, "", "  ")
	if err != nil {
		return "", err
	}
	if text, err := yaml.Marshal(object.Object); err == nil && readsAs(text, stored) {
		return string(text), nil
	}
	escaped := escape(string(stored)) + "\n"
	if !readsAs([]byte(escaped), stored) {
		return "", fmt.Errorf("%s cannot be written as YAML", KeyOf(object))
	}
	return escaped, nil
}

// readsAs reports whether a YAML document has the same content as a JSON one.
func readsAs(document, stored []byte) bool {
	var a, b any
	return yaml.Unmarshal(document, &a) == nil && json.Unmarshal(stored, &b) == nil && reflect.DeepEqual(a, b)
}

// escape escapes the characters of a JSON text that YAML does not allow. They occur in strings only.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r >= 0x7f && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
