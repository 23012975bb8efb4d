// SPDX-License-Identifier: Apache-2.0

package monitoring_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/records/render"
)

type podMonitor struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            struct {
		NamespaceSelector struct {
			Any bool `json:"any"`
		} `json:"namespaceSelector"`
		Selector            metav1.LabelSelector `json:"selector"`
		PodMetricsEndpoints []struct {
			Interval    string `json:"interval"`
			Relabelings []struct {
				Action       string   `json:"action"`
				SourceLabels []string `json:"sourceLabels"`
				Regex        string   `json:"regex"`
				Replacement  string   `json:"replacement"`
				TargetLabel  string   `json:"targetLabel"`
			} `json:"relabelings"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// The PodMonitor, applied as Prometheus does to the labels and annotations that functions have: internal/records/render.
func TestThePodMonitorScrapesWhatFunctionsAnnotate(t *testing.T) {
	list := objects[podMonitor](t, "manifests/monitoring/podmonitor.yaml")
	require.Len(t, list, 1)
	m := list[0]
	assert.Equal(t, map[string]string{v1alpha1.ComponentLabel: render.ComponentFunction}, m.Spec.Selector.MatchLabels)
	assert.True(t, m.Spec.NamespaceSelector.Any)
	relabel := func(labels map[string]string) bool {
		for _, r := range m.Spec.PodMetricsEndpoints[0].Relabelings {
			var values []string
			for _, name := range r.SourceLabels {
				values = append(values, labels[name])
			}
			pattern := r.Regex
			if pattern == "" {
				pattern = "(.*)"
			}
			replacement := r.Replacement
			if replacement == "" {
				replacement = "$1"
			}
			whole, value := regexp.MustCompile("^(?:"+pattern+")$"), strings.Join(values, ";")
			switch match := whole.FindStringSubmatchIndex(value); {
			case r.Action == "keep" && match == nil:
				return false
			case r.Action == "replace" && match != nil:
				labels[r.TargetLabel] = string(whole.ExpandString(nil, replacement, value, match))
			}
		}
		return true
	}
	for address, want := range map[string]string{"10.0.0.1:80": "10.0.0.1:9090", "10.0.0.1": "10.0.0.1:9090", "[fd00::1]:80": "[fd00::1]:9090"} {
		labels := map[string]string{
			"__address__": address, "__meta_kubernetes_pod_annotation_prometheus_io_scrape": "true",
			"__meta_kubernetes_pod_annotation_prometheus_io_port": "9090", "__meta_kubernetes_pod_annotation_prometheus_io_path": "/stats",
			"__meta_kubernetes_pod_label_oaas_io_owner": "cart",
		}
		require.True(t, relabel(labels))
		assert.Equal(t, []string{want, "/stats", "cart"}, []string{labels["__address__"], labels["__metrics_path__"], labels["oaas_owner"]})
	}
	assert.False(t, relabel(map[string]string{"__address__": "10.0.0.1:80"}), "a pod without metrics")
}
