// SPDX-License-Identifier: Apache-2.0

// Package records serves DeploymentRecords over gRPC, to clients of both published revisions of oaas.deployment. The API
// server is the only store, and its rules are the only ones: what it refuses is refused here. What becomes of a record is
// the controller's work, and not looked at here.
package records
