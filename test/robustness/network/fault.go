// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is what is wrong with a connection. The zero value is a connection without a fault.
type Fault struct {
	// Latency delays each request.
	Latency time.Duration `json:"latency,omitempty"`
	// Refused is the percentage of the requests that are answered with Code, 409, 429 or 500, and never reach the API server.
	// A conflict is an answer to writes only.
	Refused int `json:"refused,omitempty"`
	Code    int `json:"code,omitempty"`
	// Lost is the percentage of the writes that the API server carries out, and whose answer is lost.
	Lost int `json:"lost,omitempty"`
	// Reset is the percentage of the requests at which the whole connection is reset, with all watches on it.
	Reset int `json:"reset,omitempty"`
	// Frozen holds all bytes in both directions, and closes nothing: the connection is half-open.
	Frozen bool `json:"frozen,omitempty"`
	// Stalled holds what watches deliver. Requests pass.
	Stalled bool `json:"stalled,omitempty"`
	// Only limits Refused, Lost, Reset and Stalled to requests whose path has this text.
	Only string `json:"only,omitempty"`
}

// String names a fault in a report.
func (f Fault) String() string {
	var all []string
	add := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(f.Latency > 0, "%s of latency", f.Latency)
	add(f.Refused > 0, "%d%% answered with %d", f.Refused, f.Code)
	add(f.Lost > 0, "%d%% of the answers to writes lost", f.Lost)
	add(f.Reset > 0, "%d%% reset", f.Reset)
	add(f.Frozen, "half-open")
	add(f.Stalled, "watches stalled")
	add(f.Only != "", "only %s", f.Only)
	if len(all) == 0 {
		return "no fault"
	}
	return strings.Join(all, ", ")
}

// fate is what becomes of one request.
type fate int

const (
	passes fate = iota
	refused
	reset
)

// fateOf decides about a request. hit draws whether a percentage applies to it.
func (f Fault) fateOf(r *http.Request, hit func(percent int) bool) fate {
	switch {
	case !f.concerns(r):
	case hit(f.Reset):
		return reset
	case watches(r) || f.Code == http.StatusConflict && !writes(r):
	case hit(f.Refused):
		return refused
	}
	return passes
}

// loses decides whether the answer to a request is lost.
func (f Fault) loses(r *http.Request, hit func(percent int) bool) bool {
	return f.concerns(r) && writes(r) && hit(f.Lost)
}

func (f Fault) concerns(r *http.Request) bool { return strings.Contains(r.URL.Path, f.Only) }

func watches(r *http.Request) bool { return r.URL.Query().Has("watch") }

func writes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// reasons are those of the API server for the codes.
var reasons = map[int]metav1.StatusReason{
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
}

// refuse answers as the API server does.
func refuse(out http.ResponseWriter, code int) {
	out.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		out.Header().Set("Retry-After", "1")
	}
	out.WriteHeader(code)
	_ = json.NewEncoder(out).Encode(&metav1.Status{ // a client that is gone needs no answer
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Reason: reasons[code], Code: int32(code), Message: "the network of the test refuses the request",
	})
}
