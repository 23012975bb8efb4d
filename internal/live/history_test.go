// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
)

// An event has nothing of the one at its place in the page before, although decoding reuses memory. No more are read than may be.
func TestPagesOfEventsDoNotMix(t *testing.T) {
	pages := 0
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			o := (&client.ListOptions{}).ApplyOptions(options)
			assert.EqualValues(t, eventPage, o.Limit)
			assert.Equal(t, map[bool]string{true: "", false: fmt.Sprint(pages)}[pages == 0], o.Continue)
			pages++
			items := `{"reason":"second"}`
			if pages == 1 {
				items = `{"reason":"first","count":7,"series":{"count":3}}`
			}
			for n := 1; n < eventPage; n++ {
				items += `,{"reason":"other"}`
			}
			return json.Unmarshal(fmt.Appendf(nil, `{"metadata":{"continue":"%d"},"items":[%s]}`, pages, items), list)
		},
	}).Build()
	var events []corev1.Event
	require.NoError(t, eachEvent(t.Context(), c, "shop", fields.Set{}, func(e *corev1.Event) { events = append(events, *e) }))
	assert.Len(t, events, maxEvents)
	assert.Equal(t, maxEvents/eventPage, pages)
	assert.Equal(t, corev1.Event{Reason: "second"}, events[eventPage])
}

// Without the right to events, it is unknown what happened.
func TestAHistoryWithoutItsEventsIsUnread(t *testing.T) {
	for _, err := range []error{nil, errors.New("forbidden")} {
		warned := 0
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return err },
		}).Build()
		u := &User{Client: c, Warn: func(string, ...any) { warned++ }}
		h := u.RecordHistory(t.Context(), &v1alpha1.DeploymentRecord{})
		assert.Equal(t, err != nil, h.Unread)
		assert.Equal(t, err != nil, warned == 1)
	}
}
