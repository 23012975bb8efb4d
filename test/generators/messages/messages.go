// SPDX-License-Identifier: Apache-2.0

// Package messages makes the requests of a method that cost a server the most, from the descriptor of its message.
package messages

import (
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"berth.dev/berth/test/generators/extremes"
)

const (
	// longest is the length of a text, and most the number of items of a list or a map.
	longest, most = 64 << 10, 10_000
	// deepest is how many messages are within each other.
	deepest = 6
)

// Texts are those that are costly where a program takes them for a quantity, an expression, a document or a pattern.
var Texts = []string{
	"1e2147483647", "1e-2147483647", strings.Repeat("9", longest), strings.Repeat("a,", longest/2), strings.Repeat("((((a*)*)*)*)", longest/13),
	strings.Repeat("[", longest), strings.Repeat("${name}", longest/7), extremes.Bomb(longest), "-9223372036854775808h",
}

// Request is a message, and the field that is at an extreme.
type Request struct {
	Field   string
	Message *dynamicpb.Message
}

// Of returns requests with one field of a message at an extreme each, the others as in base, and requests with one text in all fields.
func Of(base *dynamicpb.Message) (list []Request) {
	vary(base.Descriptor(), "", deepest, func(field string, set func(protoreflect.Message)) {
		m := proto.CloneOf(base)
		set(m)
		list = append(list, Request{field, m})
	})
	for i, text := range Texts {
		m := dynamicpb.NewMessage(base.Descriptor())
		fill(m, text, deepest)
		list = append(list, Request{fmt.Sprint("all, text ", i), m})
	}
	return list
}

// vary calls add for each extreme of each field of a message, with what sets it.
func vary(md protoreflect.MessageDescriptor, path string, depth int, add func(field string, set func(protoreflect.Message))) {
	for i := range md.Fields().Len() {
		f := md.Fields().Get(i)
		field := path + string(f.Name())
		set := func(v protoreflect.Value) {
			add(field, func(m protoreflect.Message) { m.Set(f, v) })
		}
		switch {
		case f.IsMap():
			add(field, func(m protoreflect.Message) { fillMap(m, f, most) })
		case f.IsList() && f.Message() == nil:
			for _, v := range scalars(f) {
				add(field, func(m protoreflect.Message) { m.Mutable(f).List().Append(v) })
			}
			add(field, func(m protoreflect.Message) { fillList(m, f, most) })
		case f.IsList():
			add(field, func(m protoreflect.Message) { fillList(m, f, most) })
			if depth > 0 {
				vary(f.Message(), field+".", depth-1, func(field string, set func(protoreflect.Message)) {
					add(field, func(m protoreflect.Message) { set(m.Mutable(f).List().AppendMutable().Message()) })
				})
			}
		case f.Message() != nil:
			if depth > 0 {
				vary(f.Message(), field+".", depth-1, func(field string, set func(protoreflect.Message)) {
					add(field, func(m protoreflect.Message) { set(m.Mutable(f).Message()) })
				})
			}
		default:
			for _, v := range scalars(f) {
				set(v)
			}
		}
	}
}

func fillMap(m protoreflect.Message, f protoreflect.FieldDescriptor, n int) {
	entries := m.Mutable(f).Map()
	for i := range n {
		entries.Set(key(f.MapKey(), i), element(f.MapValue(), entries.NewValue))
	}
}

func fillList(m protoreflect.Message, f protoreflect.FieldDescriptor, n int) {
	list := m.Mutable(f).List()
	for range n {
		list.Append(element(f, list.NewElement))
	}
}

func element(f protoreflect.FieldDescriptor, empty func() protoreflect.Value) protoreflect.Value {
	if f.Message() != nil {
		return empty()
	}
	return scalars(f)[0]
}

func key(f protoreflect.FieldDescriptor, i int) protoreflect.MapKey {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprint("k", i)).MapKey()
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(i)).MapKey()
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(i)).MapKey()
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(i)).MapKey()
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(i%2 == 0).MapKey()
	default:
		return protoreflect.ValueOfInt32(int32(i)).MapKey()
	}
}

// scalars are the extremes of a field that is no message.
func scalars(f protoreflect.FieldDescriptor) (values []protoreflect.Value) {
	switch f.Kind() {
	case protoreflect.StringKind:
		for _, text := range Texts {
			values = append(values, protoreflect.ValueOfString(text))
		}
	case protoreflect.BytesKind:
		values = append(values, protoreflect.ValueOfBytes(make([]byte, longest)))
	case protoreflect.BoolKind:
		values = append(values, protoreflect.ValueOfBool(true))
	case protoreflect.EnumKind:
		values = append(values, protoreflect.ValueOfEnum(math.MaxInt32), protoreflect.ValueOfEnum(-1))
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		values = numbers(f.Kind())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		values = append(values, protoreflect.ValueOfInt32(math.MaxInt32), protoreflect.ValueOfInt32(math.MinInt32))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		values = append(values, protoreflect.ValueOfUint32(math.MaxUint32))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		values = append(values, protoreflect.ValueOfUint64(math.MaxUint64))
	default:
		values = append(values, protoreflect.ValueOfInt64(math.MaxInt64), protoreflect.ValueOfInt64(math.MinInt64))
	}
	return values
}

// numbers are the extremes of a floating-point field.
func numbers(kind protoreflect.Kind) (values []protoreflect.Value) {
	for _, v := range []float64{math.MaxFloat32, math.MaxFloat64, math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat32} {
		if kind == protoreflect.FloatKind {
			values = append(values, protoreflect.ValueOfFloat32(float32(v)))
		} else {
			values = append(values, protoreflect.ValueOfFloat64(v))
		}
	}
	return values
}

// fill sets a text in every field of a message, with one item in each list and map.
func fill(m protoreflect.Message, text string, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case f.IsMap():
			entries := m.Mutable(f).Map()
			v := entries.NewValue()
			if f.MapValue().Message() == nil {
				v = of(f.MapValue(), text)
			} else if depth > 0 {
				fill(v.Message(), text, depth-1)
			}
			entries.Set(key(f.MapKey(), 1), v)
		case f.IsList() && f.Message() == nil:
			m.Mutable(f).List().Append(of(f, text))
		case f.Message() == nil:
			m.Set(f, of(f, text))
		case depth == 0:
		case f.IsList():
			fill(m.Mutable(f).List().AppendMutable().Message(), text, depth-1)
		default:
			fill(m.Mutable(f).Message(), text, depth-1)
		}
	}
}

func of(f protoreflect.FieldDescriptor, text string) protoreflect.Value {
	if f.Kind() == protoreflect.StringKind {
		return protoreflect.ValueOfString(text)
	}
	return scalars(f)[0]
}
