// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Keys of the Secret.
const (
	authoritiesKey  = "ca.crt"
	authorityKeyKey = "ca.key"
)

const (
	// syncInterval is how often the Secret and the configuration are read: two reads, and a configuration that is
	// applied again is without its authority for no longer.
	syncInterval = 10 * time.Second
	// retryAfter is the same where something is missing or failed.
	retryAfter = time.Second
	// syncTimeout bounds one sync.
	syncTimeout = 10 * time.Second
)

// Options of a Keeper. All are required.
type Options struct {
	Kube kubernetes.Interface
	// Namespace and Secret name the Secret, which must exist: the right to create Secrets is not needed.
	Namespace, Secret string
	// Configuration names the MutatingWebhookConfiguration, which may be absent.
	Configuration string
	Names         Names
	Clock         clock.Clock
}

// Keeper keeps the certificates valid, on every replica: one that does not lead
// serves as well, and replicas agree by the Secret's resourceVersion.
type Keeper struct {
	Options
	current atomic.Pointer[tls.Certificate]
	// problem is why there is no certificate yet.
	problem atomic.Pointer[string]
}

var (
	_ manager.Runnable               = &Keeper{}
	_ manager.LeaderElectionRunnable = &Keeper{}
)

// New returns a keeper; it is a Runnable for a manager.
func New(o Options) *Keeper {
	k := &Keeper{Options: o}
	k.problem.Store(new("the certificates were not checked yet"))
	return k
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Keeper) NeedLeaderElection() bool { return false }

// Start reconciles the certificates until the context ends. Nothing that goes
// wrong ends it: the controller has other work, and pods are created all the same.
func (k *Keeper) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("webhook-certs")
	for {
		wait := syncInterval
		if err := k.sync(ctx); err != nil {
			wait = retryAfter
			text := err.Error()
			if before := k.problem.Swap(&text); *before != text {
				logger.Info("The certificates are not as they should be", "reason", text, "serving", k.current.Load() != nil)
			}
		} else if *k.problem.Swap(new("")) != "" {
			logger.Info("Webhook certificates are up to date", "secret", k.Secret, "configuration", k.Configuration)
		}
		timer := k.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// GetCertificate is what a TLS server requests each connection.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := k.current.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New(*k.problem.Load())
}

// Ready is a readiness check: there is a certificate.
func (k *Keeper) Ready(*http.Request) error {
	_, err := k.GetCertificate(nil)
	return err
}

// sync brings Secret, configuration and server up to date. The order leaves no
// moment in which the API server is shown a certificate that it does not trust:
// an authority is made known before it issues anything.
func (k *Keeper) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	secret, err := k.Kube.CoreV1().Secrets(k.Namespace).Get(ctx, k.Secret, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get Secret %s/%s: %w", k.Namespace, k.Secret, err)
	}
	bundle, made, err := bundleOf(secret).WithAuthority(k.Clock.Now())
	if err != nil {
		return err
	}
	if made {
		if secret, err = k.write(ctx, secret, bundle); err != nil {
			return err
		}
	}
	if err := k.publish(ctx, bundle.Authorities); err != nil {
		return err
	}
	if bundle, made, err = bundle.WithServer(k.Names, k.Clock.Now()); err != nil {
		return err
	}
	if made {
		if _, err = k.write(ctx, secret, bundle); err != nil {
			return err
		}
	}
	pair, err := tls.X509KeyPair(bundle.Cert, bundle.Key)
	if err != nil {
		return fmt.Errorf("server certificate: %w", err)
	}
	k.current.Store(&pair)
	return nil
}

func bundleOf(s *corev1.Secret) Bundle {
	return Bundle{
		Authorities: s.Data[authoritiesKey], AuthorityKey: s.Data[authorityKeyKey],
		Cert: s.Data[corev1.TLSCertKey], Key: s.Data[corev1.TLSPrivateKeyKey],
	}
}

// write updates the Secret that was read; another replica that was quicker makes it fail.
func (k *Keeper) write(ctx context.Context, secret *corev1.Secret, b Bundle) (*corev1.Secret, error) {
	secret = secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for key, value := range map[string][]byte{
		authoritiesKey: b.Authorities, authorityKeyKey: b.AuthorityKey, corev1.TLSCertKey: b.Cert, corev1.TLSPrivateKeyKey: b.Key,
	} {
		if value != nil {
			secret.Data[key] = value
		}
	}
	updated, err := k.Kube.CoreV1().Secrets(k.Namespace).Update(ctx, secret, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("update Secret %s/%s: %w", k.Namespace, k.Secret, err)
	}
	return updated, nil
}

// publish writes the authorities to the configuration where they are not there.
func (k *Keeper) publish(ctx context.Context, authorities []byte) error {
	api := k.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	c, err := api.Get(ctx, k.Configuration, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // no one calls the webhook
	}
	if err != nil {
		return fmt.Errorf("get MutatingWebhookConfiguration %s: %w", k.Configuration, err)
	}
	// Other fields are their owner's, and the list must be the one that was read.
	patch := []jsonpatch.Operation{jsonpatch.NewOperation("test", "/metadata/resourceVersion", c.ResourceVersion)}
	for i := range c.Webhooks {
		if !bytes.Equal(c.Webhooks[i].ClientConfig.CABundle, authorities) {
			patch = append(patch, jsonpatch.NewOperation("add", fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), authorities))
		}
	}
	if len(patch) == 1 {
		return nil
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	if _, err := api.Patch(ctx, k.Configuration, types.JSONPatchType, body, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch MutatingWebhookConfiguration %s: %w", k.Configuration, err)
	}
	return nil
}
