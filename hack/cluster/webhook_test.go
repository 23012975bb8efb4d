// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAWebhookIsReachedByURL(t *testing.T) {
	applyController(t)
	address, err := FreeAddress()
	require.NoError(t, err)
	require.NoError(t, shared.ApplyWebhook(t.Context(), manifest(t, "webhook/webhook.yaml"), address))
	c, err := shared.Client().AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "berth-webhook", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "https://"+address+"/mutate-pods", *c.Webhooks[0].ClientConfig.URL)
	require.Nil(t, c.Webhooks[0].ClientConfig.Service)
	require.Empty(t, c.Webhooks[0].ClientConfig.CABundle, "the server sends the issuer of its certificate")
}
