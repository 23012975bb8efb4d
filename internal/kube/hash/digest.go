// SPDX-License-Identifier: Apache-2.0

// Package hash makes short names of long texts.
package hash

import (
	"crypto/sha256"
	"encoding/hex"
)

// Label is a number of digits that fits into the value of a label, and more than enough for different hashes.
const Label = 40

// Of returns the first digits, in hexadecimal, of a text's SHA-256: the same for the same text, always and everywhere. There
// are 64 of them.
func Of[T string | []byte](text T, digits int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:digits]
}
