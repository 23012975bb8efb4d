// SPDX-License-Identifier: Apache-2.0

// Package crd tests the generated CRDs on a real API server: what it accepts, refuses, fills in and shows.
package crd
