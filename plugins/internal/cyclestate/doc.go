// SPDX-License-Identifier: Apache-2.0

// Package cyclestate has what the plugins use of each other's state in a scheduling cycle. A key is a constant of the type StateKey,
// since an interface constant would be boxed on every read.
package cyclestate
