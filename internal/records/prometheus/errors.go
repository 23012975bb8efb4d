// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// maxDetail is the most of a server's own text that goes into an error.
const maxDetail = 200

// Error is why a figure is not known. Its text has nothing in it that differs from one try to the next, so that a condition
// with it stays as it is.
type Error struct {
	// Reason is one of the condition NfrObserved.
	Reason string

	err error
}

func (e *Error) Error() string { return e.err.Error() }

func (e *Error) Unwrap() error { return e.err }

// classify turns the error of a query into an *Error.
func classify(err error, timeout time.Duration) error {
	if answer, ok := errors.AsType[*promv1.Error](err); ok {
		return &Error{v1alpha1.ReasonPrometheusQueryFailed, errors.New(answerText(answer))}
	}
	var (
		network, isNetwork = errors.AsType[net.Error](err)
		op, isOp           = errors.AsType[*net.OpError](err)
		_, noAnswer        = errors.AsType[*url.Error](err)
		large, isLarge     = errors.AsType[*http.MaxBytesError](err)
	)
	switch {
	case errors.Is(err, errToken):
		return &Error{v1alpha1.ReasonPrometheusQueryFailed, bare(err)}
	case isLarge:
		return &Error{v1alpha1.ReasonPrometheusQueryFailed, fmt.Errorf("the answer is longer than %d bytes", large.Limit)}
	case errors.Is(err, context.DeadlineExceeded), isNetwork && network.Timeout():
		return &Error{v1alpha1.ReasonPrometheusUnreachable, fmt.Errorf("no answer within %s", timeout)}
	case isOp:
		// Without the addresses: that of this end is another one each time.
		return &Error{v1alpha1.ReasonPrometheusUnreachable, fmt.Errorf("%s: %w", op.Op, op.Err)}
	case noAnswer:
		return &Error{v1alpha1.ReasonPrometheusUnreachable, bare(err)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{v1alpha1.ReasonPrometheusUnreachable, errors.New("the answer broke off")}
	}
	return &Error{v1alpha1.ReasonPrometheusQueryFailed, err}
}

// bare is an error without the URL around it.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// answerText is the shortened text of an answer that is an error, which can be a whole page.
func answerText(e *promv1.Error) string {
	text := e.Msg
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "") + "…"
	}
	return text
}

// severity orders the reasons of what is not known, the worst last.
var severity = map[string]int{
	v1alpha1.ReasonPrometheusNoData: 1, v1alpha1.ReasonPrometheusQueryFailed: 2, v1alpha1.ReasonPrometheusUnreachable: 3,
}

// reasonOf returns the reason of an *Error, "" for nil.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// worse is the graver of two errors, the first if they are alike.
func worse(a, b error) error {
	if severity[reasonOf(b)] > severity[reasonOf(a)] {
		return b
	}
	return a
}
