// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"context"
	"encoding/pem"
	"fmt"
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

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/records/nfr"
)

// test/integration/records/prometheus queries a real server; the tests here have the answers that it cannot be made to give.

const seven = `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1800000000,"7"]}]}}`

func serve(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s.URL
}

func measure(t *testing.T, c Config) (nfr.Figure, error) {
	t.Helper()
	client, err := New(c)
	require.NoError(t, err)
	return client.Measure(t.Context(), "up", time.Unix(1_800_000_000, 0))
}

// requireReason demands why a figure is not known.
func requireReason(t *testing.T, err error, reason string) {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, reason, e.Reason)
}

// answer is a handler that answers with 7.
func answer(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, seven) }

func TestAnInvalidConfigurationIsRefused(t *testing.T) {
	notPEM := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(notPEM, []byte("no certificate"), 0o600))
	for name, x := range map[string]struct {
		config Config
		want   string
	}{
		"no address":           {Config{}, "address: must begin with http:// or https://"},
		"no scheme":            {Config{Address: "prometheus:9090"}, "address: must begin with http:// or https://"},
		"another scheme":       {Config{Address: "ftp://prometheus"}, "address: must begin with http:// or https://"},
		"no host":              {Config{Address: "http:///x"}, "address: must name a host"},
		"a query":              {Config{Address: "http://prometheus?x=y"}, "address: must have no query and no fragment"},
		"no URL, but a secret": {Config{Address: "http://me:secret\x7f@prometheus"}, "address: must be a URL"},
		"no such CA":           {Config{Address: "https://prometheus", CAFile: filepath.Join(t.TempDir(), "none")}, "read caFile: open "},
		"a CA that is none":    {Config{Address: "https://prometheus", CAFile: notPEM}, "no certificate in it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(x.config)
			require.ErrorContains(t, err, x.want)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestTheTokenIsReadForEachRequest(t *testing.T) {
	var got []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		answer(w, r)
	})
	file := filepath.Join(t.TempDir(), "token")
	client, err := New(Config{Address: url, BearerTokenFile: file})
	require.NoError(t, err)
	for _, token := range []string{"one\n", "two"} {
		require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
		_, err := client.Measure(t.Context(), "up", time.Now())
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"Bearer one", "Bearer two"}, got)

	require.NoError(t, os.Remove(file))
	_, err = client.Measure(t.Context(), "up", time.Now())
	requireReason(t, err, v1alpha1.ReasonPrometheusQueryFailed)
	assert.Contains(t, err.Error(), "read bearerTokenFile: open ")
	assert.Len(t, got, 2, "nothing is sent without it")
}

func TestTheTokenIsSentToNoOtherServer(t *testing.T) {
	asked := 0
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		answer(w, r)
	})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusTemporaryRedirect) })
	_, err := measure(t, Config{Address: url})
	requireReason(t, err, v1alpha1.ReasonPrometheusQueryFailed)
	assert.Zero(t, asked)
}

func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(answer))
	s.Config.ErrorLog = nil
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	for name, x := range map[string]struct {
		config Config
		ok     bool
	}{
		"an unknown CA": {Config{}, false},
		"the CA":        {Config{CAFile: ca}, true},
	} {
		t.Run(name, func(t *testing.T) {
			x.config.Address = s.URL
			got, err := measure(t, x.config)
			assert.Equal(t, x.ok, got.Known())
			if !x.ok {
				requireReason(t, err, v1alpha1.ReasonPrometheusUnreachable)
				assert.NotContains(t, err.Error(), s.URL)
			}
		})
	}
}

func TestAnAnswerWithoutEnd(t *testing.T) {
	for name, begin := range map[string]string{"success": `{"status":"success","data":"`, "error": ""} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if begin == "" {
					w.WriteHeader(http.StatusInternalServerError)
				}
				_, _ = io.WriteString(w, begin)
				for part := []byte(strings.Repeat("x", 1<<16)); ; {
					if _, err := w.Write(part); err != nil {
						return
					}
				}
			})
			begun := time.Now()
			_, err := measure(t, Config{Address: url})
			requireReason(t, err, v1alpha1.ReasonPrometheusQueryFailed)
			assert.Contains(t, err.Error(), "longer than 1048576 bytes")
			assert.Less(t, time.Since(begun), nfr.QueryTimeout)
		})
	}
}

func TestAnAnswerThatBreaksOff(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"status":`)
	})
	_, err := measure(t, Config{Address: url})
	requireReason(t, err, v1alpha1.ReasonPrometheusUnreachable)
	assert.EqualError(t, err, "the answer broke off")
}

func TestServersThatAnswerSomeRequestsOnly(t *testing.T) {
	for name, x := range map[string]struct {
		path    string
		answers func(*http.Request) bool
		status  int // of the others
	}{
		"those below a path": {"/behind/a/proxy/", func(r *http.Request) bool {
			return strings.HasPrefix(r.URL.Path, "/behind/a/proxy/api/v1/query")
		}, http.StatusNotFound},
		// Some gateways take no POST.
		"those of GET": {"", func(r *http.Request) bool { return r.Method == http.MethodGet }, http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if !x.answers(r) {
					w.WriteHeader(x.status)
					return
				}
				answer(w, r)
			})
			got, err := measure(t, Config{Address: url + x.path})
			require.NoError(t, err)
			assert.InDelta(t, 7, got.Value(), 0)
		})
	}
}

func TestTheErrorIsTheSameEachTime(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			c.Close()
		}
	})
	_, first := measure(t, Config{Address: url})
	_, second := measure(t, Config{Address: url})
	require.Error(t, first)
	assert.Equal(t, first.Error(), second.Error())
	assert.NotContains(t, first.Error(), "127.0.0.1")
}

func TestTimeoutAndCancel(t *testing.T) {
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		<-r.Context().Done()
	})
	_, err := measure(t, Config{Address: url, Timeout: 50 * time.Millisecond})
	require.EqualError(t, err, "no answer within 50ms")

	client, err := New(Config{Address: url})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	client.Observe(ctx, nfr.Component{}, time.Now())
	assert.Less(t, time.Since(begun), nfr.QueryTimeout, "the caller's own end goes before ours")
}

func TestMerge(t *testing.T) {
	ok, part, empty := Outcome{Reason: v1alpha1.ReasonPrometheusOK, Message: measured}, Outcome{Reason: v1alpha1.ReasonPrometheusOK, Message: "Prometheus has no data about its CPU"}, Outcome{Reason: v1alpha1.ReasonPrometheusNoData, Message: noData}
	failed, away := Outcome{Reason: v1alpha1.ReasonPrometheusQueryFailed, Message: "no"}, Outcome{Reason: v1alpha1.ReasonPrometheusUnreachable, Message: "away"}
	for name, x := range map[string]struct {
		all  []Outcome
		want Outcome
	}{
		"nothing":         {nil, Outcome{Reason: v1alpha1.ReasonPrometheusNoData, Message: "There is nothing to measure"}},
		"all":             {[]Outcome{ok, ok}, ok},
		"in part":         {[]Outcome{ok, part}, part},
		"none of one":     {[]Outcome{part, empty, ok}, Outcome{Reason: v1alpha1.ReasonPrometheusOK, Message: "Prometheus has no data about 1 of 3 workloads"}},
		"none of any":     {[]Outcome{empty, empty}, empty},
		"a failure":       {[]Outcome{ok, failed, empty}, failed},
		"the worst":       {[]Outcome{failed, away, ok}, away},
		"the first of it": {[]Outcome{{Reason: v1alpha1.ReasonPrometheusUnreachable, Message: "first"}, away}, Outcome{Reason: v1alpha1.ReasonPrometheusUnreachable, Message: "first"}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, x.want, Merge(x.all...)) })
	}
}

// FuzzAnswer looks for an answer that the client does not survive, or takes for what it is not.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		"", seven, "null", "[]", `{"status":"success"}`, `{"status":"success","data":{"resultType":"matrix","result":null}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"NaN"]},{"value":[1,"-1"]}]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"1e400"]]},{"histograms":[]}]}}`,
		`{"status":"error","errorType":"bad_data","error":"\u0000\ud800"}`,
	} {
		for _, status := range []int{200, 204, 400, 422, 500} {
			f.Add(status, []byte(body))
		}
	}
	var status int
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	f.Cleanup(s.Close)
	client, err := New(Config{Address: s.URL})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, code int, b []byte) {
		status, body = 200+max(0, code)%400, b
		got, err := client.Measure(t.Context(), "up", time.Unix(1_800_000_000, 0))
		require.Equal(t, err == nil, got.Known(), fmt.Sprint(err))
		require.False(t, got.Known() && status/100 != 2 && status != 400 && status != 422, "%d", status)
		require.GreaterOrEqual(t, got.Value(), 0.0)
		if err != nil {
			require.Less(t, len(err.Error()), 1000)
		}
	})
}

func TestAQueryHoldsIfNoValueIsZero(t *testing.T) {
	for name, x := range map[string]struct {
		data   string
		want   bool
		detail string
		failed string
	}{
		"one":            {`{"resultType":"vector","result":[{"metric":{},"value":[1,"0.5"]}]}`, true, "1 values, the first of which is 0.5", ""},
		"a scalar":       {`{"resultType":"scalar","result":[1,"1"]}`, true, "1 values, the first of which is 1", ""},
		"zero":           {`{"resultType":"scalar","result":[1,"0"]}`, false, "1 values, one of which is 0", ""},
		"one of two":     {`{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1,"1"]},{"metric":{},"value":[1,"0"]}]}`, false, "2 values, one of which is 0", ""},
		"not a number":   {`{"resultType":"scalar","result":[1,"NaN"]}`, false, "1 values, one of which is NaN", ""},
		"no series":      {`{"resultType":"vector","result":[]}`, false, "the answer has no values", ""},
		"another type":   {`{"resultType":"matrix","result":[]}`, false, "", "neither a scalar nor a vector"},
		"without an end": {`{"resultType":"vector","result":[` + strings.Repeat(" ", 2<<20), false, "", "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"status":"success","data":`+x.data+`}`)
			})
			client, err := New(Config{Address: url})
			require.NoError(t, err)
			got, detail, err := client.Holds(t.Context(), "up", time.Unix(1_800_000_000, 0))
			assert.Equal(t, x.want, got)
			assert.Equal(t, x.detail, detail)
			if x.failed != "" {
				require.ErrorContains(t, err, x.failed)
			} else {
				require.NoError(t, err)
			}
		})
	}
	slow := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not see that the client went away
		<-r.Context().Done()
	})
	client, err := New(Config{Address: slow, Timeout: 50 * time.Millisecond})
	require.NoError(t, err)
	_, _, err = client.Holds(t.Context(), "up", time.Now())
	require.ErrorContains(t, err, "no answer within 50ms")
}
