// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
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

func TestTheHistoryOfAMixHasTheEventsOfItsWorkloads(t *testing.T) {
	settings, err := Defaults()
	require.NoError(t, err)
	mix := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	mix.Spec.SpotPercent, mix.Spec.Selector.MatchLabels = 50, map[string]string{"app": "web"}
	pod := func(app, owner string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: owner + "-0", UID: types.UID(owner), Labels: map[string]string{"app": app}}}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: owner, UID: types.UID(owner), Controller: new(true)}}
		p.Spec.SchedulerName = "berth-scheduler"
		return p
	}
	cluster := overview.NewCluster(settings, []*corev1.Pod{pod("web", "front"), pod("web", "back"), pod("other", "other")}, nil,
		[]*v1alpha1.CapacityMix{mix}, nil, nil)
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			o := (&client.ListOptions{}).ApplyOptions(options)
			item := corev1.Event{Message: o.FieldSelector.String(), Reason: v1alpha1.EventReasonMoveBlocked}
			item.Annotations = map[string]string{v1alpha1.BlockedReasonAnnotation: "Paused"}
			list.(*corev1.EventList).Items = []corev1.Event{item}
			return nil
		},
	}).Build()
	u := &User{Client: c, Warn: t.Logf}
	h := &overview.History{Namespace: "shop", Kind: "CapacityMix", Name: "web"}
	require.NoError(t, u.eventsOfGoverned(t.Context(), cluster, h))
	var from []string
	for _, e := range h.Entries {
		from = append(from, e.From)
		kind, name, _ := strings.Cut(e.From, "/")
		of := fields.Set{"involvedObject.kind": kind, "involvedObject.name": name}
		assert.ElementsMatch(t, strings.Split(of.AsSelector().String(), ","), strings.Split(e.Message, ","))
		assert.Equal(t, "Paused", e.Blocked)
	}
	assert.ElementsMatch(t, []string{"StatefulSet/front", "StatefulSet/back"}, from)
	n := len(h.Entries)
	h.Kind = "Deployment"
	require.NoError(t, u.eventsOfGoverned(t.Context(), cluster, h))
	assert.Len(t, h.Entries, n, "it has its own")
}
