// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/v1alpha1"
)

func TestValuesAreThoseOfAVector(t *testing.T) {
	body := `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"zone":"a"},"value":[1800000000,"7"]}]}}`
	client, err := New(Config{Address: serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })})
	require.NoError(t, err)
	got, err := client.Values(t.Context(), "up", time.Unix(1_800_000_000, 0))
	require.NoError(t, err)
	require.Len(t, got, 1)
	assert.Equal(t, `{zone="a"} => 7 @[1800000000]`, got[0].String())
	body = `{"status":"success","data":{"resultType":"vector","result":[]}}`
	got, err = client.Values(t.Context(), "up", time.Now())
	require.NoError(t, err)
	assert.Empty(t, got)
	for _, body = range []string{`{"status":"success","data":{"resultType":"scalar","result":[1800000000,"7"]}}`, `{"status":"error","error":"no"}`} {
		_, err = client.Values(t.Context(), "up", time.Now())
		requireReason(t, err, v1alpha1.ReasonPrometheusQueryFailed)
	}
}

// The bound of an answer is that of the configuration: prices have more values than figures of a workload.
func TestTheBoundOfAnAnswerCanBeSet(t *testing.T) {
	text := strings.Repeat("x", 2*maxResponse)
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	read := func(c Config) (n int64, err error) {
		err = ReadPage(t.Context(), c, func(page io.Reader) error {
			n, err = io.Copy(io.Discard, page)
			return err
		})
		return n, err
	}
	_, err := read(Config{Address: url})
	assert.ErrorContains(t, err, "too large")
	n, err := read(Config{Address: url, MaxResponse: 2 * maxResponse})
	require.NoError(t, err)
	assert.EqualValues(t, len(text), n)
}

func TestAPageIsReadAsText(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("one\n"), 0o600))
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, r.Header.Get("Accept")+" "+r.Header.Get("Authorization"))
	})
	var got []byte
	read := func(page io.Reader) (err error) {
		got, err = io.ReadAll(page)
		return err
	}
	require.NoError(t, ReadPage(t.Context(), Config{Address: url + "/metrics", BearerTokenFile: token}, read))
	assert.Equal(t, "text/plain;version=0.0.4 Bearer one", string(got))
	require.EqualError(t, ReadPage(t.Context(), Config{Address: url}, read), "the answer is 403 Forbidden")
	require.ErrorContains(t, ReadPage(t.Context(), Config{Address: "ftp://x"}, read), "address: must begin with http:// or https://")
	refused := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
		}
	})
	err := ReadPage(t.Context(), Config{Address: refused}, read)
	requireReason(t, err, v1alpha1.ReasonPrometheusUnreachable)
	assert.NotContains(t, err.Error(), "127.0.0.1")
	hanging := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	require.EqualError(t, ReadPage(t.Context(), Config{Address: hanging, Timeout: 50 * time.Millisecond}, read), "no answer within 50ms")
}
