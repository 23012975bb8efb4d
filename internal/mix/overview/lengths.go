// SPDX-License-Identifier: Apache-2.0

package overview

import "berth.dev/berth/internal/kube/display"

// The lengths of texts: names of Kubernetes have at most 253 characters, with capacitymix/ before them.
const (
	maxName    = 280
	maxMessage = 512
)

// Inert returns a text that a terminal shows and does not execute, at most limit bytes.
func Inert(s string, limit int) string { return display.Inert(s, limit) }
