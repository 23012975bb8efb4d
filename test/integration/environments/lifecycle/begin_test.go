// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/environments"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/test/testenv"
)

// The API server deletes an object at once, in spite of a finalizer, if the finalizer was added while it handled the request for
// deletion. The controller runs in this process, one call after the other, and the environment disappears right before one of its
// writes of the status: that of begin, before which nothing may exist, or that of the first report, after which all of it goes.
func TestAnEnvironmentThatDisappearsWhileItBeginsLeavesNothing(t *testing.T) {
	s := &scene{World: testenv.New(t, cluster.Nodes("on-demand", 1)...)}
	for _, own := range []bool{true, false} {
		for write, point := range []string{"before its first object is created", "after its first objects were created"} {
			t.Run(fmt.Sprintf("%s, namespace of its own: %t", point, own), func(t *testing.T) {
				e := environment(fmt.Sprintf("gone-%d-%t", write, own))
				e.Spec.Stack.Database.PersistentStorage = true
				s.Create(e)
				key := types.NamespacedName{Namespace: s.Namespace, Name: e.Name}
				writes, created := 0, 0
				api := interceptor.NewClient(s.Client, interceptor.Funcs{
					SubResourcePatch: func(
						ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
					) error {
						if o.GetName() == e.Name {
							if writes == write {
								s.disappear(e)
							}
							writes++
						}
						return c.SubResource(sub).Patch(ctx, o, p, opts...)
					},
					Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
						if o.GetName() != e.Name { // an object of the environment
							created++
						}
						return c.Patch(ctx, o, p, opts...)
					},
				})
				c := environments.New(environments.Options{
					Client: api, Live: api, Recorder: record.NewFakeRecorder(100), Clock: clock.RealClock{},
					OwnNamespaces: own, Prefix: "berth-", Ports: stack.PortRange{First: 30000, Last: 30100},
					Tuning: environments.Tuning{History: 1},
				})
				for range 20 {
					_, err := c.Reconcile(s.Ctx, reconcile.Request{NamespacedName: key})
					require.NoError(t, err)
					if writes > write && apierrors.IsNotFound(s.Client.Get(s.Ctx, key, &v1alpha1.Environment{})) {
						break
					}
				}
				require.Greater(t, writes, write, "it disappeared")
				if write == 0 {
					assert.Zero(t, created, "objects that were created")
				} else {
					assert.Positive(t, created, "there was something to delete")
				}
				labels := client.MatchingLabels{v1alpha1.EnvironmentNamespaceLabel: s.Namespace, v1alpha1.EnvironmentLabel: e.Name}
				s.Eventually("nothing is left", func() (bool, string) {
					var namespaces corev1.NamespaceList
					require.NoError(t, s.Client.List(s.Ctx, &namespaces, labels))
					if len(namespaces.Items) == 1 && namespaces.Items[0].DeletionTimestamp != nil {
						return true, "" // all that is in it goes with it, which takes Kubernetes half a minute
					}
					left := s.labelled(labels)
					return len(left) == 0, strings.Join(left, ", ")
				})
			})
		}
	}
}

// disappear deletes an environment at once, in spite of its finalizers.
func (s *scene) disappear(e *v1alpha1.Environment) {
	s.T.Helper()
	require.NoError(s.T, s.Client.Delete(s.Ctx, e))
	err := s.Client.Patch(s.Ctx, e, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	require.NoError(s.T, client.IgnoreNotFound(err))
}
