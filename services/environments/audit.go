// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"

	"google.golang.org/grpc/codes"

	"berth.dev/berth/services/server"
)

// audited carries out a change of an environment, and logs the caller and the code of the result, never the request. Do returns
// the environment with an error too, if it is known; id is the id in the request.
func (c *service) audited(ctx context.Context, verb, namespace, id string, do func() (*environment, error)) (e *environment, err error) {
	code := codes.Internal // what a panic leaves
	defer func() {
		c.log.Info("Audit", "verb", verb, "environment", id, "namespace", namespace, "caller", c.caller(ctx),
			"code", server.CodeName(code), "correlation", server.Correlation(ctx))
	}()
	e, err = do()
	code = codes.OK
	if err != nil {
		code = server.AsError(err).Code
	}
	return e, err
}
