// SPDX-License-Identifier: Apache-2.0

// Package server is what all services of Berth stand on: it serves gRPC and REST on the same addresses, finds out who
// calls, and holds every call to its limits. What a service does is its own.
//
// A service never acts for a caller without Authorize: no one can do through Berth what the API server would refuse them.
package server
