// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
	"berth.dev/berth/test/servertest"
)

var testKey = tokens("a key of tests")

func named(ids ...string) []*environment {
	var out []*environment
	for _, id := range ids {
		e := &environment{}
		e.Name = id
		out = append(out, e)
	}
	return out
}

// Whatever comes and goes between two pages, what stays is seen exactly once, in order.
func TestPagesShowAllThatStaysOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfDistinct(rapid.StringMatching(`[a-c][a-z0-9]{0,3}`), rapid.ID[string])
		stays, goes := ids.Draw(t, "stay"), ids.Draw(t, "go")
		c := &service{tokens: testKey}
		req := &schedulerv1.ListEnvironmentsRequest{PageSize: rapid.Int32Range(1, 5).Draw(t, "size")}
		seen := map[string]int{}
		last := ""
		for range len(stays) + len(goes) + 1 {
			all := map[string]bool{}
			for _, id := range stays {
				all[id] = true
			}
			for _, id := range goes {
				if rapid.Bool().Draw(t, "there") {
					all[id] = true
				}
			}
			list := slices.Collect(maps.Keys(all))
			q, err := c.query("ns", req)
			require.NoError(t, err)
			page, next := q.page(named(list...))
			require.LessOrEqual(t, len(page), int(req.GetPageSize()))
			for _, e := range page {
				require.Greater(t, e.Name, last)
				last = e.Name
				seen[last]++
			}
			if next == "" {
				break
			}
			require.Len(t, page, int(req.GetPageSize()))
			req.PageToken, err = c.tokens.write(next, q.filter)
			require.NoError(t, err)
		}
		for _, id := range stays {
			require.Equal(t, 1, seen[id])
		}
	})
}

func TestPageSizesAndTokens(t *testing.T) {
	c := &service{tokens: testKey}
	for asked, want := range map[int32]int{0: 50, 1: 1, 500: 500, 501: 500, 1<<31 - 1: 500} {
		q, err := c.query("ns", &schedulerv1.ListEnvironmentsRequest{PageSize: asked})
		require.NoError(t, err)
		assert.Equal(t, want, q.size)
	}
	fieldOf := func(namespace string, req *schedulerv1.ListEnvironmentsRequest) string {
		_, err := c.query(namespace, req)
		if err == nil {
			return ""
		}
		return server.AsError(err).Violations[0].Field
	}
	assert.Equal(t, "page_size", fieldOf("ns", &schedulerv1.ListEnvironmentsRequest{PageSize: -1}))

	filters := map[string]string{"team": "a"}
	q, err := c.query("ns", &schedulerv1.ListEnvironmentsRequest{Filters: filters})
	require.NoError(t, err)
	token, err := testKey.write("shop-1", q.filter)
	require.NoError(t, err)
	ask := func(token string) *schedulerv1.ListEnvironmentsRequest {
		return &schedulerv1.ListEnvironmentsRequest{PageToken: token, Filters: filters, PageSize: 3}
	}
	assert.Empty(t, fieldOf("ns", ask(token)))
	again, err := c.query("ns", ask(token))
	require.NoError(t, err)
	assert.Equal(t, "shop-1", again.after)

	foreign, err := tokens("another key").write("shop-1", q.filter)
	require.NoError(t, err)
	decoded, err := base64.RawURLEncoding.DecodeString(token)
	require.NoError(t, err)
	forged := base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf(`{"a":"x%s`, decoded[6:])))
	for name, req := range map[string]*schedulerv1.ListEnvironmentsRequest{
		"no token": ask("x"), "cut off": ask(token[:len(token)-4]), "of another key": ask(foreign), "forged": ask(forged),
		"of JSON":          ask(base64.RawURLEncoding.EncodeToString([]byte(`{}`))),
		"of other filters": {PageToken: token, Filters: map[string]string{"team": "b"}},
		"of no filters":    {PageToken: token},
	} {
		assert.Equal(t, "page_token", fieldOf("ns", req), name)
	}
	assert.Equal(t, "page_token", fieldOf("other", ask(token)), "of another namespace")
}

func TestFilters(t *testing.T) {
	e := &environment{}
	e.Name, e.Spec.DisplayName, e.Status.Phase = "shop-1", "shop", v1alpha1.EnvironmentRunning
	e.Spec.Labels = map[string]v1alpha1.AttributeValue{"team": "a", "tier": "", "name": "label"}
	for name, tc := range map[string]struct {
		filters map[string]string
		want    bool
	}{
		"none":                    {nil, true},
		"a label":                 {map[string]string{"team": "a"}, true},
		"another value":           {map[string]string{"team": "b"}, false},
		"one of two":              {map[string]string{"team": "a", "x": "y"}, false},
		"all of three":            {map[string]string{"team": "a", "name": "shop", "status": "RUNNING"}, true},
		"an empty label":          {map[string]string{"tier": ""}, true},
		"no label is not empty":   {map[string]string{"other": ""}, false},
		"the name is no label":    {map[string]string{"name": "label"}, false},
		"a status, in small":      {map[string]string{"status": "running"}, true},
		"a status, in full":       {map[string]string{"status": "ENVIRONMENT_STATUS_RUNNING"}, true},
		"another status":          {map[string]string{"status": "stopped"}, false},
		"the id is not the name":  {map[string]string{"name": "shop-1"}, false},
		"a status and the others": {map[string]string{"status": "running", "team": "b"}, false},
	} {
		match, err := matcher(tc.filters)
		require.NoError(t, err, name)
		assert.Equal(t, tc.want, match(e), name)
	}
	for _, unknown := range []string{"", "gone", "UNSPECIFIED", "2", "ENVIRONMENT_STATUS_"} {
		_, err := matcher(map[string]string{"status": unknown})
		require.Error(t, err, unknown)
		assert.Equal(t, "filters[status]", server.AsError(err).Violations[0].Field)
	}
}

// A token that was not written is refused, whatever it is.
func FuzzPageTokens(f *testing.F) {
	filter, err := hashOf("ns", nil)
	require.NoError(f, err)
	good, err := testKey.write("shop-1", filter)
	require.NoError(f, err)
	f.Add(good)
	f.Add(good + "=")
	f.Add("")
	f.Add("e30")
	f.Fuzz(func(t *testing.T, text string) {
		after, err := testKey.read(text, filter)
		if err != nil {
			servertest.RequireInvalid(t, err)
			return
		}
		require.Equal(t, "shop-1", after, "only one was written")
	})
}
