// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// costed are OpenCost's samples of a node of m5.large.
func costed(node, provider, price, core, spot string) string {
	return fmt.Sprintf("%s{node=%q,instance_type=\"m5.large\",region=\"us-east-1\",provider_id=%q} %s\n", nodePrice, node, provider, price) +
		fmt.Sprintf("%s{node=%q} %s\n%s{node=%q} %s\n", corePrice, node, core, nodeIsSpot, node, spot)
}

func TestOpenCostHasThePricesOfNodesThatRun(t *testing.T) {
	m := metricsOf(t, costed("a", "aws:///a", "0.1", "0.04", "0")+costed("b", "aws:///b", "0.03", "0.01", "1")+costed("c", "aws:///c", "0.04", "0.02", "1"))
	assert.Empty(t, m.Notes)
	q := bookOf(t, Options{Metrics: m, Discount: 10}).Of(m5("us-east-1a"))
	assert.InDelta(t, 0.09, q.OnDemand.Dollars, 1e-9)
	assert.InDelta(t, 0.04, q.Spot.Dollars, 1e-9, "the highest price makes the lowest saving")
	assert.Equal(t, Source{Name: "OpenCost's nodes from metrics.txt", Date: readAt}, *q.Spot.Source)
	m = metricsOf(t, costed("a", "aws:///a", "0.1", "0.04", "0")+offer("m5.large", "on-demand", "us-east-1a", "0.2"))
	q = bookOf(t, Options{Metrics: m}).Of(m5("us-east-1a"))
	assert.InDelta(t, 0.2, q.OnDemand.Dollars, 1e-9, "Karpenter comes first")
	assert.InDelta(t, 0.0317, q.Spot.Dollars, 1e-9)
}

// Without a price of a node, OpenCost takes default rates; of a simulated node, and of one whose type is not exported, there is no price.
func TestPricesThatOpenCostDoesNotHaveAreNotUsed(t *testing.T) {
	const note = "OpenCost's nodes from metrics.txt: the prices of 1 node are not used: " +
		"they are made of default rates, or spot and on-demand are not distinguished."
	for name, c := range map[string]struct{ text, note string }{
		"default rates":         {costed("a", "x", "9", "0.031611", "0"), note},
		"default rates of spot": {costed("a", "x", "9", "0.006655", "1"), note},
		"no core":               {costed("a", "x", "9", "0", "0"), note},
		"no type":               {strings.Split(costed("a", "x", "9", "0.04", "0"), nodeIsSpot)[0], note},
		"no price":              {costed("a", "x", "0", "0.04", "0"), ""},
		"no machine":            {costed("a", "kwok://a", "9", "0.04", "0"), ""},
		"no instance type":      {strings.ReplaceAll(costed("a", "x", "9", "0.04", "0"), "m5.large", ""), ""},
		"no region":             {strings.ReplaceAll(costed("a", "x", "9", "0.04", "0"), "us-east-1", ""), ""},
	} {
		m := metricsOf(t, c.text)
		if c.note != "" {
			assert.Equal(t, []string{c.note}, m.Notes, name)
		} else {
			assert.Empty(t, m.Notes, name)
		}
		q := bookOf(t, Options{Metrics: m}).Of(m5("us-east-1a"))
		assert.InDelta(t, 0.096, q.OnDemand.Dollars, 1e-9, name)
		assert.InDelta(t, 0.0317, q.Spot.Dollars, 1e-9, name)
	}
}

func TestWhatIsWrongWithOpenCostNamesTheSample(t *testing.T) {
	for text, want := range map[string]string{
		costed("", "x", "1", "1", "0"):    "want the label node",
		costed("a", "x", "-1", "1", "0"):  "-1 is no price",
		costed("a", "x", "1", "NaN", "0"): "NaN is no price",
		costed("a", "x", "1", "1", "0.5"): "0.5: want 0 or 1",
		corePrice + "{node=\"a\"} 1\n":    "no sample of " + nodePrice,
	} {
		_, err := ReadMetrics("metrics.txt", readAt, strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
}
