// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// tokenSeconds is the lifetime of a ServiceAccount token that the proxy requests.
const tokenSeconds = 3600

// authenticator returns what adds the token of a ServiceAccount, or that of the kubeconfig, to requests, and whose it is.
func authenticator(ctx context.Context, config *rest.Config, namespace, serviceAccount string,
) (add func(http.RoundTripper) http.RoundTripper, who string, err error) {
	if serviceAccount != "" {
		kube, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, "", err
		}
		source := &accountTokens{ctx: ctx, accounts: kube.CoreV1().ServiceAccounts(namespace), name: serviceAccount}
		cached := transport.NewCachedTokenSource(source)
		if _, err := cached.Token(); err != nil {
			return nil, "", err
		}
		return transport.ResettableTokenSourceWrapTransport(cached), fmt.Sprintf("ServiceAccount %s/%s", namespace, serviceAccount), nil
	}
	if config.BearerToken == "" && config.BearerTokenFile == "" && config.ExecProvider == nil && config.AuthProvider == nil {
		return nil, "", errors.New("the kubeconfig has no token, and the services check tokens: name a ServiceAccount with --service-account")
	}
	wrap := func(rt http.RoundTripper) http.RoundTripper {
		if wrapped, wrapErr := rest.HTTPWrappersForConfig(config, rt); wrapErr == nil {
			return wrapped
		}
		return rt
	}
	_, err = rest.HTTPWrappersForConfig(config, http.DefaultTransport)
	return wrap, "the user of the kubeconfig", err
}

// accountTokens requests tokens for a ServiceAccount.
type accountTokens struct {
	ctx      context.Context
	accounts corev1.ServiceAccountInterface
	name     string
}

// Token requests a token.
func (t *accountTokens) Token() (*oauth2.Token, error) {
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))}}
	r, err := t.accounts.CreateToken(t.ctx, t.name, r, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("request a token for ServiceAccount %s: %w", t.name, err)
	}
	return &oauth2.Token{AccessToken: r.Status.Token, TokenType: "Bearer", Expiry: r.Status.ExpirationTimestamp.Time}, nil
}
