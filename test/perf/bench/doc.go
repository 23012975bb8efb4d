// SPDX-License-Identifier: Apache-2.0

// Package bench measures peers side by side: it runs them in turn, round after
// round, so that what else the machine does falls on all of them, keeps what
// every round measured, and computes the ratio between two peers.
package bench
