// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"encoding/json"
	"fmt"

	"berth.dev/berth/internal/kube/display"
)

// Maybe is a value, or unknown. The zero value is unknown. In JSON, an unknown value is null.
type Maybe[T comparable] struct {
	value T
	known bool
}

// Known is a value that is known.
func Known[T comparable](value T) Maybe[T] { return Maybe[T]{value, true} }

// Get returns the value, and whether it is known.
func (m Maybe[T]) Get() (T, bool) { return m.value, m.known }

// Is reports whether the value is known, and is this one.
func (m Maybe[T]) Is(value T) bool { return m == Known(value) }

// Unknown reports whether the value is unknown.
func (m Maybe[T]) Unknown() bool { return !m.known }

// String is the value, "?" where it is unknown.
func (m Maybe[T]) String() string {
	if !m.known {
		return "?"
	}
	return fmt.Sprint(m.value)
}

// Text is the value, <unknown> where it is unknown, as kubectl prints it.
func (m Maybe[T]) Text() string {
	if !m.known {
		return display.Unknown
	}
	return m.String()
}

// MarshalJSON implements json.Marshaler.
func (m Maybe[T]) MarshalJSON() ([]byte, error) {
	if !m.known {
		return []byte("null"), nil
	}
	return json.Marshal(m.value)
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Maybe[T]) UnmarshalJSON(data []byte) error {
	*m = Maybe[T]{}
	if string(data) == "null" {
		return nil
	}
	m.known = true
	return json.Unmarshal(data, &m.value)
}

// Part is something of a value, unknown where the value is.
func Part[T, P comparable](of Maybe[T], part func(T) P) Maybe[P] {
	if !of.known {
		return Maybe[P]{}
	}
	return Known(part(of.value))
}

// sum is unknown where one of two values is.
func sum[T comparable](a, b Maybe[T], plus func(a, b T) T) Maybe[T] {
	if !a.known || !b.known {
		return Maybe[T]{}
	}
	return Known(plus(a.value, b.value))
}
