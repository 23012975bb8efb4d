// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/applyset"
)

// secretDelay is how long the Secret of a new environment may be missing: the gRPC service creates it after the environment, which
// owns it.
const secretDelay = 10 * time.Second

// errNotYet means that something is missing that is about to be created.
var errNotYet = errors.New("not there yet")

// credentials reads the Secrets. A database without a given password keeps the one that was generated first.
func (c *Controller) credentials(ctx context.Context, v *observation) (*render.Credentials, error) {
	env := v.env
	out := &render.Credentials{APIKeys: map[string]string{}}
	var versions []string
	if d := env.Spec.Stack.Database; d != nil {
		data, version, err := c.secret(ctx, env, d.SecretRef)
		if err != nil {
			return nil, err
		}
		versions = append(versions, version)
		out.Password = cmp.Or(string(data[v1alpha1.DatabasePasswordKey]), v.password(), rand.Text())
	}
	if b := env.Spec.Stack.Backend; b != nil {
		data, version, err := c.secret(ctx, env, b.SecretRef)
		if err != nil {
			return nil, err
		}
		versions = append(versions, version)
		out.ConnectionString = string(data[v1alpha1.DatabaseConnectionKey])
		for key, value := range data {
			if name, is := strings.CutPrefix(key, v1alpha1.APIKeyPrefix); is {
				out.APIKeys[name] = string(value)
			}
		}
	}
	out.Version = strings.Trim(strings.Join(versions, "-"), "-")
	return out, nil
}

// secret reads a Secret that a component names, and its version; nothing if it names none.
func (c *Controller) secret(
	ctx context.Context, env *v1alpha1.Environment, ref *v1alpha1.EnvironmentSecret,
) (map[string][]byte, string, error) {
	if ref == nil {
		return nil, "", nil
	}
	s := &corev1.Secret{}
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: env.Namespace, Name: ref.Name}, s)
	switch {
	case apierrors.IsNotFound(err) && c.Clock.Since(env.CreationTimestamp.Time) < secretDelay:
		return nil, "", errNotYet
	case apierrors.IsNotFound(err):
		return nil, "", applyset.Refuse(v1alpha1.ReasonNoSecret,
			fmt.Errorf("there is no Secret %s in namespace %s", ref.Name, env.Namespace))
	case err != nil:
		return nil, "", fmt.Errorf("read Secret %s/%s: %w", env.Namespace, ref.Name, err)
	case ofAnother(s, env):
		return nil, "", applyset.Refuse(v1alpha1.ReasonSecretNotAllowed,
			fmt.Errorf("the Secret %s belongs to another Environment", ref.Name))
	}
	return s.Data, s.ResourceVersion, nil
}

// ofAnother reports whether a Secret was made for another environment. The API server has checked at admission that the author
// may read the Secret, where manifests/rbac/environments/policies.yaml is installed. This holds everywhere.
func ofAnother(s *corev1.Secret, env *v1alpha1.Environment) bool {
	o := metav1.GetControllerOf(s)
	if o != nil && o.Kind == environmentKind.Kind && strings.HasPrefix(o.APIVersion, environmentKind.Group+"/") {
		return o.UID != env.UID
	}
	_, made := s.Labels[v1alpha1.EnvironmentLabel]
	return made && !render.MadeFor(s, env)
}

// password is the one that the database has, "" for none.
func (v *observation) password() string {
	have := applyset.Find(v.children, schema.GroupKind{Kind: secretKind}, stack.Database)
	if have == nil {
		return ""
	}
	return string(have.Object.(*corev1.Secret).Data[render.PostgresPassword]) //nolint:forcetypeassert // of that kind
}
