// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"strings"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

// writes are what the API server of this process was requested to write.
type writes struct {
	// created pods, and all writes that they caused: of the pods, their bindings
	// and status, and of the status of what groups them.
	created, ofPods float64
	// events are written on the side, and dropped when there are too many.
	events float64
}

func readWrites() (writes, error) {
	var w writes
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return w, err
	}
	for _, family := range families {
		if family.GetName() != "apiserver_request_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			w.add(labels(m), m.GetCounter().GetValue())
		}
	}
	return w, nil
}

func labels(m *dto.Metric) map[string]string {
	of := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		of[l.GetName()] = l.GetValue()
	}
	return of
}

func (w *writes) add(of map[string]string, n float64) {
	switch of["verb"] {
	case "POST", "PUT", "PATCH", "APPLY", "DELETE":
	default:
		return
	}
	creates := of["verb"] == "POST" && of["subresource"] == ""
	custom := strings.HasSuffix(of["group"], "berth.dev") || strings.HasSuffix(of["group"], "x-k8s.io")
	switch {
	case of["resource"] == "events":
		w.events += n
	case of["resource"] == "pods":
		w.ofPods += n
		if creates && strings.HasPrefix(of["code"], "2") {
			w.created += n
		}
	case custom && !creates: // what the driver creates is not the scheduler's
		w.ofPods += n
	}
}
