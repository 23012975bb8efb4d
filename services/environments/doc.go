// SPDX-License-Identifier: Apache-2.0

// Package environments serves Environments over gRPC as scheduler.v1. The API server is the only store: what it refuses is
// refused here, and a server that restarts has lost nothing.
package environments
