// SPDX-License-Identifier: Apache-2.0

// Package console serves the pages of internal/console to users in the cluster, each with the rights of their bearer token: informers
// answer reads for those who may list the same, and the API server decides writes.
package console
