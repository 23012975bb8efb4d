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

// An element of two bytes is a struct of a hundred.
func TestAMessageOfManySmallFieldsIsRefused(t *testing.T) {
	inner := &structpb.ListValue{}
	for range maxItems {
		inner.Values = append(inner.Values, structpb.NewBoolValue(true)) // two fields each
	}
	lists := func(n int) []byte {
		m := &structpb.ListValue{}
		for range n {
			m.Values = append(m.Values, structpb.NewListValue(inner))
		}
		b, err := proto.Marshal(m)
		require.NoError(t, err)
		return b
	}
	most := maxFields / (2*maxItems + 2)
	require.NoError(t, Decode(lists(most), &structpb.ListValue{}))
	err := Decode(lists(most+1), &structpb.ListValue{})
	require.EqualError(t, err, "INVALID_ARGUMENT: request: has more than 50000 fields", "those within an element count too")
}

func TestAnErrorIsShortWhateverTheRequestWas(t *testing.T) {
	var all Violations
	for i := range 100_000 {
		all.Add(fmt.Sprintf("a[%d]", i), strings.Repeat("ä", 1<<10))
	}
	require.True(t, all.Full())
	e := Invalid(all...)
	assert.Len(t, e.Violations, maxViolations)
	assert.Less(t, len(e.Message), 2*maxViolations*maxViolationBytes)
	e = InvalidField(strings.Repeat("k", 1<<20), "is wrong")
	assert.Less(t, len(e.Message), 2*maxViolationBytes)
	assert.Equal(t, InvalidField("a", "is wrong").Violations, []Violation{{"a", "is wrong"}})
}

// Without the bound this test times out: the JSON library copies the long key for each field below it.
func TestJSONBelowALongKeyIsRefused(t *testing.T) {
	type inner struct {
		A string `json:"a"`
	}
	var fields strings.Builder
	for i := range 500_000 {
		fmt.Fprintf(&fields, `,"b%d":0`, i)
	}
	for name, tc := range map[string]struct {
		body    string
		refused bool
	}{
		"unknown fields below a long key":   {`{"` + strings.Repeat("k", 4<<20) + `" : {"a":""` + fields.String() + `}}`, true},
		"a long key of escapes":             {`{"` + strings.Repeat(`\"`, maxKey) + `":{}}`, true},
		"a key after an escaped backslash":  {`{"\\":{}, "` + strings.Repeat("k", maxKey+1) + `":{}}`, true},
		"the longest key":                   {`{"` + strings.Repeat("k", maxKey) + `":{"a":""}}`, false},
		"a long value":                      {`{"k":{"a":"` + strings.Repeat("v", 1<<20) + `"}}`, false},
		"a long value that looks like keys": {`{"k":{"a":"` + strings.Repeat(`\":`, 1<<20) + `"}}`, false},
	} {
		into := map[string]inner{}
		err := Unmarshal("", []byte(tc.body), &into)
		if tc.refused {
			require.EqualError(t, err, "INVALID_ARGUMENT: body: has a key of more than 1024 bytes", name)
		} else {
			require.NoError(t, err, name)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"a":"\"`))
	f.Add([]byte(`{"a\\":1}`))
	f.Add([]byte(`{"a":[1,{"b":null}]}`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_ = Unmarshal("", b, &map[string]struct{}{})
	})
}
