// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// warningKey is the metadata of a gRPC answer with warnings.
	warningKey = "berth-warning"
	// warningHeader is the header of a REST answer with warnings, warningCode its code, as in answers of the API server.
	warningHeader, warningCode = "Warning", 299
)

// Warn logs what is wrong with an answer of a call that succeeds nevertheless, and passes it to the caller: in the metadata of a gRPC
// answer, and in the header of a REST answer. It must be called before the answer is written.
func Warn(ctx context.Context, text string) {
	if c := callOf(ctx); c.warn != nil {
		c.warn(ctx, text)
	}
}

// warner returns what Warn does for a call.
func (s *Server) warner(c *call, w http.ResponseWriter) func(context.Context, string) {
	return func(ctx context.Context, text string) {
		s.log.Info("Answered with a warning", "service", c.service, "method", c.method, "warning", text)
		if c.grpc {
			_ = grpc.SetHeader(ctx, metadata.Pairs(warningKey, percentEncoded(text))) // the header is written already
			return
		}
		addWarning(w.Header(), c, text)
	}
}

// addWarning adds a warning to a header that is not written yet.
func addWarning(h http.Header, c *call, text string) {
	if c.grpc {
		h.Add(warningKey, percentEncoded(text))
		return
	}
	if header, err := utilnet.NewWarningHeader(warningCode, "-", text); err == nil {
		h.Add(warningHeader, header)
	}
}
