// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// planning serves pages whose plans a function makes.
func planning(t *testing.T, planner Planner) (client.Client, *Console) {
	mix := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
	mix.Spec.SpotPercent, mix.Spec.MinOnDemand = 70, 2
	mix.Status.Conditions = []metav1.Condition{{Type: "SpotAvailable", Status: "False", Reason: "NoNodes", Message: "3 pods wait <b>"}}
	return editor(t, generations, func(o *Options) { o.Plan = planner }, mix)
}

func TestAMixIsPlannedAndApplied(t *testing.T) {
	var asked []Question
	k, c := planning(t, func(_ context.Context, q Question) (*overview.Plan, []string, error) {
		asked = append(asked, q)
		return &overview.Plan{
			Mixes: []overview.PlannedMix{{Namespace: "shop", Name: "web", Action: "unchanged", After: "<b>"}},
			Moves: []overview.PlannedMove{{Order: 1, Namespace: "shop", Pod: "web-1", To: "on-demand"}}, Notes: []string{"a note\x1b"},
		}, []string{"Warning: a list is missing"}, nil
	})
	_, page := get(t, c, "/workloads/shop/Deployment/web")
	assert.Contains(t, page, `<a href="/mixes/shop/web/plan">What if?</a>`)
	assert.Contains(t, page, `<dt>SpotAvailable</dt><dd>False, NoNodes: 3 pods wait &lt;b&gt;</dd>`)
	_, page = get(t, c, "/mixes/shop/web/plan")
	assert.Empty(t, asked, "nothing is planned before a question")
	assert.Equal(t, url.Values{"spotPercent": {"70"}, "minOnDemand": {"2"}, "maxSpot": {""}}, posted(t, page))
	assert.NotContains(t, page, "Apply to")

	w, page := get(t, c, "/mixes/shop/web/plan?spotPercent=30&minOnDemand=3&maxSpot=4")
	require.Equal(t, http.StatusOK, w.Code)
	require.NotEmpty(t, asked)
	assert.Equal(t, Question{ObjectKey: client.ObjectKey{Namespace: "shop", Name: "web"}, SpotPercent: 30, MinOnDemand: 3, MaxSpot: new(int32(4))}, asked[0])
	assert.Contains(t, page, "<p>CapacityMix shop/web would not change: &lt;b&gt;.</p>")
	assert.Contains(t, page, `<td data-label="POD">web-1</td><td data-label="FROM"></td><td data-label="TO">on-demand</td>`)
	assert.Contains(t, page, "<p>A note\\x1b.</p><p>1 move, 0 blocked. Nothing was written.</p><p>Warning: a list is missing</p>")
	assert.Contains(t, page, `<div id="plan-result"`)
	assert.Contains(t, page, "borrowed, pod web-5 on node spot-5", "3 of 10 slots are spot slots then")
	sent := posted(t, page)
	w, fragment := get(t, c, "/mixes/shop/web/plan?spotPercent=30&minOnDemand=3&maxSpot=4&result=1")
	require.Equal(t, http.StatusOK, w.Code)
	assert.True(t, strings.HasPrefix(fragment, `<div id="plan-result"`), "a slider gets the result only")
	assert.NotContains(t, fragment, "<html")
	assert.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
	assert.Contains(t, fragment, "Nothing was written.")
	planned := len(asked)
	w, fragment = get(t, c, "/mixes/shop/web/plan?spotPercent=30&minOnDemand=3&maxSpot=4&draft=1")
	require.Equal(t, http.StatusOK, w.Code)
	assert.True(t, strings.HasPrefix(fragment, `<div id="plan-result"`))
	assert.Contains(t, fragment, "borrowed, pod web-5 on node spot-5", "the slots are drawn")
	assert.NotContains(t, fragment, "Apply to", "what is not planned is not applied")
	assert.Len(t, asked, planned, "a slider that moves takes no turn of a plan")
	_, fragment = get(t, c, "/mixes/shop/web/plan?spotPercent=x&minOnDemand=3&maxSpot=4&result=1")
	assert.Contains(t, fragment, "must be a whole number")

	w = post(t, c, "/mixes/shop/web/plan", sent)
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	var m v1alpha1.CapacityMix
	require.NoError(t, k.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, &m))
	assert.Equal(t, []int32{30, 3, 4}, []int32{m.Spec.SpotPercent, m.Spec.MinOnDemand, *m.Spec.MaxSpot})
	_, page = get(t, c, w.Header().Get("Location"))
	assert.Contains(t, page, "is now ", "the page says what was applied")
	assert.Equal(t, "30", posted(t, page).Get("spotPercent"))
	assert.Contains(t, page, `<a href="/workloads/shop/Deployment/web#moves">web</a>`, "where the moves are seen")
	assert.Contains(t, page, `<a href="/mixes/shop/web/plan?maxSpot=&amp;minOnDemand=2&amp;spotPercent=70">Undo`)
	_, page = get(t, c, "/mixes/shop/web/plan?applied=1&before="+url.QueryEscape("spotPercent=<x>"))
	assert.NotContains(t, page, ">Undo", "only numbers can be planned")

	w = post(t, c, "/mixes/shop/web/plan", sent)
	assert.Equal(t, http.StatusUnprocessableEntity, w.Code, "the mix is another one now")
	assert.Contains(t, w.Body.String(), "show the plan again")
}

func TestAnInvalidPlanIsNotApplied(t *testing.T) {
	_, c := planning(t, func(context.Context, Question) (*overview.Plan, []string, error) {
		return nil, nil, errors.New("spotPercent must be <script>")
	})
	for query, want := range map[string]string{
		"spotPercent=x&minOnDemand=2":                     "must be a whole number",
		"spotPercent=99999999999&minOnDemand=2":           "must be a whole number",
		"spotPercent=1&minOnDemand=2&maxSpot=y":           "must be a whole number",
		"spotPercent=130&minOnDemand=2&maxSpot=":          "spotPercent must be &lt;script&gt;",
		"spotPercent=%22%3E%3Cscript%3E&minOnDemand=%00x": "must be a whole number",
	} {
		w, page := get(t, c, "/mixes/shop/web/plan?"+query)
		assert.Equal(t, http.StatusUnprocessableEntity, w.Code, query)
		assert.Contains(t, page, want, query)
		assert.NotContains(t, page, "Apply to", query)
		assert.Len(t, elements(t, page)["script"], 1, query)
	}
	w, _ := get(t, c, "/mixes/shop/other/plan?spotPercent=1&minOnDemand=2")
	assert.Equal(t, http.StatusNotFound, w.Code)
}

// Plans are made one at a time, and one that is not wanted any more is not made.
func TestPlansRunOneAtATime(t *testing.T) {
	var running, most atomic.Int32
	_, c := planning(t, func(ctx context.Context, _ Question) (*overview.Plan, []string, error) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer running.Add(-1)
		another, cancel := context.WithTimeout(ctx, 5*time.Millisecond) // for another one to come
		defer cancel()
		<-another.Done()
		return &overview.Plan{}, nil, nil
	})
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			_, err := c.planOf(context.Background(), "", Question{})
			assert.NoError(t, err)
		})
	}
	g.Wait()
	assert.EqualValues(t, 1, most.Load())

	done, ok := c.planning.try("another") // as while one is made
	require.True(t, ok)
	defer done()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.planOf(gone, "", Question{})
	require.ErrorIs(t, err, context.Canceled)
}
