// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// openMany opens so many pages at once and keeps open those that are served, until the test ends. It returns how many are, and how many
// are refused.
func openMany(browsers []*browser, each int) (served, refused int) {
	s := browsers[0].scene
	ctx, cancel := context.WithCancel(s.Ctx)
	var answered, held sync.WaitGroup
	var open, closed atomic.Int32
	for _, b := range browsers {
		for range each {
			request := b.request(http.MethodGet, "/stream?page=%2F", nil).WithContext(ctx)
			answered.Add(1)
			held.Go(func() {
				response, err := b.client.Do(request)
				if err == nil && response.StatusCode == http.StatusOK {
					open.Add(1)
				} else {
					closed.Add(1)
				}
				answered.Done()
				if err == nil {
					<-ctx.Done()
					response.Body.Close()
				}
			})
		}
	}
	s.T.Cleanup(func() { cancel(); held.Wait() })
	answered.Wait()
	return int(open.Load()), int(closed.Load())
}

// One user without rights opens eight sessions with ten pages each, all in namespaces that do not exist. Limits count users, so that
// others have their pages.
func TestOneUserWithManySessionsLocksOutNoOther(t *testing.T) {
	const sessions, pages = 8, 10
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	w.RequireExact("web", split.New(70, 2), 10)
	limits := controller.Default().Console.Limits
	require.Greater(t, int32(sessions*pages), limits.StreamsPerUser)
	s := serve(t, w, func(c *controller.Console) { c.Limits.Streams, c.Limits.Readings = 2*limits.StreamsPerUser, 8 })
	token, viewing := s.account("crowd"), s.account("viewer", viewer...)
	var crowd []*browser
	for i := range sessions {
		crowd = append(crowd, s.signIn(token).in(fmt.Sprint("none-", i)))
	}
	served, refused := openMany(crowd, pages)
	t.Logf("%d pages of one user are open, %d were refused", served, refused)
	assert.Positive(t, served)
	assert.LessOrEqual(t, served, int(limits.StreamsPerUser), "the limit counts the user, not the sessions")

	other := s.signIn(viewing).in(w.Namespace)
	other.shows("/", "<dt>Spot</dt><dd>7/7</dd>", "✓ Satisfied")
	other.open("/").shows(time.Minute, `"id":"age"`)
}
