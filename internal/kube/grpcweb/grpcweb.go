// SPDX-License-Identifier: Apache-2.0

// Package grpcweb translates gRPC-Web calls of browsers to gRPC calls of an http.Handler: another content type, base64 for the text form,
// and the trailers as the last frame of the response's body.
package grpcweb

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
)

const (
	// mediaType is the prefix of all media types of gRPC-Web.
	mediaType = "application/grpc-web"
	// grpcType is the media type of a call that was translated.
	grpcType = "application/grpc+proto"
)

// forms are the media types of gRPC-Web that are translated, and whether their bodies are base64.
var forms = map[string]bool{
	mediaType: false, mediaType + "+proto": false, mediaType + "-text": true, mediaType + "-text+proto": true,
}

// UnsupportedError is a gRPC-Web call that cannot be translated.
type UnsupportedError struct {
	// Status is the HTTP status of the response.
	Status  int
	message string
}

// Error returns what is supported.
func (e *UnsupportedError) Error() string { return e.message }

// Is reports whether a request is a gRPC-Web call, of any form.
func Is(r *http.Request) bool {
	return strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), mediaType)
}

// Translate returns the gRPC call of a gRPC-Web call, and the writer of its response, whose Finish must be called after the handler.
func Translate(w http.ResponseWriter, r *http.Request) (*Writer, *http.Request, error) {
	if r.Method != http.MethodPost {
		return nil, nil, &UnsupportedError{
			http.StatusMethodNotAllowed, fmt.Sprintf("method %q of a gRPC-Web call is not supported, must be POST", r.Method),
		}
	}
	given := r.Header.Get("Content-Type")
	parsed, _, err := mime.ParseMediaType(given)
	text, known := forms[parsed]
	if err != nil || !known {
		return nil, nil, &UnsupportedError{http.StatusUnsupportedMediaType, fmt.Sprintf(
			"Content-Type %q is not supported, must be %s+proto or %s-text+proto", given, mediaType, mediaType)}
	}
	call := *r
	call.Header = r.Header.Clone()
	call.Header.Set("Content-Type", grpcType)
	call.Header.Set("Te", "trailers")
	call.Header.Del("Content-Length")
	call.ContentLength = -1 // base64 is longer than what it encodes
	// Trailers are in the body, so any version of HTTP can carry the call.
	call.Proto, call.ProtoMajor, call.ProtoMinor = "HTTP/2.0", 2, 0
	if text {
		call.Body = &textBody{ReadCloser: r.Body}
	}
	return newWriter(w, parsed, text), &call, nil
}
