// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"

	"berth.dev/berth/internal/kube/hash"
)

const (
	// maxName is the longest name that an object can have.
	maxName = 253
	// maxLabel is the longest name of a Service, and the longest value of a label.
	maxLabel = 63
)

// RecordName returns the name of the record of a client's deployment id: lower
// case, everything but letters, digits and '-' replaced by '-', none of which at
// its ends. Different ids can have the same name; the record's annotation says
// which it was made for. An error says what is wrong with the id.
func RecordName(id string) (string, error) {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return '-'
	}, strings.ToLower(id))
	name = strings.Trim(name, "-")
	switch {
	case id == "":
		return "", fmt.Errorf("must not be empty")
	case name == "":
		return "", fmt.Errorf("%q has no letter from a to z and no digit, so that no name can be made of it", id)
	case len(name) > maxName:
		return "", fmt.Errorf("makes a name of %d characters, more than %d", len(name), maxName)
	}
	return name, nil
}

// Hash returns a text that a label can hold and that is another one for any other text.
func Hash(text string) string {
	return hash.Of(text, hash.Label)
}

// ChildName returns a name for an object of a record that Services can have
// too: a letter first, at most 63 characters. What had to be cut off is replaced
// by a hash of the whole, so that no two records share a name for it.
func ChildName(record, suffix string) string {
	base := record
	if base == "" || base[0] < 'a' || base[0] > 'z' {
		base = "a" + base
	}
	base = strings.ReplaceAll(base, ".", "-") // a record that was not made through the API may have dots
	if len(base)+len(suffix) > maxLabel || base != record && strings.Contains(record, ".") {
		const hashed = 8
		base = strings.TrimRight(base[:min(len(base), maxLabel-len(suffix)-hashed-1)], "-") + "-" + Hash(record)[:hashed]
	}
	return base + suffix
}
