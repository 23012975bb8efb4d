// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/wire/anyform"
)

func code(err error) codes.Code { return status.Code(err) }

func TestListsAreFilteredAndPaged(t *testing.T) {
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

// manyEnv requests the measurement, which takes a minute or two:
//
//	BERTH_TEST_LIMITS=1 go test -count=1 -v -run FiveThousandLimits ./test/integration/limits/wire
const manyEnv = "BERTH_TEST_LIMITS"

func TestFiveThousandLimitsAreListed(t *testing.T) {
	if os.Getenv(manyEnv) == "" {
		t.Skip("set " + manyEnv)
	}
	const (
		many    = 5000
		callers = 4
		ceiling = 2 * time.Second
		samples = 500
	)
	s := serve(t)
	c := s.any()
	ctx := s.as(s.Editor)
	// measure makes calls from several callers at a time, and holds the 99th percentile to a ceiling.
	measure := func(what string, n int, ceiling time.Duration, call func(i int) error) {
		took := make([]time.Duration, n)
		var g errgroup.Group
		g.SetLimit(callers)
		for i := range n {
			g.Go(func() error {
				began := time.Now()
				err := call(i)
				took[i] = time.Since(began)
				return err
			})
		}
		require.NoError(t, g.Wait())
		slices.Sort(took)
		p99 := took[n*99/100]
		t.Logf("%s: p50 %s, p99 %s, max %s", what, took[n/2], p99, took[n-1])
		assert.Less(t, p99, ceiling, what)
	}
	name := func(i int) string { return fmt.Sprintf("limit-%04d", i) }
	measure("create", many, ceiling, func(i int) error {
		return servicetest.Err(c.CreateResourceLimit(ctx, anyLimit(name(i), "kubernetes.io/NodeSelector", "kubernetes.io/Affinity")))
	})
	require.Equal(t, many, s.count())
	measure("get", samples, ceiling, func(i int) error {
		return servicetest.Err(c.GetResourceLimit(ctx, named(name(i*many/samples))))
	})
	for _, first := range []int32{10, 500} {
		measure(fmt.Sprintf("list, %d to a page", first), samples, ceiling, func(int) error {
			r, err := c.ListResourceLimits(ctx, &anyform.ListResourceLimitsRequest{First: &first})
			if err == nil && len(r.Data) != int(first) {
				return fmt.Errorf("%d on the page", len(r.Data))
			}
			return err
		})
	}
	measure("a walk over all, 10 calls of 500", 20, 10*ceiling, func(int) error {
		seen := 0
		for after := (*string)(nil); ; {
			r, err := c.ListResourceLimits(ctx, &anyform.ListResourceLimitsRequest{First: new(int32(500)), After: after})
			if err != nil {
				return err
			}
			if seen += len(r.Data); !r.HasNextPage {
				if seen != many {
					return fmt.Errorf("%d seen", seen)
				}
				return nil
			}
			after = r.EndCursor
		}
	})
}
