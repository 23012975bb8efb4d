// SPDX-License-Identifier: Apache-2.0

package grpcweb

import (
	"encoding/base64"
	"encoding/binary"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// trailerFrame is the first byte of the frame that has the trailers.
const trailerFrame = 0x80

// statusKeys are the trailers of every call, also where a response has nothing but headers.
var statusKeys = []string{"Grpc-Status", "Grpc-Message", "Grpc-Status-Details-Bin"}

// Writer writes the response of a gRPC handler as one of gRPC-Web. A response that is not one of gRPC is passed on unchanged.
type Writer struct {
	to        http.ResponseWriter
	mediaType string
	text      bool

	header http.Header
	wrote  bool
	// grpc is true for a response of gRPC, of which trailers are the announced names.
	grpc     bool
	trailers []string
	// body encodes base64, if that is the form.
	body     io.WriteCloser
	finished bool
}

func newWriter(to http.ResponseWriter, mediaType string, text bool) *Writer {
	return &Writer{to: to, mediaType: mediaType, text: text, header: http.Header{}}
}

// Header returns the headers, and after they are written the trailers, as a handler of gRPC sets them.
func (w *Writer) Header() http.Header { return w.header }

// Unwrap is for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.to }

// WriteHeader writes the headers without the trailers.
func (w *Writer) WriteHeader(status int) {
	if w.wrote || status < http.StatusOK {
		return // informational responses are of no use to a browser
	}
	w.wrote = true
	w.grpc = status == http.StatusOK && strings.HasPrefix(w.header.Get("Content-Type"), "application/grpc")
	to := w.to.Header()
	for key, values := range w.header {
		if !w.grpc || !w.isTrailer(key) {
			to[key] = slices.Clone(values)
		}
	}
	if w.grpc {
		for _, value := range w.header.Values("Trailer") {
			for name := range strings.SplitSeq(value, ",") {
				name = http.CanonicalHeaderKey(strings.TrimSpace(name))
				w.trailers = append(w.trailers, name)
				to.Del(name)
			}
		}
		to.Del("Trailer")
		to.Del("Content-Length")
		to.Set("Content-Type", w.mediaType)
		to.Set("X-Content-Type-Options", "nosniff")
	}
	w.to.WriteHeader(status)
}

// Write writes a part of the body.
func (w *Writer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.grpc || !w.text {
		return w.to.Write(b)
	}
	if w.body == nil {
		w.body = base64.NewEncoder(base64.StdEncoding, w.to)
	}
	return w.body.Write(b)
}

// Flush is required by gRPC.
func (w *Writer) Flush() { _ = w.FlushError() }

// FlushError sends what was written. In base64 it ends with its padding, so that a browser can decode it.
func (w *Writer) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if w.body != nil {
		err := w.body.Close()
		if w.body = nil; err != nil {
			return err
		}
	}
	return http.NewResponseController(w.to).Flush()
}

// Finish writes the trailers, once. A response without a status has none: its call was not answered.
func (w *Writer) Finish() {
	if w.finished {
		return
	}
	w.finished = true
	w.WriteHeader(http.StatusOK)
	if !w.grpc || w.header.Get("Grpc-Status") == "" && w.header.Get(http.TrailerPrefix+"Grpc-Status") == "" {
		return
	}
	var text []byte
	for _, key := range slices.Sorted(maps.Keys(w.header)) {
		if !w.isTrailer(key) {
			continue
		}
		name := strings.ToLower(strings.TrimPrefix(key, http.TrailerPrefix))
		for _, value := range w.header[key] {
			text = append(text, name+": "+oneLine.Replace(value)+"\r\n"...)
		}
	}
	frame := binary.BigEndian.AppendUint32([]byte{trailerFrame}, uint32(len(text))) //nolint:gosec // headers are smaller
	if _, err := w.Write(append(frame, text...)); err == nil {
		_ = w.FlushError() // the caller is gone
	}
}

// oneLine keeps a value from adding trailers.
var oneLine = strings.NewReplacer("\r", " ", "\n", " ")

func (w *Writer) isTrailer(key string) bool {
	return strings.HasPrefix(key, http.TrailerPrefix) || slices.Contains(statusKeys, key) || slices.Contains(w.trailers, key)
}
