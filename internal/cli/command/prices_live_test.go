// SPDX-License-Identifier: Apache-2.0

package command

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/mix/pricefeed"
	"berth.dev/berth/internal/mix/prices"
)

const (
	offeringMetric = "karpenter_cloudprovider_instance_type_offering_price_estimate"
	offeringText   = offeringMetric + `{instance_type="m5.large",capacity_type="spot",zone="a"} 0.04` + "\n"
)

var priced = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// spotOf returns the spot price of a node, and where it is from.
func spotOf(t *testing.T, m *prices.Metrics) (float64, prices.Source) {
	t.Helper()
	b, err := prices.New(prices.Options{Metrics: m})
	require.NoError(t, err)
	q := b.Of(&prices.Node{InstanceType: "m5.large", Zone: "a"})
	require.True(t, q.Spot.Known())
	return q.Spot.Dollars, *q.Spot.Source
}

func serve(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s.URL
}

// Prices of the cluster are read of a file, which is as old as it is, the standard input, a URL, or Prometheus.
func TestPricesOfTheClusterAreReadFromEachPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "metrics.txt")
	require.NoError(t, os.WriteFile(file, []byte(offeringText), 0o600))
	written := priced.AddDate(0, -1, 0)
	require.NoError(t, os.Chtimes(file, written, written))
	page := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, offeringText) })
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer := `{"status":"success","data":{"resultType":"vector","result":[]}}`
		if strings.Contains(r.FormValue("query"), offeringMetric) {
			answer = `{"status":"success","data":{"resultType":"vector","result":[{"metric":` +
				`{"instance_type":"m5.large","capacity_type":"spot","zone":"a"},"value":[1796029200,"0.04"]}]}}`
		}
		_, _ = io.WriteString(w, answer)
	})
	for name, c := range map[string]struct {
		flags Prices
		want  prices.Source
	}{
		"a file":             {Prices{Metrics: file}, prices.Source{Name: "Karpenter's offerings from " + file, Date: written}},
		"the standard input": {Prices{Metrics: "-"}, prices.Source{Name: "Karpenter's offerings from the standard input", Date: priced}},
		"a URL":              {Prices{Metrics: page}, prices.Source{Name: "Karpenter's offerings from its metrics", Date: priced}},
		"Prometheus":         {Prices{Prometheus: server}, prices.Source{Name: "Karpenter's offerings from Prometheus", Date: priced}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.flags.Check())
			o, err := c.flags.Options(t.Context(), strings.NewReader(offeringText), priced)
			require.NoError(t, err)
			dollars, of := spotOf(t, o.Metrics)
			assert.InDelta(t, 0.04, dollars, 1e-9)
			assert.Equal(t, c.want, of)
		})
	}
	o, err := (&Prices{}).Options(t.Context(), nil, priced)
	require.NoError(t, err)
	assert.Nil(t, o.Metrics, "without a flag nothing is read")
	ahead := priced.AddDate(0, 0, -60)
	o, err = (&Prices{Metrics: file}).Options(t.Context(), nil, ahead)
	require.NoError(t, err)
	_, of := spotOf(t, o.Metrics)
	assert.Equal(t, ahead, of.Date, "a file of the future is one of now")
}

func TestWhatIsWrongWithPricesOfTheClusterNamesTheFlagOrTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "metrics.txt")
	require.NoError(t, os.WriteFile(file, []byte("\n"+offeringMetric+" x\n"), 0o600))
	away := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	for want, flags := range map[string]Prices{
		file + ": text format parsing error in line 2":          {Metrics: file},
		"none: no such file":                                    {Metrics: filepath.Join(t.TempDir(), "none")},
		"-: text format parsing error in line 1":                {Metrics: "-"},
		"--prices-metrics: the answer is 404 Not Found":         {Metrics: away},
		"--prices-prometheus: ":                                 {Prometheus: away},
		"--prices-prometheus: address: must begin with http://": {Prometheus: "prometheus:9090"},
		"--prices-prometheus: read caFile":                      {Prometheus: away, CAFile: filepath.Join(t.TempDir(), "ca.pem")},
	} {
		_, err := flags.Options(t.Context(), strings.NewReader(offeringMetric+" x\n"), priced)
		assert.ErrorContains(t, err, want)
	}
	for want, flags := range map[string]Prices{
		"--prices-metrics and --prices-prometheus are both set": {Metrics: "-", Prometheus: "http://x"},
		"require a URL": {Metrics: "-", TokenFile: "token"},
		"--prices-token-file and --prices-ca-file require a URL": {CAFile: "ca.pem"},
	} {
		assert.ErrorContains(t, flags.Check(), want)
	}
	require.NoError(t, (&Prices{Metrics: "https://x/metrics", TokenFile: "token"}).Check())
}

func TestAFileOfPricesIsReadInBounds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prices.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("#", 4<<20+1)), 0o600))
	_, err := (&Prices{Own: pricefeed.Own{File: file}}).Options(t.Context(), nil, priced)
	assert.ErrorContains(t, err, "prices.yaml: longer than 4194304 bytes")
}
