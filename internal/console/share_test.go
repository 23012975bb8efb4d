// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
)

// A user who takes all reports and followed logs that one user may have leaves the others theirs.
func TestReportsAndFollowedLogsAreBoundedByUser(t *testing.T) {
	const report, follow = "/pods/team/web-1", "/environments/team/shop/logs/follow"
	begun, end := make(chan string, 64), make(chan struct{})
	_, c := editor(t, interceptor.Funcs{}, func(o *Options) {
		o.Reports = &fakeReports{wait: func(ctx context.Context) {
			begun <- ctx.Value(accountKey{}).(*Account).User //nolint:forcetypeassert // the test sets it
			select {
			case <-end:
			case <-ctx.Done():
			}
		}}
		o.Environment = func(context.Context, client.Client, *v1alpha1.Environment, string) (*v1alpha1.Environment, error) {
			return nil, errors.New("not called")
		}
	}, environment())
	call := func(ctx context.Context, user, path string) <-chan int {
		code := make(chan int, 1)
		go func() {
			w := httptest.NewRecorder()
			c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil).WithContext(WithAccount(ctx, &Account{User: user})))
			code <- w.Code
		}()
		return code
	}
	for path, share := range map[string]int{report: reportsPerUser, follow: followersPerUser} {
		var answers []<-chan int
		for _, user := range []string{"alice", "bob"} {
			for range share {
				answers = append(answers, call(t.Context(), user, path))
				require.Equal(t, user, <-begun, "a report of %s begins", user)
			}
			over, cancel := context.WithCancel(t.Context())
			further := call(over, user, path)
			if path == report { // it waits for its turn
				cancel()
				assert.NotEqual(t, http.StatusOK, <-further)
			} else {
				assert.Equal(t, http.StatusTooManyRequests, <-further)
			}
			cancel()
			assert.Empty(t, begun, "%s has no further turn for %s", user, path)
		}
		for range answers {
			end <- struct{}{}
		}
		for _, code := range answers {
			assert.Equal(t, http.StatusOK, <-code)
		}
	}
}
