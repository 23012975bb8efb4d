// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

// audited does what changes an environment, and writes down who wanted it and what came of it: never what it carried. Do
// returns the environment with an error too, if it is known; id is what the caller called it.
func (c *core) audited(ctx context.Context, verb, namespace, id string, do func() (*environment, error)) (e *environment, err error) {
	code := codes.Internal // what a panic leaves
	defer func() { c.audit(ctx, verb, namespace, id, e, code) }()
	e, err = do()
	code = codes.OK
	if err != nil {
		code = server.AsError(err).Code
	}
	return e, err
}

func (c *core) audit(ctx context.Context, verb, namespace, id string, e *environment, code codes.Code) {
	who, outcome := c.caller(ctx), codeName(code)
	c.log.Info("Audit", "verb", verb, "environment", id, "namespace", namespace, "caller", who, "code", outcome,
		"correlation", server.Correlation(ctx))
	if c.recorder == nil || e == nil || e.UID == "" {
		return
	}
	kind := corev1.EventTypeNormal
	if code != codes.OK {
		kind = corev1.EventTypeWarning
	}
	if who == "" {
		who = "somebody"
	}
	c.recorder.Event(e, kind, v1alpha1.EventReasonAudit, fmt.Sprintf("%s by %s: %s", verb, who, outcome))
}

// codeName is the name of a code as its specification writes it.
func codeName(c codes.Code) string { return rpccode.Code(c).String() } //nolint:gosec // a code is a small number
