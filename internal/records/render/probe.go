// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"

	"berth.dev/berth/apis/v1alpha1"
)

// probe returns a probe of a container that serves a port, nil for none. The API server sets the fields that p does not
// specify.
func probe(p *v1alpha1.FunctionProbe, port int32) any {
	if p == nil || p.Type == v1alpha1.ProbeNone {
		return nil
	}
	at := map[string]any{"port": int64(cmp.Or(p.Port, port))}
	out := map[string]any{}
	switch {
	case p.Path != "":
		at["path"] = p.Path
		out["httpGet"] = at
	case p.Type == v1alpha1.ProbeGRPC:
		out["grpc"] = at
	default:
		out["tcpSocket"] = at
	}
	for field, value := range map[string]int32{
		"initialDelaySeconds": p.InitialDelaySeconds,
		"periodSeconds":       p.PeriodSeconds,
		"timeoutSeconds":      p.TimeoutSeconds,
		"failureThreshold":    p.FailureThreshold,
	} {
		if value > 0 {
			out[field] = int64(value)
		}
	}
	return out
}
