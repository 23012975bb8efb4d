// SPDX-License-Identifier: Apache-2.0

// Package render decides which objects an Environment becomes that validation
// accepts, and the state of the whole. It reads and writes nothing.
package render
