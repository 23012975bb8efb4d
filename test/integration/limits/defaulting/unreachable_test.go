// SPDX-License-Identifier: Apache-2.0

package defaulting_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// restored bounds the time without valid certificates.
const restored = time.Minute

// A webhook that does not answer delays a pod by no more than its timeout, and pods of kube-system not at all.
func TestAWebhookThatHangsDelaysNoPodBeyondItsTimeout(t *testing.T) {
	w := testenv.New(t, fast())
	c := w.Webhook()
	c.Pause()
	defer c.Resume()
	before := passedBy(w)
	start := time.Now()
	w.Create(builders.Pod("delayed", "delayed", builders.SchedulerName(builders.Scheduler)))
	assert.Less(t, time.Since(start), 8*time.Second, "the timeout is 3 s, and would be 10 s by default")
	assert.Equal(t, before+1, passedBy(w), "the API server gave up on the webhook")
	waitNode(w, "delayed")

	system := builders.Pod("system", "system")
	_, err := w.Kube.CoreV1().Pods(metav1.NamespaceSystem).Create(w.Ctx, system, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	assert.Equal(t, before+1, passedBy(w), "the webhook is not called for a pod of kube-system")
}

// With the certificate authority of someone else, or none, pods are created unchanged, until the controller has restored its own.
func TestPodsAreCreatedWhateverTheAuthorityIs(t *testing.T) {
	w := testenv.New(t, fast())
	w.Webhook()
	other := httptest.NewTLSServer(nil)
	other.Close()
	wrong := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw})
	for name, authority := range map[string][]byte{"wrong": wrong, "none": nil} {
		before := passedBy(w)
		w.Eventually("the webhook is not trusted", func() (bool, string) {
			testenv.Patch(w, configuration(w), func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
				c.Webhooks[0].ClientConfig.CABundle = authority
			})
			err := w.DryRun(bare(name, ""))
			require.NoError(t, err, name)
			now := passedBy(w)
			return now > before, fmt.Sprint(now)
		})
		w.UpTo(restored).WaitAsked()
	}

	testenv.Patch(w, secret(w), func(s *corev1.Secret) { s.Data = nil })
	testenv.Patch(w, configuration(w), func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
		c.Webhooks[0].ClientConfig.CABundle = nil
	})
	w.UpTo(restored).Eventually("the certificates are there again", func() (bool, string) {
		now := secret(w).Data["ca.crt"]
		return len(now) > 0 && string(now) == string(configuration(w).Webhooks[0].ClientConfig.CABundle), ""
	})
	w.UpTo(restored).WaitAsked()
}

// passedBy counts the pods that the API server has created without an answer of the webhook.
func passedBy(w *testenv.World) int {
	w.T.Helper()
	return w.Metric(apiServer{w.Kube}, "apiserver_admission_webhook_fail_open_count", map[string]string{"name": "pods.berth.dev"})
}

// apiServer serves the metrics of the API server.
type apiServer struct{ kubernetes.Interface }

func (a apiServer) Get(ctx context.Context, path string) ([]byte, error) {
	return a.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
}
