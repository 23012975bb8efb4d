// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
)

// Webhook starts a controller that serves the webhook for the test's namespace,
// and waits until the API server calls it.
func (w *World) Webhook(changes ...func(*controller.Configuration)) *cluster.Controller {
	w.T.Helper()
	address := w.FreeAddress()
	w.ApplyWebhook(address)
	w.Inject("enabled")
	c := w.Controller(append([]func(*controller.Configuration){Impatient, WebhookAt(address)}, changes...)...)
	w.WaitAsked()
	return c
}

// ApplyWebhook installs the webhook as users do, served at an address of this machine instead of behind a Service.
func (w *World) ApplyWebhook(address string) {
	w.T.Helper()
	w.ApplyFiles("manifests/rbac/webhook")
	require.NoError(w.T, w.Cluster.ApplyWebhook(w.Ctx, Path("manifests/webhook/webhook.yaml"), address))
}

// WebhookAt has the webhook served at an address.
func WebhookAt(address string) func(*controller.Configuration) {
	return func(c *controller.Configuration) { c.Webhook.Enabled, c.Webhook.BindAddress = true, address }
}

// Inject sets the label of the test's namespace that has the webhook called.
func (w *World) Inject(value string) {
	w.T.Helper()
	w.LabelNamespace(v1alpha1.InjectLabel, value)
}

// LabelNamespace sets a label of the test's namespace.
func (w *World) LabelNamespace(key, value string) {
	w.T.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
	Patch(w, ns, func(n *corev1.Namespace) { n.Labels[key] = value })
}

// WaitAsked waits until pods pass the webhook: the API server takes a moment to
// see a new configuration.
func (w *World) WaitAsked() {
	w.T.Helper()
	w.Eventually("the webhook is called", func() (bool, string) {
		p := builders.Pod("probe", "probe", builders.SchedulerName(""))
		err := w.DryRun(p)
		return err == nil && p.Spec.SchedulerName == builders.Scheduler, fmt.Sprint(err, p.Spec.SchedulerName)
	})
}
