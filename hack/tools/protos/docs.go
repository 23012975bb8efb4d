// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// writeDocs writes the reference of the services of some files as Markdown: their calls, and the messages and enumerations of each file,
// with the comments of the source.
func writeDocs[F protoreflect.FileDescriptor](out io.Writer, files []F) error {
	d := &docs{out: out, documented: map[protoreflect.FullName]bool{}}
	for _, f := range files {
		messages(f.Messages(), func(m protoreflect.MessageDescriptor) { d.documented[m.FullName()] = true })
		enums(f, func(e protoreflect.EnumDescriptor) { d.documented[e.FullName()] = true })
	}
	for _, f := range files {
		for i := range f.Services().Len() {
			d.service(f.Services().Get(i))
		}
		messages(f.Messages(), d.message)
		enums(f, d.enum)
	}
	return d.err
}

// messages calls f for each message, with those that are declared in it, but without the entries of maps.
func messages(of protoreflect.MessageDescriptors, f func(protoreflect.MessageDescriptor)) {
	for i := range of.Len() {
		if m := of.Get(i); !m.IsMapEntry() {
			f(m)
			messages(m.Messages(), f)
		}
	}
}

// enums calls f for each enumeration of a file, with those that are declared in messages.
func enums(file protoreflect.FileDescriptor, f func(protoreflect.EnumDescriptor)) {
	each := func(of protoreflect.EnumDescriptors) {
		for i := range of.Len() {
			f(of.Get(i))
		}
	}
	each(file.Enums())
	messages(file.Messages(), func(m protoreflect.MessageDescriptor) { each(m.Enums()) })
}

type docs struct {
	out        io.Writer
	documented map[protoreflect.FullName]bool
	err        error
}

func (d *docs) print(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.out, format, args...)
	}
}

func (d *docs) heading(level string, of protoreflect.Descriptor) {
	d.print("\n%s %s\n", level, of.FullName())
	if text := comment(of); text != "" {
		d.print("\n%s\n", text)
	}
}

func (d *docs) service(s protoreflect.ServiceDescriptor) {
	d.heading("##", s)
	d.print("\n| call | request | response | description |\n|---|---|---|---|\n")
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		d.print("| `%s` | %s | %s | %s |\n", m.Name(), stream(m.IsStreamingClient())+d.link(m.Input()),
			stream(m.IsStreamingServer())+d.link(m.Output()), cell(comment(m)))
	}
}

func stream(is bool) string {
	if is {
		return "stream of "
	}
	return ""
}

func (d *docs) message(m protoreflect.MessageDescriptor) {
	d.heading("###", m)
	if m.Fields().Len() == 0 {
		d.print("\nIt has no fields.\n")
		return
	}
	d.print("\n| field | number | type | description |\n|---|---|---|---|\n")
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		d.print("| `%s` | %d | %s | %s |\n", f.Name(), f.Number(), d.typeOf(f), cell(comment(f)))
	}
}

func (d *docs) enum(e protoreflect.EnumDescriptor) {
	d.heading("###", e)
	d.print("\n| value | number | description |\n|---|---|---|\n")
	for i := range e.Values().Len() {
		v := e.Values().Get(i)
		d.print("| `%s` | %d | %s |\n", v.Name(), v.Number(), cell(comment(v)))
	}
}

// typeOf returns the type of a field as the source has it.
func (d *docs) typeOf(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return fmt.Sprintf("map of %s to %s", f.MapKey().Kind(), d.element(f.MapValue()))
	case f.IsList():
		return "repeated " + d.element(f)
	case f.HasOptionalKeyword():
		return "optional " + d.element(f)
	}
	return d.element(f)
}

func (d *docs) element(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return d.link(f.Message())
	case f.Enum() != nil:
		return d.link(f.Enum())
	}
	return f.Kind().String()
}

// link returns the name of a type, with a link to its heading if there is one.
func (d *docs) link(of protoreflect.Descriptor) string {
	if !d.documented[of.FullName()] {
		return "`" + string(of.FullName()) + "`"
	}
	anchor := strings.ToLower(strings.ReplaceAll(string(of.FullName()), ".", ""))
	return fmt.Sprintf("[%s](#%s)", of.Name(), anchor)
}

// comment returns the comment before a declaration, or behind it.
func comment(of protoreflect.Descriptor) string {
	at := of.ParentFile().SourceLocations().ByDescriptor(of)
	text := at.LeadingComments
	if text == "" {
		text = at.TrailingComments
	}
	return strings.TrimSpace(text)
}

// cell returns a text as the cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
