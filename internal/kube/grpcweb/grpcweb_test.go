// SPDX-License-Identifier: Apache-2.0

package grpcweb

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func post(contentType string, body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/test.Service/Call", body)
	r.Header.Set("Content-Type", contentType)
	return r
}

// answer runs a handler, and returns its response.
func answer(t *testing.T, contentType string, handle func(http.ResponseWriter)) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	w, _, err := Translate(rec, post(contentType, http.NoBody))
	require.NoError(t, err)
	handle(w)
	w.Finish()
	w.Finish()
	return rec
}

// trailersOf splits a body in the bytes of messages and the text of trailers.
func trailersOf(t *testing.T, body []byte) (messages []byte, trailers string) {
	t.Helper()
	at := bytes.IndexByte(body, trailerFrame)
	require.GreaterOrEqual(t, at, 0, "%q has no trailers", body)
	size := binary.BigEndian.Uint32(body[at+1:])
	require.Len(t, body[at+5:], int(size), "nothing follows the trailers")
	return body[:at], string(body[at+5:])
}

// grpcAnswers writes as the handler of gRPC does: announced trailers, a message, and trailers by a prefix.
func grpcAnswers(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", grpcType)
	h.Add("Trailer", "Grpc-Status")
	h.Add("Trailer", "Grpc-Message, X-Announced")
	h.Set("Berth-Warning", "damaged")
	for _, part := range []string{"\x00\x00\x00\x00\x03", "abc"} {
		_, _ = w.Write([]byte(part))
	}
	w.(http.Flusher).Flush()
	h.Set("Grpc-Status", "5")
	h.Set("Grpc-Message", "no such%0Aname")
	h.Set("X-Announced", "1")
	h.Set(http.TrailerPrefix+"x-more", "2\r\ngrpc-status: 0")
	h.Set("X-Late", "it is neither a header nor a trailer")
}

func TestTrailersAreInTheBody(t *testing.T) {
	const want = "grpc-message: no such%0Aname\r\ngrpc-status: 5\r\nx-more: 2  grpc-status: 0\r\nx-announced: 1\r\n"
	for contentType, text := range map[string]bool{
		"application/grpc-web": false, "application/grpc-web+proto": false, "Application/gRPC-Web+proto; charset=utf-8": false,
		"application/grpc-web-text": true, "application/grpc-web-text+proto": true,
	} {
		rec := answer(t, contentType, grpcAnswers)
		assert.Equal(t, strings.ToLower(strings.SplitN(contentType, ";", 2)[0]), rec.Header().Get("Content-Type"))
		assert.Equal(t, "damaged", rec.Header().Get("Berth-Warning"))
		for _, key := range []string{"Trailer", "Grpc-Status", "Grpc-Message", "X-Announced", "X-Late"} {
			assert.NotContains(t, rec.Header(), key)
		}
		body := rec.Body.Bytes()
		if text {
			assert.Equal(t, "AAAAAANhYmM=", rec.Body.String()[:12], "a message ends with its padding")
			decoded, err := io.ReadAll(&textBody{ReadCloser: io.NopCloser(rec.Body)})
			require.NoError(t, err)
			body = decoded
		}
		messages, trailers := trailersOf(t, body)
		assert.Equal(t, "\x00\x00\x00\x00\x03abc", string(messages))
		assert.ElementsMatch(t, strings.Split(want, "\r\n"), strings.Split(trailers, "\r\n"))
	}
}

// A refusal has nothing but headers: it has its status in the body as well, where all clients read it.
func TestAResponseOfHeadersOnly(t *testing.T) {
	rec := answer(t, "application/grpc-web+proto", func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Content-Length", "0")
		w.Header().Set("Grpc-Status", "16")
	})
	assert.Equal(t, http.StatusOK, rec.Code)
	assert.NotContains(t, rec.Header(), "Content-Length")
	messages, trailers := trailersOf(t, rec.Body.Bytes())
	assert.Empty(t, messages)
	assert.Equal(t, "grpc-status: 16\r\n", trailers)
}

func TestAResponseThatIsNotOfGRPCIsPassedOn(t *testing.T) {
	rec := answer(t, "application/grpc-web-text", func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Grpc-Status", "0")
		http.Error(w, "bad gateway", http.StatusBadGateway)
	})
	assert.Equal(t, http.StatusBadGateway, rec.Code)
	assert.Equal(t, "bad gateway\n", rec.Body.String())
	rec = answer(t, "application/grpc-web-text", func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", grpcType)
		w.Header().Set("Grpc-Status", "14")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	assert.Equal(t, http.StatusServiceUnavailable, rec.Code)
	assert.Equal(t, grpcType, rec.Header().Get("Content-Type"))
	assert.Empty(t, rec.Body.String())
	rec = answer(t, "application/grpc-web", func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", grpcType)
		_, _ = w.Write([]byte("x"))
	})
	assert.Equal(t, "x", rec.Body.String(), "a call without a status was not answered")
}

func TestATranslatedCallIsOfGRPC(t *testing.T) {
	for contentType, body := range map[string]string{"application/grpc-web": "abcd", "application/grpc-web-text": "YWJjZA=="} {
		in := post(contentType, strings.NewReader(body))
		in.Header.Set("Authorization", "Bearer t")
		_, call, err := Translate(httptest.NewRecorder(), in)
		require.NoError(t, err)
		assert.Equal(t, grpcType, call.Header.Get("Content-Type"))
		assert.Equal(t, "Bearer t", call.Header.Get("Authorization"))
		assert.Equal(t, 2, call.ProtoMajor)
		got, err := io.ReadAll(call.Body)
		require.NoError(t, err)
		assert.Equal(t, "abcd", string(got))
		assert.Equal(t, contentType, in.Header.Get("Content-Type"), "the request itself is unchanged")
		assert.Equal(t, 1, in.ProtoMajor)
	}
}

func TestFormsThatAreNotServed(t *testing.T) {
	for _, contentType := range []string{"application/grpc-web+json", "application/grpc-web-text+thrift", "application/grpc-web;;", "application/grpc-webx"} {
		r := post(contentType, http.NoBody)
		assert.True(t, Is(r))
		_, _, err := Translate(httptest.NewRecorder(), r)
		var unsupported *UnsupportedError
		require.ErrorAs(t, err, &unsupported)
		assert.Equal(t, http.StatusUnsupportedMediaType, unsupported.Status)
		assert.Contains(t, err.Error(), "application/grpc-web-text+proto")
	}
	r := post("application/grpc-web", http.NoBody)
	r.Method = http.MethodPut
	_, _, err := Translate(httptest.NewRecorder(), r)
	require.EqualError(t, err, `method "PUT" of a gRPC-Web call is not supported, must be POST`)
	for _, contentType := range []string{"", "application/grpc", "application/grpc+proto", "application/json"} {
		assert.False(t, Is(post(contentType, http.NoBody)), contentType)
	}
}

// Clients encode a body as a whole, or each part with its padding, and the network cuts it anywhere.
func TestABodyInBase64(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var encoded strings.Builder
		var want []byte
		for _, part := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 6000)).Draw(t, "parts") {
			want = append(want, part...)
			encoded.WriteString(base64.StdEncoding.EncodeToString(part))
		}
		var body io.Reader = strings.NewReader(encoded.String())
		switch rapid.IntRange(0, 3).Draw(t, "reader") {
		case 0:
			body = iotest.OneByteReader(body)
		case 1:
			body = iotest.HalfReader(body)
		case 2:
			body = iotest.DataErrReader(body)
		}
		got := &bytes.Buffer{}
		buffer := make([]byte, rapid.IntRange(1, 10000).Draw(t, "buffer"))
		_, err := io.CopyBuffer(struct{ io.Writer }{got}, struct{ io.Reader }{&textBody{ReadCloser: io.NopCloser(body)}}, buffer)
		require.NoError(t, err)
		require.Equal(t, string(want), got.String())
	})
}

func TestABodyThatIsNotBase64(t *testing.T) {
	for _, body := range []string{"A", "AAA", "AAAA=", "=AAA", "A=AA", "AA=A", "AA\nAA", "AAA\nAAAA", "AA AA", "____", "\x00\x00\x00\x00\x00"} {
		for _, r := range []io.Reader{strings.NewReader(body), iotest.OneByteReader(strings.NewReader(body))} {
			_, err := io.ReadAll(&textBody{ReadCloser: io.NopCloser(r)})
			var corrupt base64.CorruptInputError
			assert.ErrorAs(t, err, &corrupt, "%q", body)
		}
	}
	_, err := io.ReadAll(&textBody{ReadCloser: io.NopCloser(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("AAAA"))))})
	assert.ErrorIs(t, err, iotest.ErrTimeout, "other errors are passed on")
}

func FuzzText(f *testing.F) {
	f.Add([]byte("AAAAAANhYmM="))
	f.Add([]byte("AA==AA=="))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := io.ReadAll(&textBody{ReadCloser: io.NopCloser(bytes.NewReader(body))})
		if len(got) > len(body)/4*3 {
			t.Fatal("more than was sent")
		}
		if err == nil && len(body)%4 != 0 {
			t.Fatal("an incomplete group")
		}
	})
}
