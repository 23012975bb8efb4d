// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/rebalance"
)

// begunAt are moves that began so long before noon.
func begunAt(ago ...time.Duration) (b rebalance.Begun) {
	for _, d := range ago {
		b = b.With(noon.Add(-d))
	}
	return b
}

// Moves begin as soon as they may, at any pace, with leaders that end and read the record of the one before.
func TestNoHourHasMoreMovesThanThePace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		key := rebalance.PaceKey{Namespace: "shop", Name: "web"}
		now, paces := noon, rebalance.Paces{}
		var began []time.Time
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "another leader") {
				text, err := rebalance.EncodePaces(&paces, now)
				require.NoError(t, err)
				paces, err = rebalance.DecodePaces(text, now)
				require.NoError(t, err)
			}
			pace := rebalance.Pace{Limit: limit, Begun: paces.Mixes[key]}
			if at := pace.Next(now); !at.IsZero() {
				require.True(t, at.After(now))
				require.False(t, at.After(now.Add(61*time.Minute)), "it ends")
				pace.Begun = pace.Begun.Since(at)
				require.Zero(t, pace.Next(at), "it may begin at the time that is named")
				now = at
				continue
			}
			began, paces = append(began, now), paces.With(&key, now)
			now = now.Add(time.Duration(rapid.IntRange(0, 40*60).Draw(t, "seconds")) * time.Second)
		}
		for i, at := range began {
			within := 0
			for _, other := range began[i:] {
				if other.Before(at.Add(time.Hour)) {
					within++
				}
			}
			require.LessOrEqual(t, within, limit, "moves within an hour from %s: %v", at, began)
		}
	})
}

func TestAPaceNamesWhenTheNextMoveMayBegin(t *testing.T) {
	begun := begunAt(70*time.Minute, 50*time.Minute, 10*time.Minute, 10*time.Minute)
	for _, x := range []struct {
		pace rebalance.Pace
		want string
	}{
		{rebalance.Pace{Begun: begun}, ""},
		{rebalance.Pace{Limit: 4, Begun: begun}, ""},
		{rebalance.Pace{Limit: 3, Begun: begun}, "12:11:00"},
		{rebalance.Pace{Limit: 2, Begun: begun}, "12:51:00"},
		{rebalance.Pace{Limit: 4, Begun: begun, Held: 1}, "12:11:00"},
		{rebalance.Pace{Limit: 1, Held: 1}, "12:01:00"}, // whoever holds the place decides
	} {
		at := x.pace.Next(noon)
		if x.want == "" {
			assert.Zero(t, at, "%+v", x.pace)
		} else {
			assert.Equal(t, x.want, at.UTC().Format(time.TimeOnly), "%+v", x.pace)
		}
	}
}

// A placeholder has its place in the pace: a node that was launched for it is not given up because others began meanwhile.
func TestAPlaceholderHasItsPlaceInThePace(t *testing.T) {
	in := outOfMix()
	in.Settings.Provisioning = rebalance.WithPlaceholder
	in.History.Pace = rebalance.Pace{Limit: 2, Begun: begunAt(time.Minute), Held: 1}
	in.Cluster.Pace = in.History.Pace
	assert.Equal(t, rebalance.ReasonPace, decide(in).Reason, "the others wait")
	step, v := in.Next("web-4", rebalance.Holder{Target: capacity.Spot, Created: noon, Running: true}, time.Hour)
	assert.Equal(t, rebalance.StepMove, step, v.Message)
	in.History.Pace.Begun = begunAt(time.Minute, time.Minute)
	step, _ = in.Next("web-4", rebalance.Holder{Target: capacity.Spot, Created: noon, Running: true}, time.Hour)
	assert.Equal(t, rebalance.StepWait, step)
}

// Whoever may write the ConfigMap may have written anything.
func TestPacesAreReadWithinBounds(t *testing.T) {
	future := noon.Add(100*time.Hour).Unix() / 60
	text := fmt.Sprintf(`{"cluster":[{"m":%d,"n":5},{"m":1,"n":9},{"m":%d,"n":-3}],"mixes":[{"namespace":"","name":"x","begun":[{"m":%d,"n":1}]},`+
		`{"namespace":"shop","name":"web","begun":[{"m":%d,"n":99999999}]}]}`, future, noon.Unix()/60, future, future)
	p, err := rebalance.DecodePaces(text, noon)
	require.NoError(t, err)
	assert.Equal(t, rebalance.Begun{{Minute: noon.Unix() / 60, Moves: 5}}, p.Cluster, "a time to come counts as now, an old one not at all")
	require.Len(t, p.Mixes, 1)
	assert.Equal(t, 10_000, p.Mixes[rebalance.PaceKey{Namespace: "shop", Name: "web"}][0].Moves)
	for _, text := range []string{"{", `{"cluster":1}`, string(make([]byte, 256<<10+1))} {
		_, err := rebalance.DecodePaces(text, noon)
		require.Error(t, err)
	}
}

func TestThePacesOfOneTenantPushOutNoOthers(t *testing.T) {
	p := rebalance.Paces{Mixes: map[rebalance.PaceKey]rebalance.Begun{}}
	for i := range 8000 {
		p.Mixes[rebalance.PaceKey{Namespace: "greedy", Name: fmt.Sprint(i)}] = begunAt(time.Minute)
	}
	mine := rebalance.PaceKey{Namespace: "shop", Name: "web"}
	p.Mixes[mine] = begunAt(50 * time.Minute)
	text, err := rebalance.EncodePaces(&p, noon)
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), 256<<10)
	back, err := rebalance.DecodePaces(text, noon)
	require.NoError(t, err)
	assert.Equal(t, p.Mixes[mine], back.Mixes[mine])
	assert.Greater(t, len(back.Mixes), 1000)
	text, err = rebalance.EncodePaces(&p, noon.Add(2*time.Hour))
	require.NoError(t, err)
	assert.Empty(t, text, "nothing is kept for longer than an hour")
}
