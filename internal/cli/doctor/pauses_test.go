// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/test/clitest"
)

func TestAPauseOfMoreThanADayIsReported(t *testing.T) {
	paused := func(o client.Object, ago time.Duration) client.Object {
		notes := map[string]string{v1alpha1.PausedAnnotation: "true", v1alpha1.PausedReasonAnnotation: "incident"}
		if ago > 0 {
			notes[v1alpha1.PausedAtAnnotation] = clitest.Now.Add(-ago).Format(time.RFC3339)
		}
		o.SetAnnotations(notes)
		return o
	}
	namespace := func(name string) client.Object { return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	cluster := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: live.PauseConfigMap}}
	check := func(namespace string, funcs interceptor.Funcs, objects ...client.Object) *Report {
		s := clitest.OneOfEach()
		s.Mixes[0].Spec.Rebalance = &v1alpha1.RebalanceSpec{Paused: true}
		paused(s.Mixes[0], time.Hour)
		p := &patient{
			cluster: s.Cluster(t), now: clitest.Now, systemNamespace: "berth-system", namespace: namespace,
			client: clitest.Client(t, funcs, objects...),
		}
		r := &Report{}
		p.pauses(t.Context(), r)
		return r
	}
	none := interceptor.Funcs{}
	r := check("", none, namespace("free"), paused(namespace("new"), 23*time.Hour))
	assert.Equal(t, []Finding{{Level: OK, Check: "paused moves", Message: "pauses: 2, none for more than a day"}}, r.Findings)

	r = check("", none, paused(namespace("old"), 25*time.Hour), paused(cluster, 0))
	assert.Len(t, r.Findings, 1)
	assert.Equal(t, Warn, r.Findings[0].Level)
	assert.Contains(t, r.Findings[0].Message, "the cluster: incident, namespace old, since ")
	assert.NotContains(t, r.Findings[0].Message, "mix")
	r = check("other", none, paused(namespace("old"), 25*time.Hour))
	assert.Equal(t, OK, r.Findings[0].Level, "another namespace")

	forbidden := apierrors.NewForbidden(corev1.Resource("x"), "", nil)
	r = check("", interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return forbidden
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return forbidden
		},
	})
	assert.Len(t, r.Findings, 1)
	assert.Equal(t, "not allowed: read whether the cluster is paused; not allowed: read which namespaces are paused", r.Findings[0].Message)
}
