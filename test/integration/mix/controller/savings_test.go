// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// Four replicas request half of a node each, which costs $100 an hour and $40 as spot. The mix has two of them on spot, and one of the
// others is the floor: 2 × ($50 − $20) are saved, and 1 × $30 is the price of the floor.
func TestSavingsAreAMetric(t *testing.T) {
	large := func(n *cluster.NodeSpec) { n.InstanceType, n.CPU, n.Memory = "large", "16", "64Gi" }
	w := testenv.New(t, append(cluster.Nodes("spot", 2, large), cluster.Nodes("on-demand", 2, large)...)...)
	file := testenv.WriteFile(t, "prices.yaml", "date: "+time.Now().UTC().Format(time.DateOnly)+
		"\nnodes: [{selector: {matchLabels: {kubernetes.io/os: linux}}, instanceType: large, onDemand: 100, spot: 40}]\n")
	w.Create(builders.CapacityMix("web", 50, 1), builders.Deployment("web", 4, func(p *corev1.PodTemplateSpec) {
		p.Spec.Containers[0].Resources.Requests = builders.Requests("8", "32Gi")
	}))
	w.WaitReady("web", 4)
	c := w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Mix.Savings.PricesFile = file })
	dollars := func(kind, estimate string) func() int {
		return func() int {
			return w.Metric(c, "berth_mix_savings_dollars_per_hour", map[string]string{
				"namespace": w.Namespace, "mix": "web", "kind": kind, "estimate": estimate,
			})
		}
	}
	testenv.Becomes(w, "dollars an hour are saved", 60, dollars("saved", "false"))
	testenv.Becomes(w, "dollars an hour are the price of the floor", 30, dollars("floor", "false"))
	testenv.Becomes(w, "dollars an hour are available", 0, dollars("available", "false"))
	testenv.Becomes(w, "dollars an hour are estimates", 0, dollars("saved", "true"))
	testenv.Becomes(w, "pods have a current price", 4, func() int {
		return w.Metric(c, "berth_mix_savings_pods", map[string]string{"namespace": w.Namespace, "mix": "web", "price": "current"})
	})
	testenv.Becomes(w, "readings of prices succeed", 1, func() int { return w.Metric(c, "berth_mix_prices_last_read_successful", nil) })
	w.Delete(w.Mix("web"))
	testenv.Becomes(w, "pods have a price under the mix", 0, func() int {
		return w.Metric(c, "berth_mix_savings_pods", map[string]string{"namespace": w.Namespace, "mix": "web"})
	})
}
