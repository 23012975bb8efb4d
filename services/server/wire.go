// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"cmp"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wireTypes are the names of the wire types of fields.
var wireTypes = map[protowire.Type]string{
	protowire.VarintType: "a varint", protowire.Fixed32Type: "4 bytes", protowire.Fixed64Type: "8 bytes",
	protowire.BytesType: "bytes", protowire.StartGroupType: "a group", protowire.EndGroupType: "the end of a group",
}

// maxFields is the maximum number of fields in a message and those within it. An empty element of a list takes two bytes on the wire,
// and hundreds as what is made of it before the call is authorized: bytes alone do not bound the memory of a call.
const maxFields = 50_000

// Decode decodes a message. Unlike the library it reports which field is invalid, it does not treat a field of
// another type as an unknown one, and it refuses a message of too many fields.
func Decode(b []byte, m proto.Message) error {
	if v := (&walk{left: maxFields}).broken("", m.ProtoReflect().Descriptor(), b); v != nil {
		return Invalid(*v)
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return Invalid(Violation{Field: "request", Description: "is not a message of this RPC"})
	}
	return nil
}

// walk goes through the fields of a message, of which there may be as many as are left.
type walk struct{ left int }

// broken finds the first field that cannot be decoded or is one too many, nil if all can. A field without a name has the name of its
// message.
func (w *walk) broken(path string, of protoreflect.MessageDescriptor, b []byte) *Violation {
	counted := items{}
	for len(b) > 0 {
		number, have, n := protowire.ConsumeTag(b)
		if n < 0 {
			return at(path, "is truncated or not valid protobuf")
		}
		b = b[n:]
		if w.left--; w.left < 0 {
			return at("", fmt.Sprintf("has more than %d fields", maxFields))
		}
		size := protowire.ConsumeFieldValue(number, have, b)
		field := of.Fields().ByNumber(number)
		if field == nil {
			if size < 0 {
				return at(path, fmt.Sprintf("is truncated or not valid protobuf at field %d", number))
			}
			b = b[size:]
			continue
		}
		name := nameBelow(path, field)
		if want := wireType(field.Kind()); have != want && (have != protowire.BytesType || !packable(field)) {
			return at(name, fmt.Sprintf("is encoded as %s, must be %s", wireTypes[have], wireTypes[want]))
		}
		switch {
		case size < 0:
			return at(name, "is truncated")
		case counted.add(field) > maxItems:
			return at(name, tooMany)
		}
		if v := w.brokenValue(name, field, b[:size]); v != nil {
			return v
		}
		b = b[size:]
	}
	return nil
}

// nameBelow returns the name of a field of the message at a path.
func nameBelow(path string, field protoreflect.FieldDescriptor) string {
	switch {
	case field.ContainingMessage().IsMapEntry():
		return path // key and value are generated names
	case path != "":
		return path + "." + string(field.Name())
	}
	return string(field.Name())
}

func (w *walk) brokenValue(name string, field protoreflect.FieldDescriptor, b []byte) *Violation {
	switch field.Kind() {
	case protoreflect.StringKind:
		text, _ := protowire.ConsumeBytes(b)
		if !utf8.Valid(text) {
			return at(name, "is not UTF-8")
		}
		if bytes.IndexByte(text, 0) >= 0 { // no process can get it as an argument or a variable
			return at(name, "has the character U+0000")
		}
	case protoreflect.MessageKind:
		inner, _ := protowire.ConsumeBytes(b)
		return w.broken(name, field.Message(), inner)
	default:
	}
	return nil
}

func at(path, description string) *Violation {
	return &Violation{Field: cmp.Or(path, "request"), Description: description}
}

func packable(f protoreflect.FieldDescriptor) bool {
	return f.IsList() && wireType(f.Kind()) != protowire.BytesType
}

func wireType(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	default:
		return protowire.VarintType
	}
}

// Texts gives the values of a map another type: a CRD has a type for each. A map without entries is nil, as it is when it is read.
func Texts[W, V ~string](in map[string]V) map[string]W {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]W, len(in))
	for key, value := range in {
		out[key] = W(value)
	}
	return out
}

// RFC3339 writes a time in whole seconds, "" for none.
func RFC3339(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
