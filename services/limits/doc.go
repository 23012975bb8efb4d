// SPDX-License-Identifier: Apache-2.0

// Package limits serves ResourceLimits over gRPC, in both wire forms that clients of mcp.orchestrator.v1 have, and
// over REST. The API server is the only store, and its rules are the only ones: what it refuses is refused here.
package limits
