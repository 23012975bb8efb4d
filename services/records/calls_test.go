// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"k8s.io/client-go/rest"

	oaasdeployment "berth.dev/berth/apis/proto/oaas/deployment"
	"berth.dev/berth/internal/kube/uncached"
	"berth.dev/berth/services/server"
)

// anybody may do everything.
type anybody struct{}

func (anybody) Authorize(context.Context, server.Access) error { return nil }

// Without the CRD a record is neither reported as absent nor created.
func TestARecordWhoseCRDIsMissing(t *testing.T) {
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	apiClient, err := uncached.New(&rest.Config{Host: api.URL}, fieldManager)
	require.NoError(t, err)
	c := &service{client: apiClient, access: anybody{}}
	_, err = c.read(t.Context(), "default", "cart-1", "get")
	assert.Equal(t, codes.Unavailable, server.AsError(err).Code, "%v", err)
	err = c.remove(t.Context(), "default", "cart-1")
	assert.Equal(t, codes.Unavailable, server.AsError(err).Code, "%v", err)
	_, err = c.deploy(t.Context(), "default", read(t, &oaasdeployment.DeploymentUnit{Id: "cart-1", ClassKey: "shop.Cart"}))
	assert.Equal(t, codes.Unavailable, server.AsError(err).Code, "%v", err)
}
