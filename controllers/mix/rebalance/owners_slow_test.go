// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
)

// groups is a reader of objects whose group answers, or not.
type groups struct {
	client.Reader
	hangs map[string]bool
	calls int
}

func (g *groups) Get(ctx context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	g.calls++
	group := o.GetObjectKind().GroupVersionKind().Group
	if g.hangs[group] {
		<-ctx.Done()
		return fmt.Errorf("read %s: %w", key.Name, ctx.Err())
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: group, Resource: "widgets"}, key.Name)
}

func ownedBy(group string, i int) *corev1.Pod {
	name := fmt.Sprint("widget-", i)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: group + "/v1", Kind: "Widget", Name: name, UID: types.UID(name), Controller: new(true)},
	}}}
}

// The worker decides about the moves of all tenants: a hundred workloads whose owners are served by an API that hangs hold it once.
func TestAnAPIGroupThatHangsHoldsTheWorkerOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &groups{hangs: map[string]bool{"slow.example.com": true}}
		o := newOwners(nil, g, clock.RealClock{})
		read := func(group string, i int) time.Duration {
			began := time.Now()
			_, err := o.template(t.Context(), ownedBy(group, i), &clusterstate.Group{})
			var unknown unknownTemplate
			require.ErrorAs(t, err, &unknown)
			return time.Since(began)
		}
		var waited time.Duration
		for i := range 100 {
			waited += read("slow.example.com", i)
		}
		assert.Equal(t, scaleTimeout, waited)
		assert.Equal(t, 1, g.calls)
		assert.Zero(t, read("quick.example.com", 0))
		assert.Equal(t, 2, g.calls, "another group is called")

		_, err := o.template(t.Context(), ownedBy("slow.example.com", 0), &clusterstate.Group{})
		require.ErrorContains(t, err, "API group slow.example.com did not answer in time, and is not called before")
		time.Sleep(rebalance.HoldReplacement)
		assert.Equal(t, scaleTimeout, read("slow.example.com", 0), "it is called again, for longer pauses")
		time.Sleep(rebalance.HoldReplacement)
		assert.Zero(t, read("slow.example.com", 0))
		time.Sleep(rebalance.HoldReplacement)
		g.hangs = nil
		assert.Zero(t, read("slow.example.com", 0))
		assert.Empty(t, o.slow, "a group that answers is called whenever it is needed")
	})
}
