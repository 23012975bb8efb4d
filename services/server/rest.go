// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	kjson "sigs.k8s.io/json"

	"berth.dev/berth/internal/kube/jsonerr"
)

const (
	jsonType   = "application/json"
	healthPath = "/health"
	// healthzPath is that of the class runtime manager.
	healthzPath = "/healthz"
	// retryAfter is when a call that exceeded a limit can be retried, for gRPC as metadata.
	retryAfter, retrySeconds = "Retry-After", "1"
)

// Handler answers a REST call. An error becomes the answer, unless something was written.
type Handler func(w http.ResponseWriter, r *http.Request) error

// resource is a path of the REST API with its methods.
type resource map[string]Handler

// Route serves a path, a pattern of http.ServeMux without a method, by HTTP method.
func (s *Server) Route(path string, byMethod map[string]Handler) {
	s.routes[path] = byMethod
	s.rest.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handle, ok := byMethod[r.Method]
		if !ok {
			w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(byMethod)), ", "))
			writeError(w, &Error{
				Code: codes.Unimplemented, HTTPStatus: http.StatusMethodNotAllowed,
				Message: fmt.Sprintf("method %s is not allowed, must be one of %s", r.Method, w.Header().Get("Allow")),
			})
			return
		}
		if err := handle(w, r); err != nil {
			s.note(r.Context(), err)
			writeError(w, answerTo(r.Context(), err))
		}
	}))
}

// WriteJSON answers with a value. Keys of maps are sorted, so equal values are equal bytes.
func WriteJSON(w http.ResponseWriter, status int, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write response: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", jsonType)
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the caller is gone
	return nil
}

// writeError answers with an error.
func writeError(w http.ResponseWriter, e *Error) {
	if r, ok := w.(*recorder); ok {
		r.failed = e
	}
	if e.Code == codes.Unauthenticated {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if e.Code == codes.ResourceExhausted {
		w.Header().Set(retryAfter, retrySeconds)
	}
	_ = WriteJSON(w, e.httpStatus(), struct {
		Code    string      `json:"code"`
		Message string      `json:"message"`
		Details []Violation `json:"details,omitempty"`
	}{CodeName(e.Code), e.Message, e.Violations})
}

// ReadJSON decodes the body of a request into a struct. Unknown keys, keys in another case and duplicate keys are
// rejected.
func ReadJSON(r *http.Request, into any) error {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != jsonType {
		return &Error{
			Code: codes.InvalidArgument, HTTPStatus: http.StatusUnsupportedMediaType,
			Message: fmt.Sprintf("Content-Type %q is not supported, must be %s", r.Header.Get("Content-Type"), jsonType),
		}
	}
	b, err := io.ReadAll(r.Body)
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge("body", fmt.Sprintf("has more than %d bytes", large.Limit))
	}
	if limited, ok := errors.AsType[*Error](err); ok {
		return limited
	}
	if err != nil {
		if r.Context().Err() != nil {
			return r.Context().Err()
		}
		return InvalidField("body", "is truncated")
	}
	switch {
	case !utf8.Valid(b):
		return InvalidField("body", "is not UTF-8")
	case escapedNUL.Match(b):
		return InvalidField("body", "has the character U+0000")
	}
	return Unmarshal("", b, into)
}

// escapedNUL is U+0000 in JSON, which has it only as an escape. A backslash before it may be escaped itself.
var escapedNUL = regexp.MustCompile(`(?:^|[^\\])(?:\\\\)*\\u0000`)

// Unmarshal decodes JSON as ReadJSON does. Its errors name the fields, below a field of the caller unless it is empty.
func Unmarshal(below string, b []byte, into any) error {
	if v := exceeding(b); v != nil {
		return InvalidField(cmp.Or(join(below, v.Field), "body"), v.Description)
	}
	strict, err := kjson.UnmarshalStrict(b, into)
	if err != nil {
		return Invalid(badJSON(below, err))
	}
	var violations []Violation
	for _, err := range strict {
		violations = append(violations, badKey(below, err, reflect.TypeOf(into)))
	}
	if len(violations) > 0 {
		return Invalid(violations...)
	}
	return nil
}

func badJSON(below string, err error) Violation {
	field, description := jsonerr.Explain(err)
	return Violation{Field: cmp.Or(join(below, field), "body"), Description: description}
}

// badKey parses the key from an error of the JSON library: unknown field "a.b", duplicate field "a.b".
func badKey(below string, err error, in reflect.Type) Violation {
	what, key, ok := strings.Cut(err.Error(), ` field "`)
	if !ok || key == `"` { // a key can be empty
		return Violation{Field: cmp.Or(below, "body"), Description: err.Error()}
	}
	key = strings.TrimSuffix(key, `"`)
	description := what + " field"
	if known := knownKeys(in, key); what == "unknown" && len(known) > 0 {
		description += ", must be one of " + strings.Join(known, ", ")
	}
	return Violation{Field: join(below, key), Description: description}
}

// knownKeys returns the keys that may replace an unknown one. It returns none below a map, whose keys may have dots.
func knownKeys(in reflect.Type, path string) (keys []string) {
	parents := strings.Split(path, ".")
	for _, name := range parents[:len(parents)-1] {
		name, _, _ = strings.Cut(name, "[")
		fields := jsonFields(in)
		if in = fields[name]; in == nil {
			return nil
		}
	}
	return slices.Sorted(maps.Keys(jsonFields(in)))
}

// jsonFields returns the fields of a struct, or of the elements of a list of them, by their names in JSON.
func jsonFields(in reflect.Type) map[string]reflect.Type {
	for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice {
		in = in.Elem()
	}
	if in.Kind() != reflect.Struct {
		return nil
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(in) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			fields[name] = f.Type
		}
	}
	return fields
}

func join(below, field string) string {
	if below == "" || field == "" {
		return below + field
	}
	return below + "." + field
}
