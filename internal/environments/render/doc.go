// SPDX-License-Identifier: Apache-2.0

// Package render decides what an Environment is made of: its components
// and their order, the objects that they are rendered to, their ports, and
// the state of the whole. It reads and writes nothing.
package render
