// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Violation is a field of a request and its error.
type Violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

// Error is why a call was refused, for gRPC and REST.
type Error struct {
	Code       codes.Code
	Message    string
	Violations []Violation
	// HTTPStatus overrides the HTTP status of the code.
	HTTPStatus int
	// cheap is a refusal without a request to the API server. Only some of them are logged.
	cheap bool
}

// Error returns the code and the message.
func (e *Error) Error() string { return CodeName(e.Code) + ": " + e.Message }

// GRPCStatus returns the error as a gRPC status, with the fields as a google.rpc.BadRequest.
func (e *Error) GRPCStatus() *status.Status {
	s := status.New(e.Code, strings.ToValidUTF8(e.Message, "\uFFFD"))
	if len(e.Violations) == 0 {
		return s
	}
	var details errdetails.BadRequest
	for _, v := range e.Violations {
		details.FieldViolations = append(details.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: strings.ToValidUTF8(v.Field, "\uFFFD"), Description: strings.ToValidUTF8(v.Description, "\uFFFD"),
		})
	}
	if with, err := s.WithDetails(&details); err == nil {
		return with
	}
	return s
}

// Refuse returns an error without fields.
func Refuse(code codes.Code, message string) *Error { return &Error{Code: code, Message: message} }

// Violations collects what is wrong with a request, as much as an error names.
type Violations []Violation

// Bounds of what an error repeats of a request, which anyone can send: the number of fields, and the bytes of each text.
const maxViolations, maxViolationBytes = 64, 1024

// Add adds a field and its error, unless the collection is full.
func (v *Violations) Add(field, description string) {
	if !v.Full() {
		*v = append(*v, Violation{Field: field, Description: description})
	}
}

// Full reports whether what is added has no effect. A loop over a list of the caller's ends then.
func (v *Violations) Full() bool { return len(*v) >= maxViolations }

// Invalid returns an INVALID_ARGUMENT, with the fields in the message too. It leaves out what exceeds the bounds of an error.
func Invalid(violations ...Violation) *Error {
	violations = slices.Clone(violations[:min(len(violations), maxViolations)])
	for i, v := range violations {
		violations[i] = Violation{Field: shortened(v.Field), Description: shortened(v.Description)}
	}
	return &Error{Code: codes.InvalidArgument, Message: describe(violations), Violations: violations}
}

// InvalidField returns an INVALID_ARGUMENT about one field.
func InvalidField(field, description string) *Error {
	return Invalid(Violation{Field: field, Description: description})
}

func shortened(text string) string {
	if len(text) <= maxViolationBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxViolationBytes], "") + "…"
}

func describe(violations []Violation) string {
	var parts []string
	for _, v := range violations {
		parts = append(parts, v.Field+": "+v.Description)
	}
	return strings.Join(parts, "; ")
}

// Renamed returns the error with its fields renamed to the names of the caller.
func (e *Error) Renamed(name func(field string) string) *Error {
	if len(e.Violations) == 0 {
		return e
	}
	out := *e
	before := describe(e.Violations)
	out.Violations = make([]Violation, len(e.Violations))
	for i, v := range e.Violations {
		out.Violations[i] = Violation{Field: name(v.Field), Description: v.Description}
	}
	out.Message = strings.Replace(e.Message, before, describe(out.Violations), 1)
	return &out
}

// Rename returns an error with its fields renamed. It does not change errors that are not for the caller: the server
// logs them. Nil stays nil.
func Rename(err error, name func(field string) string) error {
	if e := AsError(err); e != nil && len(e.Violations) > 0 {
		return e.Renamed(name)
	}
	return err
}

// AsError converts any error to one for the caller. Errors of the API server are translated, unknown ones are INTERNAL.
// Nil stays nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if s, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return fromStatus(&s.ErrStatus)
	}
	if s, ok := status.FromError(err); ok {
		return Refuse(s.Code(), s.Message())
	}
	_, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Refuse(codes.DeadlineExceeded, "the deadline of the call is exceeded")
	case errors.Is(err, context.Canceled):
		return Refuse(codes.Canceled, "the caller canceled the call")
	case isNet, utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err), utilnet.IsProbableEOF(err):
		return Refuse(codes.Unavailable, "the API server is unreachable")
	}
	return Refuse(codes.Internal, "internal error: see the log of the server")
}

// answerTo is AsError of the error that a call ended with. A timeout is the caller's only if the deadline of the call is exceeded.
// Any other one is that of a request to the API server, which the caller may try again.
func answerTo(ctx context.Context, err error) *Error {
	e := AsError(err)
	if _, ours := errors.AsType[*Error](err); !ours && e != nil && e.Code == codes.DeadlineExceeded && ctx.Err() == nil {
		return Refuse(codes.Unavailable, "the API server did not answer in time")
	}
	return e
}

// ofReasons are the codes of the API server's reasons.
var ofReasons = map[metav1.StatusReason]codes.Code{
	metav1.StatusReasonNotFound:              codes.NotFound,
	metav1.StatusReasonAlreadyExists:         codes.AlreadyExists,
	metav1.StatusReasonConflict:              codes.Aborted,
	metav1.StatusReasonInvalid:               codes.InvalidArgument,
	metav1.StatusReasonBadRequest:            codes.InvalidArgument,
	metav1.StatusReasonRequestEntityTooLarge: codes.InvalidArgument,
	metav1.StatusReasonForbidden:             codes.PermissionDenied,
	metav1.StatusReasonGone:                  codes.Aborted,
	metav1.StatusReasonExpired:               codes.Aborted,
	metav1.StatusReasonTooManyRequests:       codes.ResourceExhausted,
	metav1.StatusReasonTimeout:               codes.DeadlineExceeded,
	metav1.StatusReasonServerTimeout:         codes.Unavailable,
	metav1.StatusReasonServiceUnavailable:    codes.Unavailable,
	metav1.StatusReasonMethodNotAllowed:      codes.Unimplemented,
}

func fromStatus(s *metav1.Status) *Error {
	code, known := ofReasons[s.Reason]
	if !known {
		code = codes.Internal
	}
	e := &Error{Code: code, Message: s.Message}
	switch {
	case s.Reason == metav1.StatusReasonUnauthorized:
		return Refuse(codes.Internal, "the server cannot authenticate to the API server")
	case s.Reason == metav1.StatusReasonNotFound && !named(s):
		return Refuse(codes.Unavailable, "the API server does not serve this resource: a CRD of Berth is not installed")
	case s.Details == nil:
		return e
	}
	for _, cause := range s.Details.Causes {
		if cause.Type == corev1NamespaceTerminating {
			e.Code = codes.FailedPrecondition
		}
		if cause.Field != "" && !strings.Contains(cause.Message, notChecked) {
			e.Violations = append(e.Violations, violationOf(cause.Field, plain(cause.Message)))
		}
	}
	// The same text without the prefix with the kind.
	if len(e.Violations) > 0 && code == codes.InvalidArgument {
		e.Message = describe(e.Violations)
	}
	return e
}

// NotFound reports whether an object does not exist. It is false if the API server does not serve the kind.
func NotFound(err error) bool {
	s, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && s.ErrStatus.Reason == metav1.StatusReasonNotFound && named(&s.ErrStatus)
}

// named reports whether a NotFound status is about an object. Without the CRD the client creates a status with the
// requested name.
func named(s *metav1.Status) bool {
	if s.Details == nil || s.Details.Name == "" {
		return false
	}
	return !slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}

// corev1NamespaceTerminating is the cause of a create in a namespace that is being deleted.
const corev1NamespaceTerminating metav1.CauseType = "NamespaceTerminating"

const (
	// noField is how the API server writes the path of an object as a whole.
	noField = "<nil>"
	// notChecked is in a cause beside others: the API server stops at some errors. It is no fault of the request.
	notChecked = "some validation rules were not checked"
)

// violationOf returns a violation of a field. If the message of a rule begins with a field below that of the rule, it is that one: a
// rule about the name of an object can only be one of its metadata.
func violationOf(field, description string) Violation {
	field = strings.TrimPrefix(field, noField)
	below, rest, ok := strings.Cut(description, " ")
	if ok && strings.Contains(below, ".") && strings.HasPrefix("."+below, strings.TrimRight("."+field, ".")+".") {
		return Violation{Field: below, Description: rest}
	}
	return Violation{Field: cmp.Or(field, "request"), Description: description}
}

// ruleBroken is the prefix of a message of a CRD rule that shows no value, or only its type.
var ruleBroken = regexp.MustCompile(`^Invalid value: (?:"?(?:object|array|string|integer|boolean|number)"?: |([a-zA-Z][^ :]* ))`)

func plain(message string) string { return ruleBroken.ReplaceAllString(message, "$1") }
