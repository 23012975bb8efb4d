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

	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/wire/anyform"
)

// manyEnv requests the measurement, which takes a minute or two:
//
//	BERTH_TEST_LIMITS=1 go test -count=1 -v -run RL18 ./test/integration/services
const manyEnv = "BERTH_TEST_LIMITS"

func TestRL18FiveThousandLimits(t *testing.T) {
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
		return servicetest.Err(c.GetResourceLimit(ctx, &anyform.GetResourceLimitRequest{Name: name(i * many / samples)}))
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
