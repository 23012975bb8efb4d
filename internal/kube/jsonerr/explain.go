// SPDX-License-Identifier: Apache-2.0

// Package jsonerr describes what is wrong with JSON in the terms of JSON.
package jsonerr

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Explain returns what is wrong with a value that could not be decoded, and the path of the field, "" for the value as a whole. It
// names no type of a program.
func Explain(err error) (field, description string) {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return "", "is not valid JSON: " + err.Error()
	}
	return wrong.Field, fmt.Sprintf("has the JSON type %s, must be %s", wrong.Value, typeOf(wrong.Type))
}

// typeOf is what JSON calls a type that a value is decoded into.
func typeOf(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // no field is of another kind
	case reflect.Pointer:
		return typeOf(t.Elem())
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	}
	return "number"
}
