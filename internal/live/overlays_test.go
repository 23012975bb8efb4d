// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/test/clitest"
)

// NodeOverlays are read where they are served and may be listed. Without them, prices are those of other sources.
func TestNodeOverlaysAreReadWhereTheyAreServed(t *testing.T) {
	resource := schema.GroupResource{Group: "karpenter.sh", Resource: "nodeoverlays"}
	for name, c := range map[string]struct {
		err           error
		warned, fails string
		read          bool
	}{
		"served":      {read: true},
		"not served":  {err: &meta.NoKindMatchError{GroupKind: prices.NodeOverlay.GroupKind()}},
		"not allowed": {err: apierrors.NewForbidden(resource, "", nil), warned: "not allowed: list nodeoverlays.karpenter.sh: the prices that they set are in no figure"},
		"away":        {err: errors.New("no answer"), fails: "list nodeoverlays.karpenter.sh: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			u := live.User{Client: clitest.Client(t, interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, l client.ObjectList, _ ...client.ListOption) error {
					all, is := l.(*unstructured.UnstructuredList)
					if !is || c.err != nil {
						return c.err
					}
					assert.Equal(t, "karpenter.sh/v1alpha1, Kind=NodeOverlayList", all.GroupVersionKind().String())
					all.Items = []unstructured.Unstructured{{Object: map[string]any{
						"metadata": map[string]any{"name": "free"}, "spec": map[string]any{"price": "free"},
					}}}
					return nil
				},
			})}
			warned := ""
			u.Warn = func(format string, args ...any) { warned += fmt.Sprintf(format, args...) }
			o, err := u.Overlays(t.Context())
			assert.Equal(t, c.warned, warned)
			if c.fails != "" {
				require.EqualError(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.read, o != nil)
			if c.read {
				assert.Len(t, o.Notes, 1)
			}
			again, err := live.Overlays(t.Context(), u.Client)
			require.NoError(t, err)
			if c.warned != "" {
				assert.Equal(t, []string{"NodeOverlays: " + c.warned + "."}, again.Notes, "who reads them again and again has a note")
				return
			}
			assert.Equal(t, o, again)
		})
	}
}
