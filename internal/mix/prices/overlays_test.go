// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/internal/mix/capacity"
)

// validated is the status of an overlay that Karpenter applies.
const validated = "{conditions: [{type: ValidationSucceeded, status: 'True', observedGeneration: 3}]}"

// overlayOf is an overlay with a spec and a status, written on 2026-10-02.
func overlayOf(t require.TestingT, name, spec, status string) *unstructured.Unstructured {
	text, err := yaml.YAMLToJSON(fmt.Appendf(nil, `
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata:
  name: %s
  generation: 3
  creationTimestamp: "2026-10-01T00:00:00Z"
  managedFields:
  - {manager: kubectl, operation: Apply, time: "2026-10-02T00:00:00Z"}
  - {manager: karpenter, operation: Update, subresource: status, time: "2026-11-02T00:00:00Z"}
spec: %s
status: %s
`, name, spec, status))
	require.NoError(t, err)
	object := &unstructured.Unstructured{}
	require.NoError(t, object.UnmarshalJSON(text))
	return object
}

// overlaysOf are overlays by their specs, named in order.
func overlaysOf(t require.TestingT, specs ...string) *Overlays {
	var all []*unstructured.Unstructured
	for i, spec := range specs {
		all = append(all, overlayOf(t, fmt.Sprint("overlay-", i), spec, validated))
	}
	return ReadOverlays(all)
}

// ofKarpenter is m5 in a NodePool.
func ofKarpenter() *Node {
	n := m5("us-east-1a")
	n.Labels = map[string]string{
		nodePoolLabel: "web", capacity.KarpenterCapacityType: capacitySpot,
		"node.kubernetes.io/instance-type": "m5.large", "karpenter.k8s.aws/instance-cpu": "2",
	}
	return n
}

func TestOverlaysSetAndChangePrices(t *testing.T) {
	const all, spotOnly = "requirements: []", "requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]"
	const listed, listedSpot = 0.096, 0.0317
	for name, c := range map[string]struct {
		specs          []string
		onDemand, spot float64
	}{
		"none":                    {nil, 0.9 * listed, listedSpot},
		"a price":                 {[]string{"{price: '0.05', " + all + "}"}, 0.05, 0.05},
		"a price of spot":         {[]string{"{price: '0.02', " + spotOnly + "}"}, 0.9 * listed, 0.02},
		"a price of 0":            {[]string{"{price: '0', " + spotOnly + "}"}, 0.9 * listed, 0},
		"a percentage":            {[]string{"{priceAdjustment: '-25%', " + all + "}"}, 0.75 * listed, 0.75 * listedSpot},
		"an amount":               {[]string{"{priceAdjustment: '+0.01', " + spotOnly + "}"}, 0.9 * listed, listedSpot + 0.01},
		"never below 0":           {[]string{"{priceAdjustment: '-1', " + spotOnly + "}"}, 0.9 * listed, 0},
		"the weight decides":      {[]string{"{price: '1', weight: 1, " + all + "}", "{priceAdjustment: '+10%', weight: 2, " + all + "}"}, 1.1 * listed, 1.1 * listedSpot},
		"then the last name":      {[]string{"{price: '1', " + all + "}", "{price: '2', " + all + "}"}, 2, 2},
		"none with capacity only": {[]string{"{capacity: {x/y: 1}, weight: 9, " + all + "}", "{price: '2', " + all + "}"}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			o := overlaysOf(t, c.specs...)
			assert.Empty(t, o.Notes)
			q := bookOf(t, Options{Overlays: o, Discount: 10}).Of(ofKarpenter())
			assert.InDelta(t, c.onDemand, q.OnDemand.Dollars, 1e-9)
			assert.InDelta(t, c.spot, q.Spot.Dollars, 1e-9)
			assert.True(t, q.OnDemand.Known() && q.Spot.Known())
		})
	}
}

func TestAnOverlayNamesItselfAsTheSource(t *testing.T) {
	b := bookOf(t, Options{Overlays: overlaysOf(t, "{price: '0.05', requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]}",
		"{priceAdjustment: '+5%', requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}")})
	q := b.Of(ofKarpenter())
	assert.Equal(t, Source{Name: "NodeOverlay overlay-0", Date: time.Date(2026, 10, 2, 0, 0, 0, 0, time.UTC)}, *q.Spot.Source, "a status is no price")
	assert.Equal(t, "AWS on-demand prices of karpenter-provider-aws v1.15.2, changed by NodeOverlay overlay-1", q.OnDemand.Source.Name)
	assert.Equal(t, 2026, q.OnDemand.Source.Date.Year())
	other := ofKarpenter()
	delete(other.Labels, nodePoolLabel)
	assert.InDelta(t, 0.0317, b.Of(other).Spot.Dollars, 1e-9, "overlays are about nodes of Karpenter")
	f, err := ReadFile("prices.yaml", []byte("date: 2026-11-01\nnodes: [{instanceType: m5.large, onDemand: 1, spot: 0.5}]"))
	require.NoError(t, err)
	q = bookOf(t, Options{Overlays: b.overlays, File: f}).Of(ofKarpenter())
	assert.Equal(t, [2]float64{1, 0.5}, [2]float64{q.OnDemand.Dollars, q.Spot.Dollars}, "the user's prices are as they are")
}

// An overlay changes no rates: they are of no instance type. Where there are only rates, the discount applies to them.
func TestAnOverlayChangesNoRates(t *testing.T) {
	b := bookOf(t, Options{Overlays: overlaysOf(t, "{priceAdjustment: '+50%', requirements: []}"), Discount: 10})
	q := b.Of(&Node{InstanceType: "other", CPU: 1, Labels: map[string]string{nodePoolLabel: "web"}})
	assert.InDelta(t, 0.9*defaultRates.CPU, q.OnDemand.Dollars, 1e-9)
	assert.InDelta(t, defaultRates.SpotCPU, q.Spot.Dollars, 1e-9)
}

func TestRequirementsAreThoseOfKarpenter(t *testing.T) {
	for requirement, want := range map[string]bool{
		"{key: node.kubernetes.io/instance-type, operator: In, values: [c5.large, m5.large]}":                         true,
		"{key: node.kubernetes.io/instance-type, operator: In, values: [c5.large]}":                                   false,
		"{key: absent, operator: In, values: ['']}":                                                                   false,
		"{key: node.kubernetes.io/instance-type, operator: NotIn, values: [m5.large]}":                                false,
		"{key: absent, operator: NotIn, values: [x]}":                                                                 true,
		"{key: karpenter.sh/nodepool, operator: Exists}":                                                              true,
		"{key: absent, operator: Exists}":                                                                             false,
		"{key: karpenter.sh/nodepool, operator: DoesNotExist}":                                                        false,
		"{key: absent, operator: DoesNotExist}":                                                                       true,
		"{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ['1']}":                                          true,
		"{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ['2']}":                                          false,
		"{key: karpenter.k8s.aws/instance-cpu, operator: Gte, values: ['2']}":                                         true,
		"{key: karpenter.k8s.aws/instance-cpu, operator: Lt, values: ['2']}":                                          false,
		"{key: karpenter.k8s.aws/instance-cpu, operator: Lt, values: ['3']}":                                          true,
		"{key: karpenter.k8s.aws/instance-cpu, operator: Lte, values: ['2']}":                                         true,
		"{key: absent, operator: Lt, values: ['3']}":                                                                  false,
		"{key: node.kubernetes.io/instance-type, operator: Lt, values: ['3']}":                                        false,
		"{key: karpenter.sh/capacity-type, operator: NotIn, values: [spot]}":                                          false,
		"{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}, {key: absent, operator: Exists}": false,
	} {
		o := overlaysOf(t, "{price: '5', requirements: ["+requirement+"]}")
		require.Empty(t, o.Notes, requirement)
		assert.Equal(t, want, o.of(ofKarpenter(), capacitySpot) != nil, requirement)
	}
}

func TestAnOverlayThatIsNotUsedIsNamed(t *testing.T) {
	const good = "{price: '1', requirements: []}"
	for name, c := range map[string]struct{ spec, status, want string }{
		"not validated": {good, "{}", "it is not validated by Karpenter, which requires the feature gate NodeOverlay"},
		"refused":       {good, "{conditions: [{type: ValidationSucceeded, status: 'False', reason: Conflict}]}", "it is not applied by Karpenter: Conflict"},
		"changed since": {good, "{conditions: [{type: ValidationSucceeded, status: 'True', observedGeneration: 2}]}", "its last change is not validated by Karpenter"},
		"a word":        {"{price: free}", validated, `spec.price: "free" is no change of a price that is read`},
		"too much":      {"{price: '10000'}", validated, "spec.price"},
		"infinite":      {"{priceAdjustment: '+Inf'}", validated, "spec.priceAdjustment"},
		"no number":     {"{priceAdjustment: '+NaN%'}", validated, "spec.priceAdjustment"},
		"no sign":       {"{priceAdjustment: '10%'}", validated, "spec.priceAdjustment"},
		"a sign":        {"{price: '+1'}", validated, "spec.price"},
		"an operator":   {"{price: '1', requirements: [{key: a, operator: Near}]}", validated, `spec.requirements[0]: operator "Near" is unknown`},
		"a bound":       {"{price: '1', requirements: [{key: a, operator: Gt, values: [x]}]}", validated, "spec.requirements[0]"},
		"no bound":      {"{price: '1', requirements: [{key: a, operator: Gt}]}", validated, "want one value"},
		"another type":  {"{price: [1]}", validated, "it is no NodeOverlay"},
		"many":          {"{price: '1', requirements: [" + strings.Repeat("{key: a, operator: Exists}, ", maxRequirements+1) + "]}", validated, "more than 100 requirements"},
	} {
		t.Run(name, func(t *testing.T) {
			o := ReadOverlays([]*unstructured.Unstructured{overlayOf(t, "x", c.spec, c.status)})
			require.Len(t, o.Notes, 1)
			assert.Contains(t, o.Notes[0], "NodeOverlay x is not used: ")
			assert.Contains(t, o.Notes[0], c.want)
			assert.Nil(t, o.of(ofKarpenter(), capacitySpot))
			assert.Equal(t, o.Notes, bookOf(t, Options{Overlays: o}).Notes())
		})
	}
}

func TestNodeOverlaysAreReadInBounds(t *testing.T) {
	o := ReadOverlays(repeat(overlayOf(t, "x", "{price: '1', requirements: []}", validated), maxOverlays+2))
	assert.Equal(t, []string{"2 of 1002 NodeOverlays are not used: 1000 are read."}, o.Notes)
	o = ReadOverlays(repeat(overlayOf(t, "x", "{price: free}", validated), 50))
	require.Len(t, o.Notes, maxNotes+1)
	assert.Equal(t, "40 other NodeOverlays are not used.", o.Notes[maxNotes])
}

func repeat(o *unstructured.Unstructured, n int) (all []*unstructured.Unstructured) {
	for range n {
		all = append(all, o)
	}
	return all
}

func FuzzReadOverlays(f *testing.F) {
	for _, spec := range []string{"{price: '0.5', requirements: []}", "{priceAdjustment: '-5%', weight: 5}", "{priceAdjustment: '+9999%'}"} {
		text, err := json.Marshal(overlayOf(f, "a", spec, validated).Object)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		object := &unstructured.Unstructured{}
		if object.UnmarshalJSON(text) != nil {
			return
		}
		b, err := New(Options{Overlays: ReadOverlays([]*unstructured.Unstructured{object})})
		require.NoError(t, err)
		q := b.Of(ofKarpenter())
		for _, a := range []Amount{q.OnDemand, q.Spot} {
			require.True(t, a.Known() && a.Dollars >= 0 && a.Dollars < 2*maxPrice, a.Dollars)
		}
	})
}
