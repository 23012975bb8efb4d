// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/services/server"
)

// An environment and its Secret are two objects, and no request writes both at once. docs/decisions/0031 has the reasons for what
// follows. A Secret is written first, under a name that no environment refers to, and is never changed. The one write of the
// environment that refers to it commits both: of several calls the API server accepts one. A call that ends in between leaves a
// Secret that nothing refers to.
//
// The Secret of a new environment has a name that follows from the id, so that the next creation of the same name finds what an
// ended one left: Berth may not list Secrets. It also orders creations: one of them at a time holds the name. Its owner, whose UID
// only exists after the commit, is added then. The Secret of an update has a name of its own, and its owner from the beginning.

const (
	// commitTimeout bounds the write of a new environment after that of its Secret. The API server ends it within a minute more.
	commitTimeout = 30 * time.Second
	// abandonedAfter is the age at which the Secret of a creation cannot be committed any more: the call has ended.
	abandonedAfter = 2 * time.Minute
	// othersTimeout is how long a creation waits for another one of the same name.
	othersTimeout = 5 * time.Second
	// othersInterval is how often it looks.
	othersInterval = 50 * time.Millisecond
	// cleanUpTimeout bounds what follows a commit or a refusal, also if the caller is gone.
	cleanUpTimeout = 5 * time.Second
	// freshDigits are the random characters of the name of an update's Secret.
	freshDigits = 8

	environmentKind = "Environment"
)

// stage writes the Secret of an environment that is about to be created.
func (s *store) stage(ctx context.Context, e *environment, given credentials) (*corev1.Secret, error) {
	wait, cancel := context.WithTimeout(ctx, othersTimeout)
	defer cancel()
	for {
		secret := newSecret(e, render.CredentialsName(e.Name), given.by, given.over(nil))
		made, err := s.coreV1.Secrets(e.Namespace).Create(ctx, secret, metav1.CreateOptions{FieldManager: fieldManager})
		if !apierrors.IsAlreadyExists(err) {
			return made, err
		}
		if err := s.makeWay(ctx, e); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-wait.Done():
			return nil, server.Refuse(codes.Unavailable,
				fmt.Sprintf("another call that creates environment %q has not ended; retry", nameOf(e)))
		case <-time.After(othersInterval):
		}
	}
}

// makeWay deletes the Secret that has the name of a new environment's if it belongs to no environment and no other call can commit
// it. If there is an environment of that name, it returns an ALREADY_EXISTS error. Without an error it may be tried again.
func (s *store) makeWay(ctx context.Context, e *environment) error {
	// It is read before the environment: it cannot be that of a later one.
	found, err := s.secret(ctx, e.Namespace, render.CredentialsName(e.Name))
	if found == nil || err != nil {
		return err
	}
	have, err := s.get(ctx, e.Namespace, e.Name)
	if err == nil {
		return exists(have)
	}
	if !server.NotFound(err) {
		return err
	}
	owner := metav1.GetControllerOf(found)
	switch {
	case owner != nil && owner.Kind == environmentKind && owner.Name == e.Name: // it is gone; the garbage collector is late
	case owner == nil && found.Annotations[v1alpha1.CredentialsAnnotation] == e.Name:
		if time.Since(found.CreationTimestamp.Time) < abandonedAfter {
			return nil
		}
	default:
		return server.Refuse(codes.FailedPrecondition,
			fmt.Sprintf("there is a Secret %q that was not made for this environment", found.Name))
	}
	return s.discard(ctx, found)
}

// own makes an environment that was created the owner of its Secret. If that fails, both are complete, and the Secret stays when the
// environment is deleted, until another one of that name is created.
func (s *store) own(ctx context.Context, e *environment, secret *corev1.Secret) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	owned := secret.DeepCopy()
	owned.OwnerReferences = ownedBy(e)
	_, err := s.coreV1.Secrets(e.Namespace).Update(ctx, owned, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// discard deletes a Secret, and no other of its name.
func (s *store) discard(ctx context.Context, secret *corev1.Secret) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	err := s.coreV1.Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &secret.UID},
	})
	if apierrors.IsConflict(err) {
		return nil // it is another one
	}
	return client.IgnoreNotFound(err)
}

// refused reports whether an error of a write means that it was not, and will not be, carried out.
func refused(err error) bool {
	switch server.AsError(err).Code {
	case codes.InvalidArgument, codes.AlreadyExists, codes.Aborted, codes.NotFound, codes.PermissionDenied, codes.FailedPrecondition,
		codes.ResourceExhausted:
		return true
	default:
		return false
	}
}

// restaged are the Secrets of an update.
type restaged struct {
	// fresh has what the environment has after the update, nil if it is what it has before.
	fresh *corev1.Secret
	// before are those of the environment that fresh replaces.
	before []*corev1.Secret
}

// restage writes the Secret that an environment has after an update, and makes the spec refer to it. The Secret has what the
// environment has in Secrets of its own, and what a backend has in a Secret of another owner, replaced by what is given. mayGet
// refuses a caller that may not get that other Secret.
func (s *store) restage(
	ctx context.Context, before, after *environment, given credentials, mayGet func(name string) error,
) (out restaged, err error) {
	if given.empty() {
		return out, nil
	}
	have := held{
		data: map[string][]byte{}, by: given.by, referred: references(&before.Spec.Stack),
		move: map[component]bool{ofDatabase: len(given.database) > 0, ofBackend: len(given.backend) > 0},
	}
	for name := range have.referred {
		secret, err := s.secret(ctx, before.Namespace, name)
		if err != nil {
			return out, err
		}
		if err := have.add(name, secret, before, mayGet); err != nil {
			return out, err
		}
	}
	data := given.over(have.data)
	if have.unchanged(data) {
		return restaged{}, nil
	}
	out.before = have.own
	fresh := newSecret(before, render.CredentialsName(before.Name)+"-"+rand.String(freshDigits), have.by, data)
	fresh.OwnerReferences = ownedBy(before)
	out.fresh, err = s.coreV1.Secrets(before.Namespace).Create(ctx, fresh, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return restaged{}, err
	}
	refer(&after.Spec.Stack, out.fresh.Name, have.move)
	return out, nil
}

// held is what an environment has before an update of its credentials.
type held struct {
	// own are its Secrets, and data is what they, and the Secret of another owner that a backend refers to, have.
	own  []*corev1.Secret
	data map[string][]byte
	// by is the caller that gave all of it, "" if there is none.
	by string
	// move are the components that refer to the Secret of the update, and referred those of each Secret before it.
	move     map[component]bool
	referred map[string][]component
}

// add adds the Secret of a name, nil if it does not exist.
func (h *held) add(name string, secret *corev1.Secret, e *environment, mayGet func(name string) error) error {
	if secret == nil {
		return nil
	}
	uses := h.referred[name]
	if isOwn(secret, e) {
		h.own = append(h.own, secret)
		if secret.Annotations[v1alpha1.ActorAnnotation] != h.by {
			h.by = "" // it has the credentials of several users then, and is not one caller's own
		}
		for _, c := range uses {
			h.move[c] = true
			keep(h.data, secret.Data, c)
		}
		return nil
	}
	if !slices.Contains(uses, ofBackend) || !h.move[ofBackend] {
		return nil
	}
	if err := mayGet(name); err != nil {
		return err
	}
	h.by = ""
	keep(h.data, secret.Data, ofBackend)
	return nil
}

// unchanged reports whether one Secret has these data already, and all components that move refer to it.
func (h *held) unchanged(data map[string][]byte) bool {
	if len(h.own) != 1 {
		return false
	}
	for c, moves := range h.move {
		if moves && !slices.Contains(h.referred[h.own[0].Name], c) {
			return false
		}
	}
	return maps.EqualFunc(data, h.own[0].Data, bytes.Equal)
}

// discardUnused deletes the Secrets that nothing refers to after an update was answered: those before it, or the one that it wrote. An
// update without a definite answer may still be carried out: then both stay, until the environment is deleted.
func (s *store) discardUnused(ctx context.Context, r restaged, err error) error {
	useless := r.before
	switch {
	case r.fresh == nil, err != nil && !refused(err):
		return nil
	case err != nil:
		useless = []*corev1.Secret{r.fresh}
	}
	var all []error
	for _, secret := range useless {
		all = append(all, s.discard(ctx, secret))
	}
	return errors.Join(all...)
}

// secret returns a Secret of a namespace, nil if there is none.
func (s *store) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret, err := s.coreV1.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return secret, nil
}

// newSecret has no label of Berth's: what is found by labels is the controller's. It is the own Secret of the caller that gave
// all credentials in it, "" if there is none.
func newSecret(e *environment, name, by string, data map[string][]byte) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: e.Namespace, Annotations: map[string]string{v1alpha1.CredentialsAnnotation: e.Name},
		},
		Type: corev1.SecretTypeOpaque, Data: data,
	}
	if by != "" {
		secret.Annotations[v1alpha1.ActorAnnotation] = by
	}
	return secret
}

func ownedBy(e *environment) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: environmentKind, Name: e.Name, UID: e.UID, Controller: new(true),
	}}
}

// isOwn reports whether a Secret that an environment refers to was made for it, and for nothing else: it owns it, or will.
func isOwn(secret *corev1.Secret, e *environment) bool {
	if owner := metav1.GetControllerOf(secret); owner != nil {
		return owner.UID == e.UID
	}
	return secret.Name == render.CredentialsName(e.Name) && secret.Annotations[v1alpha1.CredentialsAnnotation] == e.Name
}
