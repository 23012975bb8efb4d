// SPDX-License-Identifier: Apache-2.0

package overview

// The lengths of texts: names of Kubernetes have at most 253 characters, with capacitymix/ before them.
const (
	maxName    = 280
	maxMessage = 512
)
