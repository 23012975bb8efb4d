// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

// A move is held where the API server has another mix than the one that was decided by, or does not answer.
func TestAMixThatTheWatchHasNotShownHoldsAMove(t *testing.T) {
	half := &governing.Mix{Source: governing.SourceController, Mix: split.New(50, 1)}
	named := &governing.Mix{Source: governing.SourceCapacityMix + "web", Mix: split.New(50, 1)}
	annotations := func(percent string) map[string]string {
		return map[string]string{v1alpha1.SpotPercentAnnotation: percent, v1alpha1.MinOnDemandAnnotation: "1"}
	}
	object := func(uid types.UID, generation int64, percent string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", UID: uid, Generation: generation, Annotations: annotations(percent),
		}}
	}
	for name, c := range map[string]struct {
		governing *governing.Mix
		mix       string
		now       *metav1.PartialObjectMetadata
		err       error
		want      *rebalance.Reason // nil for no hold
		words     string
	}{
		"a CapacityMix is as it was":         {named, "web", object("mix", 3, "0"), nil, nil, ""},
		"a CapacityMix was changed":          {named, "web", object("mix", 4, "0"), nil, rebalance.ReasonStaleView, "CapacityMix web was changed"},
		"a CapacityMix is another one":       {named, "web", object("other", 3, "0"), nil, rebalance.ReasonStaleView, "CapacityMix web was changed"},
		"a CapacityMix is gone":              {named, "web", nil, nil, rebalance.ReasonStaleView, "CapacityMix web is gone"},
		"a CapacityMix cannot be read":       {named, "web", nil, errors.New("away"), rebalance.ReasonCapacityUnproven, "away"},
		"annotations are as they were":       {half, "", object("db", 9, "50"), nil, nil, ""},
		"annotations were changed":           {half, "", object("db", 9, "51"), nil, rebalance.ReasonStaleView, "annotations of StatefulSet db was changed"},
		"annotations are invalid":            {half, "", object("db", 9, "most"), nil, rebalance.ReasonStaleView, "annotations of StatefulSet db was changed"},
		"their object is gone":               {half, "", nil, nil, rebalance.ReasonStaleView, "StatefulSet db is gone"},
		"their object is another one":        {half, "", object("other", 9, "50"), nil, rebalance.ReasonStaleView, "StatefulSet db is gone"},
		"their object cannot be read":        {half, "", nil, errors.New("away"), rebalance.ReasonCapacityUnproven, "away"},
		"the default is in no object at all": {&governing.Mix{Source: governing.SourceDefault}, "", nil, errors.New("not read"), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := testController(t)
			p.api.metadata = func(_ context.Context, kind schema.GroupVersionKind, namespace, name string) (*metav1.PartialObjectMetadata, error) {
				want := map[string]string{"": "StatefulSet db", "web": "CapacityMix web"}[c.mix]
				assert.Equal(t, "shop "+want, namespace+" "+kind.Kind+" "+name)
				return c.now, c.err
			}
			w := p.evaluationOf(rebalance.Entry{Mix: c.mix, Spec: rebalance.Version{UID: "mix", Generation: 3}})
			w.Group.Key, w.Group.Governing = keyOfSet, c.governing
			v := rebalance.Verdict{Reason: rebalance.ReasonMove, Target: sp, Pod: &clusterstate.Pod{Name: "db-0", UID: "a"}}
			hold := p.api.checkMix(t.Context(), w, v, podOfSet("a", "spot"))
			if c.want == nil {
				require.Nil(t, hold)
				return
			}
			require.NotNil(t, hold)
			assert.Equal(t, c.want, hold.Verdict.Reason)
			assert.Contains(t, hold.Verdict.Message, c.words)
		})
	}
}
