// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/wire/anyform"
)

func code(err error) codes.Code { return status.Code(err) }

func TestRL13Lists(t *testing.T) {
	s := serve(t)
	c := s.any()
	const many = 23
	var all []string
	for i := range many {
		req := small(fmt.Sprintf("limit-%02d", i))
		req.Labels = map[string]string{"third": fmt.Sprint(i % 3)}
		if i%2 == 0 {
			req.Labels["even"] = "yes"
		}
		all = append(all, req.Name)
		require.NoError(t, servicetest.Err(c.CreateResourceLimit(s.as(s.Editor), req)))
	}
	// walk reads all pages.
	walk := func(first *int32, q *anyform.LabelQuery) (names []string, pages int) {
		var after *string
		for {
			r, err := c.ListResourceLimits(s.as(s.Viewer), &anyform.ListResourceLimitsRequest{First: first, After: after, Label: q})
			require.NoError(t, err)
			pages++
			for _, l := range r.Data {
				names = append(names, l.Name)
			}
			require.Equal(t, r.HasNextPage, r.EndCursor != nil)
			if !r.HasNextPage {
				return names, pages
			}
			after = r.EndCursor
		}
	}
	for _, first := range []int32{1, 7, 22, 23, 24, 100000} {
		names, pages := walk(&first, nil)
		assert.Equal(t, all, names, "each once, in order, by %d", first)
		assert.Equal(t, (many+int(min(first, 500))-1)/int(min(first, 500)), pages)
	}
	names, pages := walk(nil, nil)
	assert.Equal(t, all, names)
	assert.Equal(t, 3, pages, "10 to a page")

	third := func(keep ...int) (names []string) {
		for i, name := range all {
			if slices.Contains(keep, i%3) {
				names = append(names, name)
			}
		}
		return names
	}
	even := func(want bool) (names []string) {
		for i, name := range all {
			if (i%2 == 0) == want {
				names = append(names, name)
			}
		}
		return names
	}
	type kv = anyform.LabelKeyValue
	type kvs = anyform.LabelKeyValues
	for name, tc := range map[string]struct {
		query *anyform.LabelQuery
		want  []string
	}{
		"equal":           {&anyform.LabelQuery{Equal: []*kv{{Key: "third", Value: "1"}}}, third(1)},
		"not_equal":       {&anyform.LabelQuery{NotEqual: []*kv{{Key: "third", Value: "1"}}}, third(0, 2)},
		"in":              {&anyform.LabelQuery{In: []*kvs{{Key: "third", Values: []string{"0", "2"}}}}, third(0, 2)},
		"not_in":          {&anyform.LabelQuery{NotIn: []*kvs{{Key: "third", Values: []string{"0", "2"}}}}, third(1)},
		"contain_key":     {&anyform.LabelQuery{ContainKey: []string{"even"}}, even(true)},
		"not_contain_key": {&anyform.LabelQuery{NotContainKey: []string{"even"}}, even(false)},
		"all of them": {&anyform.LabelQuery{
			Equal: []*kv{{Key: "third", Value: "1"}}, NotEqual: []*kv{{Key: "even", Value: "yes"}},
		}, []string{"limit-01", "limit-07", "limit-13", "limit-19"}},
		"nothing": {&anyform.LabelQuery{Equal: []*kv{{Key: "third", Value: "4"}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			three := int32(3)
			names, _ := walk(&three, tc.query)
			assert.Equal(t, tc.want, names)
		})
	}
	for field, req := range map[string]*anyform.ListResourceLimitsRequest{
		"first":                    {First: new(int32(0))},
		"after":                    {After: new("no cursor")},
		"label.equal[0]":           {Label: &anyform.LabelQuery{Equal: []*kv{{Key: "a b"}}}},
		"label.in[1]":              {Label: &anyform.LabelQuery{In: []*kvs{{Key: "a", Values: []string{"b"}}, {Key: "a"}}}},
		"label.not_contain_key[0]": {Label: &anyform.LabelQuery{NotContainKey: []string{""}}},
	} {
		servicetest.Refused(t, servicetest.Err(c.ListResourceLimits(s.as(s.Viewer), req)), codes.InvalidArgument, field)
	}
}
