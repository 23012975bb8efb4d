// SPDX-License-Identifier: Apache-2.0

package defaulting_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// The node rules hold with the webhook absent, present and failing.
func TestNodeRulesHoldWhateverTheWebhookDoes(t *testing.T) {
	w := testenv.New(t, fast(), slow())
	w.Create(builders.ResourceLimit("size", figures("1", "1Gi"), builders.SizeOnNodesWith(disk, "ssd")))
	absent := bare("absent", "size")
	w.Create(absent)
	assert.Empty(t, absent.Spec.NodeSelector)
	assert.Equal(t, "fast", waitNode(w, "absent"))

	c := w.Webhook()
	present := created(w, bare("present", "size"))
	assert.NotEmpty(t, present.Spec.NodeSelector)
	assert.Equal(t, "fast", waitNode(w, "present"))

	testenv.End(c, true)
	failing := bare("failing", "size")
	start := time.Now()
	w.Create(failing)
	assert.Less(t, time.Since(start), 8*time.Second, "no create waits longer than the webhook's timeout of 3 s; the default is 10 s")
	assert.Empty(t, failing.Spec.NodeSelector, "it was not filled in")
	assert.Equal(t, "fast", waitNode(w, "failing"))
}

func configuration(w *testenv.World) *admissionregistrationv1.MutatingWebhookConfiguration {
	w.T.Helper()
	return testenv.ReadIn(w, "", "berth-webhook", &admissionregistrationv1.MutatingWebhookConfiguration{})
}

func secret(w *testenv.World) *corev1.Secret {
	w.T.Helper()
	return testenv.ReadIn(w, "berth-system", "berth-webhook-certs", &corev1.Secret{})
}

func TestTheConfigurationHasTheAuthority(t *testing.T) {
	w := testenv.New(t)
	w.Webhook()
	first := secret(w).Data["ca.crt"]
	require.NotEmpty(t, first)
	assert.Equal(t, first, configuration(w).Webhooks[0].ClientConfig.CABundle)

	// Someone applies the configuration without it.
	testenv.Patch(w, configuration(w), func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
		c.Webhooks[0].ClientConfig.CABundle = nil
	})
	w.Eventually("it is back", func() (bool, string) {
		return bytes.Equal(first, configuration(w).Webhooks[0].ClientConfig.CABundle), "another one"
	})
	w.WaitAsked()

	// Someone empties the Secret.
	testenv.Patch(w, secret(w), func(s *corev1.Secret) { s.Data = nil })
	w.Eventually("there is a new authority", func() (bool, string) {
		now := secret(w).Data["ca.crt"]
		return len(now) > 0 && !bytes.Equal(now, first) && bytes.Equal(now, configuration(w).Webhooks[0].ClientConfig.CABundle), ""
	})
	w.WaitAsked()
}

// A replica that does not lead serves as well, with the certificate of both.
func TestEveryReplicaServes(t *testing.T) {
	w := testenv.New(t, fast())
	w.Create(builders.ResourceLimit("size", figures("1", "1Gi")))
	w.Controller(testenv.Impatient)
	c := webhookBeside(w)
	created(w, bare("p", "size"))
	body, err := c.Get(w.Ctx, "/metrics")
	require.NoError(t, err)
	assert.Contains(t, string(body), `berth_webhook_pods_total{outcome="sized"}`)
	assert.NotContains(t, string(body), `leader_election_master_status{name="berth-controller"} 1`, "it is a standby")
}

// webhookBeside is webhook for a standby replica.
func webhookBeside(w *testenv.World) *cluster.Controller {
	w.T.Helper()
	address := w.FreeAddress()
	w.ApplyWebhook(address)
	w.Inject("enabled")
	c := w.StartController("berth-controller-beside", testenv.Impatient, testenv.WebhookAt(address))
	w.WaitAsked()
	return c
}

// Without the Secret the controller does its other work, and reports what is missing.
func TestWithoutTheSecretTheControllerIsNotReady(t *testing.T) {
	w := testenv.New(t, fast())
	address := w.FreeAddress()
	w.ApplyWebhook(address)
	w.Delete(secret(w))
	early := cluster.ProgramOptions{Name: "berth-controller-early", NoWait: true}
	c := w.StartControllerWith(early, testenv.Impatient, testenv.WebhookAt(address))
	w.Create(builders.ResourceLimit("size"))
	waitLimit(w, "size", "the rest works", used(v1alpha1.ReasonNotReferenced))
	ready, _, err := c.Ready(w.Ctx)
	require.NoError(t, err)
	assert.False(t, ready)
	assert.Contains(t, c.LogTail(200), "berth-webhook-certs")
	w.ApplyWebhook(address)
	w.Eventually("it is ready", func() (bool, string) {
		ready, said, err := c.Ready(w.Ctx)
		return ready, fmt.Sprint(said, err)
	})
}

// rights are checked after all tests. The controllers that run beside the webhook have another role.
var rights = testenv.Rights{
	User: cluster.BerthControllerUser, ClusterRoles: []string{"berth-controller-webhook"}, Roles: []string{"berth-controller-webhook"},
}

// The rights that no other test of the package uses: owners that no watch has shown are read.
func TestTheWebhookReadsOwnersThatAreNew(t *testing.T) {
	w := testenv.New(t, fast())
	w.Webhook(withGates)
	w.Create(builders.ResourceLimit("size", figures("1", "1Gi")))
	created(w, builders.Pod("p", "p", sized("size")))
	for _, owner := range []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet"}, {APIVersion: "apps/v1", Kind: "StatefulSet"}, {APIVersion: "batch/v1", Kind: "Job"}} {
		p := builders.Pod("owned", "owned")
		owner.Name, owner.UID, owner.Controller = "unseen", types.UID("unseen "+owner.Kind), new(true)
		p.OwnerReferences = []metav1.OwnerReference{owner}
		require.NoError(t, w.DryRun(p))
	}
}
