// SPDX-License-Identifier: Apache-2.0

package orphans

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
)

func TestTheStateOfAnOrphan(t *testing.T) {
	lost := func(kind, name string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}, ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1alpha1.EnvironmentLabel: "lost", v1alpha1.EnvironmentNamespaceLabel: "shop"},
		}}
	}
	retain := func(m *metav1.PartialObjectMetadata) { m.Labels[v1alpha1.RetainedLabel] = "true" }
	end := func(m *metav1.PartialObjectMetadata) { m.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0))) }
	same := func(*metav1.PartialObjectMetadata) {}
	own, other := render.NamespaceOf("env-", "shop", "lost"), render.NamespaceOf("env-", "back", "lost")
	for name, tc := range map[string]struct {
		kind, name string
		change     func(m *metav1.PartialObjectMetadata)
		want       State
	}{
		"namespace":                           {namespaceKind, own, same, Unused},
		"namespace, retained":                 {namespaceKind, own, retain, Retained},
		"namespace, terminating":              {namespaceKind, own, end, Terminating},
		"namespace with the name of no other": {namespaceKind, "lost", same, Foreign},
		"namespace with the name of another":  {namespaceKind, other, same, Foreign},
		"Secret":                              {"Secret", "database", same, Unused},
		"Secret, retained with its volume":    {"Secret", "database", retain, Retained},
		"Secret, retained and terminating":    {"Secret", "database", func(m *metav1.PartialObjectMetadata) { retain(m); end(m) }, Terminating},
		"volume claim, which is always kept":  {claimKind, "database-data", same, Retained},
	} {
		t.Run(name, func(t *testing.T) {
			m := lost(tc.kind, tc.name)
			tc.change(&m)
			found := among([]metav1.PartialObjectMetadata{m}, nil, "")
			if assert.Len(t, found, 1) {
				assert.Equal(t, tc.want, found[0].State)
				assert.Equal(t, tc.want == Unused, found[0].Deletable(false))
				assert.Equal(t, tc.want == Unused || tc.want == Retained, found[0].Deletable(true))
			}
		})
	}
}
