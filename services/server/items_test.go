// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

func TestAMessageWithTooManyItemsIsRefused(t *testing.T) {
	for n, refused := range map[int]bool{maxItems: false, maxItems + 1: true} {
		list, keys := &structpb.ListValue{}, &structpb.Struct{Fields: map[string]*structpb.Value{}}
		for i := range n {
			list.Values = append(list.Values, structpb.NewBoolValue(true))
			keys.Fields[fmt.Sprint(i)] = structpb.NewBoolValue(true)
		}
		for field, m := range map[string]proto.Message{
			"values": list, "fields": keys,
			"fields.list_value.values": &structpb.Struct{Fields: map[string]*structpb.Value{"x": structpb.NewListValue(list)}},
		} {
			b, err := proto.Marshal(m)
			require.NoError(t, err)
			err = Decode(b, m.ProtoReflect().New().Interface())
			if !refused {
				assert.NoError(t, err, field)
				continue
			}
			assert.ErrorContains(t, err, field+": Too many: must have at most 1000 items")
		}
	}
}

func TestABodyWithTooManyItemsIsRefused(t *testing.T) {
	many := func(n int, item string) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	for body, want := range map[string]string{
		`{"a":[` + many(maxItems, "1") + `]}`:                             "-",
		`{"a":[` + many(maxItems+1, "1") + `]}`:                           "a",
		`{"a":{"b":[{"c":{` + many(maxItems+1, `"k":{}`) + `}}]},"z":{}}`: "a.b.c",
		`{"a":{"b":[` + many(maxItems+1, `{"c":1}`) + `]}}`:               "a.b",
		`[` + many(maxItems+1, "[]") + `]`:                                "",
		`{"text":"` + many(maxItems+1, "a") + `"}`:                        "-",
		`{"n":1e999,"a":[` + many(maxItems+1, "1") + `]}`:                 "a",
		strings.Repeat("[", 1<<20):                                        "-",
		`{"a":[`:                                                          "-",
		``:                                                                "-",
		`]`:                                                               "-",
	} {
		v := exceeding([]byte(body))
		assert.Equal(t, want != "-", v != nil, "%.40s", body)
		if v != nil {
			assert.Equal(t, Violation{want, tooMany}, *v, "%.40s", body)
		}
	}
}
