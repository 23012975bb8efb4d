// SPDX-License-Identifier: Apache-2.0

// Package nfr decides about the non-functional requirements of a DeploymentRecord: what to query from Prometheus, what the answers
// recommend, whether the requirements are met, and when a recommendation is applied. It is pure: internal/records/prometheus queries,
// the controller writes.
package nfr
