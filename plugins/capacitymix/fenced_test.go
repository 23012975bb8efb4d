// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/policy"
)

// I10: who may not lead any more binds nothing, opens no gate and deletes no pod.
func TestBehindAShutFenceNothingIsWritten(t *testing.T) {
	pod := testPod("web", 0)
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	f := newFixture(t, defaultArgs(), twoNodes, pod)
	f.mix(t, capacityMix("web", 50, 0))
	state, _ := f.filter(t, pod)
	require.Nil(t, f.plugin.Reserve(f.ctx, state, pod, "o"))
	written := func() (verbs []string) {
		for _, a := range f.client.Actions() {
			if a.GetVerb() != "list" && a.GetVerb() != "watch" && a.GetVerb() != "get" {
				verbs = append(verbs, a.GetVerb()+" "+a.GetResource().Resource+" "+a.GetSubresource())
			}
		}
		return verbs
	}
	writes := []func(context.Context){
		func(ctx context.Context) { f.plugin.opener.send(ctx, key, &opening{pod: pod, patch: []byte("{}")}) },
		func(ctx context.Context) { f.plugin.Bind(ctx, state, pod, "o") },
		func(ctx context.Context) { f.plugin.opener.fallbacks.delete(ctx, key, pod, &policy.Policy{}) },
	}
	for _, write := range writes {
		ctx, end := context.WithCancel(f.ctx)
		f.plugin.shut = func() bool {
			time.AfterFunc(time.Millisecond, end) // as the process ends a moment later
			return true
		}
		write(ctx)
		assert.ErrorIs(t, ctx.Err(), context.Canceled, "it waits for the end")
		end()
		assert.Empty(t, written())
	}

	f.plugin.shut = func() bool { return false }
	for _, write := range writes {
		write(f.ctx)
	}
	assert.Equal(t, []string{"patch pods ", "create pods binding", "delete pods "}, written())
}
