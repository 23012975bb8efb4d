// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"k8s.io/client-go/rest"

	"berth.dev/berth/internal/kube/uncached"
	"berth.dev/berth/services/server"
)

// anybody may do everything.
type anybody struct{}

func (anybody) Authorize(context.Context, server.Access) error { return nil }

// Without the CRD no one can say of a limit that it is not there.
func TestALimitWhoseCRDIsMissing(t *testing.T) {
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	apiClient, err := uncached.New(&rest.Config{Host: api.URL}, fieldManager)
	require.NoError(t, err)
	c := &core{store: &store{apiClient}, access: anybody{}}
	_, err = c.read(t.Context(), "default", "small", "get")
	assert.Equal(t, codes.Unavailable, server.AsError(err).Code, "%v", err)
	_, err = c.remove(t.Context(), "default", "small", false)
	assert.Equal(t, codes.Unavailable, server.AsError(err).Code, "%v", err)
}
