// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"maps"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

// An environment and its Secret are two objects, and nothing writes both at once. What is between them when the program ends
// there decides the order:
//
// When an environment is made, it comes first, and names the Secret that is not there yet. The Secret can then be owned from
// its first moment, by an owner that only now has a UID, so that there is never a Secret that no one would remove. The
// environment cannot run without its password meanwhile: a Secret that is named and not there is waited for, by the
// controller as by a kubelet. Who sends the same request again gets the Secret written, and others delete the environment.
//
// When an environment is changed, the Secret comes first, since it can be owned. The spec never names a key that is not
// there. That the spec will be accepted was requested before, without writing it.

// writeCredentials writes credentials into the Secret of an environment, which is made if there is none.
// Before is the spec that the environment had; a backend with a Secret of another owner's takes along what stays.
func (s *store) writeCredentials(ctx context.Context, e *environment, before *v1alpha1.EnvironmentSpec, given credentials) error {
	if given.empty() {
		return nil
	}
	conflicts := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err := retry.OnError(retry.DefaultRetry, conflicts, func() error { return s.writeCredentialsOnce(ctx, e, before, given) })
	if conflicts(err) {
		return server.Refuse(codes.Aborted, fmt.Sprintf("too many conflicting updates to Secret %q, retry", secretName(e.Name)))
	}
	return err
}

func (s *store) writeCredentialsOnce(ctx context.Context, e *environment, before *v1alpha1.EnvironmentSpec, given credentials) error {
	secret, err := s.secretOf(ctx, e)
	if err != nil {
		return err
	}
	held, err := s.takeAlong(ctx, e, before, given, secret.Data)
	if err != nil {
		return err
	}
	secret.Data = given.over(held)
	if secret.UID == "" {
		_, err = s.core.Secrets(e.Namespace).Create(ctx, secret, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		_, err = s.core.Secrets(e.Namespace).Update(ctx, secret, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	return err
}

// secretOf returns the Secret of an environment: the one that there is, or a new one.
func (s *store) secretOf(ctx context.Context, e *environment) (*corev1.Secret, error) {
	found, err := s.secret(ctx, e, secretName(e.Name))
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return newSecret(e), nil
	case metav1.IsControlledBy(found, e):
		return found, nil
	}
	return newSecret(e), s.clear(ctx, e, found)
}

// secret returns a Secret of an environment's namespace, nil if there is none.
func (s *store) secret(ctx context.Context, e *environment, name string) (*corev1.Secret, error) {
	secret, err := s.core.Secrets(e.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return secret, nil
}

// takeAlong adds to what a Secret holds what a backend has had in one of another owner's, which is not named any more then.
func (s *store) takeAlong(
	ctx context.Context, e *environment, before *v1alpha1.EnvironmentSpec, given credentials, held map[string][]byte,
) (map[string][]byte, error) {
	from := foreign(e.Name, before)
	if from == "" || len(given.backend) == 0 {
		return held, nil
	}
	other, err := s.secret(ctx, e, from)
	if other == nil || err != nil {
		return held, err
	}
	out := map[string][]byte{}
	maps.Copy(out, held)
	maps.Copy(out, ofBackend(other.Data))
	return out, nil
}

// clear frees capacity for the Secret of an environment.
func (s *store) clear(ctx context.Context, e *environment, found *corev1.Secret) error {
	owner := metav1.GetControllerOf(found)
	if owner == nil || owner.Kind != environmentKind || owner.Name != e.Name {
		return server.Refuse(codes.FailedPrecondition,
			fmt.Sprintf("there is a Secret %q that was not made for this environment", found.Name))
	}
	// That of one of the same name which is gone: the garbage collector would have deleted it soon.
	return client.IgnoreNotFound(s.core.Secrets(e.Namespace).Delete(ctx, found.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion},
	}))
}

// clearFor frees capacity for the Secret of an environment that is about to be made: it would begin with the password of the one
// before. The Secret is read first: if there is no environment then, it belongs to none.
func (s *store) clearFor(ctx context.Context, e *environment) error {
	found, err := s.secret(ctx, e, secretName(e.Name))
	if found == nil || err != nil {
		return err
	}
	if _, err := s.get(ctx, e.Namespace, e.Name); !server.NotFound(err) {
		return err // one that is there keeps its own
	}
	return s.clear(ctx, e, found)
}

const environmentKind = "Environment"

// newSecret has no label of Berth's: its owner is enough to remove it, and what is found by labels is the controller's.
func newSecret(e *environment) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: secretName(e.Name), Namespace: e.Namespace,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: environmentKind, Name: e.Name, UID: e.UID, Controller: new(true),
			}},
		},
		Type: corev1.SecretTypeOpaque,
	}
}

// foreign is the Secret that a backend has from another user, "" if it has none.
func foreign(id string, before *v1alpha1.EnvironmentSpec) string {
	if before == nil || before.Stack.Backend == nil || before.Stack.Backend.SecretRef == nil {
		return ""
	}
	if name := before.Stack.Backend.SecretRef.Name; name != secretName(id) {
		return name
	}
	return ""
}

// hasSecret says whether the Secret of an environment is there.
func (s *store) hasSecret(ctx context.Context, e *environment) (bool, error) {
	secret, err := s.secret(ctx, e, secretName(e.Name))
	return secret != nil && metav1.IsControlledBy(secret, e), err
}
