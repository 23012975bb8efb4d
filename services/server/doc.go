// SPDX-License-Identifier: Apache-2.0

// Package server is the base of all services of Berth: it serves gRPC and REST on the same addresses, authenticates
// callers and limits every call.
//
// A service never acts for a caller without Authorize: no caller can do through Berth what the API server would forbid.
package server
